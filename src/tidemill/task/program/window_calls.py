"""Window functions as plain data: which function, over which frame of the current row's partition."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias

import pyarrow as pa

from tidemill.task.aggregates.accumulators import Option
from tidemill.task.expressions import Expression

RANKINGS = frozenset({"row_number", "rank", "dense_rank", "percent_rank", "cume_dist", "ntile"})
"""Decided by the place of a row in its partition; they have no arguments and no frame."""

POSITIONAL = frozenset({"shift", "first", "last", "nth"})
"""Take the value of one row. ``shift`` is LAG (negative) and LEAD; it has no frame."""

Bound: TypeAlias = int | Expression | None
"""One end of a frame. None: the end of the partition. An int: so many rows after the current one, and in a
RANGE frame 0: the current row's peers. An expression: the least or greatest ORDER BY value in the frame."""


@dataclass(frozen=True)
class Frame:
    """The rows of the partition that a call sees, for each row. ``rows`` tells ROWS from RANGE."""

    rows: bool
    lower: Bound
    upper: Bound


@dataclass(frozen=True)
class WindowCall:
    """One window function.

    Parameters
    ----------
    function : str
        One of ``RANKINGS`` or ``POSITIONAL``, or an aggregate function.
    arguments : tuple of Expression
        Over the columns of the input. ``shift`` has the value and the default, ``count(*)`` none, ``min_by`` and
        ``max_by`` the ordering and the value, or one that is both.
    number : int
        Rows to shift by, the n of ``nth``, the buckets of ``ntile``.
    ignore_nulls : bool
        Whether a positional function passes over rows whose value is NULL.
    options : tuple
        Constants of an aggregate function, by name.
    """

    function: str
    arguments: tuple[Expression, ...]
    type: pa.DataType
    nullable: bool
    frame: Frame
    number: int = 0
    ignore_nulls: bool = False
    options: tuple[tuple[str, Option], ...] = field(default=(), metadata={"later": True})

    @property
    def aggregates(self) -> bool:
        """Whether this is an aggregate function over a frame."""
        return self.function not in RANKINGS and self.function not in POSITIONAL
