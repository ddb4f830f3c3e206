"""Spools of a mill: of sockets and of tables of databases. Epochs admit them, and segments go when they are read."""

from __future__ import annotations

import shutil
from collections.abc import Collection, Mapping, Sequence
from functools import partial
from pathlib import Path
from urllib.parse import quote, unquote

from tidemill.errors import TidemillError
from tidemill.runtime.catalog.catalog import Catalog
from tidemill.runtime.durability.uploads import Upload
from tidemill.runtime.intake.intake import Intake
from tidemill.runtime.tables.socket_tables import history_wanted
from tidemill.runtime.tables.table import Table
from tidemill.sources.file_info import FileInfo
from tidemill.sources.sockets.spool import HEAD, Segment, Spool
from tidemill.sources.split import GROWING
from tidemill.state.versions.version import Run, Swap, Version

SPOOLS = "spool"
"""The directory of a root with a directory for each table."""


def folder_of(table: Table) -> str:
    """The name of a table's folder below ``spool``."""
    return quote(table.uid, safe="")


def _number_of(folder: str) -> int:
    """The number at the end of the uid of a folder's table: later tables have greater ones."""
    number = unquote(folder).rpartition("#")[2]
    return int(number) if number.isdigit() else 0


class Spools:
    """The spools of the tables of one mill.

    A segment of a spool may go when every row of it is in a durable version, no view reads it as history, and newer
    segments that were read hold as much as ``retainBytes`` says.

    Parameters
    ----------
    root : path or None
        The directory of the root; None where that is no directory.
    """

    def __init__(self, root: Path | None) -> None:
        self._root = None if root is None else root / SPOOLS
        self._spools: dict[str, tuple[Table, Spool]] = {}
        self._read_at: dict[str, dict[str, int]] = {}

    def open(self, table: Table, created: bool) -> Spool:
        """The spool of a table.

        Parameters
        ----------
        created : bool
            The table has just been created: it begins empty.

        Raises
        ------
        TidemillError
            TM5025 when the root is no directory; TM5026 when the spool cannot be opened.
        """
        if self._root is None:
            raise TidemillError(
                "TM5025",
                "a spool needs a root in a directory",
                got=f"table {table.name}",
                hint="it is written byte by byte, which an object store cannot do; use a root on a disk, or "
                "on storage that all hosts have mounted",
            )
        try:
            if created and (self._root / folder_of(table)).exists():  # of a table that was never made durable
                shutil.rmtree(self._root / folder_of(table))
            spool = Spool(self._root / folder_of(table))
        except OSError as error:
            raise TidemillError(
                "TM5026",
                "the spool of a table cannot be opened",
                got=f"{error.filename}: {error.strerror}",
                hint="check permissions and space below spool/ in the root",
            ) from error
        self._spools[table.name] = table, spool
        self._read_at[table.name] = {}
        return spool

    def keep(self, table: Table) -> None:
        """Note a table whose spool is open, as it is now."""
        self._spools[table.name] = table, self._spools[table.name][1]

    def forget(self, name: str) -> None:
        """Forget the spool of a table; it stays where it is until :meth:`tidy`."""
        del self._spools[name], self._read_at[name]

    def discard(self, name: str) -> None:
        """Delete the spool of a table that was not created after all: a directory without a manifest is no root."""
        folder = self._spools[name][1].directory
        self.forget(name)
        shutil.rmtree(folder, ignore_errors=True)  # tried again when the root is opened next
        if not any(folder.parent.iterdir()):
            folder.parent.rmdir()

    def tidy(self, catalog: Catalog) -> None:
        """Delete spools of dropped tables.

        Those of tables of a later catalog stay, in case newer manifests were only moved away.
        """
        if self._root is None or not self._root.is_dir():
            return
        kept = {folder_of(t) for t in catalog.tables.values() if t.spooled}
        for found in [p for p in self._root.iterdir() if p.name not in kept]:
            if _number_of(found.name) < catalog.next_uid:
                shutil.rmtree(found, ignore_errors=True)  # tried again when the root is opened next

    def follow(self, intake: Intake) -> None:
        """Tell an intake how far spools have grown. Errors as :meth:`Intake.follow`."""
        for name, (_, spool) in self._spools.items():
            intake.follow(name, [FileInfo(str(s.path), s.size, GROWING) for s in spool.segments()])

    def synced(self, upload: Upload) -> Upload:
        """The upload of a checkpoint, after a sync of the spools: positions must not be durable before bytes.

        Raises
        ------
        TidemillError
            From the upload: TM1014 when that cannot be done.
        """

        return partial(self._upload_synced, upload)

    def _upload_synced(self, upload: Upload, version: Version, number: int, moved: Sequence[Run]) -> list[Swap]:
        for name, (_, spool) in list(self._spools.items()):
            try:
                spool.sync()
            except OSError as error:
                raise TidemillError(
                    "TM1014",
                    "a checkpoint could not be written",
                    got=f"the spool of table {name}: {error.strerror}",
                    hint="make space, or repair the disk of the root",
                ) from error
        return upload(version, number, moved)

    def consumed(self, intake: Intake) -> Mapping[str, int]:
        """By table, how many of the bytes of its spool have been read; none where that is not known."""
        found: dict[str, int] = {}
        for name, (_, spool) in self._spools.items():
            known = intake.known_files(name)
            read = [(s.base, known[str(s.path)].position) for s in spool.segments() if str(s.path) in known]
            if read:
                found[name] = max(base + position - len(HEAD) for base, position in read)
        return found

    def sealed(self, intake: Intake, epoch: int, durable: int) -> None:
        """After an epoch was sealed, delete segments that the ``durable`` epoch has read and that are not retained."""
        for name, (table, spool) in self._spools.items():
            segments, known = spool.segments(), intake.known_files(name)
            positions = {p: f.position for p, f in known.items()}
            again = intake.history_paths(name)
            before = self._read_at[name]
            read = [s for s in segments[:-1] if positions.get(str(s.path)) == s.size and str(s.path) not in again]
            self._read_at[name] = {str(s.path): before.get(str(s.path), epoch) for s in read}
            gone = [str(s.path) for s in _not_retained(table, read) if self._read_at[name][str(s.path)] <= durable]
            if gone:
                spool.delete(gone)

    def history_wanted(self, intake: Intake, tables: Collection[str]) -> list[str]:
        """As :func:`~tidemill.runtime.tables.socket_tables.history_wanted`; an intake knows the segments."""
        return history_wanted({name: partial(self._reopen_history, name) for name in self._spools}, tables, "bytes")

    def _reopen_history(self, name: str) -> int:
        """Make the whole spool readable again, as history; gives how many bytes have been deleted."""
        self._read_at[name] = {}
        return self._spools[name][1].begin


def _not_retained(table: Table, read: Collection[Segment]) -> list[Segment]:
    most = table.retained_bytes
    if most is None:
        return []
    found, kept = [], 0
    for segment in reversed(list(read)):
        if kept >= most:
            found.append(segment)
        kept += segment.size
    return found
