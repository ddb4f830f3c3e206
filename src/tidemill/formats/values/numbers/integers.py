"""Parse fields as integers: ``[+-]digits``, nothing else, within the limits of the type."""

from __future__ import annotations

# mypy: allow-untyped-defs
import numpy as np

from tidemill.formats.values.field_text import BAD_VALUE, NULL, VALID, is_null, text_bounds
from tidemill.formats.values.numbers.digits import MAX_DIGITS, digits_value, word_value
from tidemill.kernels.byte_masks import byte_at, kernel, load_word


@kernel
def parse_integers(buf, starts, ends, quote, trim, null_text, highest, in_lanes, out, status):
    """Parse one column of integers.

    Parameters
    ----------
    buf : ndarray of uint8
    starts, ends : ndarray of int32, shape (rows,)
    quote, trim, null_text
        See :class:`~tidemill.formats.values.field_text.TextRules`.
    highest : uint64
        Greatest value of the type; its least value is ``-highest - 1``.
    in_lanes : bool
        Whether rows whose status is ``VALID`` were read in lanes and are to be left alone.
    out : ndarray of int64, shape (rows,)
        Receives the values; 0 where the outcome is not ``VALID``.
    status : ndarray of uint8, shape (rows,)
        Receives the outcomes.

    Returns
    -------
    int
        Number of rows whose outcome is not ``VALID``.
    """
    size = np.int64(buf.size)
    failures = 0
    for row in range(starts.size):
        if in_lanes and status[row] == VALID:
            continue
        start, end, quoted = text_bounds(buf, np.int64(starts[row]), np.int64(ends[row]), quote, trim)
        if is_null(buf, start, end, quoted, null_text):
            out[row] = 0
            status[row] = NULL
            failures += 1
            continue
        negative = False
        if start < end:
            first = byte_at(buf, start)
            if first == 45 or first == 43:
                negative = first == 45
                start += 1
        digits = end - start
        if 0 < digits <= 8 and start + 8 <= size:
            value, good = word_value(load_word(buf, start), digits)
        else:
            while end - start > MAX_DIGITS and byte_at(buf, start) == 48:
                start += 1
            good = digits > 0 and end - start <= MAX_DIGITS
            value = np.uint64(0)
            if good:
                value, good = digits_value(buf, start, end)
        if good and value <= highest + np.uint64(negative):
            signed = np.int64(value)
            out[row] = -signed if negative else signed
            status[row] = VALID
        else:
            out[row] = 0
            status[row] = BAD_VALUE
            failures += 1
    return failures
