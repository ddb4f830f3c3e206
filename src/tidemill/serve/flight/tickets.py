"""What Flight's tickets, descriptors and actions ask for: JSON objects."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tidemill.errors import TidemillError, nearest
from tidemill.serve.changes.subscribing import SNAPSHOT, Asked
from tidemill.serve.encoding.client_json import read_json

_Types = Mapping[str, type | tuple[type, ...]]
_VIEW: _Types = {"view": str, "epoch": int, "columns": str, "where": str}
_STATEMENT: _Types = {"sql": str, "epoch": int}
_CHANGES: _Types = {"changes": str, "from": (str, int), "columns": str, "where": str, "durable": bool}
_KINDS: Mapping[str, _Types] = {"view": _VIEW, "sql": _STATEMENT, "changes": _CHANGES}


def ticket_of(data: bytes) -> tuple[str, dict[str, Any]]:
    """The kind of a ticket (``view``, ``sql`` or ``changes``) and what it says. TM8040 for one that is none.

    ``{"view": NAME, "epoch", "columns", "where"}`` asks for rows, ``{"sql": STATEMENT, "epoch"}`` for an answer,
    ``{"changes": NAME, "from", "columns", "where", "durable"}`` for changes until the call is cancelled.
    """
    try:
        found = read_json(data)
    except ValueError as error:
        raise _no_ticket(str(error)) from error
    kinds = [k for k in _KINDS if isinstance(found, dict) and k in found]
    if len(kinds) != 1:
        raise _no_ticket("it has not just one of view, sql and changes")
    kind = kinds[0]
    for name, value in found.items():
        wanted = _KINDS[kind].get(name)
        if wanted is None:
            raise _no_ticket(f"{name!r}: {nearest(str(name), _KINDS[kind])}")
        if not isinstance(value, wanted) or (isinstance(value, bool) and wanted is not bool):
            raise _no_ticket(f"{name!r} has another type")
    return kind, found


def asked_in(ticket: Mapping[str, Any]) -> Asked:
    """What a ticket of changes asks for."""
    return Asked(
        (str(ticket["changes"]).lower(),),
        str(ticket.get("from", SNAPSHOT)),
        ticket.get("columns", "*"),
        ticket.get("where"),
        ticket.get("durable", False),
    )


def _no_ticket(got: str) -> TidemillError:
    return TidemillError(
        "TM8040",
        "this Flight ticket or command is not understood",
        got=got[:200],
        hint='a JSON object: {"view": "v"}, {"sql": "SELECT ..."} or {"changes": "v"}',
    )
