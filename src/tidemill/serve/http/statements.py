"""``POST /v1/sql``: any statement."""

from __future__ import annotations

from fastapi import APIRouter
from fastapi.responses import JSONResponse
from starlette.responses import Response

from tidemill.serve.encoding.formats import format_of
from tidemill.serve.http.answers import rows_response
from tidemill.serve.http.callers import WITH_TOKEN, CallerRole, Served
from tidemill.serve.http.models import Executed, Plan, Result, StatementBody
from tidemill.serve.service.service import Rows, Text

router = APIRouter(tags=["statements"], dependencies=WITH_TOKEN)


@router.post("/v1/sql", response_model=Result | Plan | Executed, summary="Execute one statement")
def execute(body: StatementBody, service: Served, role: CallerRole, format: str = "json") -> Response:  # noqa: A002
    """SELECT, SHOW and DESCRIBE give rows, EXPLAIN INCREMENTAL a plan; other statements take effect between two
    epochs, and are durable when the answer comes.
    """
    chosen = format_of(format)
    answer = service.execute(body.statement, role, body.timeout, body.epoch)
    if isinstance(answer, Rows):
        return rows_response(service, chosen, answer.epoch, answer.tables)
    if isinstance(answer, Text):
        return JSONResponse({"epoch": answer.epoch, "plan": answer.text})
    return JSONResponse({"ok": True, "epoch": answer.epoch})
