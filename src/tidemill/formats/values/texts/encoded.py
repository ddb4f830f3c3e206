"""Texts that spell bytes or integers in another notation: base64 and hexadecimal digits."""

from __future__ import annotations

# mypy: allow-untyped-defs
import numpy as np

from tidemill.formats.values.field_text import BAD_VALUE, NULL, VALID, is_null, text_bounds
from tidemill.kernels.byte_masks import byte_at, inlined, kernel


@inlined
def _base64_value(c):
    if 65 <= c <= 90:
        return c - 65
    if 97 <= c <= 122:
        return c - 71
    if 48 <= c <= 57:
        return c + 4
    if c == 43:
        return 62
    return 63 if c == 47 else -1


@kernel
def decode_base64(texts, offsets, out, decoded_offsets, status):
    """Decode a column of base64 texts (RFC 4648, with padding), as Spark reads BINARY.

    Rows whose outcome is not ``VALID`` are left as they are; a text that is no base64 becomes ``BAD_VALUE``.

    Returns
    -------
    int
        Number of rows whose outcome is not ``VALID``.
    """
    failures = 0
    cursor = np.int64(0)
    decoded_offsets[0] = 0
    for row in range(status.size):
        start = np.int64(offsets[row])
        end = np.int64(offsets[row + 1])
        if status[row] == VALID:
            good = (end - start) % 4 == 0
            padding = 0
            while good and padding < 2 and end > start and byte_at(texts, end - 1) == 61:
                end -= 1
                padding += 1
            stop = cursor
            bits = 0
            value = 0
            for i in range(start, end):
                part = _base64_value(byte_at(texts, i))
                if part < 0:
                    good = False
                    break
                value = (value << 6 | part) & 0xFFFF
                bits += 6
                if bits >= 8:
                    bits -= 8
                    out[stop] = value >> bits & 0xFF
                    stop += 1
            if good:
                cursor = stop
            else:
                status[row] = BAD_VALUE
        decoded_offsets[row + 1] = cursor
        if status[row] != VALID:
            failures += 1
    return failures


@inlined
def _hex_value(c):
    """The value of a hexadecimal digit, or -1."""
    if 48 <= c <= 57:
        return c - 48
    lower = c | 32
    if 97 <= lower <= 102:
        return lower - 87
    return -1


@kernel
def decode_hex(texts, offsets, out, decoded_offsets, status):
    """Decode a column of pairs of hexadecimal digits, perhaps behind ``0x`` or ``\\x``.

    Parameters and result as for :func:`decode_base64`.
    """
    failures = 0
    cursor = np.int64(0)
    decoded_offsets[0] = 0
    for row in range(status.size):
        start = np.int64(offsets[row])
        end = np.int64(offsets[row + 1])
        if status[row] == VALID:
            if end - start >= 2 and byte_at(texts, start + 1) == 120:
                first = byte_at(texts, start)
                if first == 48 or first == 92:
                    start += 2
            good = (end - start) % 2 == 0
            stop = cursor
            while good and start < end:
                high = _hex_value(byte_at(texts, start))
                low = _hex_value(byte_at(texts, start + 1))
                good = high >= 0 and low >= 0
                out[stop] = (high << 4 | low) & 0xFF
                stop += 1
                start += 2
            if good:
                cursor = stop
            else:
                status[row] = BAD_VALUE
        decoded_offsets[row + 1] = cursor
        if status[row] != VALID:
            failures += 1
    return failures


@kernel
def parse_hex_integers(buf, starts, ends, quote, trim, null_text, highest, out, status):
    """Parse one column of hexadecimal integers: ``[+-][0x]digits`` within the limits of the type.

    Parameters and result as for :func:`~tidemill.formats.values.numbers.integers.parse_integers`.
    """
    failures = 0
    for row in range(starts.size):
        start, end, quoted = text_bounds(buf, np.int64(starts[row]), np.int64(ends[row]), quote, trim)
        outcome = VALID
        value = np.uint64(0)
        negative = False
        if is_null(buf, start, end, quoted, null_text):
            outcome = NULL
        else:
            if start < end and (byte_at(buf, start) == 45 or byte_at(buf, start) == 43):
                negative = byte_at(buf, start) == 45
                start += 1
            if end - start > 2 and byte_at(buf, start) == 48 and byte_at(buf, start + 1) | 32 == 120:
                start += 2
            good = start < end
            while end - start > 16 and byte_at(buf, start) == 48:
                start += 1
            good = good and end - start <= 16
            i = start
            while good and i < end:
                digit = _hex_value(byte_at(buf, i))
                good = digit >= 0
                value = value << np.uint64(4) | np.uint64(digit & 15)
                i += 1
            if not good or value > highest + np.uint64(negative):
                outcome = BAD_VALUE
        signed = np.int64(value) if outcome == VALID else np.int64(0)
        out[row] = -signed if negative else signed
        status[row] = outcome
        if outcome != VALID:
            failures += 1
    return failures
