"""The field index: what phase 1, which knows the format, tells phase 2, which knows the types."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Offsets = npt.NDArray[np.int32]


@dataclass(frozen=True)
class FieldOffsets:
    """Rows and fields of one buffer; all offsets are relative to the buffer.

    Attributes
    ----------
    row_starts : ndarray of int32, shape (rows,)
        First byte of each row, ascending.
    field_counts : ndarray of int32, shape (rows,)
        Number of fields that the row has, whatever is needed of them.
    starts, ends : ndarray of int32, shape (slots, rows)
        Half-open byte range of each needed field with its quotes; a field that the row lacks has ``end <
        start``.
    has_quotes : bool
        False when no quote character occurs in the buffer, so that phase 2 need not look for one.
    broken_comments : ndarray of int32
        First byte of each comment that holds a quote which makes it span lines.
    """

    row_starts: Offsets
    field_counts: Offsets
    starts: npt.NDArray[np.int32]
    ends: npt.NDArray[np.int32]
    has_quotes: bool
    broken_comments: Offsets
