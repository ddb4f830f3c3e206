"""Lines with the positions up to which they go, in a spool: both are there, or neither.

After the lines of some transactions stands a line such as ``#slot 12345``, with the name of the slot and the position
behind them. They are appended as one batch, so whatever breaks off, the last line of the spool says where to go on.
"""

from __future__ import annotations

import json
import mmap
import tempfile
import time
from pathlib import Path
from typing import IO, Any, cast

from tidemill.connectors.postgres.server import Shape
from tidemill.runtime.capture.capture import unwritable
from tidemill.sources.sockets.spool import Spool

_CLAIM = "slot.json"
_IN_MEMORY = 64 << 20
_SYNC_SECONDS = 1.0


class PositionedSpool:
    """Collects lines, of which many are kept in a file until they are appended. Used by one thread.

    Attributes
    ----------
    bytes : int
        Size of the lines collected so far.
    since : float
        When the first of these came, by the monotonic clock; 0 for none.
    """

    def __init__(self, spool: Spool) -> None:
        self._spool = spool
        self._file: IO[bytes] | None = None
        self._synced_at = time.monotonic()
        self._clear()

    def _clear(self) -> None:
        self._parts: list[bytes] = []
        self._in_memory = self.bytes = 0
        self.since = 0.0

    @property
    def reached(self) -> tuple[str, int] | None:
        """The slot, and the position up to which its changes are in the spool; None for an empty one."""
        slot, _, position = self._spool.last_line().decode().removeprefix("#").partition(" ")
        return (slot, int(position)) if position else None

    def claim(self, slot: str, shape: Shape) -> None:
        """Note which slot is that of this spool, before it is created, and what the table is like. TM5116."""
        columns = [[c.name, c.number, c.type_id] for c in shape.columns]
        text = json.dumps({"slot": slot, "oid": shape.oid, "columns": columns})
        staged = self._spool.directory / f".{_CLAIM}"
        try:
            staged.write_text(text)
            staged.replace(self._spool.directory / _CLAIM)
        except OSError as error:
            raise unwritable(self._spool, error) from error

    @property
    def claimed(self) -> dict[str, Any] | None:
        """What :meth:`claim` noted: ``slot``, ``oid``, and ``columns`` with name, number and type; None for nothing."""
        try:
            found: dict[str, Any] = json.loads((self._spool.directory / _CLAIM).read_text())
        except FileNotFoundError:
            return None
        return found

    def add(self, lines: bytes) -> None:
        """Add whole lines. TM5116 when they cannot be kept."""
        if not lines:
            return
        self.since = self.since or time.monotonic()
        self._parts.append(lines)
        self._in_memory += len(lines)
        self.bytes += len(lines)
        if self._in_memory >= _IN_MEMORY:
            self._spill()

    def _spill(self) -> None:
        try:
            if self._file is None:
                self._file = _made(self._spool.directory)
            self._file.writelines(self._parts)
            self._file.flush()
        except OSError as error:
            raise unwritable(self._spool, error) from error
        self._parts, self._in_memory = [], 0

    def commit(self, slot: str, position: int) -> None:
        """Append all lines, and the position behind them. TM5116 when that is not possible; then nothing is."""
        self._parts.append(f"#{slot} {position}\n".encode())
        try:
            if self._file is None:
                self._spool.append(b"".join(self._parts))
            else:
                self._spill()
                with mmap.mmap(self._file.fileno(), 0, access=mmap.ACCESS_READ) as lines:
                    view = memoryview(lines)
                    try:
                        self._spool.append(view)
                    finally:
                        view.release()
        except OSError as error:
            raise unwritable(self._spool, error) from error
        finally:
            self.abandon()

    def abandon(self) -> None:
        """Forget what is collected."""
        if self._file is not None:
            self._file.close()
            self._file = None
        self._clear()

    def sync(self, at_once: bool = False) -> bool:
        """Sync what has been appended to the disk, about once a second; tells whether that was done now. TM5116."""
        if not at_once and time.monotonic() - self._synced_at < _SYNC_SECONDS:
            return False
        try:
            self._spool.sync()
        except OSError as error:
            raise unwritable(self._spool, error) from error
        self._synced_at = time.monotonic()
        return True


def _made(directory: Path) -> IO[bytes]:
    return cast("IO[bytes]", tempfile.TemporaryFile(dir=directory))
