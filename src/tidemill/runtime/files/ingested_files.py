"""Progress of the files that Spark streams wrote into a table."""

from __future__ import annotations

from collections.abc import Iterable

from tidemill.runtime.files.file_policy import FilePolicy
from tidemill.runtime.files.file_progress import FileProgress, read_part
from tidemill.runtime.files.source_files import Sealing
from tidemill.runtime.files.spool_files import SpoolFiles


class IngestedFiles(SpoolFiles):
    """Files of committed batches, in the order in which they are read. They stay known until they are deleted."""

    def __init__(self, table: str, uid: str, policy: FilePolicy, files: Iterable[FileProgress] = ()) -> None:
        super().__init__(table, uid, policy, files)
        self._moved: dict[str, FileProgress] = {}

    def put(self, files: Iterable[FileProgress]) -> None:
        """Take over files, read so far, behind those that wait."""
        for file in files:
            self.known[file.path] = file
            self.waiting.pop(file.path, None)
            if file.waits:
                self.waiting[file.path] = None
            if file.position and file.path not in self._stored:  # it lay elsewhere before
                self._moved[file.path] = file

    def forget(self, paths: Iterable[str]) -> None:
        """Forget files that were deleted."""
        for path in paths:
            for files in (self.known, self.waiting, self._moved):
                files.pop(path, None)

    def parts(self) -> list[FileProgress]:
        """The parts that were read of them, to be read again."""
        return [read_part(f, 0) for f in self.known.values() if f.position]

    def sealing(self, admitted: Iterable[FileProgress], epoch: int) -> Sealing:
        """The changes of the fetch table that an epoch seals; nothing is changed."""
        return super().sealing({**self._moved, **{f.path: f for f in admitted}}.values(), epoch)

    def sealed(self, sealing: Sealing) -> None:
        """Take over what was sealed."""
        super().sealed(sealing)
        self._moved = {}
