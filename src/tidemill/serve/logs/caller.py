"""Who has sent the request that is being answered."""

from __future__ import annotations

from contextvars import ContextVar
from dataclasses import dataclass
from urllib.parse import unquote


@dataclass
class Caller:
    """A client; ``statement`` is what it has asked for last."""

    protocol: str
    client: str
    role: str = ""
    statement: str = ""

    def fields(self) -> dict[str, str]:
        """As fields of an event."""
        return {"protocol": self.protocol, "client": self.client, "role": self.role, "statement": self.statement}


CALLER: ContextVar[Caller | None] = ContextVar("caller", default=None)
"""Of this thread or task; None where no client asked."""


def client_address(peer: str) -> str:
    """The address in what gRPC calls a peer: ``ipv4:127.0.0.1:4711``, ``ipv6:%5B::1%5D:4711``."""
    kind, _, rest = peer.partition(":")
    return unquote(rest).rpartition(":")[0].strip("[]") if kind in ("ipv4", "ipv6") else kind
