"""Sinks of mills of the test process."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from sinking import Counted

from mill_factory import MillFactory


@pytest.fixture
def counted(mill_factory: MillFactory, tmp_path: Path) -> Iterator[Counted]:
    """A mill with a table ``t`` of changes and two views: ``v``, its rows, and ``n``, counts and sums by key."""
    yield Counted(mill_factory, tmp_path)
