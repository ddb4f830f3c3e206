"""A TCP server for an exchange: interactive clients send requests, listeners are sent all that happens.

A client begins with its :class:`~tidemill.exchange.wire.Role`. An interactive one is sent what becomes of its requests,
and of its brokers' orders that rest: a client speaks for every broker that it has named in a request. A listener is
sent every message from then on; it may ask for what went before, in lines of text:

- ``since SYMBOL NUMBER``: the messages of a symbol behind a number, or its snapshot where they are not kept any more,
- ``snapshot SYMBOL``: the orders that rest.

A client that begins with ``trace SYMBOL [NUMBER [LINE]]`` is sent a symbol's messages behind a number, and those that
follow, as lines of a trace: what tables ``USING orderbook`` read. One line is one message, so whoever counts them can
go on. LINE is the message of that number: an exchange that was started anew has another one, and refuses.

Each is answered where it stands in the stream, so what follows goes on from there. A client that does not read what it
is sent is ended, at a limit of bytes that wait for it; nobody else waits for it.
"""

from __future__ import annotations

import asyncio
import struct
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np

from tidemill.exchange import rejections
from tidemill.exchange.exchange import Answered, Exchange, GapError
from tidemill.exchange.matching import REJECTED
from tidemill.exchange.wire import (
    MESSAGE,
    MOST_LINE,
    OWN_BROKERS,
    REQUEST,
    BadLineError,
    Records,
    Role,
    lines,
    parsed,
    trace_lines,
)

_ROLE = struct.Struct("<i")
_ROLE_SECONDS = 30.0
"""Within which a client says what it is."""
_TRACERS_SAY = b"this client sends one line: trace SYMBOL [NUMBER [LINE]], with a symbol of this exchange"
_CLOSE_SECONDS = 5.0
"""For a client to read what waits for it."""
_PART = 1 << 13
"""Messages that are sent to a tracer at a time, until it has those that went before."""
_MOST_BAD = 100
"""Lines that are no requests, one after the other, until a client is ended."""


@dataclass(frozen=True)
class Limits:
    """What clients may take.

    Attributes
    ----------
    clients : int
        At the same time; more are ended at once.
    waiting_bytes : int
        That wait for one client to read them.
    """

    clients: int = 10_000
    waiting_bytes: int = 8 << 20


