"""Sinks into an object store, behind a real S3 endpoint."""

from __future__ import annotations

import io
import random
import uuid

import boto3
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from sinking import Counted, weighted


@pytest.mark.usefixtures("endpoint")
def test_objects(counted: Counted, endpoint: str, seed: int) -> None:
    """Parquet objects and a Delta table, across a kill."""
    chance, prefix = random.Random(seed), f"sinks-{uuid.uuid4().hex}"
    client = boto3.client("s3", endpoint_url=endpoint, region_name="us-east-1")
    for name, target in (("p", "parquet"), ("d", "delta")):
        options = f"path 's3://mill/{prefix}/{name}', allowHttp 'true', maxBackoff '100 ms'"
        counted.mill.sql(f"CREATE SINK {name} FROM v INTO {target} OPTIONS ({options})")
    for _ in range(3):
        counted.change(chance)
        counted.advance()
        counted.kill()
        counted.open()
        counted.mill.checkpoint()
        assert counted.mill.wait_for_sinks(60)
        assert {s["error"] for s in counted.sinks().values()} == {""}
        listed = client.list_objects_v2(Bucket="mill", Prefix=f"{prefix}/p/")["Contents"]
        keys = [o["Key"] for o in listed if o["Key"].endswith(".parquet")]
        bodies = [client.get_object(Bucket="mill", Key=key)["Body"].read() for key in keys]
        assert weighted(row for body in bodies for row in pq.read_table(io.BytesIO(body)).to_pylist()) == counted.rows
        table = DeltaTable(f"s3://mill/{prefix}/d", storage_options={"AWS_ALLOW_HTTP": "true"})
        assert weighted(table.to_pyarrow_table().to_pylist()) == counted.rows
