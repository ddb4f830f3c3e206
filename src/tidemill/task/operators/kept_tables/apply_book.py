"""An order book, or one side of it, from the messages of an exchange."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tidemill.formats.orderbook.replay import EXECUTE, INSERT, REMOVE, Replayed, replay
from tidemill.formats.orderbook.rules import BookRules
from tidemill.kernels.columns import column, numbers
from tidemill.state.keys.keys import decode, encode
from tidemill.state.lookup.reader import TableState
from tidemill.state.merge.merge import Rows, consolidate
from tidemill.task.dataflow.deltas import Delta, batch_of
from tidemill.task.dataflow.holding_operator import HoldingOperator
from tidemill.task.dataflow.messages import Messages, parts_by_key
from tidemill.task.dataflow.operator import Output, carries_out
from tidemill.task.program import ApplyBook

_T, _ID, _BROKER, _VOLUME, _PRICE, _SIDE = range(6)


@carries_out(ApplyBook)
class ApplyBookOperator(HoldingOperator):
    """Replays the epoch's messages over the live orders, writes both tables, and emits the rows' changes.

    What lies between the deletion and the insertion of one message is never seen. Rules:
    :mod:`tidemill.formats.orderbook.rules`.
    """

    def __init__(self, step: int, operation: ApplyBook) -> None:
        super().__init__(step, operation.messages.table)
        self.operation = operation

    def changes(self, *inputs: TableState) -> Iterator[Output]:
        """Apply the epoch's messages."""
        for messages in parts_by_key(inputs[0], self.operation.messages, self.operation.orders, only_last=False):
            yield from self._changes(messages)

    def _changes(self, messages: Messages) -> Iterator[Output]:
        """What the messages of some orders change."""
        book, orders = self.operation.changelog.book, self.operation.orders
        assert book is not None
        t, actions, volumes, prices = messages.values
        letters = pc.index_in(actions, value_set=pa.array(list(book.letters))).to_numpy(zero_copy_only=False)
        found, (_, *before) = self.context.state(orders).before.get(messages.keys)
        old_t, old_volume, old_price, *old_side = (numbers(v.fill_null(0)) for v in before)
        result = replay(messages.starts, _codes(book)[letters], numbers(volumes), found, old_volume, book.insert_only)
        origins = {_T: _Origin(numbers(t), old_t), _PRICE: _Origin(numbers(prices), old_price)}
        if old_side:
            origins[_SIDE] = _Origin(letters.astype(np.int64), old_side[0])
        self._write_orders(messages, found, result, origins)
        yield from self._emit(messages, result, origins)

    def _write_orders(
        self, messages: Messages, found: npt.NDArray[np.bool_], result: Replayed, origins: Mapping[int, _Origin]
    ) -> None:
        rows = np.flatnonzero(result.changed & (found | result.live))
        weights = result.live[rows].astype(np.int64) - found[rows].astype(np.int64)
        sources = result.sources[rows]
        values = {at: origin.of(rows, sources) for at, origin in origins.items()}
        values[_VOLUME] = result.volumes[rows]
        columns = (column(weights), *(column(values[at]) for at in sorted(values)))
        self.context.state(self.operation.orders).write(Rows(messages.keys.take(rows), columns))

    def _emit(self, messages: Messages, result: Replayed, origins: Mapping[int, _Origin]) -> Iterator[Output]:
        if not len(result.order):
            return
        contents, book = self.operation.contents, self.operation.changelog.book
        assert book is not None
        (ids,) = decode(messages.keys.take(result.order), self.operation.orders.key)
        values = {at: origin.of(result.order, result.source) for at, origin in origins.items()}
        columns = {
            _ID: ids,
            _T: column(values[_T]),
            _BROKER: pa.array(book.broker_ids(numbers(ids))),
            _VOLUME: column(result.volume),
            _PRICE: column(values[_PRICE]),
        }
        if _SIDE in values:
            columns[_SIDE] = pa.array(list(book.inserts)).take(pa.array(values[_SIDE]))
        keys = encode(list(columns.values()), contents.key, contents.distribution)
        net = consolidate(keys, [column(result.weight)], contents.ops, drop_zero=True)
        if not len(net):
            return
        self.context.state(contents).write(net)
        order = self.operation.row_order
        yield Output(Delta(batch_of([columns[i] for i in order], len(ids)), result.weight))


class _Origin:
    """A column of rows that come from messages, or from the orders as they were."""

    def __init__(self, messages: npt.NDArray[Any], before: npt.NDArray[Any]) -> None:
        self._messages = messages
        self._before = before

    def of(self, orders: npt.NDArray[np.int64], sources: npt.NDArray[np.int64]) -> npt.NDArray[Any]:
        """Per row, the value of message ``sources[i]``, or for -1 that of order ``orders[i]``."""
        return np.where(sources < 0, self._before[orders], self._messages[sources])


def _codes(book: BookRules) -> npt.NDArray[np.int8]:
    """What each of the letters that concern a book does to an order."""
    codes = {**dict.fromkeys(book.inserts, INSERT), "E": EXECUTE, "C": EXECUTE, "F": REMOVE, "D": REMOVE}
    return np.array([codes[letter] for letter in book.letters], np.int8)
