"""History of a table: rows admitted before, read again for views that were created later."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from tidemill.errors import TidemillError
from tidemill.runtime.files.file_progress import FileProgress, ListedFile, keys_of, list_table, listed_files
from tidemill.runtime.files.progress import Limits, Progress
from tidemill.runtime.files.source_files import Reader
from tidemill.sources.split import Split

_BLOCK = 1024


class History(Progress):
    """Files that had been read to their end when some views were created, and what had been read of others.

    The former are taken from the list table of the source as they are needed, in the order of its keys: only the last
    key and the files being read are in memory and in manifests.

    Parameters
    ----------
    table, uid : str
        Of the table.
    created_at_epoch : int
        The epoch after which the views were created.
    files : iterable of FileProgress
        What had been read of files that were not at their end.
    after : bytes or None
        The last key of the list table that was taken, empty at first; None when there are no more.
    left : int
        Bytes that remain, as far as that is known.
    reader : callable
        Reads the state tables of the source.
    later : iterable of FileProgress
        Files to be read when another part of them has been.
    group : int, optional
        Of the views, where it is not the epoch (``runtime/catalog/catalog.py``).
    """

    def __init__(
        self,
        table: str,
        uid: str,
        created_at_epoch: int,
        files: Iterable[FileProgress],
        after: bytes | None,
        left: int,
        reader: Reader,
        later: Iterable[FileProgress] = (),
        group: int | None = None,
    ) -> None:
        self.group = created_at_epoch if group is None else group
        super().__init__(table, self.group, files)
        self.created_at_epoch = created_at_epoch
        self._list = list_table(uid)
        self._reader = reader
        self._after = after
        self._bytes_left = left
        self._later = {f.path: f for f in later}
        self._skip()

    @property
    def done(self) -> bool:
        """Whether all of it has been read again."""
        return not self.waiting and self._after is None  # files in _later have another part waiting

    @property
    def remaining(self) -> int:
        """Bytes that remain, at least 1 until it is done."""
        return 0 if self.done else max(1, self._bytes_left)

    def waits_until(self) -> int | None:
        """When a file that could not be read may be tried again, in milliseconds since 1970; None for none."""
        times = [f.retry_at for f in self.known.values() if f.attempts and f.retry_at is not None]
        return min(times, default=None)

    @property
    def paths(self) -> Collection[str]:
        """Files that wait in memory."""
        return self.known.keys()

    def admit(self, limits: Limits, *args: Any, **options: Any) -> list[Split]:
        """As :meth:`Progress.admit`; first takes as many files as that may need."""
        self._take(limits)
        return super().admit(limits, *args, **options)

    def _take(self, limits: Limits) -> None:
        waiting = sum(self.known[p].remaining for p in self.waiting)
        most = _BLOCK if limits.files is None else limits.files
        while self._after is not None and waiting < limits.bytes and len(self.waiting) < most:
            for file in self._next():
                self.add(file)
                waiting += file.size
        self._skip()

    def _skip(self) -> None:
        """Skip rows of files that are not to be read, so that ``done`` is right."""
        while self._after is not None:
            after = self._after
            if self._next():
                self._after = after
                return

    def _next(self) -> list[ListedFile]:
        """The files to be read among the next rows of the list table; moves on behind these rows."""
        assert self._after is not None
        low = self._after + b"\0" if self._after else b""
        rows = next(self._reader(self._list).iterate(low=low, block=_BLOCK), None)
        if rows is None:
            self._after = None
            return []
        self._after = rows.keys[len(rows) - 1]
        found = listed_files(self._list, rows.keys, rows.values)
        return [f for f in found if f.epoch <= self.created_at_epoch and f.size]

    def failed(self, path: str, error: TidemillError, attempts: int) -> bool:
        """Note that a file could not be read; tells whether it has been tried ``attempts`` times."""
        self.known[path] = self.known[path].tried(error, None)
        return self.known[path].attempts >= attempts

    def add(self, file: ListedFile) -> None:
        """Read a file of the list table again."""
        if file.path in self.known:
            self._later[file.path] = file.history()
        else:
            self.known[file.path] = file.history()
            self.waiting[file.path] = None

    def keep(self, file: ListedFile) -> None:
        """The row of a file is about to change: take it now if it would have been taken later."""
        if self._after is None or file.epoch > self.created_at_epoch or not file.size:
            return
        if keys_of(self._list, [file.path])[0] > self._after:
            self.add(file)

    def move(self, changed: Iterable[FileProgress]) -> None:
        """As :meth:`Progress.move`; files at their end are forgotten."""
        for file in changed:
            self._bytes_left -= file.position - self.known[file.path].position
            if file.waits:
                self.known[file.path] = file
            else:
                del self.known[file.path], self.waiting[file.path]
                if file.path in self._later:
                    self.known[file.path] = self._later.pop(file.path)
                    self.waiting[file.path] = None

    def to_json(self) -> dict[str, Any]:
        """As stored in a manifest."""
        files = [f.to_json() for f in self.known.values()]
        after = None if self._after is None else self._after.hex()
        later = [f.to_json() for f in self._later.values()]
        place = {"table": self.table, "born": self.created_at_epoch, "behind": after, "left": self._bytes_left}
        if self.group != self.created_at_epoch:
            place["group"] = self.group
        return {**place, "files": files, "later": later}

    @staticmethod
    def from_json(data: Mapping[str, Any], uid: str, reader: Reader) -> History:
        """What :meth:`to_json` gave."""
        files, later = ([FileProgress.from_json(f) for f in data[name]] for name in ("files", "later"))
        after = None if data["behind"] is None else bytes.fromhex(data["behind"])
        return History(data["table"], uid, data["born"], files, after, data["left"], reader, later, data.get("group"))
