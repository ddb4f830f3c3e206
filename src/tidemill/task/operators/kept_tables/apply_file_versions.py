"""A table whose files may be overwritten: the rows of a new version take the place of those of the one before."""

from __future__ import annotations

from collections.abc import Iterator

from tidemill.kernels.columns import numbers
from tidemill.state.keys.keys import Keys, decode, in_vnodes
from tidemill.state.merge.merge import Rows, merge, negated
from tidemill.state.store.store import partition_vnodes
from tidemill.task.dataflow.deltas import Delta, Item, Keyed, batch_of
from tidemill.task.dataflow.matching import matches
from tidemill.task.dataflow.operator import Operator, Output, carries_out
from tidemill.task.program import ApplyFileVersions

_ROWS_AT_ONCE = 65_536


@carries_out(ApplyFileVersions)
class ApplyFileVersionsOperator(Operator):
    """Adds the epoch's rows to those that are kept, takes out those of replaced versions, and emits the difference.

    All of it is sums of weights, so a row that two versions of a file have in common is no change, wherever in the
    file it stands, and what is kept is never looked up but for files that are replaced.
    """

    def __init__(self, step: int, operation: ApplyFileVersions) -> None:
        super().__init__(step)
        self.operation = operation
        self._added = False
        self._withdrawn: list[Rows] = []
        self._changes: Iterator[Output] = iter(())

    def add_input(self, item: Item, port: int) -> None:
        """Take new rows, or the names of files whose earlier rows go."""
        assert isinstance(item, Keyed)
        if port == 1:
            self._withdrawn.append(item.rows)
            return
        self._added = True
        self.context.state(self.operation.rows.table).write(item.rows)

    def start_drain(self) -> bool:
        """Take out what is withdrawn."""
        withdrawn, self._withdrawn = self._withdrawn, []
        if withdrawn:
            self._take_out(merge(withdrawn, self.operation.withdrawn.table.ops, drop_zero=False).keys)
        elif not self._added:
            return False
        self._added = False
        self._changes = self._net()
        return True

    def get_output(self) -> Output | None:
        """The next changes."""
        return next(self._changes, None)

    def _take_out(self, files: Keys) -> None:
        """Of this partition's vnodes: the rows of a file are spread over all of them."""
        state = self.context.state(self.operation.rows.table)
        low, high = partition_vnodes(self.context.partition, self.context.partitions)
        for match in matches(state.before, in_vnodes(files, low, high)):
            state.write(negated(match.rows))

    def _net(self) -> Iterator[Output]:
        """What the epoch wrote, without what cancelled out, as rows of the table."""
        table = self.operation.rows.table
        for block in self.context.state(table).blocks():
            for start in range(0, len(block), _ROWS_AT_ONCE):
                rows = block.slice(start, min(start + _ROWS_AT_ONCE, len(block)))
                columns = decode(rows.keys, table.key)[1:]
                yield Output(Delta(batch_of(columns, len(rows)), numbers(rows.values[0])))
