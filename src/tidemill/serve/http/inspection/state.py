"""``GET /v1/state``: how large state is, and what is durable."""

from __future__ import annotations

from dataclasses import asdict

from fastapi import APIRouter

from tidemill.serve.http.callers import READ, WITH_TOKEN, Served
from tidemill.serve.http.inspection.models import DurableEpoch, State, StateSize, StateTableSize

router = APIRouter(tags=["inspection"], dependencies=[*WITH_TOKEN, READ])


@router.get("/v1/state", summary="Sizes of state, and checkpoints")
def describe_state(service: Served) -> State:
    """State tables with their runs, the size of all state over the newest epochs, and when epochs became durable."""
    mill, sizes = service.mill, service.state_sizes
    return State(
        epoch=mill.epoch,
        durable_epoch=mill.durable_epoch,
        first_epoch=mill.snapshot().version.horizon,
        tables=[StateTableSize(**asdict(t)) for t in sizes.tables()],
        history=[StateSize(**asdict(s)) for s in list(sizes.history)],
        checkpoints=[DurableEpoch(**asdict(c)) for c in list(sizes.checkpoints)],
    )
