"""Views: their list, what they are, and their rows."""

from __future__ import annotations

import json
from typing import Annotated

from fastapi import APIRouter, Path, Query
from starlette.responses import Response

from tidemill.serve.encoding.formats import format_of
from tidemill.serve.encoding.frames import FRAMED, framed
from tidemill.serve.http.answers import EPOCH_HEADER, limited_together, rows_response
from tidemill.serve.http.callers import READ, WITH_TOKEN, Served
from tidemill.serve.http.models import Column, Description, LookupBody, Result, Results, Views, ViewStatus
from tidemill.serve.http.names import DECODED, names_in
from tidemill.serve.service.service import Service

results = APIRouter(tags=["views"], dependencies=[*WITH_TOKEN, READ])
router = APIRouter(prefix="/v1/views", tags=["views"], dependencies=[*WITH_TOKEN, READ])

ViewName = Annotated[
    str, Path(max_length=900, description="A view, or a table that can be read; `/` in it as %2F."), DECODED
]
ViewNames = Annotated[
    str, Query(max_length=30_000, description="Names, separated by commas; one that has a comma in backticks.")
]
BINARY = "application/octet-stream"
"""Of an Arrow stream in a request: tools that read OpenAPI descriptions know how to send it."""
Epoch = Annotated[int | None, Query(ge=0, le=2**53, description="A sealed epoch; the newest by default.")]
Columns = Annotated[str, Query(max_length=10_000, description="A SELECT list over the columns of the view.")]
Where = Annotated[str | None, Query(max_length=10_000, description="A condition in Spark SQL.")]
FormatName = Annotated[str, Query(description="json, csv or arrow.")]


@router.get("", summary="List views")
def list_views(service: Served) -> Views:
    """All views with their status."""
    found = [_status(row) for row in service.mill.status()]
    mill = service.mill
    return Views(epoch=mill.epoch, durable_epoch=mill.durable_epoch, time_zone=service.time_zone, views=found)


@router.get("/{name}", response_model=Result, summary="All rows of a view")
def read_view(
    name: ViewName,
    service: Served,
    format: FormatName = "json",  # noqa: A002
    epoch: Epoch = None,
    columns: Columns = "*",
    where: Where = None,
) -> Response:
    """The rows at one epoch, in no particular order, repeated as often as the view has them."""
    chosen = format_of(format)
    if columns.strip() == "*" and where is None:
        zone = service.time_zone
        found = service.encoded(name, epoch, format, lambda table: b"".join(chosen.body((table,), zone)))
        if found is not None:
            at, body = found
            return Response(chosen.head(at) + body, headers={EPOCH_HEADER: str(at)}, media_type=chosen.media_type)
    return rows_response(service, chosen, *service.read(name, epoch, columns, where))


@router.get("/{name}/description", summary="Describe a view or table")
def describe_view(name: ViewName, service: Served) -> Description:
    """Columns, and of a view its query and status."""
    return described(service, name)


@router.post("/{name}/lookup", response_model=Result, summary="The rows of a view with some keys")
def look_up_rows(
    name: ViewName,
    body: LookupBody,
    service: Served,
    format: FormatName = "json",  # noqa: A002
    epoch: Epoch = None,
) -> Response:
    """Each row behind the number of the key that it is for, `__probe`, counted from 0; in the order of the keys."""
    at, found = service.look_up(name, body.on, body.keys, epoch)
    return rows_response(service, format_of(format), at, (found,))


@results.get("/v1/results", response_model=Results, summary="All rows of several views at one epoch")
def read_views(
    views: ViewNames,
    service: Served,
    format: Annotated[str, Query(description="json or arrow.", pattern="^(json|arrow)$")] = "json",  # noqa: A002
    epoch: Epoch = None,
) -> Response:
    """In JSON an object for each view. In Arrow a JSON head and IPC streams, each behind its length in bytes."""
    names = list(names_in(views))
    at, found = service.read_all(names, epoch)
    chosen = format_of(format)
    limited = limited_together(service.settings.max_rows, found) if format == "json" else found
    bodies = [b"".join(chosen.body(parts, service.time_zone)) for parts in limited.values()]
    if format == "arrow":
        return Response(framed([json.dumps({"epoch": at, "views": names}).encode(), *bodies]), media_type=FRAMED)
    shown = b", ".join(json.dumps(n).encode() + b": {" + b for n, b in zip(names, bodies, strict=True))
    return Response(b'{"epoch": %d, "views": {%s}}' % (at, shown), media_type=chosen.media_type)


def described(service: Service, name: str) -> Description:
    """What is known of a view or table. TM2012 when there is none of this name."""
    name, snapshot = name.lower(), service.mill.snapshot()
    rows = snapshot.describe(name).to_pylist()
    view = snapshot.catalog.views.get(name)
    status = next((_status(row) for row in service.mill.status() if row[0] == name), None)
    return Description(
        name=name,
        columns=[Column(name=r["col_name"], type=r["data_type"], nullable=r["nullable"]) for r in rows],
        query=None if view is None else view.query,
        status=status,
    )


def _status(row: tuple[str, str, int, str]) -> ViewStatus:
    return ViewStatus.model_validate(dict(zip(("name", "status", "created_at_epoch", "detail"), row, strict=True)))
