"""Commits positions in topics to consumer groups, once they cannot be lost, for tools that show lag."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping

from tidemill.connectors.kafka.options import GROUP
from tidemill.connectors.kafka.partitions import UNIT, Partition, begin_of, parse_path
from tidemill.connectors.kafka.topics import cluster_of
from tidemill.errors import TidemillError
from tidemill.runtime.tables.table import Table
from tidemill.sources.split import SplitResult


class OffsetCommits:
    """Offsets of tables with ``kafka.group.id``. Commits run in the background, one at a time; the newest counts."""

    def __init__(self) -> None:
        self._sealed: list[tuple[int, str, dict[Partition, int]]] = []
        self._warnings: list[str] = []
        self._thread: threading.Thread | None = None

    def note(self, epoch: int, tables: Mapping[str, Table], results: Iterable[SplitResult]) -> None:
        """Note how far an epoch that is sealed has read."""
        offsets: dict[str, dict[Partition, int]] = {}
        for result in results:
            split = result.split
            table = tables[split.table]
            if split.backfill_target is None and table.of_topics and GROUP.of(table.options):
                end = -(-(split.end + begin_of(split.etag)) // UNIT)
                of_table = offsets.setdefault(split.table, {})
                place = parse_path(split.path)
                of_table[place] = max(end, of_table.get(place, 0))
        self._sealed += [(epoch, table, found) for table, found in offsets.items()]

    def proceed(self, tables: Mapping[str, Table], durable: int) -> None:
        """Begin to commit what epochs up to ``durable`` have read, unless a commit is under way."""
        if not self._sealed or (self._thread is not None and self._thread.is_alive()):
            return
        due: dict[str, dict[Partition, int]] = {}
        for epoch, table, found in self._sealed:
            if epoch <= durable and table in tables:
                due.setdefault(table, {}).update(found)
        self._sealed = [entry for entry in self._sealed if entry[0] > durable]
        if due:
            given = [(dict(tables[table].options), found) for table, found in due.items()]
            self._thread = threading.Thread(target=self._commit, args=(given,), name="offset-commits", daemon=True)
            self._thread.start()

    def finish(self, tables: Mapping[str, Table], durable: int) -> None:
        """Commit what is left, and wait some seconds for it."""
        if self._thread is not None:
            self._thread.join(10.0)
        self.proceed(tables, durable)
        if self._thread is not None:
            self._thread.join(10.0)

    def warnings(self) -> list[str]:
        """New warnings since the last call: commits that failed. The next one stands for them, too."""
        warnings, self._warnings = self._warnings, []
        return warnings

    def _commit(self, given: Iterable[tuple[Mapping[str, str], Mapping[Partition, int]]]) -> None:
        for options, offsets in given:
            try:
                cluster_of(options).commit(str(GROUP.of(options)), offsets, options)
            except TidemillError as error:
                self._warnings.append(error.message())
