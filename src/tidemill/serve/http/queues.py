"""Queues: what waits of each table, and how far each view has read it."""

from __future__ import annotations

from fastapi import APIRouter

from tidemill.serve.http.callers import READ, WITH_TOKEN, Served
from tidemill.serve.http.models import Queue, Queues

router = APIRouter(prefix="/v1/queues", tags=["readers"], dependencies=[*WITH_TOKEN, READ])


@router.get("", summary="List queues")
def list_queues(service: Served) -> Queues:
    """As SHOW QUEUES: one entry for each table and view that reads it."""
    snapshot = service.mill.snapshot()
    found = [Queue(**row) for row in snapshot.show("queues").to_pylist()]
    return Queues(epoch=snapshot.version.epoch, queues=found)
