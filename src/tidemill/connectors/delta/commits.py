"""The commits of a Delta table: files added and removed, and the change data where a commit has some.

Facts of the protocol are from Delta's own description of it (``PROTOCOL.md``): a commit is a file of actions, one a
line. Where it has ``cdc`` actions their files have every row that differs, with a column that says how; otherwise the
rows of added and removed files are what differs. Files without ``dataChange`` have rows that other files had before.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from tidemill.connectors.connector import FileInfo
from tidemill.connectors.versioned.data_file import Reading, pooled
from tidemill.connectors.versioned.versioned_table import Commit

_MOST = 1_000
"""So many commits are looked at; a table that is further behind is compared file by file."""


@dataclass(frozen=True)
class Commits:
    """The commits of a table.

    Parameters
    ----------
    read : callable
        The bytes of the log's file of a number; None where there is none.
    place : callable
        The path of a file, by its path as the log has it.
    rows : callable
        How many rows a file has, by its footer; None if that cannot be read.
    file : callable
        A file, by its path as the log has it, size in bytes, time in milliseconds since 1970, and partition.
    pool : str
        Where its rows are kept.
    """

    read: Callable[[int], bytes | None]
    place: Callable[[str], str]
    rows: Callable[[str], int | None]
    file: Callable[[str, int, int, Mapping[str, str | None]], FileInfo]
    pool: str

    def until(self, number: int) -> Iterator[Commit]:
        """Those that led to a version, the last one first, as far back as the log has them."""
        for earlier in range(number, max(number - _MOST, -1), -1):
            found = self.read(earlier)
            commit = None if found is None else self._parsed(found)
            if commit is None:
                return
            yield commit

    def _parsed(self, lines: bytes) -> Commit | None:
        """What a commit says; None where it is damaged, which a version that has a checkpoint does not mind."""
        try:
            return self._commit([json.loads(line) for line in lines.splitlines() if line.strip()])
        except (ValueError, LookupError, TypeError, AttributeError):
            return None

    def _commit(self, actions: list[dict[str, Any]]) -> Commit:
        added = [action["add"] for action in actions if action.get("add")]
        removed = [action["remove"] for action in actions if action.get("remove")]
        changes = [self._listed(action["cdc"]) for action in actions if action.get("cdc")]
        files = {info.path: info for info in map(self._listed, added)}
        gone = frozenset(self.place(action["path"]) for action in removed)
        if changes and not self._is_complete(actions, changes):
            return Commit(files, gone)
        if changes:
            return Commit(files, gone, [pooled(info, self.pool, Reading.CHANGES) for info in changes])
        moved = not any(action.get("dataChange", True) for action in (*added, *removed))
        return Commit(files, gone, () if moved else None)

    def _is_complete(self, actions: list[dict[str, Any]], changes: list[FileInfo]) -> bool:
        """Whether change data has all that differs.

        The UPDATE of delta-rs (1.6) leaves out rows that its files have both before and after it, however many of them
        come and go. Then there are fewer than two rows for each that it counts.
        """
        info: dict[str, Any] = next((action["commitInfo"] for action in actions if action.get("commitInfo")), {})
        if info.get("operation") != "UPDATE" or not str(info.get("engineInfo", "delta-rs")).startswith("delta-rs"):
            return True
        counts = [self.rows(change.path) for change in changes]
        updated = (info.get("operationMetrics") or {}).get("num_updated_rows")
        return updated is not None and None not in counts and sum(filter(None, counts)) == 2 * int(updated)

    def _listed(self, action: Mapping[str, Any]) -> FileInfo:
        partition = {name: value or None for name, value in (action.get("partitionValues") or {}).items()}
        return self.file(action["path"], action["size"], action.get("modificationTime", 0), partition)