class ExchangeServer:
    """Serves an exchange from one event loop. Enter it to listen.

    Parameters
    ----------
    exchange : Exchange
    port : int
        0 for any free one.
    cancel_on_disconnect : bool
        Whether the orders of a broker are deleted when the last client that speaks for it has gone.

    Attributes
    ----------
    dropped : int
        Clients that were ended because they did not read.
    heard : list of callable
        Called with all messages that listeners are sent, before them.
    """

    def __init__(
        self,
        exchange: Exchange,
        host: str = "127.0.0.1",
        port: int = 5501,
        cancel_on_disconnect: bool = False,
        limits: Limits | None = None,
    ) -> None:
        self.exchange, self.limits = exchange, limits or Limits()
        self._at = host, port
        self._cancels = cancel_on_disconnect
        self._names = [one.symbol for one in exchange.instruments]
        self._clients: set[_Client] = set()
        self._listeners: set[_Client] = set()
        self._tracers: defaultdict[int, set[_Client]] = defaultdict(set)
        self._speakers: defaultdict[int, set[_Client]] = defaultdict(set)
        self._server: asyncio.Server | None = None
        self.dropped = 0
        self.heard: list[Callable[[Records], None]] = []

    async def start(self) -> None:
        """Begin to listen, before the block or at its begin. OSError when that is not possible."""
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(lambda: _Client(self), *self._at, backlog=1024)

    async def __aenter__(self) -> ExchangeServer:
        if self._server is None:
            await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        self._server.close()
        for client in list(self._clients):
            client.transport.close()
        ends = asyncio.get_running_loop().time() + _CLOSE_SECONDS
        while self._clients and asyncio.get_running_loop().time() < ends:
            await asyncio.sleep(0.01)  # they read what waits for them
        for client in list(self._clients):
            client.transport.abort()
        await self._server.wait_closed()

    @property
    def address(self) -> tuple[str, int]:
        """Where it listens."""
        assert self._server is not None
        host, port = self._server.sockets[0].getsockname()[:2]
        return str(host), int(port)

    @property
    def clients(self) -> int:
        """How many are connected."""
        return len(self._clients)

    def execute(self, requests: Records, sender: _Client | None = None) -> Answered:
        """Carry out requests of ``REQUEST``, and tell all whom it concerns."""
        answered = self.exchange.execute(requests)
        self._tell(answered, requests, sender)
        return answered

    def replay(self, requests: Records, apart: bool) -> Answered:
        """Carry out requests out of a trace, and tell: :meth:`Exchange.replay`."""
        answered = self.exchange.replay(requests, apart)
        self._tell(answered, requests, None)
        return answered

    def leave(self, broker: int) -> None:
        """Delete the orders of a broker, and tell."""
        self._tell(self.exchange.leave(broker), np.zeros(0, REQUEST), None)

    def _tell(self, answered: Answered, requests: Records, sender: _Client | None) -> None:
        messages = answered.messages
        if not len(messages):
            return
        public = messages[messages["letter"] != REJECTED]
        concerned = {c for broker in np.unique(public["broker"]).tolist() for c in self._speakers.get(broker, ())}
        for hear in self.heard:
            hear(public)
        for client in concerned - {sender}:
            client.tell(public[np.isin(public["broker"], list(client.brokers))])
        if sender is not None:
            mine = np.isin(messages["broker"], list(sender.brokers))
            told, request = messages[mine], requests[answered.request[mine]]
            own = told["broker"] == request["broker"]
            told["time"][own] = request["time"][own]  # the sender's own number of the request
            sender.tell(told)
        _tell_all(self._listeners, public, self._names)
        for symbol, tracers in self._tracers.items():
            some = public[public["symbol"] == symbol] if tracers else public[:0]
            if len(some):
                text = trace_lines(some)
                for client in list(tracers):
                    client.write(text)

    # -- clients --------------------------------------------------------------------------------------

    def _came(self, client: _Client) -> bool:
        if len(self._clients) >= self.limits.clients:
            return False
        self._clients.add(client)
        return True

    def _went(self, client: _Client) -> None:
        self._clients.discard(client)
        self._listeners.discard(client)
        self._traces(client, None)
        for broker in client.brokers:
            self._speakers[broker].discard(client)
            if not self._speakers[broker]:
                del self._speakers[broker]
                if self._cancels:
                    self.leave(broker)

    def _traces(self, client: _Client, symbol: int | None) -> None:
        for tracers in self._tracers.values():
            tracers.discard(client)
        if symbol is not None:
            self._tracers[symbol].add(client)

    def _speaks(self, client: _Client, brokers: set[int]) -> None:
        for broker in brokers - client.brokers:
            client.brokers.add(broker)
            self._speakers[broker].add(client)


