"""What an epoch changed in a keyed table, from the rows that it wrote."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tidemill.kernels.columns import column
from tidemill.state.lookup.reader import TableReader
from tidemill.state.merge.merge import Rows
from tidemill.task.dataflow.deltas import Delta, concat
from tidemill.task.dataflow.read_view import empty_rows, finish_rows
from tidemill.task.program import ReadPlan


def changed_rows(plan: ReadPlan, before: Sequence[Rows], changed: Sequence[Rows]) -> Delta:
    """Old rows of the changed keys with -1, new ones with +1, columns as ``plan.schema``.

    Parameters
    ----------
    before, changed : sequence of Rows
        Runs of the table as of the epoch before, oldest first, and those that the epoch wrote.
    """
    table = plan.table
    if not changed:
        return finish_rows(plan, empty_rows(table))
    written = TableReader(changed, table.ops, table.value_types).rows(drop_zero=False)
    found, old = TableReader(before, table.ops, table.value_types).get(written.keys)
    now, new = TableReader([*before, *changed], table.ops, table.value_types).get(written.keys)
    parts = []
    for rows, values, weight in ((np.flatnonzero(found), old, -1), (np.flatnonzero(now), new, 1)):
        taken = Rows(written.keys, (column(np.full(len(written), weight, np.int64)), *values[1:])).take(rows)
        delta = finish_rows(plan, taken)
        parts.append(Delta(delta.batch, delta.explicit_weights()))
    return concat(parts)
