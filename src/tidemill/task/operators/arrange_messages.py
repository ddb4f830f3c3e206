"""Change messages arranged by key and place."""

from __future__ import annotations

import pyarrow as pa

from tidemill.state.keys import Keys, encode
from tidemill.state.merge import consolidate
from tidemill.task.operator import HeldOutput, Operator, Output
from tidemill.task.program import ArrangeMessages
from tidemill.task.streams import Delta, Item, Keyed


class ArrangeMessagesOperator(Operator):
    """Sorts the epoch's messages by (key, place) at the barrier; places are unique, so none is lost."""

    def __init__(self, step: int, operation: ArrangeMessages) -> None:
        super().__init__(step)
        self.operation = operation
        self._keys: list[Keys] = []
        self._values: list[list[pa.Array]] = []
        self._held = HeldOutput()

    def add_input(self, item: Item, port: int) -> None:
        """Encode a batch."""
        assert isinstance(item, Delta)
        table = self.operation.table
        columns = item.batch.columns
        self._keys.append(encode([columns[i] for i in self.operation.key], table.key, table.distribution))
        self._values.append([columns[i] for i in self.operation.values])

    def start_drain(self) -> bool:
        """The epoch's messages as one keyed run."""
        if not self._keys:
            return False
        keys = Keys.concat(self._keys)
        values = [pa.concat_arrays(list(parts)) for parts in zip(*self._values, strict=True)]
        self._keys, self._values = [], []
        rows = consolidate(keys, values, self.operation.table.ops, drop_zero=False)
        return self._held.put([Output(Keyed(rows))])

    def get_output(self) -> Output | None:
        """The run."""
        return self._held.pop()
