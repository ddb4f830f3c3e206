"""The places a root may lie in: a directory, memory, and S3 over HTTP."""

from __future__ import annotations

import uuid
from pathlib import Path

import pytest

from tidemill.state.versions.objects import Objects


@pytest.fixture(params=["directory", "memory", "s3"])
def objects(request: pytest.FixtureRequest, tmp_path: Path) -> Objects:
    """An empty place."""
    if request.param == "directory":
        made = Objects(tmp_path / "root")
    elif request.param == "memory":
        made = Objects(f"memory:///{uuid.uuid4().hex}")
    else:
        request.getfixturevalue("endpoint")
        made = Objects(f"s3://mill/{uuid.uuid4().hex}")
    made.make()
    return made
