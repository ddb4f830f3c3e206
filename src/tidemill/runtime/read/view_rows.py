"""A view at a sealed epoch as rows that a task or a loader reads in splits."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import pyarrow as pa

from tidemill.options.option import bad_option
from tidemill.runtime.read.sealed_view import SealedView
from tidemill.schema import Schema
from tidemill.sources.split import Split
from tidemill.state.keys.keys import VNODES
from tidemill.task.dataflow.read_view import view_parts


@dataclass(frozen=True)
class ViewRows:
    """See :class:`~tidemill.task.files.divided_rows.DividedRows`. A split is a range of vnodes, within it rows come in
    the order of the key: for one view and epoch always the same, however its state has been merged.

    Attributes
    ----------
    view : SealedView
    columns : tuple of str
    count : int
        How many splits there are.
    """

    view: SealedView
    columns: tuple[str, ...]
    count: int
    format: str = "view"

    def __post_init__(self) -> None:
        if isinstance(self.count, bool) or not isinstance(self.count, int) or not 1 <= self.count <= VNODES:
            raise bad_option("splits", repr(self.count), f"a whole number from 1 to {VNODES}")

    @property
    def schema(self) -> Schema:
        """Of all columns."""
        return self.view.schema

    @property
    def splits(self) -> tuple[Split, ...]:
        """By vnode."""
        count = self.count if self.view.plan.table.distribution else 1
        ends = [VNODES * i // count for i in range(count + 1)]
        return tuple(Split("", self.view.identity, low, high, VNODES, 0) for low, high in pairwise(ends))

    def read(self, split: Split) -> Iterator[pa.RecordBatch]:
        """The rows of a split.

        Raises
        ------
        TidemillError
            As :meth:`SealedView.reader`; TM3xxx when a row makes an expression of the view fail.
        """
        plan = self.view.plan
        low, high = split.start.to_bytes(2, "big"), split.end.to_bytes(2, "big")
        for delta in view_parts(plan, self.view.reader(), plan.single, low, high):
            if len(delta):
                yield self.view.batch(delta).select(list(self.columns))

    def data_fingerprint(self) -> str:
        """The view, the epoch and the number of splits."""
        return json.dumps([self.view.identity, len(self.splits)])

    def plan_fingerprint(self) -> str:
        """The columns."""
        return json.dumps([self.format, self.schema.to_ddl(), self.columns])
