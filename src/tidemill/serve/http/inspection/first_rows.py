"""``GET /v1/views/{name}/first``: the first rows of a view in the order of a column."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query
from starlette.responses import Response

from tidemill.serve.encoding.formats import format_of
from tidemill.serve.http.answers import EPOCH_HEADER
from tidemill.serve.http.callers import READ, WITH_TOKEN, Served
from tidemill.serve.http.inspection.models import FirstRows
from tidemill.serve.http.views import Epoch, ViewName, Where

router = APIRouter(tags=["views"], dependencies=[*WITH_TOKEN, READ])


@router.get("/v1/views/{name}/first", response_model=FirstRows, summary="The first rows of a view in an order")
def read_first(
    name: ViewName,
    service: Served,
    order: Annotated[str | None, Query(max_length=300, description="A column; any rows without it.")] = None,
    descending: bool = False,
    rows: Annotated[int, Query(ge=1, le=10_000, description="At most so many.")] = 100,
    where: Where = None,
    epoch: Epoch = None,
) -> Response:
    """NaN and then NULL come last in either direction; rows with equal values are in no particular order."""
    at, total, table = service.read_first(name, epoch, where, order, descending, rows)
    json = format_of("json")
    body = b"".join(json.body((table,), service.time_zone))
    head = b'{"epoch": %d, "total": %d, ' % (at, total)
    return Response(head + body, headers={EPOCH_HEADER: str(at)}, media_type=json.media_type)
