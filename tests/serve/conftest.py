"""A server on a mill of the test process, on a free port of loopback."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import httpx
import pytest
from pyspark.sql import SparkSession
from serving import Served

from mill_factory import MillFactory
from tidemill.config import Settings
from tidemill.mill import Mill
from tidemill.serve.access.settings import ServerSettings
from tidemill.serve.running import Server
from tidemill.serve.service.service import Service

ServeFactory = Callable[..., Served]


@contextmanager
def _serving(mill: Mill, **settings: Any) -> Iterator[Served]:
    service = Service(mill, ServerSettings(**{"port": 0, **settings}))
    server = Server(service)
    server.__enter__()
    client = httpx.Client(base_url=server.addresses["http"], timeout=60, verify=False)
    served = Served(mill, service, server, client)
    try:
        yield served
    finally:
        served.end()


@pytest.fixture
def serve(mill_factory: MillFactory) -> Iterator[ServeFactory]:
    """``serve(name="root", mill={...}, **server_settings)`` opens a mill and serves it; all ends with the test.

    Epochs are run by the test, with ``served.mill.advance()``, unless it calls ``served.mill.start()``.
    """
    with ExitStack() as ends:

        def begin(name: str = "root", mill: dict[str, Any] | None = None, **settings: Any) -> Served:
            return ends.enter_context(_serving(mill_factory(name, **(mill or {})), **settings))

        yield begin


@pytest.fixture(scope="module")
def serve_module(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServeFactory]:
    """As :func:`serve`, for servers that the tests of a module share; small epochs run in one task."""
    with ExitStack() as ends:

        def begin(mill: dict[str, Any] | None = None, **settings: Any) -> Served:
            given = {"master": "local[2]", "partitions": 2, "listing_seconds": 0.0, **(mill or {})}
            opened = Mill(tmp_path_factory.mktemp("served"), spark=spark, settings=Settings(**given))
            ends.callback(opened.close)
            return ends.enter_context(_serving(opened, **settings))

        yield begin
