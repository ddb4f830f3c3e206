"""Changes of views as they happen: server-sent events, framed Arrow, and WebSocket."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable
from functools import partial
from typing import Annotated

import pyarrow as pa
from fastapi import APIRouter, Header, Query
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response, StreamingResponse
from starlette.websockets import WebSocket, WebSocketDisconnect

from tidemill.errors import TidemillError
from tidemill.serve.access.tokens import Role
from tidemill.serve.changes.follower import Event, Follower, Given, Progress, Unreadable
from tidemill.serve.changes.follower_groups import Encode
from tidemill.serve.changes.signal import EpochSignal
from tidemill.serve.changes.subscribing import SNAPSHOT, Asked
from tidemill.serve.encoding import json_rows
from tidemill.serve.encoding.client_json import read_json
from tidemill.serve.encoding.errors import described, unexpected
from tidemill.serve.encoding.frames import FRAMED, framed
from tidemill.serve.http.callers import READ, WITH_TOKEN, Served, Signal
from tidemill.serve.http.names import names_in
from tidemill.serve.http.views import Columns, ViewName, ViewNames, Where
from tidemill.serve.service.place import Place
from tidemill.serve.service.service import Service

router = APIRouter(tags=["changes"])

_MOST_ROWS = 50_000
"""Rows of one event; what is more comes in several."""

Start = Annotated[
    str,
    Query(
        alias="from",
        max_length=80,
        description="snapshot: the rows of the newest epoch as insertions, then changes; now: changes from now on; "
        "an epoch: changes after it; the id of an event: what comes behind it.",
    ),
]
Durable = Annotated[bool, Query(description="Give only epochs that no crash can take back.")]
Reset = Annotated[
    bool, Query(description="Begin again from a snapshot, behind an event `reset`, when changes are lost or too old.")
]
StreamFormat = Annotated[str, Query(description="sse or arrow.", pattern="^(sse|arrow)$")]


@router.get(
    "/v1/views/{name}/changes",
    dependencies=[*WITH_TOKEN, READ],
    summary="Follow the changes of a view",
    responses={200: {"content": {"text/event-stream": {}, FRAMED: {}}}},
    response_class=StreamingResponse,
)
async def follow_view(
    name: ViewName,
    service: Served,
    signal: Signal,
    start: Start = SNAPSHOT,
    columns: Columns = "*",
    where: Where = None,
    durable: Durable = False,
    reset: Reset = False,
    format: StreamFormat = "sse",  # noqa: A002
    last_event_id: Annotated[str | None, Header(max_length=80)] = None,
) -> Response:
    """One event for each epoch that changed the view: ``{"epoch", "view", "changes": [{"weight", ...columns}]}``.

    Those of the snapshot that it begins with have ``"initial": true``.

    Further events: ``progress`` when epochs changed nothing, ``trouble`` while the view cannot be read, ``reset``, and
    ``error`` before the end.
    """
    asked = Asked((name.lower(),), last_event_id or start, columns, where, durable)
    return await _stream(service, signal, asked, reset, format)


@router.get(
    "/v1/changes",
    dependencies=[*WITH_TOKEN, READ],
    summary="Follow the changes of several views",
    responses={200: {"content": {"text/event-stream": {}, FRAMED: {}}}},
    response_class=StreamingResponse,
)
async def follow_views(
    views: ViewNames,
    service: Served,
    signal: Signal,
    start: Start = SNAPSHOT,
    durable: Durable = False,
    reset: Reset = False,
    format: StreamFormat = "sse",  # noqa: A002
    last_event_id: Annotated[str | None, Header(max_length=80)] = None,
) -> Response:
    """As for one view: all changes of an epoch come before those of the next, views in the order of their names."""
    names = names_in(views)
    return await _stream(service, signal, Asked(names, last_event_id or start, durable=durable), reset, format)


async def _stream(service: Service, signal: EpochSignal, asked: Asked, reset: bool, format_: str) -> Response:
    place = service.subscriber_place()
    follower, lost = await run_in_threadpool(_follower, service, asked, reset)
    events = _events(service, signal, follower, asked, reset, lost, "arrow" if format_ == "arrow" else "json")
    if format_ == "arrow":
        return StreamingResponse(_counted(place, _frames(service, events)), media_type=FRAMED)
    headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
    return StreamingResponse(_counted(place, _sse(service, events)), headers=headers, media_type="text/event-stream")


def _follower(service: Service, asked: Asked, reset: bool) -> tuple[Follower, TidemillError | None]:
    """A follower, and why it begins again with a snapshot if it does."""
    try:
        return service.subscriptions.follower(asked), None
    except TidemillError as error:
        if not reset or error.number not in _LOST:
            raise
        again = Asked(asked.views, SNAPSHOT, asked.columns, asked.where, asked.durable)
        return service.subscriptions.follower(again), error


async def _counted(place: Place, parts: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    with place:
        async for part in parts:
            yield part


_LOST = ("TM1036", "TM8010", "TM8013", "TM1031")


class Restarted:
    """What follows are the rows of a newer epoch: everything before is to be forgotten."""

    def __init__(self, error: TidemillError) -> None:
        self.error = error


class Ended:
    """Nothing follows."""

    def __init__(self, error: TidemillError) -> None:
        self.error = error


async def _events(
    service: Service,
    signal: EpochSignal,
    follower: Follower,
    asked: Asked,
    reset: bool,
    lost: TidemillError | None,
    kind: str,
    fitting: Callable[[pa.Table], int] | None = None,
) -> AsyncIterator[Event | Restarted | Ended]:
    """What a follower gives, until the server stops or the follower cannot go on.

    ``lost`` is why it begins again with a snapshot: its reader has to forget what it was given before. Progress is left
    out where changes of the same epoch came, and given at most so often as the settings say.
    """
    sent_at, silent = time.monotonic(), service.settings.progress_seconds
    behind: Progress | None = None
    if lost is not None:
        yield Restarted(lost)
    group = signal.join(follower, kind, _encoding(service, kind))
    try:
        while not signal.stopping:
            event = group.event()
            try:
                found = await _next(follower, fitting)
            except TidemillError as error:
                if not reset or error.number not in _LOST:
                    yield Ended(error)
                    return
                yield Restarted(error)
                again = Asked(asked.views, SNAPSHOT, asked.columns, asked.where, asked.durable)
                try:
                    follower = await run_in_threadpool(service.subscriptions.follower, again)
                except TidemillError as other:
                    yield Ended(other)
                    return
                signal.leave(group)
                group = signal.join(follower, kind, _encoding(service, kind))
                continue
            except Exception as error:
                service.server_log.broken("changes", error)
                yield Ended(unexpected(error))
                raise
            if isinstance(found, Given | Unreadable):
                sent_at, behind = time.monotonic(), None
                yield found
            elif isinstance(found, Progress):
                behind = found
            else:
                if behind is not None and time.monotonic() - sent_at >= silent:
                    sent_at = time.monotonic()
                    yield behind
                    behind = None
                await signal.wait(event, silent)
                if behind is None and time.monotonic() - sent_at >= _KEEP_ALIVE:
                    sent_at = time.monotonic()
                    yield Progress(follower.position.epoch, follower.position)
    finally:
        signal.leave(group)


async def _next(follower: Follower, fitting: Callable[[pa.Table], int] | None) -> Event | None:
    """What comes next, at once where it is computed already."""
    if follower.ready():
        return follower.next(_MOST_ROWS, fitting)
    return await run_in_threadpool(follower.next, _MOST_ROWS, fitting)


def _encoding(service: Service, kind: str) -> Encode:
    """Makes the bytes of changes ahead of those who send them."""
    if kind == "arrow":
        return service.log.arrow
    return lambda change: service.log.json(change, service.time_zone)


_KEEP_ALIVE = 15.0
"""Seconds after which a reader hears something, so that both sides learn of a lost connection."""


async def _sse(service: Service, events: AsyncIterator[Event | Restarted | Ended]) -> AsyncIterator[bytes]:
    zone = service.time_zone
    async for event in events:
        match event:
            case Given():
                data = service.log.json(event.change, zone)
                yield b"id: %s\ndata: %s\n\n" % (str(event.position).encode(), data)
            case Progress():
                yield _named("progress", {"epoch": event.epoch}, str(event.position))
            case Unreadable():
                yield _named("trouble", described(event.error))
            case Restarted():
                yield _named("reset", described(event.error))
            case Ended():
                yield _named("error", described(event.error))


def _named(kind: str, data: dict[str, object], id_: str | None = None) -> bytes:
    named = f"event: {kind}\n" + (f"id: {id_}\n" if id_ else "")
    return f"{named}data: {json.dumps(data, ensure_ascii=False)}\n\n".encode()


async def _frames(service: Service, events: AsyncIterator[Event | Restarted | Ended]) -> AsyncIterator[bytes]:
    """A JSON object for each event; behind one of kind ``changes`` an Arrow IPC stream."""
    async for event in events:
        table = b""
        match event:
            case Given():
                head = {"kind": "changes", "epoch": event.change.epoch, "view": event.change.view}
                head |= {"position": str(event.position), "initial": event.change.initial}
                table = service.log.arrow(event.change)
            case Progress():
                head = {"kind": "progress", "epoch": event.epoch, "position": str(event.position)}
            case Unreadable():
                head = {"kind": "trouble", **described(event.error)}
            case Restarted():
                head = {"kind": "reset", **described(event.error)}
            case Ended():
                head = {"kind": "error", **described(event.error)}
        parts = [json.dumps(head).encode(), *((table,) if table else ())]
        yield framed(parts)


# -- WebSocket ----------------------------------------------------------------------------------------


@router.websocket("/v1/ws")
async def websocket(socket: WebSocket) -> None:
    """Several subscriptions over one connection, in JSON.

    The client sends ``{"subscribe": ID, "views": [...], "from", "columns", "where", "durable", "reset"}`` and
    ``{"unsubscribe": ID}``, and gets ``{"id", "kind": "changes" | "progress" | "trouble" | "reset" | "error", ...}``.
    Many changes come in several messages of about 256 KiB: clients refuse larger ones than 1 MiB by default.
    """
    service, signal = socket.app.state.service, socket.app.state.signal
    await socket.accept()
    if socket.scope["state"]["role"] < Role.READ:
        await socket.close(1008)
        return
    connection = _Connection(service, signal, socket)
    try:
        while True:
            message = await socket.receive()
            if message["type"] == "websocket.disconnect":
                break
            await connection.receive(message.get("text"))
    except WebSocketDisconnect:
        pass  # the client has gone while something was sent
    finally:
        await connection.close()


class _Connection:
    """The subscriptions of one WebSocket."""

    def __init__(self, service: Service, signal: EpochSignal, socket: WebSocket) -> None:
        self._service, self._signal, self._socket = service, signal, socket
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._sending = asyncio.Lock()

    async def receive(self, text: str | None) -> None:
        """Do what a message asks for; what is wrong with it is answered. ``text`` is None for a binary message."""
        id_: object = None
        try:
            message = _message(text)
            id_ = message.get("subscribe", message.get("unsubscribe"))
            if "unsubscribe" not in message:
                await self._subscribe(id_, message)
                return
            await self._cancel(str(id_))
            answer: dict[str, object] = {"id": id_, "kind": "unsubscribed"}
        except TidemillError as error:
            answer = {"id": id_, "kind": "error", **described(error)}
        except Exception as error:
            self._service.server_log.broken("WebSocket", error)
            answer = {"id": id_, "kind": "error", **described(unexpected(error))}
        await self._send(answer)

    async def _subscribe(self, id_: object, message: dict[str, object]) -> None:
        if str(id_) in self._tasks or len(self._tasks) >= _MOST_SUBSCRIPTIONS:
            raise _no_message(f"subscription {id_!r} is there already, or there are {_MOST_SUBSCRIPTIONS}")
        asked, reset = _asked(message)
        place = self._service.subscriber_place()
        follower, lost = await run_in_threadpool(_follower, self._service, asked, reset)
        task = asyncio.create_task(self._follow(id_, follower, asked, reset, lost))
        self._tasks[str(id_)] = task
        task.add_done_callback(partial(self._ended, str(id_), place))  # it may be cancelled before it has begun

    def _ended(self, id_: str, place: Place, _: asyncio.Task[None]) -> None:
        place.close()
        self._tasks.pop(id_, None)

    async def _follow(
        self, id_: object, follower: Follower, asked: Asked, reset: bool, lost: TidemillError | None
    ) -> None:
        head = json.dumps(id_)
        zone = self._service.time_zone
        try:
            events = _events(self._service, self._signal, follower, asked, reset, lost, "json", _fitting_message)
            async for event in events:
                match event:
                    case Given():
                        changes = self._service.log.json(event.change, zone).decode()
                        position = json.dumps(str(event.position))
                        await self._text(f'{{"id": {head}, "kind": "changes", "position": {position}, {changes[1:]}')
                    case Progress():
                        found = {"id": id_, "kind": "progress", "epoch": event.epoch, "position": str(event.position)}
                        await self._send(found)
                    case Unreadable():
                        await self._send({"id": id_, "kind": "trouble", **described(event.error)})
                    case Restarted():
                        await self._send({"id": id_, "kind": "reset", **described(event.error)})
                    case Ended():
                        await self._send({"id": id_, "kind": "error", **described(event.error)})
        except (WebSocketDisconnect, RuntimeError):
            pass  # the client has gone while something was sent

    async def _send(self, message: dict[str, object]) -> None:
        await self._text(json.dumps(message, ensure_ascii=False))

    async def _text(self, text: str) -> None:
        async with self._sending:
            await self._socket.send_text(text)

    async def _cancel(self, id_: str) -> None:
        task = self._tasks.get(id_)
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def close(self) -> None:
        """End all subscriptions."""
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


_MOST_SUBSCRIPTIONS = 1000
_MESSAGE_BYTES = 256 << 10
"""Of a message over WebSocket, about: clients take 1 MiB by default."""


def _fitting_message(table: pa.Table) -> int:
    return json_rows.fitting(table, _MESSAGE_BYTES)


def _message(text: str | None) -> dict[str, object]:
    if text is None:
        raise _no_message("a binary message: JSON is sent as text")
    try:
        found = read_json(text)
    except ValueError as error:
        raise _no_message(str(error)) from error
    kinds = ("subscribe", "unsubscribe")
    if not isinstance(found, dict) or sum(k in found for k in kinds) != 1:
        raise _no_message("an object with either subscribe or unsubscribe is wanted")
    if not isinstance(found.get("subscribe", found.get("unsubscribe")), str | int):
        raise _no_message("the id is a text or a number")
    return found


def _asked(message: dict[str, object]) -> tuple[Asked, bool]:
    types: dict[str, type | tuple[type, ...]] = {"views": list, "from": (str, int), "columns": str, "where": str}
    types |= {"durable": bool, "reset": bool, "subscribe": (str, int)}
    for name, value in message.items():
        if name not in types or not isinstance(value, types[name]):
            raise _no_message(f"{name[:40]}: unknown, or of another type")
    views = message.get("views")
    if not isinstance(views, list) or not all(isinstance(v, str) for v in views):
        raise _no_message("views is a list of names")
    asked = Asked(
        tuple(str(v).lower() for v in views),
        str(message.get("from", SNAPSHOT)),
        str(message.get("columns", "*")),
        None if "where" not in message else str(message["where"]),
        bool(message.get("durable", False)),
    )
    return asked, bool(message.get("reset", False))


def _no_message(got: str) -> TidemillError:
    return TidemillError(
        "TM8018",
        "a message over WebSocket is not understood",
        got=got[:200],
        hint='{"subscribe": 1, "views": ["v"]}, or {"unsubscribe": 1}',
    )
