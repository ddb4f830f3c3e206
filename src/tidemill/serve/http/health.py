"""Whether the server answers, whether the mill works, and what has happened lately."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response

from tidemill.serve.http.callers import READ, WITH_TOKEN, Served
from tidemill.serve.http.models import Health
from tidemill.serve.service.metrics import CONTENT_TYPE

router = APIRouter(tags=["health"])


@router.get("/healthz", summary="Is the process alive?")
async def healthz(service: Served) -> Health:
    """Always ``ok`` while the server answers."""
    return Health(status="ok", epoch=service.mill.epoch, durable_epoch=service.mill.durable_epoch)


@router.get("/readyz", response_model=Health, summary="Are views kept fresh?")
async def readyz(service: Served) -> Response:
    """503 when an error has ended the epochs; views are then as of the last sealed one."""
    failure = service.mill.failure
    found = Health(
        status="ok" if failure is None else "stopped",
        epoch=service.mill.epoch,
        durable_epoch=service.mill.durable_epoch,
        detail="" if failure is None else str(failure).splitlines()[0],
    )
    return JSONResponse(found.model_dump(), 200 if failure is None else 503)


@router.get("/metrics", dependencies=[*WITH_TOKEN, READ], response_class=PlainTextResponse, summary="Metrics")
def metrics(request: Request) -> Response:
    """In the text format of Prometheus; docs/metrics.md describes them."""
    return Response(request.app.state.metrics.text(), media_type=CONTENT_TYPE)


@router.get("/v1/epochs", dependencies=[*WITH_TOKEN, READ], summary="Reports of the newest epochs")
def epochs(service: Served, after: Annotated[int, Query(ge=0, le=2**53)] = 0) -> list[dict[str, Any]]:
    """What each epoch did, in numbers, the oldest first; ``sealed_at`` is in seconds since 1970."""
    return [{"sealed_at": at, **report.shown()} for at, report in service.reports(after)]


@router.get("/v1/warnings", dependencies=[*WITH_TOKEN, READ], summary="The newest warnings")
def warnings(service: Served) -> list[dict[str, Any]]:
    """What went wrong and is tried again, the oldest first."""
    return [{"at": at, "warning": text} for at, text in service.warnings()]
