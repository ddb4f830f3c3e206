"""A broker for the tests of a process; each test has topics of its own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.kafka_broker import Broker


@pytest.fixture(scope="session")
def broker() -> Iterator[Broker]:
    """A broker with topics in memory."""
    started = Broker()
    yield started
    started.close()


@pytest.fixture
def topic(request: pytest.FixtureRequest) -> str:
    """A name that no other test has."""
    return "".join(c if c.isalnum() else "-" for c in request.node.name)[:200]
