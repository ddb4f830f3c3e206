"""Readers: connections with an adaptor, each a table of the mill."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Header
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from tidemill.plan.sql.sent_text import places_in
from tidemill.runtime.ingest.posting import CONTENT_TYPES
from tidemill.serve.access.tokens import Role
from tidemill.serve.http.callers import READ, WITH_TOKEN, WRITE, CallerRole, Served
from tidemill.serve.http.models import Added, Description, Executed, Reader, ReaderBody, Readers
from tidemill.serve.http.requests import create_table
from tidemill.serve.http.views import ViewName, described
from tidemill.serve.service.service import Service

router = APIRouter(prefix="/v1/readers", tags=["readers"], dependencies=WITH_TOKEN)

Key = Annotated[str | None, Header(description="what is sent again with the same key is there once: `sender:7`")]


@router.get("", dependencies=[READ], summary="List readers")
def list_readers(service: Served) -> Readers:
    """All readers, with the rows that they have given."""
    snapshot = service.mill.snapshot()
    return Readers(epoch=snapshot.version.epoch, readers=[Reader(**r) for r in snapshot.show("tables").to_pylist()])


@router.post("", dependencies=[WRITE], response_model=Executed, summary="Add a reader")
def add_reader(body: ReaderBody, service: Served, role: CallerRole) -> Response:
    """As CREATE TABLE: a connection (a path, URL or address) and an adaptor (a format with its options)."""
    statement, sent = create_table(body)
    with places_in(statement, *sent):
        service.execute(statement, role)
    return JSONResponse({"ok": True, "epoch": service.mill.epoch}, 201)


@router.get("/{name}", dependencies=[READ], summary="Describe a reader")
def describe_reader(name: ViewName, service: Served) -> Description:
    """Its columns."""
    service.check_table(name)
    return described(service, name)


@router.delete("/{name}", dependencies=[WRITE], response_model=Executed, summary="Remove a reader")
def remove_reader(name: ViewName, service: Served, role: CallerRole) -> Response:
    """As DROP TABLE: refused while a query reads it."""
    service.check_table(name)
    service.execute(f"DROP TABLE `{name.replace('`', '``')}`", role)
    return JSONResponse({"ok": True, "epoch": service.mill.epoch})


@router.post(
    "/{name}/rows",
    dependencies=[WRITE],
    summary="Add rows",
    openapi_extra={
        "requestBody": {
            "required": True,
            "content": {type_: {"schema": {"type": "string"}} for types in CONTENT_TYPES.values() for type_ in types},
        }
    },
)
async def add_rows(name: ViewName, request: Request, service: Served, idempotency_key: Key = None) -> Added:
    """Bytes in the format of a table with ``path 'ingest://'``; they are durable when the answer comes, and there once
    for each ``Idempotency-Key``. 429 while too many bytes wait to be read.
    """
    data = await request.body()
    given = data, idempotency_key, request.headers.get("content-type", "")
    return Added(added=await run_in_threadpool(service.mill.add_rows, name, *given), bytes=len(data))


@router.post("/{name}/pause", dependencies=[WRITE], response_model=Executed, summary="Pause a reader")
def pause_reader(name: ViewName, service: Served, role: CallerRole) -> Response:
    """As ALTER TABLE name PAUSE: what comes waits in its queue."""
    return _altered(service, name, "PAUSE", role)


@router.post("/{name}/resume", dependencies=[WRITE], response_model=Executed, summary="Resume a reader")
def resume_reader(name: ViewName, service: Served, role: CallerRole) -> Response:
    """As ALTER TABLE name RESUME: what has waited is admitted."""
    return _altered(service, name, "RESUME", role)


def _altered(service: Service, name: str, change: str, role: Role) -> Response:
    service.check_table(name)
    service.execute(f"ALTER TABLE `{name.replace('`', '``')}` {change}", role)
    return JSONResponse({"ok": True, "epoch": service.mill.epoch})
