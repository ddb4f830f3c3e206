"""A condition on some columns that a reader may test before it parses the others."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import pyarrow as pa

from tidemill.formats.base import RowReader

WORTHWHILE = 0.75
"""Where a greater share of a buffer's rows passes, all of them are kept: to pick the others costs more."""


@dataclass(frozen=True, eq=False)
class RowFilter:
    """Which rows are wanted.

    Attributes
    ----------
    columns : tuple of int
        Places among the columns that the reader gives.
    test : callable
        Takes a batch of these columns, in that order, and tells which rows are wanted; never NULL.
    """

    columns: tuple[int, ...]
    test: Callable[[pa.RecordBatch], pa.BooleanArray]


@runtime_checkable
class FilteringReader(Protocol):
    """A reader that can leave out rows early.

    Which rows are dropped because they are malformed does not depend on a filter. Other malformed values are not
    reported in rows that are filtered out, as they are not in columns that are not read.
    """

    def filtered(self, condition: RowFilter) -> RowReader:
        """The same reader, which may leave out rows of which the condition is false (``Rows.passed_over``)."""
        ...
