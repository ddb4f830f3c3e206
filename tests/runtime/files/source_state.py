"""State tables of a source in memory, and splits that are sealed without being read."""

from __future__ import annotations

from collections.abc import Iterable

from tidemill.runtime.files.file_policy import FilePolicy
from tidemill.runtime.files.listed_files import ListedFiles
from tidemill.runtime.files.progress import Limits, Progress
from tidemill.runtime.files.source_files import Sealing
from tidemill.sources.split import Split, SplitResult
from tidemill.state.lookup.reader import TableReader
from tidemill.state.merge.merge import Rows
from tidemill.task.program import StateTable

USUAL = FilePolicy()


class SourceState:
    """What would be sealed of a source, by state table."""

    def __init__(self) -> None:
        self.epoch = 0
        self._runs: dict[str, list[Rows]] = {}

    def reader(self, table: StateTable) -> TableReader:
        return TableReader(self._runs.get(table.id, []), table.ops, table.value_types)

    def files(self, policy: FilePolicy = USUAL) -> ListedFiles:
        """As after a restart."""
        return ListedFiles("t", "t#1", policy, self.reader)

    def write(self, sealing: Sealing) -> None:
        self.epoch += 1
        for table, rows, *_ in sealing.tables:
            self._runs.setdefault(table, []).append(rows)

    def seal(self, files: ListedFiles, splits: Iterable[Split]) -> Sealing:
        """An epoch that read some splits."""
        sealing = files.sealing(files.after([result(s) for s in splits]), self.epoch + 1)
        self.write(sealing)
        files.sealed(sealing)
        return sealing


def result(split: Split, assumed: bool = False, parity: int = 0) -> SplitResult:
    """What a reader of the split says: a row each ten bytes."""
    size = split.end - split.start
    return SplitResult(split, assumed, parity, size // 10, size, 0, 0)


def admit(progress: Progress, most: int = 1 << 40, split_bytes: int = 1 << 40, files: int | None = None) -> list[Split]:
    return progress.admit(Limits(most, files, split_bytes))


def spans(splits: Iterable[Split]) -> list[tuple[str, int, int]]:
    return [(s.path, s.start, s.end) for s in splits]
