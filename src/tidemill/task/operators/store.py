"""The ends of a program: what a view keeps."""

from __future__ import annotations

import numpy as np

from tidemill.state.columns import column
from tidemill.state.keys import Keys, encode
from tidemill.state.merge import Rows, consolidate, merge
from tidemill.task.operator import Operator
from tidemill.task.program import StoreKeyed, StoreRows
from tidemill.task.streams import Delta, Item, Keyed


class StoreRowsOperator(Operator):
    """Appends rows to a multiset table keyed by the whole row.

    Rows of one epoch that cancel out are never written.
    """

    def __init__(self, step: int, operation: StoreRows) -> None:
        super().__init__(step)
        self.table = operation.table
        self._keys: list[Keys] = []
        self._weights: list[np.ndarray] = []

    def add_input(self, item: Item, port: int) -> None:
        """Encode a batch."""
        assert isinstance(item, Delta)
        self._keys.append(encode(item.batch.columns, self.table.key, self.table.distribution))
        self._weights.append(item.explicit_weights())

    def start_drain(self) -> bool:
        """Write the epoch's run."""
        if self._keys:
            keys, weights = Keys.concat(self._keys), np.concatenate(self._weights)
            self._keys, self._weights = [], []
            self.context.write(self.table, consolidate(keys, [column(weights)], self.table.ops, drop_zero=True))
        return False


class StoreKeyedOperator(Operator):
    """Appends keyed rows to their table. Readers merge, so nothing is looked up."""

    def __init__(self, step: int, operation: StoreKeyed) -> None:
        super().__init__(step)
        self.table = operation.table
        self._runs: list[Rows] = []

    def add_input(self, item: Item, port: int) -> None:
        """Hold a sorted run."""
        assert isinstance(item, Keyed)
        self._runs.append(item.rows)

    def start_drain(self) -> bool:
        """Write the epoch's run."""
        if self._runs:
            runs, self._runs = self._runs, []
            self.context.write(self.table, merge(runs, self.table.ops, drop_zero=self.table.is_multiset))
        return False
