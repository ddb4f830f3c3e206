"""The HTTP application of a server."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from anyio.to_thread import current_default_thread_limiter
from fastapi import APIRouter, FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import Response

import tidemill
from tidemill.errors import TidemillError
from tidemill.serve.changes.signal import EpochSignal
from tidemill.serve.dashboard import pages
from tidemill.serve.encoding.error_responses import error_response
from tidemill.serve.http import adaptors, changes, cursors, health, logs, queries, queues, readers, statements, views
from tidemill.serve.http.middleware.failures import Failures, failed
from tidemill.serve.http.middleware.guard import Guard
from tidemill.serve.http.middleware.head import Heads
from tidemill.serve.http.middleware.measured import Measured
from tidemill.serve.http.middleware.segments import Segments
from tidemill.serve.http.models import Problem
from tidemill.serve.service.metrics import Metrics
from tidemill.serve.service.service import Service

_READING_THREADS = 40
"""Threads for requests beside those of statements."""

_PROBLEMS = {
    status: {"model": Problem, "description": text}
    for status, text in (
        (400, "the request is wrong"),
        (401, "a token is missing"),
        (403, "the token's role does not allow this"),
        (404, "there is no such thing"),
        (408, "the time is up; nothing was changed"),
        (409, "not in this state"),
        (410, "no longer retained"),
        (413, "too large"),
        (415, "rows in another format than the table has"),
        (421, "another host"),
        (422, "the request has not the right form"),
        (429, "too many requests"),
        (503, "the mill has ended"),
    )
}


def application(service: Service, more: Sequence[APIRouter] = ()) -> FastAPI:
    """The application that answers for a service, with ``more`` routes than those of this folder.

    ``app.state.signal`` is the :class:`EpochSignal`: its ``stop`` ends all who follow changes.
    """
    signal = EpochSignal(service.mill, service.generations, service.log)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        current_default_thread_limiter().total_tokens = _READING_THREADS + service.settings.max_statements
        signal.start()
        yield
        signal.stop()

    app = FastAPI(
        title="Tidemill",
        version=tidemill.__version__,
        summary="Spark SQL views, always right and always fresh.",
        lifespan=lifespan,
        responses=_PROBLEMS,  # type: ignore[arg-type]
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        strict_content_type=True,
        telemetry={"tracing": False, "metrics": False, "logs": False},  # it would note texts of exceptions
    )
    app.state.service, app.state.signal, app.state.metrics = service, signal, Metrics(service)
    for router in (
        views.results,
        *(part.router for part in (statements, views, changes, cursors, readers, adaptors, queries, queues)),
        *(part.router for part in (health, logs, pages)),
        *more,
    ):
        app.include_router(router)
    app.add_exception_handler(TidemillError, _numbered)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(HTTPException, _http)
    app.add_exception_handler(Exception, _failed)
    app.add_middleware(Failures, service=service)
    app.add_middleware(Measured, metrics=app.state.metrics, service=service)
    app.add_middleware(Guard, service=service)
    app.add_middleware(Segments)
    app.add_middleware(Heads)
    return app


def _problem(request: Request, error: TidemillError) -> Response:
    """The answer to a request that fails; the log has it, too."""
    request.scope["state"]["problem"] = error
    return error_response(error)


async def _numbered(request: Request, error: Exception) -> Response:
    assert isinstance(error, TidemillError)
    return _problem(request, error)


async def _invalid(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    found = error.errors()[0]
    where = ".".join(str(part) for part in found.get("loc", ()))
    return _problem(
        request,
        TidemillError(
            "TM8011",
            "the request has not the right form",
            got=f"{where}: {found.get('msg', '')}"[:300],
            hint="/openapi.json describes all requests",
        ),
    )


async def _http(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    refused = request.scope["state"].get("refused")
    if refused is not None:  # FastAPI makes status 400 of whatever reading a body raises
        return _problem(request, refused)
    if error.status_code == 400:  # FastAPI's for a body that is not UTF-8, is nested too deeply, or ends early
        got, hint = str(error.detail)[:200], "send JSON in UTF-8, whole, without deep nesting or very long numbers"
        return _problem(request, TidemillError("TM8011", "the request has not the right form", got=got, hint=hint))
    got = f"{request.method} {request.url.path}"[:200]
    hint = "/openapi.json lists all paths and methods"
    response = _problem(request, TidemillError("TM8016", "there is no such path or method", got=got, hint=hint))
    response.status_code = error.status_code
    response.headers.update(error.headers or {})
    return response


async def _failed(request: Request, error: Exception) -> Response:
    """The answer where one of the middlewares fails; what is behind them is answered by :class:`Failures`."""
    return failed(request.app.state.service, request.scope, error)
