"""The files of a static table."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from tidemill.runtime.files.file_policy import FilePolicy
from tidemill.runtime.files.file_progress import FileProgress
from tidemill.runtime.files.listed_files import ListedFiles, listed_now
from tidemill.runtime.files.source_files import Reader, Sealing
from tidemill.sources.file_info import FileInfo


class PinnedFiles(ListedFiles):
    """The files of a static table: those that were there when it was first used, and no others.

    Parameters
    ----------
    table, uid, policy, reader
        As of :class:`ListedFiles`.
    pinned : iterable of FileProgress
        As they were first listed; none when that has not been done.
    """

    def __init__(
        self, table: str, uid: str, policy: FilePolicy, reader: Reader, pinned: Iterable[FileProgress] = ()
    ) -> None:
        super().__init__(table, uid, policy, reader)
        self._pinned = {f.path: f for f in pinned}
        self._appeared: dict[str, FileInfo] = {}
        done = self.read_to_end(list(self._pinned)).keys() | self.set_aside(list(self._pinned)).keys()
        for path in self._pinned.keys() - self.known.keys() - done:
            self.put(self._pinned[path])
        self.known = dict(sorted(self.known.items()))
        self.waiting = dict(sorted(self.waiting.items()))

    @property
    def looked_for(self) -> bool:
        """Whether its files are known; then those that appear later are warned of."""
        return bool(self._pinned)

    @property
    def unpinned(self) -> bool:
        """Whether its files have not been listed for good yet."""
        return not self._pinned

    @property
    def pinned(self) -> Mapping[str, FileProgress]:
        """Its files as they were listed for good."""
        return self._pinned

    @property
    def appeared(self) -> Sequence[FileInfo]:
        """Files that appeared later; not sealed yet."""
        return list(self._appeared.values())

    def with_pinned(self, infos: Iterable[FileInfo]) -> PinnedFiles:
        """The same table with these files as its final list."""
        table = PinnedFiles(self.table, self.uid, self.policy, self.reader)
        table._pinned = {i.path: listed_now(i) for i in infos if i.size}
        for file in table._pinned.values():
            table.put(file)
        return table

    def discover(self, infos: Iterable[FileInfo]) -> int:
        """Note what appeared later; nothing is new."""
        late = {i.path: i for i in infos if i.size and i.path not in self._pinned and i.path not in self._appeared}
        noted = self.read_to_end(list(late))
        self._appeared |= {p: i for p, i in late.items() if p not in noted}
        return 0

    def end_listing(self) -> None:
        """Nothing: a file that is gone is an error when it is read."""

    def sealing(self, admitted: Iterable[FileProgress], epoch: int) -> Sealing:
        """As of all files; those that appeared later are sealed as known."""
        noted = [replace(listed_now(i), size=0) for i in self._appeared.values()]
        return super().sealing([*admitted, *noted], epoch)

    def sealed(self, sealing: Sealing) -> None:
        """Take over what was sealed."""
        super().sealed(sealing)
        self._appeared = {}
