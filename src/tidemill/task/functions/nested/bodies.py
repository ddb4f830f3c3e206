"""Bodies of functions such as ``transform(a, x -> x + k)``, evaluated over elements as whole columns.

The elements of all arrays of a batch are one column; the columns of the row that a body reads are repeated for each of
its elements. The variables become columns of that wider batch, so a body is evaluated like any other expression. A body
inside a body reads the outer variables as columns.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np
import pyarrow as pa

from tidemill.kernels.columns import column
from tidemill.task.expressions import Expression, Ref, bind, references, remap
from tidemill.task.functions.columns.compute import Array, nulls
from tidemill.task.functions.columns.growth import lengths
from tidemill.task.functions.columns.lists import Ints
from tidemill.task.functions.columns.sizes import check_size

_MOST, _MOST_BYTES = 1 << 17, 16 << 20
"""Elements at a time, and bytes of the columns of the row that are repeated for them."""


class Body:
    """A function of elements.

    Attributes
    ----------
    can_fail : bool
        Whether some element could make it raise an error.
    """

    def __init__(
        self,
        expression: Expression,
        numbers: tuple[int, ...],
        batch: pa.RecordBatch,
        evaluate: Callable[[Expression, pa.RecordBatch], Array],
        can_fail: bool,
    ) -> None:
        self.can_fail = can_fail
        self._type = expression.type
        self._evaluate = evaluate
        used = sorted(references(expression))
        self._columns = [batch.column(i) for i in used]
        self._expression = remap(expression, {old: new for new, old in enumerate(used)})
        self._numbers = numbers

    @property
    def variables(self) -> int:
        """Number of variables."""
        return len(self._numbers)

    def __call__(self, owners: Ints, variables: Sequence[Array]) -> Array:
        """The value for each element.

        Parameters
        ----------
        owners : int64 array
            The row of each element.
        variables : sequence of pa.Array
            What the variables are for each element; one at least.

        Raises
        ------
        EvaluationError
            TM3xxx when an element makes it fail.
        """
        width = len(self._columns)
        bound = {n: Ref(width + i, v.type) for i, (n, v) in enumerate(zip(self._numbers, variables, strict=True))}
        expression = bind(self._expression, bound)
        parts = []
        size = 0
        for start, stop in self._slices(owners):
            rows = column(owners[start:stop])
            arrays = [c.take(rows) for c in self._columns] + [v.slice(start, stop - start) for v in variables]
            batch = pa.RecordBatch.from_arrays(arrays, names=[str(i) for i in range(len(arrays))])
            parts.append(self._evaluate(expression, batch))
            size += parts[-1].nbytes
            check_size(size)
        if not parts:
            return nulls(0, self._type)
        return parts[0] if len(parts) == 1 else pa.concat_arrays(parts)

    def _slices(self, owners: Ints) -> Iterator[tuple[int, int]]:
        """Ranges of the elements: of no more than :data:`_MOST`, and of rows that are not too large when repeated."""
        widths = np.zeros(0)
        for values in self._columns:
            if not pa.types.is_primitive(values.type):
                text = pa.types.is_string(values.type) or pa.types.is_binary(values.type)
                each = lengths(values, len(values)) if text else values.nbytes / max(1, len(values))
                widths = each + (widths if len(widths) else np.zeros(len(values)))
        ends = np.cumsum(widths[owners]) if len(widths) else np.zeros(len(owners))
        start = 0
        while start < len(owners):
            before = ends[start - 1] if start else 0.0
            stop = int(np.searchsorted(ends, before + _MOST_BYTES, side="right"))
            stop = min(max(stop, start + 1), start + _MOST, len(owners))
            yield start, stop
            start = stop
