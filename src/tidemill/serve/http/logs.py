"""The log of the server, as far as it is kept in memory."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import APIRouter, Query

from tidemill.serve.http.callers import ADMIN, WITH_TOKEN, Served
from tidemill.serve.http.models import LogEntry

router = APIRouter(tags=["health"], dependencies=WITH_TOKEN)


@router.get("/v1/logs", dependencies=[ADMIN], summary="The newest entries of the log")
def logs(
    service: Served,
    after: Annotated[int | None, Query(ge=0, le=2**53, description="Only entries behind this number.")] = None,
    level: Annotated[
        Literal["debug", "info", "warning", "error"], Query(description="Of the least important ones.")
    ] = "debug",
    limit: Annotated[int, Query(ge=1, le=10_000, description="At most so many.")] = 500,
) -> list[LogEntry]:
    """Oldest first: the newest ones, or with ``after`` the first ones behind that number.

    docs/logs.md describes events and fields. Numbers begin at 1 with the server; a number that is lower than that of
    the last call tells of a restart.
    """
    return [LogEntry(**entry.shown()) for entry in service.server_log.entries(after, level, limit)]