class _Client(asyncio.Protocol):
    """One connection."""

    transport: asyncio.Transport

    def __init__(self, server: ExchangeServer) -> None:
        self._server = server
        self._role: Role | None = None
        self._left = bytearray()
        self._skipping = False
        self._bad = 0
        self._full = False
        self._excused = 0
        self._behind: tuple[int, int] | None = None
        self._traced = False
        self._timer: asyncio.TimerHandle | None = None
        self.brokers: set[int] = set()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Wait for the role."""
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        if not self._server._came(self):
            transport.abort()
            return
        self._timer = asyncio.get_running_loop().call_later(_ROLE_SECONDS, self._late)

    def _late(self) -> None:
        if self._role is None or (self._role is Role.TRACER and not self._traced):
            self.transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the client."""
        if self._timer is not None:
            self._timer.cancel()
        self._server._went(self)

    def data_received(self, data: bytes) -> None:
        """Take requests, as far as they are complete."""
        self._left += data
        if self._role is None and not self._begin():
            return
        if self._role is Role.BINARY_INTERACTIVE:
            self._take_records()
        else:
            self._take_lines()

    def _begin(self) -> bool:
        if len(self._left) < _ROLE.size:
            return False
        (number,) = _ROLE.unpack_from(self._left)
        if number == Role.TRACER:  # the begin of its line
            self._role = Role.TRACER
            return True
        del self._left[: _ROLE.size]
        try:
            self._role = Role(number)
        except ValueError:
            self._refuse(b"the first four bytes are 0 to 3, a little-endian integer, or those of `trace SYMBOL`")
            return False
        if self._role.listens:
            self._server._listeners.add(self)
        return True

    def _refuse(self, why: bytes) -> None:
        """End a client; what it is told has no line end, so that a table takes it for no message."""
        self.transport.write(why)
        self._left.clear()
        self._leave()

    def _leave(self) -> None:
        """Close the connection, soon also when the client does not read what waits for it."""
        self.transport.close()
        asyncio.get_running_loop().call_later(_CLOSE_SECONDS, self.transport.abort)

    def _take_records(self) -> None:
        whole = len(self._left) // REQUEST.itemsize * REQUEST.itemsize
        if whole:
            requests = np.frombuffer(bytes(self._left[:whole]), REQUEST)
            del self._left[:whole]
            self._send(requests)

    def _send(self, requests: Records) -> None:
        foreign = requests["broker"] >= OWN_BROKERS
        if foreign.any():
            for time in requests["time"][foreign].tolist():
                self._reject(rejections.OWN_BROKER, time)
            requests = requests[~foreign]
        self._server._speaks(self, set(np.unique(requests["broker"]).tolist()))
        self._server.execute(requests, self)

    def _take_lines(self) -> None:
        end = self._left.rfind(b"\n") + 1
        whole = bytes(self._left[:end]).splitlines() if end else []
        del self._left[:end]
        waiting: list[tuple[int, ...]] = []
        for line in whole:
            if self._skipping:
                self._skipping = False  # it was the end of one that was too long
            elif self.transport.is_closing():
                return
            elif line.strip():
                self._take_line(line, waiting)
        self._flush(waiting)
        if len(self._left) > MOST_LINE:
            self._left.clear()
            if self._role is Role.TRACER:
                self._refuse(_TRACERS_SAY)
                return
            if not self._skipping:
                self._skipping = True
                self._reject(rejections.TOO_LONG)

    def _take_line(self, line: bytes, waiting: list[tuple[int, ...]]) -> None:
        assert self._role is not None
        if self._role is Role.TRACER:
            self._trace(line)
            return
        if self._role.listens:
            self._ask(line)
            return
        try:
            if len(line) > MOST_LINE:
                raise BadLineError(rejections.TOO_LONG)
            waiting.append(parsed(line, self._server.exchange.symbols))
            self._bad = 0
        except BadLineError as error:
            self._flush(waiting)
            self._reject(error.reason, error.time)

    def _flush(self, waiting: list[tuple[int, ...]]) -> None:
        if waiting:
            requests = np.array(waiting, REQUEST)
            waiting.clear()
            self._send(requests)

    def _reject(self, reason: int, time: int = 0) -> None:
        said = np.zeros(1, MESSAGE)
        said["letter"], said["rejected"], said["time"] = REJECTED, reason, time
        self.tell(said)
        self._bad += 1
        if self._bad >= _MOST_BAD:
            self._leave()

    def _ask(self, line: bytes) -> None:
        """A listener asks for what went before."""
        exchange, words = self._server.exchange, line.decode(errors="replace").split()
        symbol = exchange.symbols.get(words[1]) if len(words) > 1 else None
        if len(line) > MOST_LINE or not words:
            self._reject(rejections.TOO_LONG if words else rejections.LISTENERS_LISTEN)
        elif words[0] == "since" and len(words) == 3 and symbol is not None and _is_number(words[2]):
            self._bad = 0
            try:
                self.tell(exchange.since(symbol, int(words[2])), answer=True)
            except GapError:
                self.tell(exchange.snapshot(symbol), answer=True)
        elif words[0] == "snapshot" and len(words) == 2 and symbol is not None:
            self._bad = 0
            self.tell(exchange.snapshot(symbol), answer=True)
        else:
            known = symbol is not None or len(words) < 2
            self._reject(rejections.LISTENERS_LISTEN if known else rejections.UNKNOWN_SYMBOL)

    def _trace(self, line: bytes) -> None:
        """Send a trace from now on. A client that asks for what there is not is told in a line without an end.

        So a table that reads the trace counts no row, and its status shows an error.
        """
        exchange, words = self._server.exchange, line.decode(errors="replace").split()
        symbol = exchange.symbols.get(words[1]) if len(words) in (2, 3, 4) and words[0] == "trace" else None
        begin, last = (words[2] if len(words) > 2 else "0"), (words[3] if len(words) > 3 else "")
        if symbol is None or not _is_number(begin) or self._traced:
            self._refuse(_TRACERS_SAY)
            return
        self._traced = True
        newest = exchange.sequence(symbol)
        if int(begin) > newest:
            self._refuse(f"there is no message {begin}: the newest one is {newest}".encode())
            return
        if last and not self._has_told(symbol, int(begin), last):
            self._refuse(f"message {begin} is another one: this exchange was started anew".encode())
            return
        self._server._traces(self, None)
        self._behind = symbol, int(begin)
        self._catch_up()

    def _has_told(self, symbol: int, number: int, line: str) -> bool:
        """Whether a message is this line; of one that is not kept any more nobody can say, and it is taken for it."""
        try:
            message = self._server.exchange.since(symbol, number - 1, 1)
        except GapError:
            return True
        return trace_lines(message) == line.encode() + b"\n"

    def _catch_up(self) -> None:
        """Send a tracer what went before, as fast as it reads; then it is sent what follows."""
        if self._behind is None or self._full or self.transport.is_closing():
            return
        symbol, begin = self._behind
        try:
            messages = self._server.exchange.since(symbol, begin, _PART)
        except GapError as error:
            self._behind = None
            self._refuse(f"the messages before {error.first} are not kept any more".encode())
            return
        if len(messages):
            self._behind = symbol, begin + len(messages)
            self.write(trace_lines(messages))
            asyncio.get_running_loop().call_soon(self._catch_up)  # others have their turn
        else:
            self._behind = None
            self._server._traces(self, symbol)

    def pause_writing(self) -> None:
        """Some of what was sent waits for the client."""
        self._full = True

    def resume_writing(self) -> None:
        """It has read that."""
        self._full, self._excused = False, 0
        self._catch_up()

    def tell(self, messages: Records, answer: bool = False) -> None:
        """Send messages."""
        if len(messages):
            assert self._role is not None
            self.write(messages.tobytes() if self._role.binary else lines(messages, self._server._names), answer)

    def write(self, data: bytes, answer: bool = False) -> None:
        """Send bytes, unless too many wait already: then the client is ended.

        An answer may have any size, once until it is read.
        """
        if self.transport.is_closing():
            return
        if answer and not self._excused:
            self._excused = len(data)
        if self.transport.get_write_buffer_size() > self._server.limits.waiting_bytes + self._excused:
            self._server.dropped += 1
            self.transport.abort()
            return
        self.transport.write(data)
        if not self._full:
            self._excused = 0  # it is on its way

    @property
    def binary(self) -> bool:
        """Whether it is sent records."""
        return self._role is not None and self._role.binary


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) < 20


def _tell_all(clients: Iterable[_Client], messages: Records, names: list[str]) -> None:
    """Send messages to many; each form is made once."""
    if not len(messages):
        return
    text, records = b"", b""
    for client in list(clients):
        if client.binary:
            records = records or messages.tobytes()
            client.write(records)
        else:
            text = text or lines(messages, names)
            client.write(text)
