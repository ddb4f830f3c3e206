"""The files of a source: the interface of all kinds of tables to the intake."""

from __future__ import annotations

import copy
from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Self

from tidemill.errors import TidemillError
from tidemill.runtime.files.file_policy import FilePolicy
from tidemill.runtime.files.file_progress import FileProgress, ListedFile
from tidemill.runtime.files.progress import Progress
from tidemill.sources.file_info import FileInfo
from tidemill.state.lookup.reader import TableReader
from tidemill.state.runs.sst import Part
from tidemill.task.program import StateTable

Reader = Callable[[StateTable], TableReader]
"""Gives the newest sealed rows of a state table."""


@dataclass
class Sealing:
    """What an epoch changes in the state tables of a table's files.

    ``waiting`` and ``finished`` are files as they are from then on, ``before`` those of the finished ones that had been
    read to their end before, ``gone`` paths without a row in the fetch table from then on.
    """

    tables: list[Part]
    waiting: list[FileProgress]
    finished: list[ListedFile] = field(default_factory=list)
    before: list[ListedFile] = field(default_factory=list)
    gone: list[str] = field(default_factory=list)


class SourceFiles(Progress):
    """Files of a table that new rows are read from.

    Parameters
    ----------
    table, uid : str
        Of the table.
    policy : FilePolicy
    files : iterable of FileProgress
        Those that are held in memory.
    """

    def __init__(self, table: str, uid: str, policy: FilePolicy, files: Iterable[FileProgress] = ()) -> None:
        super().__init__(table, None, files)
        self.uid = uid
        self.policy = policy

    @property
    def ordered(self) -> bool:
        """Whether a file that cannot be read holds up those behind it."""
        return self.policy.ordered

    def with_policy(self, policy: FilePolicy) -> Self:
        """The same files under another policy."""
        changed = copy.copy(self)
        changed.policy = policy
        return changed

    @abstractmethod
    def parts(self) -> list[FileProgress]:
        """The parts that were read of the files in memory, to be read again."""

    @abstractmethod
    def sealing(self, admitted: Iterable[FileProgress], epoch: int) -> Sealing:
        """The changes of the state tables that an epoch seals; nothing is changed."""

    @abstractmethod
    def sealed(self, sealing: Sealing) -> None:
        """Take over what was sealed."""

    def as_listed(self, paths: Sequence[str]) -> Mapping[str, FileProgress | ListedFile]:
        """Files of which something was read, as they were last listed."""
        return {p: self.known[p] for p in paths}

    # -- files that are listed: none, if the names come otherwise ------------------------------------

    @property
    def looked_for(self) -> bool:
        """Whether the location of the table is listed again and again."""
        return False

    @property
    def must_note(self) -> bool:
        """Whether an epoch is due to seal what is known of files, even if it admits nothing."""
        return bool(self.appeared)

    def waits_until(self, warned: bool = True) -> int | None:
        """When the next file that could not be read may be tried again, in milliseconds since 1970; None for none.

        Without ``warned`` files do not count of which a warning has been given; they are tried all the same.
        """
        return None

    def failed(self, path: str, error: TidemillError) -> bool:
        """Note that a file could not be read: it waits for another attempt, or is set aside.

        Returns
        -------
        bool
            Whether it has been tried so often that a warning is due.
        """
        raise error

    # -- files that are listed once, for good: those of static tables -------------------------------

    @property
    def unpinned(self) -> bool:
        """Whether the files have not been listed for good yet."""
        return False

    @property
    def pinned(self) -> Mapping[str, FileProgress]:
        """The files as they were listed for good; empty for a table that is listed again."""
        return {}

    @property
    def appeared(self) -> Sequence[FileInfo]:
        """Files that appeared after the files were listed for good; not sealed yet."""
        return ()

    def with_pinned(self, infos: Iterable[FileInfo]) -> SourceFiles:
        """The same table with these files as its final list."""
        raise NotImplementedError(f"{self.table} is not static")
