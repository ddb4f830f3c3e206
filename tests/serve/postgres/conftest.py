"""A server of PostgreSQL's protocol for all tests of a file."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from postgres_server import PostgresServer, open_server
from pyspark.sql import SparkSession

ServeFactory = Callable[..., PostgresServer]


@pytest.fixture(scope="module")
def start(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServeFactory]:
    """``start(**settings)`` opens a mill in a time zone of its own, and serves it; all ends with the file's tests."""
    ends: list[Callable[[], None]] = []

    def begin(mill: dict[str, Any] | None = None, **settings: Any) -> PostgresServer:
        directory: Path = tmp_path_factory.mktemp("postgres")
        server = open_server(spark, directory, mill or {}, settings)
        ends.append(server.end)
        return server

    yield begin
    for end in ends:
        end()


@pytest.fixture(scope="module")
def server(start: ServeFactory) -> PostgresServer:
    """A server whose mill has the views of :mod:`postgres_server`, at its first epoch."""
    served = start()
    served.fill()
    return served


@pytest.fixture
def connection(server: PostgresServer) -> Iterator[psycopg.Connection[Any]]:
    """A connection of psycopg's that commits by itself."""
    with server.connect(autocommit=True) as opened:
        yield opened
