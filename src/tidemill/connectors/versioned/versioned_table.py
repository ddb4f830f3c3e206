"""What a table is that has versions, each of which is a list of files."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import Protocol

import pyarrow as pa

from tidemill.connectors.connector import FileInfo


@dataclass(frozen=True)
class Listed:
    """The files of a version.

    Attributes
    ----------
    version : Hashable
    files : sequence of FileInfo
        By path; their ETags are those of ``data_file``, without pools.
    pool : str
        Where the rows of new files are kept; empty for each file by itself.
    """

    version: Hashable
    files: Sequence[FileInfo]
    pool: str = ""


@dataclass(frozen=True)
class Commit:
    """How one version differs from the one before.

    Attributes
    ----------
    added : mapping
        Files that it has and the one before had not, by path.
    removed : set of str
    changes : sequence of FileInfo, optional
        Files that say which rows come and go, together just what the rows of ``added`` and ``removed`` differ by: none
        where these are the same rows. None where there are no such files.
    """

    added: Mapping[str, FileInfo] = field(default_factory=dict)
    removed: Set[str] = frozenset()
    changes: Sequence[FileInfo] | None = None


class VersionedTable(Protocol):
    """Where the files of a table are listed, version by version. Hashable; two that are equal have one listing.

    Methods raise a numbered error: TM5100 when there is no table, TM5101 for one whose rows are not just those of its
    files, TM5102 when its versions cannot be read, TM5103 without a library, TM5104 when a column is missing.
    """

    def is_newest(self, version: Hashable) -> bool:
        """Whether there is no other version by now, also none of another table that was made in its place."""
        ...

    def files(self) -> Listed:
        """The newest version and its files."""
        ...

    def commits(self, version: Hashable) -> Iterator[Commit]:
        """How a version came to be, the last commit first, as far back as that is known."""
        ...

    def schema(self) -> pa.Schema:
        """The columns of the newest version."""
        ...
