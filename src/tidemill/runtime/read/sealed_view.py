"""A view at a sealed epoch, as tasks read it wherever they run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa

from tidemill.errors import TidemillError, nearest
from tidemill.kernels.columns import column
from tidemill.options.option import bad_option
from tidemill.schema import Schema, nullable_type
from tidemill.state.lookup.reader import TableReader
from tidemill.state.store.store import RunStore
from tidemill.state.versions.version import Run
from tidemill.task.dataflow.deltas import Delta
from tidemill.task.dataflow.read_view import reader_of
from tidemill.task.program import ReadPlan


@dataclass(frozen=True, eq=False)
class SealedView:
    """Where the state of a view is, and how its rows are made of it.

    It can be pickled: what reads it elsewhere needs the directory or object store of the root. Its files are kept for
    as long as the object exists that was made of a snapshot, whatever the mill does meanwhile.

    Attributes
    ----------
    store : RunStore
    plan : ReadPlan
    runs : tuple of Run
        Its state at the epoch, oldest first.
    identity : str
        Names the view and the epoch.
    kept : object
        Keeps the files.
    """

    store: RunStore
    plan: ReadPlan
    runs: tuple[Run, ...]
    identity: str
    kept: object = field(default=None, repr=False)

    def __reduce__(self) -> tuple[Any, ...]:
        return SealedView, (self.store, self.plan, self.runs, self.identity)

    @property
    def schema(self) -> Schema:
        """Of the rows."""
        return Schema(tuple(replace(f, type=nullable_type(f.type)) for f in self.plan.schema))

    def named(self, columns: Sequence[str], option: str) -> tuple[str, ...]:
        """Columns as the view writes them; upper and lower case are the same.

        Parameters
        ----------
        option : str
            What they were given as.

        Raises
        ------
        TidemillError
            TM4006 for one that the view does not have, TM4003 for none, or for one that comes twice.
        """
        names = self.plan.schema.names
        known = {name.lower(): name for name in names}
        found = tuple(c if c in names else known.get(c.lower(), c) for c in columns)
        if not found or len(set(found)) < len(found):
            raise bad_option(option, ", ".join(found) or "no column", "columns of the view, each once")
        for name in found:
            if name not in names:
                raise TidemillError("TM4006", "there is no column of this name", got=name, hint=nearest(name, names))
        return found

    def reader(self) -> TableReader:
        """Reads its state.

        Raises
        ------
        TidemillError
            TM1010 and TM1018 when a file is missing here, TM1011 when one is damaged.
        """
        return reader_of(self.plan.table, [self.store.open(r) for r in self.runs])

    def batch(self, delta: Delta) -> pa.RecordBatch:
        """Rows with their multiplicities as rows that are repeated."""
        batch = delta.batch
        if delta.weights is not None:
            batch = batch.take(column(np.repeat(np.arange(len(delta)), delta.weights)))
        return pa.RecordBatch.from_arrays(batch.columns, schema=self.schema.to_arrow())
