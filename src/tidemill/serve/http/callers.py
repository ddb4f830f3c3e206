"""What routes are given: the service, and a check of the caller's role."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Depends, Security
from fastapi.security import HTTPBearer
from starlette.requests import HTTPConnection

from tidemill.serve.access.tokens import Role, not_allowed
from tidemill.serve.changes.signal import EpochSignal
from tidemill.serve.cursors.cursors import Holder
from tidemill.serve.service.service import Service

_BEARER = HTTPBearer(auto_error=False, description="A token of the server's file of tokens; none on loopback without.")


def _service(connection: HTTPConnection) -> Service:
    service: Service = connection.app.state.service
    return service


def _signal(connection: HTTPConnection) -> EpochSignal:
    signal: EpochSignal = connection.app.state.signal
    return signal


def _role(connection: HTTPConnection) -> Role:
    role: Role = connection.scope["state"]["role"]
    return role


def _holder(connection: HTTPConnection) -> Holder:
    state = connection.scope["state"]
    return Holder(state["owner"], state["role"] >= Role.ADMIN)


def needing(needed: Role) -> Any:
    """A dependency that gives the caller's role. TM8004 when it is below ``needed``."""

    def check(role: CallerRole) -> Role:
        if role < needed:
            raise not_allowed(needed, role)
        return role

    return Depends(check)


def _documented(_: Annotated[Any, Security(_BEARER)] = None) -> None:
    """Puts the token into the OpenAPI description; the guard reads it."""


Served = Annotated[Service, Depends(_service)]
Signal = Annotated[EpochSignal, Depends(_signal)]
CursorHolder = Annotated[Holder, Depends(_holder)]
CallerRole = Annotated[Role, Depends(_role)]
WITH_TOKEN = [Depends(_documented)]
READ, WRITE, ADMIN = needing(Role.READ), needing(Role.WRITE), needing(Role.ADMIN)
