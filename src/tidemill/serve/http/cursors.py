"""Cursors: changes of views, pulled so many rows at a time."""

from __future__ import annotations

import json
from typing import Annotated

from fastapi import APIRouter, Path, Query
from starlette.concurrency import run_in_threadpool
from starlette.responses import JSONResponse, Response

from tidemill.serve.changes.position import Position
from tidemill.serve.changes.subscribing import Asked
from tidemill.serve.cursors.cursors import Fetched
from tidemill.serve.encoding.errors import described
from tidemill.serve.encoding.frames import FRAMED, framed
from tidemill.serve.http.callers import READ, WITH_TOKEN, CursorHolder, Served, Signal
from tidemill.serve.http.models import CursorBody, CursorList, CursorState
from tidemill.serve.http.names import DECODED
from tidemill.serve.service.service import Service
from tidemill.serve.stored.state_store import CursorRecord

router = APIRouter(prefix="/v1/cursors", tags=["cursors"], dependencies=[*WITH_TOKEN, READ])

_MOST_ROWS = 100_000

CursorId = Annotated[str, Path(max_length=300), DECODED]


@router.post("", summary="Open a cursor")
def open_cursor(body: CursorBody, service: Served, holder: CursorHolder) -> CursorState:
    """A position in the changes of some views, which outlives clients and the server."""
    asked = Asked(tuple(n.lower() for n in body.views), body.start, body.columns, body.where, body.durable)
    return _state(service, service.cursors.open(asked, holder))


@router.get("", summary="List cursors")
def list_cursors(service: Served, holder: CursorHolder) -> CursorList:
    """The cursors that were opened with the caller's token, and for an admin all; the oldest first."""
    return CursorList(cursors=[_state(service, record) for record in service.cursors.records(holder)])


@router.get("/{cursor}", summary="Describe a cursor")
def describe_cursor(cursor: CursorId, service: Served, holder: CursorHolder) -> CursorState:
    """What it follows, and how far it is."""
    return _state(service, service.cursors.record(cursor, holder))


@router.delete("/{cursor}", summary="Close a cursor")
def close_cursor(cursor: CursorId, service: Served, holder: CursorHolder) -> Response:
    """Forget it."""
    service.cursors.close(cursor, holder)
    return JSONResponse({"ok": True})


@router.post("/{cursor}/fetch", summary="Fetch the next rows")
async def fetch(
    cursor: CursorId,
    service: Served,
    holder: CursorHolder,
    signal: Signal,
    rows: Annotated[int, Query(ge=1, le=_MOST_ROWS, description="At most so many rows.")] = 1000,
    after: Annotated[
        str | None, Query(max_length=80, description="A position that was given: give again what came behind it.")
    ] = None,
    wait: Annotated[float, Query(ge=0, le=60, description="Seconds to wait when there is nothing yet.")] = 0.0,
    format: Annotated[str, Query(description="json or arrow.", pattern="^(json|arrow)$")] = "json",  # noqa: A002
) -> Response:
    """Changes behind the last fetch, each once and in the order of epochs; ``after`` repeats a fetch."""
    position = None if after is None else Position.parse(after)
    loop_end = wait
    while True:
        event = signal.event()
        found = await run_in_threadpool(service.cursors.fetch, cursor, holder, rows, position)
        if found.given or loop_end <= 0 or signal.stopping:
            break
        seconds = min(loop_end, 1.0)
        await signal.wait(event, seconds)
        loop_end -= seconds
        position = None
    write = _framed if format == "arrow" else _json
    return await run_in_threadpool(write, service, cursor, found)


def _head(cursor: CursorId, found: Fetched) -> dict[str, object]:
    return {
        "cursor": cursor,
        "position": str(found.position),
        "epoch": found.epoch,
        "up_to_date": found.up_to_date,
        **({} if found.trouble is None else {"trouble": described(found.trouble)}),
    }


def _json(service: Service, cursor: CursorId, found: Fetched) -> Response:
    zone = service.time_zone
    changes = b", ".join(service.log.json(g.change, zone) for g in found.given)
    head = json.dumps(_head(cursor, found), ensure_ascii=False)[:-1].encode()
    return Response(head + b', "changes": [' + changes + b"]}", media_type="application/json")


def _framed(service: Service, cursor: CursorId, found: Fetched) -> Response:
    """A JSON head and Arrow IPC streams, each behind its length in bytes (4 bytes, little-endian)."""
    parts = [json.dumps(_head(cursor, found)).encode(), *(service.log.arrow(g.change) for g in found.given)]
    body = framed(parts)
    return Response(body, media_type=FRAMED)


def _state(service: Service, record: CursorRecord) -> CursorState:
    asked = Asked.of(json.loads(record.asked))
    position = Position.parse(record.position)
    newest = service.generations.durable if asked.durable else service.mill.epoch
    return CursorState(
        cursor=record.id,
        views=list(asked.views),
        position=record.position,
        lag=max(0, newest - position.epoch),
        created=record.created,
        used=record.used,
    )
