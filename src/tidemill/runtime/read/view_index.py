"""A view at a sealed epoch as an index."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidemill.errors import TidemillError, nearest
from tidemill.kernels.columns import column, numbers
from tidemill.options.option import bad_option
from tidemill.schema import Field, Schema, nullable_type
from tidemill.state.keys.keys import VNODES, Keys, group, in_vnodes, prefix, sort
from tidemill.state.store.store import RunStore
from tidemill.state.versions.version import Run
from tidemill.task.dataflow.deltas import Delta
from tidemill.task.dataflow.read_view import finish_rows, read_view, reader_of
from tidemill.task.expressions.nodes import Ref
from tidemill.task.indexes.table_index import TableIndex
from tidemill.task.program import ReadPlan


@dataclass(frozen=True, eq=False)
class ViewIndex:
    """The rows of a view by some of its columns; rows of one key come in the order of the view's state.

    Where the columns are the first of the view's key, in any order (columns of GROUP BY, or the first columns of a view
    without it), a lookup reads the rows that it finds, and nothing else. By other columns the first lookup of a process
    reads the whole view, and keeps it in memory.

    It can be pickled: what reads it elsewhere needs the directory or object store of the root. Files that it reads are
    kept for as long as the object exists that :meth:`Snapshot.index` gave, whatever the mill does meanwhile.

    Attributes
    ----------
    store : RunStore
    plan : ReadPlan
        How the view is read.
    runs : tuple of Run
        Its state at the epoch, oldest first.
    columns : tuple of str
        Those whose values are looked up.
    identity : str
        Names the view and the epoch.
    kept : object
        Keeps the files.
    """

    store: RunStore
    plan: ReadPlan
    runs: tuple[Run, ...]
    columns: tuple[str, ...]
    identity: str
    kept: object = field(default=None, repr=False)

    def __post_init__(self) -> None:
        names = self.plan.schema.names
        if not self.columns or len(set(self.columns)) < len(self.columns):
            raise bad_option("on", ", ".join(self.columns) or "no column", "columns of the view, each once")
        for name in self.columns:
            if name not in names:
                raise TidemillError("TM4006", "there is no column of this name", got=name, hint=nearest(name, names))

    def __reduce__(self) -> tuple[Any, ...]:
        return ViewIndex, (self.store, self.plan, self.runs, self.columns, self.identity)

    @property
    def schema(self) -> Schema:
        """Of the rows."""
        return Schema(tuple(replace(f, type=nullable_type(f.type)) for f in self.plan.schema))

    @cached_property
    def key_types(self) -> tuple[pa.DataType, ...]:
        """Of the keys."""
        fields: dict[str, Field] = {f.name: f for f in self.plan.schema}
        return tuple(fields[name].type for name in self.columns)

    def look_up(self, keys: pa.RecordBatch) -> tuple[npt.NDArray[np.int64], pa.RecordBatch]:
        """See :class:`~tidemill.task.indexes.index.Index`.

        Raises
        ------
        TidemillError
            TM1010 and TM1018 when a file of the view is missing here, TM1011 when one is damaged; TM3xxx when a row
            makes an expression of the view fail.
        """
        if self.places is None:
            return self.table_index.look_up(keys)
        return TableIndex.of(self._table(self._rows_with(keys.columns, self.places)), self.columns).look_up(keys)

    @cached_property
    def places(self) -> tuple[int, ...] | None:
        """Where each column is among the first ones of the key of the state; None when they are not these."""
        places = [self.plan.schema.names.index(name) for name in self.columns]
        for step in reversed(self.plan.steps):
            if step.expressions is None:
                continue
            found = [step.expressions[p] for p in places]
            if not all(isinstance(e, Ref) for e in found):
                return None
            places = [e.index for e in found if isinstance(e, Ref)]
        first = list(range(len(self.plan.table.key)))[: len(places)]
        return tuple(places) if sorted(places) == first else None

    @cached_property
    def table_index(self) -> TableIndex:
        """All rows in memory, as an index."""
        reader = reader_of(self.plan.table, [self.store.open(r) for r in self.runs])
        return TableIndex.of(self._table(read_view(self.plan, reader, single_row=self.plan.single)), self.columns)

    def _rows_with(self, keys: Sequence[pa.Array[Any]], places: Sequence[int]) -> Delta:
        """The rows of the view for the keys that are not NULL."""
        table = self.plan.table
        valid = np.ones(len(keys[0]), np.bool_)
        for key in keys:
            valid &= key.is_valid().to_numpy(zero_copy_only=False)
        ordered = [keys[places.index(i)].filter(pa.array(valid)) for i in range(len(places))]
        near = table.distribution <= len(places)
        prefixes = _distinct(prefix(ordered, table.key, table.distribution if near else 0))
        if not near:
            prefixes = in_vnodes(prefixes, 0, VNODES)
        reader = reader_of(table, [self.store.open(r) for r in self.runs])
        _, rows = reader.scan(prefixes)
        counts = numbers(rows.values[0])
        if len(counts) and counts.min() < 0:
            rows = rows.take(np.flatnonzero(counts > 0))
        return finish_rows(self.plan, rows)

    def _table(self, delta: Delta) -> pa.Table:
        batch = delta.batch
        if delta.weights is not None:
            batch = batch.take(column(np.repeat(np.arange(len(delta)), delta.weights)))
        return pa.Table.from_arrays(batch.columns, schema=self.schema.to_arrow())

    def fingerprint(self) -> str:
        """See :class:`~tidemill.task.indexes.index.Index`."""
        return f"{self.identity} by {', '.join(self.columns)}"

    def __str__(self) -> str:
        return f"an index of {self.identity}"


def _distinct(keys: Keys) -> Keys:
    _, first = group(keys)
    keys = keys.take(first)
    return keys.take(sort(keys))
