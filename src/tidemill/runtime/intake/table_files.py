"""The files of a table, by how its rows arrive."""

from __future__ import annotations

from collections.abc import Iterable

from tidemill.runtime.files.file_progress import FileProgress, fetch_table, fetched_files
from tidemill.runtime.files.ingested_files import IngestedFiles
from tidemill.runtime.files.listed_files import ListedFiles
from tidemill.runtime.files.pinned_files import PinnedFiles
from tidemill.runtime.files.source_files import Reader, SourceFiles
from tidemill.runtime.files.spool_files import SpoolFiles
from tidemill.runtime.tables.table import Table


def files_of(table: Table, reader: Reader, pinned: Iterable[FileProgress]) -> SourceFiles:
    """The files of a table; ``pinned`` are those of a static one, if it has been used."""
    given = table.name, table.uid, table.file_policy
    if table.listed:
        return PinnedFiles(*given, reader, pinned) if table.static else ListedFiles(*given, reader)
    state = fetch_table(table.uid)
    files = fetched_files(state, reader(state).rows(drop_zero=True))
    return SpoolFiles(*given, files) if table.spooled else IngestedFiles(*given, files)
