"""The files of a socket: segments of its spool."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from tidemill.runtime.files.file_policy import FilePolicy
from tidemill.runtime.files.file_progress import FileProgress, fetch_table, fetched_rows, read_part
from tidemill.runtime.files.source_files import Sealing, SourceFiles
from tidemill.sources.file_info import FileInfo
from tidemill.sources.sockets.spool import HEAD, base_of
from tidemill.sources.split import GROWING
from tidemill.state.runs.sst import Part


class SpoolFiles(SourceFiles):
    """The segments of a spool: they grow, and stay known until they are deleted.

    Parameters
    ----------
    table, uid : str
        Of the table.
    policy : FilePolicy
    files : iterable of FileProgress
        As the fetch table has them.
    """

    def __init__(self, table: str, uid: str, policy: FilePolicy, files: Iterable[FileProgress] = ()) -> None:
        super().__init__(table, uid, policy, files)
        self._fetch = fetch_table(uid)
        self._stored = set(self.known)

    def parts(self) -> list[FileProgress]:
        """The parts that were read of the segments, to be read again."""
        return [read_part(f, len(HEAD)) for f in self.known.values() if f.position > len(HEAD)]

    def sealing(self, admitted: Iterable[FileProgress], epoch: int) -> Sealing:
        """The changes of the fetch table that an epoch seals; nothing is changed."""
        moved = list(admitted)
        gone = sorted(self._stored - self.known.keys())
        fetched = [(f, 0 if f.path in self._stored else 1) for f in moved]
        fetched += [(FileProgress(path, 0, GROWING), -1) for path in gone]
        rows = [Part(self._fetch.id, fetched_rows(self._fetch, fetched), self._fetch.ops)] if fetched else []
        return Sealing(rows, moved, gone=gone)

    def sealed(self, sealing: Sealing) -> None:
        """Take over what was sealed."""
        self.move(sealing.waiting)
        self._stored.update(f.path for f in sealing.waiting)
        self._stored.difference_update(sealing.gone)

    def follow(self, segments: Iterable[FileInfo]) -> set[str]:
        """Take over how far the files of a spool have grown; those that are not listed are forgotten.

        Returns
        -------
        set of str
            Segments that are missing and were not read to their end; if their names are unknown, the next segment.
        """
        segments = list(segments)
        listed: dict[str, None] = {}
        newest = max(self.known, default=None)
        if segments and newest not in {s.path for s in segments}:
            read_to = 0 if newest is None else base_of(newest) + self.known[newest].size - len(HEAD)
            if base_of(segments[0].path) != read_to:
                return {segments[0].path}
        for info in segments:
            listed[info.path] = None
            known = self.known.get(info.path)
            if known is None and info.size > len(HEAD):
                self.known[info.path] = FileProgress(info.path, info.size, GROWING, len(HEAD))
            elif known is not None and info.size > known.size:
                self.known[info.path] = replace(known, size=info.size)
            else:
                continue
            self.waiting[info.path] = None
        self.known = {p: f for p, f in self.known.items() if p in listed or p in self.waiting}
        return self.waiting.keys() - listed.keys()
