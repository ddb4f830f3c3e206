"""A keyed table from upserts and deletes: the last message of a key is its row."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tidemill.kernels.columns import column, numbers
from tidemill.state.keys.keys import Keys, decode
from tidemill.state.lookup.reader import TableState
from tidemill.state.merge.merge import Rows
from tidemill.task.dataflow.deltas import Delta, batch_of, concat
from tidemill.task.dataflow.holding_operator import HoldingOperator
from tidemill.task.dataflow.messages import Messages, parts_by_key
from tidemill.task.dataflow.operator import Output, carries_out
from tidemill.task.program import ApplyChangelog


@carries_out(ApplyChangelog)
class ApplyChangelogOperator(HoldingOperator):
    """Writes the rows of the keys that changed, and emits old rows with -1 and new ones with +1.

    States within the epoch are never seen: the row of a key is what its last message says. A deletion of a key
    that is not there, and a message that says what is there already, change nothing.
    """

    def __init__(self, step: int, operation: ApplyChangelog) -> None:
        super().__init__(step, operation.messages.table)
        self.operation = operation

    def changes(self, *inputs: TableState) -> Iterator[Output]:
        """Apply the epoch's messages."""
        for messages in parts_by_key(inputs[0], self.operation.messages, self.operation.table, only_last=True):
            yield from self._changes(messages)

    def _changes(self, messages: Messages) -> Iterator[Output]:
        """What the messages of some keys change."""
        table = self.operation.table
        last = column(messages.starts[1:] - 1)
        signs, *new = (v.take(last) for v in messages.values)
        found, (_, *old) = self.context.state(table).before.get(messages.keys)
        live = numbers(signs) > 0
        changed = found | live
        changed &= ~(found & live & _same(old, new, len(live)))
        rows = np.flatnonzero(changed)
        if not len(rows):
            return
        weights = live.astype(np.int64) - found.astype(np.int64)
        kept = [pc.if_else(column(live), v, pa.scalar(None, v.type)) for v in new]
        written = Rows(messages.keys, (column(weights), *kept)).take(rows)
        self.context.state(table).write(written)
        gone, came = np.flatnonzero(changed & found), np.flatnonzero(changed & live)
        parts = [d for d in (self._rows(messages.keys, old, gone, -1), self._rows(messages.keys, new, came, 1)) if d]
        yield Output(concat(parts))

    def _rows(self, keys: Keys, others: list[pa.Array[Any]], rows: npt.NDArray[np.int64], weight: int) -> Delta | None:
        """Rows of the table, columns in its order."""
        if not len(rows):
            return None
        changelog, table = self.operation.changelog, self.operation.table
        key = dict(zip(changelog.key, decode(keys.take(rows), table.key), strict=True))
        taken = iter([v.take(column(rows)) for v in others])
        columns = [key[i] if i in key else next(taken) for i in range(len(changelog.rows))]
        return Delta(batch_of(columns, len(rows)), np.full(len(rows), weight, np.int64))


def _same(old: list[pa.Array[Any]], new: list[pa.Array[Any]], rows: int) -> npt.NDArray[np.bool_]:
    """Where all values are alike."""
    same = np.ones(rows, np.bool_)
    for before, after in zip(old, new, strict=True):
        same &= _alike(before, after)
    return same


def _alike(before: pa.Array[Any], after: pa.Array[Any]) -> npt.NDArray[np.bool_]:
    """Where values are alike, NULL like NULL; floats bit by bit, so that -0.0 is not 0.0; nested ones part by part."""
    type_ = before.type
    if pa.types.is_map(type_):
        entries = pa.list_(pa.struct([("key", type_.key_type), ("value", type_.item_type)]))
        return _alike(before.cast(entries), after.cast(entries))
    both = _flags(pc.and_(pc.is_null(before), pc.is_null(after)))
    if pa.types.is_struct(type_):
        same = _flags(pc.equal(pc.is_null(before), pc.is_null(after)))
        for parts in zip(*(cast("pa.StructArray", side).flatten() for side in (before, after)), strict=True):
            same &= _alike(*parts)
        return same | both
    if pa.types.is_list(type_):
        lengths = pc.list_value_length(before)
        same = _flags(pc.equal(lengths, pc.list_value_length(after)).fill_null(False))
        chosen = np.flatnonzero(same)
        ends = np.cumsum(lengths.take(column(chosen)).to_numpy())
        elements = (cast("pa.ListArray[Any]", side.take(column(chosen))).flatten() for side in (before, after))
        wrong = np.flatnonzero(~_alike(*elements))
        same[chosen[np.searchsorted(ends, wrong, side="right")]] = False
        return same | both
    if pa.types.is_floating(type_):
        bits = pa.int32() if pa.types.is_float32(type_) else pa.int64()
        before, after = before.view(bits), after.view(bits)
    same_values: Any = pc.equal(before, after).fill_null(False)
    return _flags(same_values) | both


def _flags(found: pa.BooleanArray) -> npt.NDArray[np.bool_]:
    flags: npt.NDArray[np.bool_] = np.array(found.to_numpy(zero_copy_only=False), np.bool_)
    return flags
