"""Readers: connections with an adaptor, each a table of the mill."""

from __future__ import annotations

from fastapi import APIRouter
from starlette.responses import JSONResponse, Response

from tidemill.plan.sql.sent_text import places_in
from tidemill.serve.access.tokens import Role
from tidemill.serve.http.callers import READ, WITH_TOKEN, WRITE, CallerRole, Served
from tidemill.serve.http.models import Description, Executed, Reader, ReaderBody, Readers
from tidemill.serve.http.requests import create_table
from tidemill.serve.http.views import ViewName, described
from tidemill.serve.service.service import Service

router = APIRouter(prefix="/v1/readers", tags=["readers"], dependencies=WITH_TOKEN)


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
