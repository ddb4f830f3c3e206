"""What a JSON value is, and the words among them."""

from __future__ import annotations

# mypy: allow-untyped-defs
import numpy as np

from tidemill.kernels.byte_masks import byte_at, kernel

MISSING = 0
NULL = 1
TEXT = 2
INTEGER = 3
FRACTION = 4
NOT_FINITE = 5
BOOLEAN = 6
OBJECT = 7
ARRAY = 8
READ = 9
"""Kinds of values. ``MISSING`` is a key that is not there, ``NULL`` one with ``null``; an empty text is a ``TEXT``.
``READ`` is a number whose value is known already."""

_TRUE = np.frombuffer(b"true", np.uint8)
_FALSE = np.frombuffer(b"false", np.uint8)
_NULL = np.frombuffer(b"null", np.uint8)
_NAN = np.frombuffer(b"NaN", np.uint8)
_INFINITY = np.frombuffer(b"Infinity", np.uint8)


@kernel
def _begins(buf, start, end, word):
    if end - start < word.size:
        return False
    for k in range(word.size):  # noqa: SIM110 - all() over a generator does not compile to a loop
        if byte_at(buf, start + k) != byte_at(word, k):
            return False
    return True


@kernel
def read_word(buf, start, end):
    """Read a word of JSON, also ``NaN`` or ``Infinity``; whatever stands behind it is left to the caller.

    Returns
    -------
    tuple of int
        Offset behind it, or -1 for none, and its kind.
    """
    first = byte_at(buf, start) if start < end else 0
    if first == 116 and _begins(buf, start, end, _TRUE):
        return start + 4, BOOLEAN
    if first == 102 and _begins(buf, start, end, _FALSE):
        return start + 5, BOOLEAN
    if first == 110 and _begins(buf, start, end, _NULL):
        return start + 4, NULL
    if first == 78 and _begins(buf, start, end, _NAN):
        return start + 3, NOT_FINITE
    if first == 73 and _begins(buf, start, end, _INFINITY):
        return start + 8, NOT_FINITE
    return np.int64(-1), NULL
