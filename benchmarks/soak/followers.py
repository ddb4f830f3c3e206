"""Clients that follow a view over any protocol, each on a thread of its own.

Each keeps the sum of what it was given. Once it has been told of an epoch, the sum must be the view at that epoch.
"""

from __future__ import annotations

import contextlib
import json
import random
import socket
import threading
import time
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable
from typing import Any

import httpx
import pyarrow as pa
import pyarrow.flight as flight
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import connect

import tidemill as tm
from benchmarks.server_process import ServerProcess
from benchmarks.soak.error import SoakError
from benchmarks.soak.model import Rows, added
from tidemill.errors import TidemillError

_PASSING = ("TM1030", "TM1039", "TM1041")
"""A view that is initialising, failing or paused: asked again."""

_BEHIND = ("TM1036", "TM8010", "TM1031", "TM8013", "TM1035")
"""Only a snapshot helps: epochs were lost, or are not retained any more; or the columns are others (Flight)."""

_GONE = ("TM2012", "TM1032", "TM1033")


class Follower(ABC):
    """Follows a view on a thread of its own until it is closed, and over the ends of its connection."""

    name = ""

    def __init__(self, server: ServerProcess, view: str, chance: random.Random) -> None:
        self.view, self._server = view, server
        self.durable = chance.random() < 0.3
        self.sums: Rows = Counter()
        self.epoch = -1
        self.position = ""
        self.changes = self.resets = self.connections = 0
        self.gone: str | None = None
        self._problem: BaseException | None = None
        self._closing = False
        self._lock = threading.Condition()
        self._thread = threading.Thread(target=self._run, name=f"{self.name} {view}", daemon=True)
        self._thread.start()

    def __str__(self) -> str:
        return f"{self.name} of {self.view}{', durable' * self.durable}"

    def _run(self) -> None:
        try:
            while not self._closing and self.gone is None:
                self.connections += 1
                try:
                    self._follow()
                except TidemillError as error:
                    self._met(error)
                time.sleep(0.05)
        except BaseException as error:  # given by check()
            if not self._closing:
                with self._lock:
                    self._problem = error
                    self._lock.notify_all()

    def _met(self, error: TidemillError) -> None:
        if error.number in _GONE:
            with self._lock:
                self.gone = error.number
                self._lock.notify_all()
        elif error.number in _BEHIND:
            if error.number == "TM1036" and self.durable:
                raise SoakError(f"{self}: durable epochs were lost: {error.message()}")
            self._reset()
            self.position = ""
        elif error.number in _PASSING or (error.number == "TM7012" and self._server_stops()):
            time.sleep(0.2)
        else:
            raise error

    def _server_stops(self) -> bool:
        return not self._server.is_ready()

    @abstractmethod
    def _follow(self) -> None:
        """Follow from the position until the connection ends."""

    def lose_connection(self) -> None:
        """End the connection at once; it goes on over another one."""
        self._drop()

    @abstractmethod
    def _drop(self) -> None:
        """Close the connection at once."""

    @property
    def _start(self) -> str:
        return self.position or "snapshot"

    def _given(self, rows: list[tuple[Any, ...]], weights: list[int], position: str) -> None:
        with self._lock:
            added(self.sums, rows, weights)
            self.changes += 1
            self.position = position or self.position

    def _table(self, table: pa.Table, position: str) -> None:
        rows, weights = rows_and_weights(table)
        self._given(rows, weights, position)

    def _told(self, epoch: int, position: str) -> None:
        with self._lock:
            self.epoch = max(self.epoch, epoch)
            self.position = position or self.position
            self._lock.notify_all()

    def _reset(self) -> None:
        with self._lock:
            self.sums.clear()
            self.epoch = -1
            self.resets += 1

    def check(self) -> None:
        """Raise what went wrong."""
        if self._problem is not None:
            raise SoakError(f"{self}: {type(self._problem).__name__}: {self._problem}") from self._problem

    def at(self, epoch: int, seconds: float) -> Rows | None:
        """The sum of changes up to an epoch; None when the view is gone. SoakError when it does not come."""
        with self._lock:
            came = self._lock.wait_for(
                lambda: self.epoch >= epoch or self.gone is not None or self._problem is not None, seconds
            )
            self.check()
            if not came:
                raise SoakError(f"{self}: was told of epoch {self.epoch}, not of {epoch}; position {self.position}")
            return None if self.gone is not None else Counter(self.sums)

    def wait_until_gone(self, seconds: float) -> None:
        """SoakError unless it is told that its view was dropped."""
        with self._lock:
            told = self._lock.wait_for(lambda: self.gone is not None or self._problem is not None, seconds)
        self.check()
        if not told:
            raise SoakError(f"{self} was not told that the view was dropped")

    def close(self) -> None:
        """Go away without a goodbye."""
        self._closing = True
        self._drop()


class ClientFollower(Follower):
    """The Python client, which connects again by itself."""

    name = "client"

    def _follow(self) -> None:
        self._client = tm.connect(self._server.url)
        durable = self.durable
        for change in self._client.subscribe(
            self.view, start=self._start, durable=durable, reset=not durable, progress=True
        ):
            if self._closing:
                return
            if change.kind == "changes":
                self._table(change.table, change.position)
            elif change.kind == "reset":
                self._reset()
            else:
                self._told(change.epoch, change.position)

    def _met(self, error: TidemillError) -> None:
        if error.number == "TM8031":
            time.sleep(0.2)
        else:
            super()._met(error)

    def _drop(self) -> None:
        """The loop is left with the next change."""


