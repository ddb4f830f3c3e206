"""``GET /v1/sources``: how far tables are read, and what went wrong."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter

from tidemill.runtime.files.file_progress import FileProgress
from tidemill.runtime.read.snapshot import Snapshot
from tidemill.runtime.tables.suffixes import STATUS_SUFFIX
from tidemill.serve.http.callers import READ, WITH_TOKEN, Served
from tidemill.serve.http.inspection.models import Connection, Source, Sources, UnreadableFile

router = APIRouter(tags=["inspection"], dependencies=[*WITH_TOKEN, READ])


@router.get("/v1/sources", summary="How far tables are read")
def list_sources(service: Served) -> Sources:
    """For each table what waits to be read, files that cannot be read, and connections."""
    snapshot = service.mill.snapshot()
    waiting = {q["table"]: (q["waiting_files"], q["waiting_bytes"]) for q in snapshot.show("queues").to_pylist()}
    unreadable = snapshot.unreadable_files()
    found = []
    for row in snapshot.show("tables").to_pylist():
        name = row.pop("name")
        files, size = waiting.get(name, (None, None))
        found.append(
            Source(
                table=name,
                **row,
                waiting_files=files,
                waiting_bytes=size,
                unreadable=[_unreadable(f) for f in unreadable.get(name, ())],
                connections=_connections(snapshot, name),
            )
        )
    return Sources(epoch=snapshot.version.epoch, sources=found)


def _unreadable(file: FileProgress) -> UnreadableFile:
    retry_at = None if file.retry_at is None else file.retry_at / 1e3
    return UnreadableFile(path=file.path, attempts=file.attempts, retry_at=retry_at, error=file.error)


def _connections(snapshot: Snapshot, table: str) -> list[Connection] | None:
    if table + STATUS_SUFFIX not in snapshot.socket_names():
        return None
    return [_connection(row) for row in snapshot.connections(table + STATUS_SUFFIX).to_pylist()]


def _connection(row: dict[str, Any]) -> Connection:
    since = row.pop("since")
    return Connection(**row, since=None if since is None else since.timestamp())
