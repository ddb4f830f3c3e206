"""Bodies of functions such as ``transform(a, x -> x + k)``, evaluated over elements as whole columns.

The elements of all arrays of a batch are one column; the columns of the row that a body reads are repeated for each of
its elements. The variables become columns of that wider batch, so what evaluates a body is what evaluates any
expression. A body inside a body meets the outer variables as columns.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pyarrow as pa

from tidemill.state.columns import column
from tidemill.task.expressions import Expression, Ref, bind, references, remap
from tidemill.task.functions.lists import Ints

_MOST = 1 << 17
"""Elements at a time: columns of the row that are repeated must not fill the memory."""


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
        evaluate: Callable[[Expression, pa.RecordBatch], pa.Array],
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
        """How many variables it has."""
        return len(self._numbers)

    def __call__(self, owners: Ints, variables: Sequence[pa.Array]) -> pa.Array:
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
        for start in range(0, len(owners), _MOST):
            rows = column(owners[start : start + _MOST])
            arrays = [c.take(rows) for c in self._columns] + [v.slice(start, _MOST) for v in variables]
            batch = pa.RecordBatch.from_arrays(arrays, names=[str(i) for i in range(len(arrays))])
            parts.append(self._evaluate(expression, batch))
        if not parts:
            return pa.nulls(0, self._type)
        return parts[0] if len(parts) == 1 else pa.concat_arrays(parts)
