"""A served mill as tests use it."""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import httpx

from tidemill.mill import Mill
from tidemill.serve.running import Server
from tidemill.serve.service.service import Service


@dataclass
class Served:
    """A mill, the service and server in front of it, and a client of its HTTP address."""

    mill: Mill
    service: Service
    server: Server
    http: httpx.Client
    ended: bool = field(default=False)

    @property
    def url(self) -> str:
        """The address of HTTP."""
        return self.server.addresses["http"]

    def sql(self, statement: str, status: int = 200) -> dict[str, Any]:
        """A statement over HTTP; its answer, which must have a status."""
        response = self.http.post("/v1/sql", json={"statement": statement})
        assert response.status_code == status, response.text
        found: dict[str, Any] = response.json()
        return found

    def end(self) -> None:
        """End the server, once; the mill stays open."""
        if not self.ended:
            self.ended = True
            self.server.__exit__()
            self.service.close()
            self.http.close()


@dataclass
class Event:
    """A server-sent event."""

    kind: str
    id: str
    data: dict[str, Any]


class Events:
    """Server-sent events of a path, read on a thread of its own."""

    def __init__(self, client: httpx.Client, path: str, **options: Any) -> None:
        self._client, self._path, self._options = client, path, options
        self.events: list[Event] = []
        self.problem: httpx.Response | None = None
        self._arrived = threading.Condition()
        self._over = False
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        with self._client.stream("GET", self._path, **self._options) as response:
            if response.status_code != 200:
                response.read()
                self.problem = response
            else:
                for event in _events(response.iter_lines()):
                    with self._arrived:
                        self.events.append(event)
                        self._arrived.notify_all()
        with self._arrived:
            self._over = True
            self._arrived.notify_all()

    def until(self, found: Any, seconds: float = 30) -> list[Event]:
        """Wait until a condition on all events so far holds."""
        with self._arrived:
            assert self._arrived.wait_for(lambda: found(self.events), seconds), self.events
            return list(self.events)

    def until_over(self, seconds: float = 30) -> list[Event]:
        """Wait for the end of the stream."""
        with self._arrived:
            assert self._arrived.wait_for(lambda: self._over, seconds), self.events
            return list(self.events)

    def changes(self) -> list[Event]:
        """The events that have changes."""
        return [e for e in list(self.events) if e.kind == "message"]


def _events(lines: Iterator[str]) -> Iterator[Event]:
    kind, id_, data = "message", "", ""
    for line in lines:
        name, _, value = line.partition(": ")
        if not line and data:
            yield Event(kind, id_, json.loads(data))
            kind, data = "message", ""
        elif name == "event":
            kind = value
        elif name == "id":
            id_ = value
        elif name == "data":
            data += value


def summed(changes: list[dict[str, Any]]) -> Counter[tuple[Any, ...]]:
    """The rows that lists of changes add up to, with how often each is there."""
    found: Counter[tuple[Any, ...]] = Counter()
    for change in changes:
        for row in change["changes"]:
            found[tuple(v for k, v in row.items() if k != "weight")] += row["weight"]
    assert all(n >= 0 for n in found.values()), found
    return +found
