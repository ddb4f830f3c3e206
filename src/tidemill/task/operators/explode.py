"""explode and its kin: one row per element of an array or map."""

from __future__ import annotations

from collections import deque
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidemill.errors import EvaluationError
from tidemill.state.columns import column
from tidemill.task.failing_row import without_failing
from tidemill.task.functions.evaluate import evaluate
from tidemill.task.functions.lists import offsets_of, take_apart
from tidemill.task.operator import Operator, Output
from tidemill.task.program import Explode
from tidemill.task.streams import Delta, Item, batch_of

_MOST_ROWS = 1 << 18


class ExplodeOperator(Operator):
    """Stateless: each row that comes out has the weight of the row it comes from."""

    def __init__(self, step: int, operation: Explode) -> None:
        super().__init__(step)
        self.operation = operation
        self._waiting: deque[Delta] = deque()

    def add_input(self, item: Item, port: int) -> None:
        """Hold a batch; it is exploded piece by piece, as rows are fetched.

        Rows that fail are left out and reported.
        """
        assert isinstance(item, Delta)
        try:
            array = self._argument(item)
        except EvaluationError:
            item, weight, error = without_failing(self._argument, item)
            self.context.failing(self.step, weight, error)
            array = self._argument(item)
        widened = Delta(batch_of([*item.batch.columns, array], len(item)), item.weights)
        counts = _counts(array, self.operation.outer)
        self._waiting.extend(widened.take(np.arange(a, b)) for a, b in _pieces(counts))

    def _argument(self, delta: Delta) -> pa.Array:
        return evaluate(self.operation.argument, delta.batch)

    def get_output(self) -> Output | None:
        """The rows of the next piece that has any."""
        while self._waiting:
            delta = self._exploded(self._waiting.popleft())
            if len(delta):
                return Output(delta)
        return None

    def _exploded(self, delta: Delta) -> Delta:
        operation = self.operation
        *columns, array = delta.batch.columns
        lists = take_apart(array, len(delta))
        counts = _counts(array, operation.outer)
        offsets = offsets_of(counts)
        owners = np.repeat(np.arange(len(delta)), counts)
        within = np.arange(len(owners)) - offsets[owners]
        missing = within >= lists.lengths[owners]
        places = column(np.where(missing, 0, lists.offsets[owners] + within), missing)
        found = [columns[k].take(column(owners)) for k in operation.kept]
        if operation.position:
            found.append(column(within, missing).cast(pa.int32()))
        spread = operation.spread or pa.types.is_map(array.type)
        found += [v.take(places) for v in (lists.values.flatten() if spread else [lists.values])]
        weights = None if delta.weights is None else delta.weights[owners]
        return Delta(batch_of(found, len(owners)), weights)


def _counts(array: pa.Array, outer: bool) -> npt.NDArray[np.int64]:
    """Rows that come out per row."""
    counts = take_apart(array, len(array)).lengths
    return np.maximum(counts, 1) if outer else counts


def _pieces(counts: npt.NDArray[np.int64]) -> list[tuple[int, int]]:
    """Ranges of rows that give at most about ``_MOST_ROWS`` rows each."""
    numbers = np.cumsum(counts) // _MOST_ROWS
    cuts = np.flatnonzero(np.diff(numbers)) + 1
    bounds = [0, *cuts.tolist(), len(counts)]
    return [(a, b) for a, b in pairwise(bounds) if a < b]
