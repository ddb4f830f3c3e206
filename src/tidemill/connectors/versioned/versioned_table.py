"""What a table is that has versions, each of which is a list of files."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Protocol

import pyarrow as pa

from tidemill.connectors.connector import FileInfo


class VersionedTable(Protocol):
    """Where the files of a table are listed, version by version. Hashable; two that are equal have one listing.

    Methods raise a numbered error: TM5100 when there is no table, TM5101 for one whose rows are not just those of its
    files, TM5102 when its versions cannot be read, TM5103 without a library, TM5104 when a column is missing.
    """

    def is_newest(self, version: Hashable) -> bool:
        """Whether there is no other version by now, also none of another table that was made in its place."""
        ...

    def files(self) -> tuple[Hashable, list[FileInfo]]:
        """The newest version and its files, by path; their ETags are those of ``data_file``."""
        ...

    def schema(self) -> pa.Schema:
        """The columns of the newest version."""
        ...
