"""Queries that come and go while the mill runs, each a view."""

from __future__ import annotations

from fastapi import APIRouter
from starlette.responses import JSONResponse, Response

from tidemill.plan.sql.sent_text import places_in
from tidemill.serve.access.tokens import Role
from tidemill.serve.http.callers import READ, WITH_TOKEN, WRITE, CallerRole, Served
from tidemill.serve.http.models import Description, Executed, Plan, QueryBody, Views
from tidemill.serve.http.requests import create_view
from tidemill.serve.http.views import ViewName, described, list_views
from tidemill.serve.service.service import Service

router = APIRouter(prefix="/v1/queries", tags=["queries"], dependencies=WITH_TOKEN)

router.get("", dependencies=[READ], response_model=Views, summary="List queries")(list_views)


@router.post("", dependencies=[WRITE], response_model=Executed, summary="Add a query")
def add_query(body: QueryBody, service: Served, role: CallerRole) -> Response:
    """As CREATE MATERIALIZED VIEW; what is wrong with the SQL is answered with number, line and column."""
    if body.readers is not None:
        service.check_reads(body.sql, body.readers)
    statement, sent = create_view(body)
    with places_in(statement, *sent):
        service.execute(statement, role, body.timeout)
    return JSONResponse({"ok": True, "epoch": service.mill.epoch}, 201)


@router.get("/{name}", dependencies=[READ], summary="Describe a query")
def describe_query(name: ViewName, service: Served) -> Description:
    """Its SQL, columns and status."""
    service.check_view(name)
    return described(service, name)


@router.get("/{name}/plan", dependencies=[READ], summary="Explain a query")
def explain_query(name: ViewName, service: Served) -> Plan:
    """Its incremental plan, with state tables and cost classes."""
    service.check_view(name)
    return Plan(epoch=service.mill.epoch, plan=service.mill.explain_view(name))


@router.delete("/{name}", dependencies=[WRITE], response_model=Executed, summary="Remove a query")
def remove_query(name: ViewName, service: Served, role: CallerRole) -> Response:
    """As DROP VIEW: refused while another query reads it."""
    service.check_view(name)
    service.execute(f"DROP VIEW `{name.replace('`', '``')}`", role)
    return JSONResponse({"ok": True, "epoch": service.mill.epoch})


@router.post("/{name}/pause", dependencies=[WRITE], response_model=Executed, summary="Pause a query")
def pause_query(name: ViewName, service: Served, role: CallerRole) -> Response:
    """As ALTER VIEW name PAUSE: it and the queries that read it are not maintained."""
    return _altered(service, name, "PAUSE", role)


@router.post("/{name}/resume", dependencies=[WRITE], response_model=Executed, summary="Resume a query")
def resume_query(name: ViewName, service: Served, role: CallerRole) -> Response:
    """As ALTER VIEW name RESUME: it is built again, beside its old rows."""
    return _altered(service, name, "RESUME", role)


def _altered(service: Service, name: str, change: str, role: Role) -> Response:
    service.check_view(name)
    service.execute(f"ALTER VIEW `{name.replace('`', '``')}` {change}", role)
    return JSONResponse({"ok": True, "epoch": service.mill.epoch})