class EventsFollower(Follower):
    """Server-sent events, with the header ``Last-Event-ID``."""

    name = "events"

    def _follow(self) -> None:
        headers = {"Last-Event-ID": self.position} if self.position else {}
        params = {"durable": str(self.durable).lower()}
        path = f"{self._server.url}/v1/views/{self.view}/changes"
        self._client = httpx.Client(timeout=30)
        try:
            with self._client.stream("GET", path, headers=headers, params=params) as response:
                self._socket = response.extensions["network_stream"].get_extra_info("socket")
                if response.status_code >= 400:
                    raise _numbered(response.status_code, response.read())
                kind, id_ = "message", ""
                for line in response.iter_lines():
                    word, _, value = line.partition(": ")
                    kind = value if word == "event" else kind if line else "message"
                    id_ = value if word == "id" else id_ if line else ""
                    if word == "data":
                        self._event(kind, id_, json.loads(value))
        except httpx.TransportError:
            return

    def _event(self, kind: str, position: str, data: dict[str, Any]) -> None:
        if kind == "message":
            rows, weights = _weighted(data["changes"])
            self._given(rows, weights, position)
        elif kind == "progress":
            self._told(data["epoch"], position)
        elif kind == "error":
            raise _error(data)

    def _drop(self) -> None:
        if hasattr(self, "_socket"):
            _shut(self._socket)


class WebSocketFollower(Follower):
    """A subscription over a WebSocket."""

    name = "websocket"

    def _follow(self) -> None:
        try:
            self._socket = connect(f"{self._server.url.replace('http', 'ws')}/v1/ws", open_timeout=10)
            asked = {"subscribe": 1, "views": [self.view], "from": self._start, "durable": self.durable}
            self._socket.send(json.dumps({**asked, "reset": not self.durable}))
            for text in self._socket:
                self._message(json.loads(text))
        except (ConnectionClosed, InvalidStatus, OSError, EOFError):
            return

    def _message(self, message: dict[str, Any]) -> None:
        kind = message["kind"]
        if kind == "changes":
            rows, weights = _weighted(message["changes"])
            self._given(rows, weights, message["position"])
        elif kind == "progress":
            self._told(message["epoch"], message["position"])
        elif kind == "reset":
            self._reset()
        elif kind == "error":
            self._socket.close()
            raise _error(message)

    def _drop(self) -> None:
        if hasattr(self, "_socket"):
            _shut(self._socket.socket)


class FlightFollower(Follower):
    """Changes as record batches of Arrow Flight."""

    name = "flight"

    def _follow(self) -> None:
        self._client = flight.FlightClient(self._server.flight)
        ticket = {"changes": self.view, "from": self._start, "durable": self.durable}
        try:
            self._reader = self._client.do_get(flight.Ticket(json.dumps(ticket).encode()))
            while True:
                try:
                    chunk = self._reader.read_chunk()
                except StopIteration:
                    return
                head = json.loads(chunk.app_metadata.to_pybytes())
                if "progress" in head:
                    self._told(head["epoch"], head["position"])
                else:
                    self._table(pa.Table.from_batches([chunk.data]), head["position"])
        except flight.FlightServerError as error:
            if error.extra_info:
                raise _error(json.loads(error.extra_info)) from error
            raise
        except (flight.FlightUnavailableError, flight.FlightCancelledError, flight.FlightInternalError) as error:
            if self._server.is_ready() and isinstance(error, flight.FlightInternalError):
                raise
        finally:
            self._client.close()

    def _drop(self) -> None:
        if hasattr(self, "_reader"):
            self._reader.cancel()


def _shut(connection: socket.socket) -> None:
    """End a connection that another thread reads."""
    with contextlib.suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)


FOLLOWERS: tuple[Callable[[ServerProcess, str, random.Random], Follower], ...] = (
    ClientFollower,
    EventsFollower,
    WebSocketFollower,
    FlightFollower,
)


def rows_and_weights(table: pa.Table) -> tuple[list[tuple[Any, ...]], list[int]]:
    """Rows and weights of changes, whose last column has the weights."""
    columns: list[list[Any]] = [column.to_pylist() for column in table.columns]
    return list(zip(*columns[:-1], strict=True)), columns[-1]


def _weighted(changes: list[dict[str, Any]]) -> tuple[list[tuple[Any, ...]], list[int]]:
    rows = [tuple(v for k, v in change.items() if k != "weight") for change in changes]
    return rows, [change["weight"] for change in changes]


def _error(data: dict[str, Any]) -> TidemillError:
    return TidemillError(data["number"], data["what"], got=data["got"], hint=data["hint"])


def _numbered(status: int, body: bytes) -> TidemillError:
    """The error in an answer. SoakError when it is none of ours, or 5xx."""
    try:
        found = json.loads(body)
        error = _error(found)
    except (ValueError, KeyError, TypeError) as problem:
        raise SoakError(f"status {status} without a number: {body[:300]!r}") from problem
    if status >= 500 and error.number != "TM7012":
        raise SoakError(f"status {status}: {error.message()}")
    return error
