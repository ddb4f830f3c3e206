"""Sockets of a mill: their connections, their spools, and when segments of spools are deleted."""

from __future__ import annotations

import contextlib
import shutil
import time
from collections.abc import Callable, Collection
from functools import partial
from pathlib import Path

import pyarrow as pa

from tidemill.errors import TidemillError
from tidemill.options.tables import RETAIN_BYTES
from tidemill.runtime.catalog.catalog import Catalog
from tidemill.runtime.intake.intake import Intake
from tidemill.runtime.sockets.socket_status import SPOOLS, folder_of, number_of, status_table, write_status
from tidemill.runtime.tables.socket_tables import history_wanted, parse_inlet
from tidemill.runtime.tables.table import Table
from tidemill.sources.file_info import FileInfo
from tidemill.sources.sockets.endpoints import parse_endpoints
from tidemill.sources.sockets.inlet import Inlet
from tidemill.sources.sockets.reader import SocketReader
from tidemill.sources.sockets.spool import HEAD, Segment, Spool
from tidemill.sources.split import GROWING
from tidemill.state.versions.version import Swap, Version

_STATUS_SECONDS = 1.0
_STATUS_SHARE = 50
"""Writing the status takes at most this fraction (one in ...) of the time."""


class Sockets:
    """The sockets of the tables of one mill. One thread reads them all; it starts with the first table.

    A segment of a spool may go when every row of it is in a durable version, no view reads it as history, and newer
    segments that were read hold as much as ``retainBytes`` says.

    Parameters
    ----------
    root : path or None
        The directory of the root; None where that is no directory.
    """

    def __init__(self, root: Path | None) -> None:
        self._root = None if root is None else root / SPOOLS
        self._reader: SocketReader | None = None
        self._inlets: dict[str, Inlet] = {}
        self._tables: dict[str, Table] = {}
        self._read_at: dict[str, dict[str, int]] = {}
        self._status_at = 0.0

    def use(self, catalog: Catalog, created: str = "") -> None:
        """Read the sockets of the tables of a catalog and of no others; spools of dropped tables are deleted.

        Spools of tables of a later catalog stay, in case newer manifests were only moved away.

        Parameters
        ----------
        created : str
            The table that has just been created: it begins empty, and its addresses must open.

        Raises
        ------
        TidemillError
            TM5021 when they cannot; TM5025 when the root is no directory; TM5026 when a spool cannot be opened.
        """
        pushed = {t.name: t for t in catalog.tables.values() if t.pushed}
        for name in [n for n, t in self._tables.items() if n not in pushed or pushed[n].uid != t.uid]:
            self._forget(name)
        for name, table in pushed.items():
            if name not in self._tables:
                self._begin(table, name == created)
            self._tables[name] = table
        if self._root is not None and self._root.is_dir():
            kept = {folder_of(t) for t in pushed.values()}
            for found in [p for p in self._root.iterdir() if p.name not in kept]:
                if number_of(found.name) < catalog.next_uid:
                    shutil.rmtree(found, ignore_errors=True)  # tried again when the root is opened next

    def _begin(self, table: Table, must_open: bool) -> None:
        if self._root is None:
            raise TidemillError(
                "TM5025",
                "sockets need a root in a directory",
                got=f"table {table.name}",
                hint="their spool is written byte by byte, which an object store cannot do; use a root on a disk, or "
                "on storage that all hosts have mounted",
            )
        try:
            if must_open and (self._root / folder_of(table)).exists():  # of a table that was never made durable
                shutil.rmtree(self._root / folder_of(table))
            spool = Spool(self._root / folder_of(table))
        except OSError as error:
            raise TidemillError(
                "TM5026",
                "the spool of a socket cannot be opened",
                got=f"{error.filename}: {error.strerror}",
                hint="check permissions and space below spool/ in the root",
            ) from error
        inlet = Inlet(table.name, spool, parse_inlet(table.format, table.source().file_schema, table.options))
        if self._reader is None:
            self._reader = SocketReader()
        self._reader.add(inlet, parse_endpoints(table.path), must_open)
        self._inlets[table.name] = inlet
        self._read_at[table.name] = {}

    def _forget(self, name: str) -> None:
        assert self._reader is not None
        self._reader.remove(name)
        del self._inlets[name], self._tables[name], self._read_at[name]

    def follow(self, intake: Intake, flush: bool = False) -> None:
        """Pass new bytes of spools to an intake. TM5022 and as :meth:`Intake.follow`.

        With ``flush`` bytes that were received and not written yet are written first.
        """
        if self._reader is None:
            return
        self._reader.check()
        if flush:
            self._reader.flush()
        for name, inlet in self._inlets.items():
            intake.follow(name, [FileInfo(str(s.path), s.size, GROWING) for s in inlet.spool.segments()])
        self._note_status()

    def synced(self, upload: Callable[[Version, int], list[Swap]]) -> Callable[[Version, int], list[Swap]]:
        """The upload of a checkpoint, after a sync of the spools: positions must not be durable before bytes.

        Raises
        ------
        TidemillError
            From the upload: TM1014 when that cannot be done.
        """

        return partial(self._upload_synced, upload)

    def _upload_synced(self, upload: Callable[[Version, int], list[Swap]], version: Version, number: int) -> list[Swap]:
        for name, inlet in list(self._inlets.items()):
            try:
                inlet.spool.sync()
            except OSError as error:
                raise TidemillError(
                    "TM1014",
                    "a checkpoint could not be written",
                    got=f"the spool of table {name}: {error.strerror}",
                    hint="make space, or repair the disk of the root",
                ) from error
        return upload(version, number)

    def sealed(self, intake: Intake, epoch: int, durable: int) -> None:
        """After an epoch was sealed, delete segments that the ``durable`` epoch has read and that are not retained."""
        for name, inlet in self._inlets.items():
            segments, known = inlet.spool.segments(), intake.known_files(name)
            positions = {p: f.position for p, f in known.items()}
            inlet.consumed = max(
                (s.base + positions[str(s.path)] - len(HEAD) for s in segments if str(s.path) in positions),
                default=inlet.consumed,
            )
            again = intake.history_paths(name)
            before = self._read_at[name]
            read = [s for s in segments[:-1] if positions.get(str(s.path)) == s.size and str(s.path) not in again]
            self._read_at[name] = {str(s.path): before.get(str(s.path), epoch) for s in read}
            gone = [str(s.path) for s in self._not_retained(name, read) if self._read_at[name][str(s.path)] <= durable]
            if gone:
                inlet.spool.delete(gone)

    def _not_retained(self, name: str, read: Collection[Segment]) -> list[Segment]:
        most = RETAIN_BYTES.of(self._tables[name].options)
        if most is None:
            return []
        found, kept = [], 0
        for segment in reversed(list(read)):
            if kept >= most:
                found.append(segment)
            kept += segment.size
        return found

    def history_wanted(self, intake: Intake, tables: Collection[str]) -> list[str]:
        """As :func:`~tidemill.runtime.tables.socket_tables.history_wanted`; an intake knows the segments."""
        return history_wanted({name: partial(self._reopen_history, name) for name in self._inlets}, tables, "bytes")

    def _reopen_history(self, name: str) -> int:
        """Make the whole spool readable again, as history; gives how many bytes have been deleted."""
        self._read_at[name] = {}
        return self._inlets[name].spool.begin

    def awaits_end(self, name: str) -> bool:
        """Whether a table reads standard input that has not come to its end."""
        return (
            self._reader is not None
            and name in self._inlets
            and any(e.is_stdin for e in parse_endpoints(self._tables[name].path))
            and any(row.endpoint.startswith("stdin:") and row.state != "ended" for row in self._reader.status(name))
        )

    def status(self, name: str) -> pa.Table:
        """The connections of a table, as
        :data:`~tidemill.runtime.sockets.socket_status.STATUS_SCHEMA`."""
        return status_table([] if self._reader is None else self._reader.status(name))

    def _note_status(self) -> None:
        """Write the status for other processes, about once a second."""
        began = time.monotonic()
        if began < self._status_at:
            return
        for name, inlet in self._inlets.items():
            with contextlib.suppress(OSError):  # a full disk: it is tried again
                write_status(inlet.spool.directory, self.status(name))
        now = time.monotonic()
        self._status_at = now + max(_STATUS_SECONDS, _STATUS_SHARE * (now - began))

    def close(self) -> None:
        """Close all connections; what has been read is in the spools. May be called twice."""
        if self._reader is not None and not self._reader.closed:
            self._status_at = 0.0
            self._note_status()
            self._reader.close()
