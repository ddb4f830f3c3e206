"""What a field's bytes mean before its type is known: trimming, quotes, NULL; and the codes of outcomes.

The NULL rule is that of Spark's reader: a field whose text, after trimming and without its quotes, equals
``nullValue`` is NULL, and so is an empty field without quotes. So ``""`` is NULL unless ``nullValue`` is set.
"""

from __future__ import annotations

# mypy: allow-untyped-defs
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tidemill.kernels.byte_masks import byte_at, inlined, kernel

VALID = 0
NULL = 1
BAD_VALUE = 2
BAD_UTF8 = 3
BAD_QUOTE = 4
INEXACT = 5
UNDECIDED = 6
"""Outcome of one field. Two are transient: ``INEXACT`` for the right syntax whose value needs the exact slow parser,
``UNDECIDED`` for a field that lanes do not read (:mod:`tidemill.formats.values.numbers.lanes`)."""

TRIM_LEADING = 1
TRIM_TRAILING = 2


@dataclass(frozen=True)
class TextRules:
    """How the bytes of a field are read, whatever its type.

    Attributes
    ----------
    quote : int
        The quote character, or -1 when quoting is off or no quote occurs in the buffer.
    trim : int
        Sum of ``TRIM_LEADING`` and ``TRIM_TRAILING``: spaces and tabs outside quotes that do not count.
    null_text : ndarray of uint8
        The bytes that stand for NULL; writable as those of a constant are, so that kernels are compiled for one type.
    """

    quote: int
    trim: int
    null_text: npt.NDArray[np.uint8]


@inlined
def text_bounds(buf, start, end, quote, trim):
    """Trim a field and take off its quotes.

    Returns
    -------
    tuple of int
        Half-open range of the text and 0 for an unquoted field, 1 for a quoted one, 2 for a field that opens
        with a quote and does not end with another one.
    """
    if trim != 0:
        if trim & TRIM_LEADING:
            while start < end and (byte_at(buf, start) == 32 or byte_at(buf, start) == 9):
                start += 1
        if trim & TRIM_TRAILING:
            while start < end and (byte_at(buf, end - 1) == 32 or byte_at(buf, end - 1) == 9):
                end -= 1
    if quote >= 0 and start < end and byte_at(buf, start) == quote:
        if end - start >= 2 and byte_at(buf, end - 1) == quote:
            return start + 1, end - 1, 1
        return start, end, 2
    return start, end, 0


@inlined
def spells(buf, start, end, text):
    """Whether ``buf[start:end]`` equals ``text``, an array of uint8."""
    if end - start != text.size:
        return False
    for k in range(text.size):  # noqa: SIM110 - all() over a generator does not compile to a loop
        if byte_at(buf, start + k) != byte_at(text, k):
            return False
    return True


@inlined
def is_null(buf, start, end, quoted, null_text):
    """Whether the text of a field stands for NULL; a missing field (``end < start``) does."""
    if end < start or (end == start and quoted == 0):
        return True
    # Not a call of spells(): inlined here too, it made parsing integers twice as slow.
    if end - start != null_text.size:
        return False
    for k in range(null_text.size):  # noqa: SIM110 - all() over a generator does not compile to a loop
        if byte_at(buf, start + k) != byte_at(null_text, k):
            return False
    return True


@kernel
def find_text(buf, start, end, quote, trim):
    """:func:`text_bounds` for callers that are not compiled; returns start and end."""
    begin, stop, _ = text_bounds(buf, start, end, quote, trim)
    return begin, stop
