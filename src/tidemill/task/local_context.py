"""What a task gives to its operators: state tables in this process, forgotten or kept at a barrier."""

from __future__ import annotations

import shutil
import tempfile
import threading
from collections.abc import Callable
from functools import partial
from itertools import count
from pathlib import Path

from tidemill.errors import EvaluationError
from tidemill.sources.split import SplitResult
from tidemill.state.lookup.memtable import Memtable
from tidemill.state.lookup.reader import TableState
from tidemill.state.memory import MemoryBudget
from tidemill.state.merge.merge import Rows, merge
from tidemill.state.runs import sst
from tidemill.task.program import StateTable

RUNS = 8
"""Runs of a table that are kept beside each other before they are merged."""


class LocalContext:
    """One partition, in this process.

    Parameters
    ----------
    keeps_state : bool
        Whether what is written to state tables is there after the barrier.
    memory_bytes : int
        Of what operators hold; what is more goes to temporary files. 0 for no limit.
    """

    epoch = 1
    partition = 0
    partitions = 1

    def __init__(self, keeps_state: bool, memory_bytes: int = 0) -> None:
        self.keeps_state = keeps_state
        self.budget = MemoryBudget(memory_bytes)
        self._runs: dict[str, list[Rows]] = {}
        self._states: dict[str, tuple[StateTable, TableState]] = {}
        self._lock = threading.RLock()
        self._directory: Path | None = None
        self._numbers = count()

    def state(self, table: StateTable, everywhere: bool = False) -> TableState:
        """See :class:`~tidemill.task.dataflow.operator.Context`."""
        with self._lock:
            if table.id not in self._states:
                self._states[table.id] = table, self._made(table, table.drops_zero)
            return self._states[table.id][1]

    def hold(self, table: StateTable, everywhere: bool = False) -> TableState:
        """See :class:`~tidemill.task.dataflow.operator.Context`."""
        return self._made(table, table.is_multiset)

    def finished(self, result: SplitResult) -> None:
        """Nothing is noted of splits."""

    def failed(self, step: int, error: EvaluationError) -> None:
        """The task fails."""
        raise error

    def failing(self, step: int, weight: int, error: EvaluationError | None) -> None:
        """The task fails with the first row that makes a step fail."""
        if error is not None:
            raise error

    def pass_barrier(self) -> None:
        """Forget state tables, or make what was written part of them."""
        for table, state in self._states.values():
            if self.keeps_state:
                self._keep(table, state.changes())
            state.close()
        self._states = {}
        self.budget = MemoryBudget(self.budget.limit)

    def _keep(self, table: StateTable, rows: Rows) -> None:
        if len(rows):
            runs = self._runs.setdefault(table.id, [])
            runs.append(rows)
            if len(runs) > RUNS:
                runs[:] = [merge(runs, table.ops, table.drops_zero)]

    def close(self) -> None:
        """Free memory and files."""
        self._states, self._runs = {}, {}
        if self._directory is not None:
            shutil.rmtree(self._directory, ignore_errors=True)
            self._directory = None

    def _made(self, table: StateTable, drop_zero: bool) -> TableState:
        runs: Callable[[], list[Rows]] = lambda: list(self._runs.get(table.id, ()))  # noqa: E731
        memtable = Memtable(table.ops, table.value_types, drop_zero, self.budget, partial(self._spill, table))
        return TableState(runs, table.ops, table.value_types, memtable)

    def _spill(self, table: StateTable, rows: Rows) -> tuple[Rows, int]:
        with self._lock:
            if self._directory is None:
                self._directory = Path(tempfile.mkdtemp(prefix="tidemill-task-"))
            path = self._directory / f"{next(self._numbers)}.run"
        sst.write(path, [sst.Part(table.id, rows, table.ops)])
        size = path.stat().st_size
        rows = sst.RunFile(path).rows(0)
        path.unlink()  # it is mapped: its space is free once nobody has the rows
        return rows, size
