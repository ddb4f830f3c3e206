"""Views over objects in S3. A server that implements S3's API (moto's) is started on loopback, so nothing is needed.

Run:  python examples/s3/run.py [BATCHES [SPARK_MASTER]]
"""

from __future__ import annotations

import gzip
import json
import logging
import sys
import tempfile
from pathlib import Path
from typing import Any

import boto3
from moto.server import ThreadedMotoServer

import tidemill as tm
from tidemill.config import Settings

KEY = "example"  # any will do here
BATCH = 200
ROOMS = ("kitchen", "cellar", "attic")


def put_batch(client: Any, number: int) -> None:
    """One object of readings; every second one is compressed."""
    readings = (
        {"sensor": i % 6, "at": f"2026-11-{1 + number % 28:02d}T12:{i // 60 % 60:02d}:{i % 60:02d}Z", "celsius": i % 30}
        for i in range(BATCH)
    )
    text = "".join(json.dumps(r) + "\n" for r in readings).encode()
    key = f"readings/day={number % 28:02d}/{number}.json"
    if number % 2:
        key, text = f"{key}.gz", gzip.compress(text)
    client.put_object(Bucket="sensors", Key=key, Body=text)


def rooms(endpoint: str, batches: int, mill: tm.Mill) -> list[dict[str, Any]]:
    """Put batches into a bucket while a mill runs, and give the view after the last one."""
    keys = {"aws_access_key_id": KEY, "aws_secret_access_key": KEY}
    client = boto3.client("s3", endpoint_url=endpoint, region_name="us-east-1", **keys)
    client.create_bucket(Bucket="sensors")
    sensors = "sensor,room\n" + "".join(f"{i},{ROOMS[i % 3]}\n" for i in range(6))
    client.put_object(Bucket="sensors", Key="sensors.csv", Body=sensors.encode())
    script = (Path(__file__).parent / "pipeline.sql").read_text()
    for name, value in {"{endpoint}": endpoint, "{key}": KEY, "{secret}": KEY}.items():
        script = script.replace(name, value)
    mill.script(script)
    for number in range(batches):
        put_batch(client, number)
        report = mill.advance()
        if report is not None:
            print(f"epoch {report.epoch}: {mill.read('by_room').num_rows} rooms")
    for _ in mill.drain():
        pass
    return sorted(mill.read("by_room").to_pylist(), key=lambda row: str(row["room"]))


def main(batches: int, master: str) -> list[dict[str, Any]]:
    """Start the server, run, stop it."""
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    host, port = server.get_host_and_port()
    try:
        with tempfile.TemporaryDirectory() as root, tm.Mill(root, settings=Settings(master=master)) as mill:
            return rooms(f"http://{host}:{port}", batches, mill)
    finally:
        server.stop()


if __name__ == "__main__":
    for row in main(int((sys.argv[1:] or ["6"])[0]), (sys.argv[2:] or ["local[2]"])[0]):
        print(row)
