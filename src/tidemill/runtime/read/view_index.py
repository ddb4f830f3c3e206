"""A view at a sealed epoch as an index."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidemill.kernels.columns import numbers
from tidemill.runtime.read.sealed_view import SealedView
from tidemill.schema import Field, Schema
from tidemill.state.keys.keys import VNODES, Keys, group, in_vnodes, prefix, sort
from tidemill.task.dataflow.deltas import Delta
from tidemill.task.dataflow.read_view import finish_rows, read_view
from tidemill.task.expressions.nodes import Ref
from tidemill.task.indexes.table_index import TableIndex


@dataclass(frozen=True, eq=False)
class ViewIndex:
    """The rows of a view by some of its columns; rows of one key come in the order of the view's state.

    Where the columns are the first of the view's key, in any order (columns of GROUP BY, or the first columns of a view
    without it), a lookup reads the rows that it finds, and nothing else. By other columns, and for many keys at a time
    where these alone do not tell the vnode, the first lookup of a process reads the whole view, and keeps it in memory.

    Attributes
    ----------
    view : SealedView
    columns : tuple of str
        Those whose values are looked up.
    """

    view: SealedView
    columns: tuple[str, ...]

    def __reduce__(self) -> tuple[Any, ...]:
        return ViewIndex, (self.view, self.columns)

    @property
    def schema(self) -> Schema:
        """Of the rows."""
        return self.view.schema

    @cached_property
    def key_types(self) -> tuple[pa.DataType, ...]:
        """Of the keys."""
        fields: dict[str, Field] = {f.name: f for f in self.view.plan.schema}
        return tuple(fields[name].type for name in self.columns)

    def look_up(self, keys: pa.RecordBatch) -> tuple[npt.NDArray[np.int64], pa.RecordBatch]:
        """See :class:`~tidemill.task.indexes.index.Index`.

        Raises
        ------
        TidemillError
            TM1010 and TM1018 when a file of the view is missing here, TM1011 when one is damaged; TM3xxx when a row
            makes an expression of the view fail.
        """
        if not self.finds(keys.num_rows) or self._places is None:
            return self.table_index.look_up(keys)
        return self._indexed(self._rows_with(keys.columns, self._places)).look_up(keys)

    def finds(self, keys: int) -> bool:
        """Whether a lookup of so many keys reads no more than it finds."""
        if self._places is None:
            return False
        return self._knows_vnodes or keys * VNODES <= sum(run.rows for run in self.view.runs)

    @property
    def _knows_vnodes(self) -> bool:
        return self.view.plan.table.distribution <= len(self.columns)

    @cached_property
    def _places(self) -> tuple[int, ...] | None:
        """Where each column is among the first ones of the key of the state; None when they are not these."""
        places = [self.view.plan.schema.names.index(name) for name in self.columns]
        for step in reversed(self.view.plan.steps):
            if step.expressions is None:
                continue
            found = [step.expressions[p] for p in places]
            if not all(isinstance(e, Ref) for e in found):
                return None
            places = [e.index for e in found if isinstance(e, Ref)]
        first = list(range(len(self.view.plan.table.key)))[: len(places)]
        return tuple(places) if sorted(places) == first else None

    @cached_property
    def table_index(self) -> TableIndex:
        """All rows in memory, as an index."""
        plan = self.view.plan
        return self._indexed(read_view(plan, self.view.reader(), single_row=plan.single))

    def _rows_with(self, keys: Sequence[pa.Array[Any]], places: Sequence[int]) -> Delta:
        """The rows of the view for the keys that are not NULL."""
        table = self.view.plan.table
        valid = np.ones(len(keys[0]), np.bool_)
        for key in keys:
            valid &= key.is_valid().to_numpy(zero_copy_only=False)
        ordered = [keys[places.index(i)].filter(pa.array(valid)) for i in range(len(places))]
        prefixes = _distinct(prefix(ordered, table.key, table.distribution if self._knows_vnodes else 0))
        if not self._knows_vnodes:
            prefixes = in_vnodes(prefixes, 0, VNODES)
        _, rows = self.view.reader().scan(prefixes)
        counts = numbers(rows.values[0])
        if len(counts) and counts.min() < 0:
            rows = rows.take(np.flatnonzero(counts > 0))
        return finish_rows(self.view.plan, rows)

    def _indexed(self, delta: Delta) -> TableIndex:
        return TableIndex.of(pa.Table.from_batches([self.view.batch(delta)]), self.columns)

    def fingerprint(self) -> str:
        """See :class:`~tidemill.task.indexes.index.Index`."""
        return f"{self.view.identity} by {', '.join(self.columns)}"

    def __str__(self) -> str:
        return f"an index of {self.view.identity}"


def _distinct(keys: Keys) -> Keys:
    _, first = group(keys)
    keys = keys.take(first)
    return keys.take(sort(keys))
