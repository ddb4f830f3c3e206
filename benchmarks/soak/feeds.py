"""Senders of a table's lines: files that appear, connections to a table that listens, and one that a table opens.

``sent`` are the lines in the order in which the table has them. Files count once they have their name. Of a connection
counts what reached the spool: after it was lost, :meth:`Feed.resume` is told how many lines did, and the others are
sent again.
"""

from __future__ import annotations

import random
import socket
import struct
import time
from pathlib import Path
from typing import Protocol

from benchmarks.server_process import free_port
from benchmarks.soak.error import SoakError
from benchmarks.soak.lines import Lines

MARK = -1
"""The writer of lines behind which everything is known to have arrived."""

_WAIT_SECONDS = 60.0
RESET = struct.pack("ii", 1, 0)
"""SO_LINGER: closing sends RST, as when a host dies."""


class Feed(Protocol):
    """What sends the lines of one table."""

    kind: str
    is_socket: bool

    def options(self) -> dict[str, str]:
        """The options of the reader."""

    def push(self, count: int) -> list[str]:
        """Send so many lines more; those that count now."""

    def close(self) -> None:
        """End."""


class FileFeed:
    """Files in a directory; each appears whole, under a name that grows."""

    is_socket = False

    def __init__(self, chance: random.Random, kind: str, writer: int, directory: Path) -> None:
        self.kind, self._chance, self._directory = kind, chance, directory
        self._lines = Lines(chance, kind, writer)
        self._files = 0
        directory.mkdir(parents=True)

    def options(self) -> dict[str, str]:
        """A directory."""
        return {"path": f"{self._directory}/*.{self.kind}"}

    def push(self, count: int) -> list[str]:
        """One file, or several."""
        lines = self._lines.take(count)
        parts = self._chance.randrange(1, 4)
        for part in range(parts):
            self._write(lines[part * count // parts : (part + 1) * count // parts])
        return lines

    def _write(self, lines: list[str]) -> None:
        path = self._directory / f"{self._files:06}.{self.kind}"
        self._files += 1
        hidden = path.with_name(f".{path.name}")
        hidden.write_text("".join(f"{line}\n" for line in lines))
        hidden.rename(path)

    def close(self) -> None:
        """Nothing to do."""


class SocketFeed:
    """A connection, whichever side opens it.

    Parameters
    ----------
    listens : bool
        Whether Tidemill connects to this side; otherwise it is the table that listens.
    """

    is_socket = True

    def __init__(self, chance: random.Random, kind: str, writer: int, listens: bool) -> None:
        self.kind, self._chance = kind, chance
        self._lines = Lines(chance, kind, writer)
        self._waiting: list[str] = []
        self._listener = socket.create_server(("127.0.0.1", 0)) if listens else None
        self._port = self._listener.getsockname()[1] if self._listener is not None else free_port()
        self._connection: socket.socket | None = None
        self._unsure: list[str] = []
        self._marks, self._mark = 0, ""

    def options(self) -> dict[str, str]:
        """An address."""
        return {"path": f"tcp{'' if self._listener is not None else '+listen'}://127.0.0.1:{self._port}"}

    def push(self, count: int) -> list[str]:
        """Lines over the connection, cut anywhere."""
        lines = [*self._waiting, *self._lines.take(count)]
        self._waiting = []
        self._send("".join(f"{line}\n" for line in lines).encode())
        return lines

    def push_unsure(self, count: int) -> None:
        """Send lines, perhaps a half one behind them, before the connection is lost: nobody knows what will arrive."""
        lines = [*self._waiting, *self._lines.take(count)]
        self._waiting, self._unsure = [], lines
        half = lines[-1].encode()[:-1] if self._chance.random() < 0.5 else b""
        self._send("".join(f"{line}\n" for line in lines).encode() + half)

    def mark(self) -> int:
        """Send a line of the writer :data:`MARK`; its number."""
        self._marks += 1
        self._mark = f"{MARK},{self._marks},,," if self.kind == "csv" else f'{{"c": {MARK}, "n": {self._marks}}}'
        self._send(f"{self._mark}\n".encode())
        return self._marks

    def resume(self, arrived: int) -> list[str]:
        """So many of the lines that were in doubt have arrived before the mark, the others are to be sent again.

        Returns
        -------
        list of str
            Those that have arrived, with the mark.

        Raises
        ------
        SoakError
            When more have arrived than were sent.
        """
        if not 0 <= arrived <= len(self._unsure):
            raise SoakError(f"{self.options()['path']}: {arrived} lines arrived, {len(self._unsure)} were sent")
        found, self._waiting, self._unsure = self._unsure[:arrived], self._unsure[arrived:], []
        return [*found, self._mark]

    @property
    def peer(self) -> str | None:
        """What the table's status calls this side; None where the table connects by itself."""
        if self._connection is None or self._listener is not None:
            return None
        return f"127.0.0.1:{self._connection.getsockname()[1]}"

    def wait_for_peer(self) -> None:
        """Wait until the table has connected again: so it has seen the end of the connection before."""
        if self._listener is not None:
            self._connected()

    def reset(self) -> None:
        """Close the connection without a goodbye."""
        if self._connection is not None:
            self._connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
            self._connection.close()
            self._connection = None

    def _send(self, data: bytes) -> None:
        connection = self._connected()
        at = 0
        while at < len(data):
            size = self._chance.choice((1, 7, 100, 5_000, 100_000))
            connection.sendall(data[at : at + size])
            at += size

    def _connected(self) -> socket.socket:
        deadline = time.monotonic() + _WAIT_SECONDS
        while self._connection is None:
            try:
                if self._listener is not None:
                    self._listener.settimeout(1.0)
                    self._connection = self._newest(self._listener)
                else:
                    self._connection = socket.create_connection(("127.0.0.1", self._port), timeout=5)
                self._connection.settimeout(_WAIT_SECONDS)
            except OSError as error:
                if time.monotonic() > deadline:
                    raise SoakError(f"no connection on port {self._port}: {error}") from error
                time.sleep(0.05)
        return self._connection

    @staticmethod
    def _newest(listener: socket.socket) -> socket.socket:
        """The last of the connections that wait: earlier ones are of a process that was killed."""
        found, _ = listener.accept()
        listener.settimeout(0.0)
        while True:
            try:
                newer, _ = listener.accept()
            except OSError:
                return found
            found.close()
            found = newer

    def close(self) -> None:
        """Close the connection, and listen no more."""
        self.reset()
        if self._listener is not None:
            self._listener.close()


def random_feed(chance: random.Random, writer: int, directory: Path) -> FileFeed | SocketFeed:
    """A feed of any kind."""
    kind = chance.choice(("csv", "json"))
    if chance.random() < 0.5:
        return FileFeed(chance, kind, writer, directory)
    return SocketFeed(chance, kind, writer, listens=chance.random() < 0.5)
