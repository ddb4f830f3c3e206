"""The stream of a replication slot, by PostgreSQL's streaming replication protocol.

Formats of messages are from PostgreSQL's documentation, *Streaming Replication Protocol*.
"""

from __future__ import annotations

import select
import struct
import time
from typing import Any

import psycopg
from psycopg import pq

_XLOG, _KEEPALIVE = ord("w"), ord("k")
_HEAD = 25
"""Bytes before what the output plugin says."""


class Replication:
    """A connection in replication mode. Used by one thread.

    Attributes
    ----------
    reached : int
        All transactions that ended before this position of the log have been received.
    """

    def __init__(self, connection: psycopg.Connection[Any]) -> None:
        self._pg = connection.pgconn
        self.reached = 0
        self._asked = False

    def create_slot(self, name: str) -> tuple[int, str]:
        """Create a slot for ``pgoutput``: the position at which it begins, and the snapshot of rows as they are there.

        The snapshot can be used until the next command on this connection.
        """
        command = f"CREATE_REPLICATION_SLOT \"{name}\" LOGICAL pgoutput (SNAPSHOT 'export')"
        result = self._execute(command, pq.ExecStatus.TUPLES_OK)
        position, snapshot = result.get_value(0, 1), result.get_value(0, 2)
        assert position is not None and snapshot is not None
        return parse_position(position.decode()), snapshot.decode()

    def start(self, slot: str, publication: str, position: int) -> None:
        """Begin to receive the transactions that end behind a position."""
        quoted = publication.replace('"', '""').replace("'", "''")
        options = f"proto_version '1', publication_names '\"{quoted}\"'"
        command = f'START_REPLICATION SLOT "{slot}" LOGICAL {shown_position(position)} ({options})'
        self._execute(command, pq.ExecStatus.COPY_BOTH)
        self.reached = position

    def _execute(self, command: str, expected: pq.ExecStatus) -> Any:
        result = self._pg.exec_(command.encode())
        if result.status != expected:
            raise psycopg.OperationalError(result.error_message.decode("utf-8", "replace").strip())
        return result

    def receive(self, seconds: float, most: int = 10_000) -> list[bytes]:
        """What the plugin says, message by message: all that is there, waiting for the first one for some seconds."""
        found: list[bytes] = []
        until = time.monotonic() + seconds
        while len(found) < most:
            size, data = self._pg.get_copy_data(1)
            if size > 0:
                self._take(bytes(data), found)
            elif size < 0:
                error = self._pg.get_result()
                said = "the stream has ended" if error is None else error.error_message.decode("utf-8", "replace")
                raise psycopg.OperationalError(said.strip() or "the stream has ended")
            elif found or (left := until - time.monotonic()) <= 0:
                break
            else:
                self._ready(select.POLLIN, left)
                self._pg.consume_input()
        return found

    def _ready(self, event: int, seconds: float) -> None:
        """Wait until the connection can be read from, or written to."""
        poll = select.poll()
        poll.register(self._pg.socket, event)
        poll.poll(seconds * 1000)

    def _take(self, data: bytes, found: list[bytes]) -> None:
        if data[0] == _XLOG:
            found.append(data[_HEAD:])
        elif data[0] == _KEEPALIVE:
            if not found:  # else what was received is not taken yet
                self.reached = max(self.reached, struct.unpack_from(">Q", data, 1)[0])
            self._asked |= data[17] == 1

    def acknowledge(self, position: int, answer: bool = False) -> None:
        """Say that all up to a position is durable, and ask for an answer, which tells :attr:`reached`."""
        now = int((time.time() - 946_684_800) * 1_000_000)  # microseconds since 2000
        self._pg.put_copy_data(b"r" + struct.pack(">QQQqB", position, position, position, now, answer))
        while self._pg.flush():
            self._ready(select.POLLOUT, 1.0)
        self._asked = False

    @property
    def asked(self) -> bool:
        """Whether the server waits for :meth:`acknowledge`."""
        return self._asked


def parse_position(text: str) -> int:
    """A position of the log, such as ``16/B374D848``, as a number."""
    high, _, low = text.partition("/")
    return int(high, 16) << 32 | int(low, 16)


def shown_position(position: int) -> str:
    """A position as PostgreSQL writes it."""
    return f"{position >> 32:X}/{position & 0xFFFFFFFF:X}"
