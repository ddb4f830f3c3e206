"""Numbers and booleans as people write them: percentages, groups of digits, a comma for the point, words."""

from __future__ import annotations

# mypy: allow-untyped-defs
import numpy as np

from tidemill.formats.values.field_text import BAD_VALUE, NULL, VALID, is_null, text_bounds
from tidemill.kernels.byte_masks import byte_at, inlined, kernel

PERCENT_BYTES = 2
"""How much longer a percentage becomes."""

_PERCENT = 37
_POINT = 46


@kernel
def rewrite_numbers(buf, starts, ends, quote, trim, null_text, group, point, percent, out, new_starts, new_ends):
    """Write numbers as their parsers know them. Whatever else is wrong with a number, it remains.

    Parameters
    ----------
    buf, starts, ends, quote, trim, null_text
        As for :func:`~tidemill.formats.values.numbers.integers.parse_integers`.
    group, point : int
        The byte between groups of three digits, or -1, and that before the fraction.
    percent : bool
        Numbers end in a percent sign; they are divided by hundred.
    out : ndarray of uint8
        Receives the bytes; ``PERCENT_BYTES`` more than the fields have for each of them.
    new_starts, new_ends : ndarray of int32, shape (rows,)
        Receive where the numbers lie in it. A NULL becomes a missing field, and a number that is not written as it
        should be a single ``%``.
    """
    cursor = np.int64(0)
    for row in range(starts.size):
        start, end, quoted = text_bounds(buf, np.int64(starts[row]), np.int64(ends[row]), quote, trim)
        if is_null(buf, start, end, quoted, null_text):
            new_starts[row] = 0
            new_ends[row] = -1
            continue
        new_starts[row] = cursor
        good = quoted != 2 and end > start
        if percent:
            good = good and byte_at(buf, end - 1) == _PERCENT
            end -= 1
        i = start
        grouped = False
        digits = 0
        fraction = False
        while good and i < end:
            c = byte_at(buf, i)
            i += 1
            if c == group:
                # One to three digits before the first one, three before every other one.
                good = not fraction and 0 < digits <= 3 and (digits == 3 or not grouped)
                grouped = True
                digits = 0
                continue
            if 48 <= c <= 57:
                digits += 1
            else:
                good = fraction or not grouped or digits == 3
                good = good and (c != _POINT or point == _POINT)
                fraction = True
                digits = 0
                if i == start + 1 and (c == 43 or c == 45):
                    fraction = False
                if c == point:
                    c = _POINT
            out[cursor] = c
            cursor += 1
        if not good or (grouped and not fraction and digits != 3):
            cursor = np.int64(new_starts[row])
            out[cursor] = _PERCENT
            cursor += 1
        elif percent:
            out[cursor] = 101
            out[cursor + 1] = 45
            out[cursor + 2] = 50
            cursor += 3
        new_ends[row] = cursor


@inlined
def _is_word(buf, start, end, word):
    """Whether the text is a word in lower case, or its first letter, in any case."""
    length = end - start
    if length != word.size and length != 1:
        return False
    for k in range(length):
        c = byte_at(buf, start + k)
        if (c | 32 if 65 <= c <= 90 else c) != byte_at(word, k):
            return False
    return True


@kernel
def parse_words(buf, starts, ends, quote, trim, null_text, true, false, out, status):
    """Parse one column of booleans that two words, or their first letters, stand for.

    Parameters
    ----------
    buf, starts, ends, quote, trim, null_text, out, status
        As for :func:`~tidemill.formats.values.texts.texts.parse_booleans`.
    true, false : ndarray of uint8
        The words in lower case.

    Returns
    -------
    int
        Number of rows whose outcome is not ``VALID``.
    """
    failures = 0
    for row in range(starts.size):
        start, end, quoted = text_bounds(buf, np.int64(starts[row]), np.int64(ends[row]), quote, trim)
        value = 0
        outcome = VALID
        if is_null(buf, start, end, quoted, null_text):
            outcome = NULL
        elif _is_word(buf, start, end, true):
            value = 1
        elif not _is_word(buf, start, end, false):
            outcome = BAD_VALUE
        out[row] = value
        status[row] = outcome
        if outcome != VALID:
            failures += 1
    return failures
