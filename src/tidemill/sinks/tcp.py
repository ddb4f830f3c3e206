"""A connection over TCP that JSON lines are written to; the receiver acknowledges epochs.

    {"__epoch": 7, "__begin": "changes"}
    {"__epoch": 7, "__sequence": 0, "__weight": 1, "k": "a", "n": 2}
    {"__epoch": 7, "__end": "changes", "__rows": 1}

The receiver answers a line with the number of an epoch: it and all before it have arrived. What was not acknowledged is
sent again over the next connection.
"""

from __future__ import annotations

import json
import socket
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import pyarrow as pa

from tidemill.errors import TidemillError
from tidemill.options.kinds import FLAG, INTERVAL, TEXT
from tidemill.options.option import Option, OptionGroup
from tidemill.schema import Schema
from tidemill.sinks import json_lines
from tidemill.sinks.messages import messages
from tidemill.sinks.options import CHANGES
from tidemill.sinks.target import (
    AT_LEAST_ONCE,
    BEST_EFFORT,
    EPOCH,
    Changes,
    Identity,
    TargetKind,
    bad_location,
)
from tidemill.sources.sockets.endpoints import parse_endpoints

PATH = Option("path", TEXT, None, "the address that is connected to: tcp://host:port or unix:///path")
ACKNOWLEDGE = Option(
    "acknowledge",
    FLAG,
    True,
    "whether the receiver answers the number of each epoch that has arrived; without, what is under way when a "
    "connection breaks is lost",
)
RECEIVER_TIMEOUT = Option(
    "receiverTimeout",
    INTERVAL,
    30_000_000,
    "how long the receiver may take nothing, or not acknowledge an epoch",
    shown="30 seconds",
    alterable=True,
)
_ROWS = 4096
_LONGEST_LINE = 64


class TcpTarget:
    """One connection, kept open between deliveries."""

    combines = False

    def __init__(self, sink: Identity, options: Mapping[str, str]) -> None:
        self._sink, self._path = sink, options[PATH.key]
        self._acknowledged = ACKNOWLEDGE.of(options)
        self._seconds = RECEIVER_TIMEOUT.of(options) / 1e6
        self._connection: socket.socket | None = None
        self._answer = b""
        self._aborted = False

    def position(self, begun: bool) -> int | None:
        """Unknown: the receiver is not asked."""
        return None

    def snapshot(self, epoch: int, parts: Iterable[pa.Table]) -> None:
        """Send all rows."""
        self._send(epoch, parts, snapshot=True)

    def changes(self, changes: Sequence[Changes]) -> None:
        """Send the changes of each epoch."""
        for change in changes:
            self._send(change.epoch, (change.table,), snapshot=False)

    def _send(self, epoch: int, tables: Iterable[pa.Table], snapshot: bool) -> None:
        kind = "snapshot" if snapshot else "changes"
        try:
            connection = self._connected()
            connection.sendall(_line({EPOCH: epoch, "__begin": kind}))
            rows = 0
            for message in messages(epoch, tables, _ROWS, snapshot):
                if message.rows.num_rows:
                    batch = _numbered(message.rows, epoch, rows)
                    connection.sendall(json_lines.objects(batch, self._sink.time_zone, "\n") + b"\n")
                    rows += batch.num_rows
            connection.sendall(_line({EPOCH: epoch, "__end": kind, "__rows": rows}))
            if self._acknowledged:
                self._await(connection, epoch)
        except OSError as error:
            raise _failed(self._path, str(error) or type(error).__name__) from error

    def _connected(self) -> socket.socket:
        if self._connection is None:
            endpoint = parse_endpoints(self._path)[0]
            if isinstance(endpoint.address, str):
                found = socket.socket(socket.AF_UNIX)
                self._connection = found
                found.settimeout(self._seconds)
                found.connect(endpoint.address)
            else:
                self._connection = found = socket.create_connection(endpoint.address, self._seconds)
                found.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._answer = b""
        if self._aborted:  # while it was being connected
            raise _failed(self._path, "the sink was stopped")
        return self._connection

    def _await(self, connection: socket.socket, epoch: int) -> None:
        """Read lines until one acknowledges an epoch."""
        while True:
            line, end, rest = self._answer.partition(b"\n")
            if not end:
                received = connection.recv(4096) if len(line) < _LONGEST_LINE else b""
                if not received:
                    raise _failed(self._path, f"it closed the connection before it acknowledged epoch {epoch}")
                self._answer += received
                continue
            self._answer = rest
            if not line.strip().isdigit():
                raise _failed(self._path, f"it answered {line[:_LONGEST_LINE]!r} and not the number of an epoch")
            if int(line) >= epoch:
                return

    def close(self) -> None:
        """Close the connection."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def abort(self) -> None:
        """Shut the connection down."""
        self._aborted = True
        connection = self._connection
        if connection is not None:
            try:
                connection.shutdown(socket.SHUT_RDWR)
            except OSError:
                return  # it is closed already


def _line(values: Mapping[str, object]) -> bytes:
    return json.dumps(values).encode() + b"\n"


def _numbered(rows: pa.RecordBatch, epoch: int, first: int) -> pa.RecordBatch:
    """Rows with ``__epoch`` and ``__sequence`` in front."""
    count = rows.num_rows
    numbers = pa.array(np.arange(first, first + count))
    names = [EPOCH, "__sequence", *rows.schema.names]
    return pa.RecordBatch.from_arrays([pa.repeat(pa.scalar(epoch), count), numbers, *rows.columns], names=names)


def _failed(path: str, got: str) -> TidemillError:
    return TidemillError(
        "TM8211",
        "the receiver of a sink did not take an epoch",
        got=f"{path}: {got}",
        hint="it is sent again after a pause; a receiver that acknowledges nothing needs acknowledge 'false'",
    )


def _resolved(text: str) -> str:
    found = parse_endpoints(text)
    if len(found) > 1 or found[0].listens or found[0].is_stdin:
        raise bad_location("tcp", "path", text, "one address that is connected to: tcp://host:port or unix:///path")
    return text


def _check(options: Mapping[str, str], schema: Schema) -> None:
    """All is checked by the kinds of the options."""


TCP = TargetKind(
    "tcp",
    OptionGroup("Sinks over TCP", "Sinks `INTO tcp`.", (PATH, ACKNOWLEDGE, RECEIVER_TIMEOUT)),
    PATH,
    (CHANGES,),
    _check,
    _resolved,
    TcpTarget,
    lambda options: AT_LEAST_ONCE if ACKNOWLEDGE.of(options) else BEST_EFFORT,
    tried="receivers that break off and acknowledge late",
)
