"""The places a root may lie in: a directory, memory, and S3 over HTTP."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from pathlib import Path

import boto3
import pytest
from moto.server import ThreadedMotoServer

from tidemill.state.objects import Objects


@pytest.fixture(scope="session")
def endpoint() -> Iterator[str]:
    """A real S3 endpoint on loopback, with the environment that points at it."""
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    given = {
        "AWS_ENDPOINT_URL": f"http://{host}:{port}",
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
        "AWS_REGION": "us-east-1",
    }
    before = {name: os.environ.get(name) for name in given}
    os.environ.update(given)
    boto3.client("s3", endpoint_url=given["AWS_ENDPOINT_URL"], region_name="us-east-1").create_bucket(Bucket="mill")
    yield given["AWS_ENDPOINT_URL"]
    for name, value in before.items():
        if value is None:
            del os.environ[name]
        else:
            os.environ[name] = value
    server.stop()


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
