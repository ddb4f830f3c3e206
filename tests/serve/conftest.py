"""A server on a mill of the test process, on a free port of loopback."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest
from serving import Served

from mill_factory import MillFactory
from tidemill.serve.access.settings import ServerSettings
from tidemill.serve.running import Server
from tidemill.serve.service.service import Service

ServeFactory = Callable[..., Served]


@pytest.fixture
def serve(mill_factory: MillFactory) -> Iterator[ServeFactory]:
    """``serve(name="root", mill={...}, **server_settings)`` opens a mill and serves it; all ends with the test.

    Epochs are run by the test, with ``served.mill.advance()``, unless it calls ``served.mill.start()``.
    """
    ends: list[Callable[[], None]] = []

    def begin(name: str = "root", mill: dict[str, Any] | None = None, **settings: Any) -> Served:
        opened = mill_factory(name, **(mill or {}))
        service = Service(opened, ServerSettings(**{"port": 0, **settings}))
        server = Server(service)
        server.__enter__()
        client = httpx.Client(base_url=server.addresses["http"], timeout=60, verify=False)
        served = Served(opened, service, server, client)
        ends.append(served.end)
        return served

    yield begin
    for end in ends:
        end()
