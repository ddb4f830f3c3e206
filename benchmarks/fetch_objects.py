"""Reading many small objects of S3 as a task does, against boto3 one at a time; an endpoint with 20 ms a request.

Both sides are one process and read the same objects: the splits of one task in their order, fetched ahead
(``tidemill.sources.objects.small_objects``), and ``get_object`` in a loop. No rows are parsed. Sides alternate, and
every side reads through a connection that was used before. The server is Python too, and shares the machine.
"""

from __future__ import annotations

import argparse
import os
import time
from typing import Any

import boto3
import numpy as np

from benchmarks.measuring import heading, table, verdict
from benchmarks.slow_s3 import slow_s3
from tidemill.sources.locations.location import location_of, reader_of
from tidemill.sources.objects.small_objects import SmallObjects
from tidemill.sources.split import Split

GOAL = 5.0


def fetch(path: str, options: dict[str, str]) -> int:
    """Bytes of all objects, as a scan reads them."""
    infos = location_of(path, options).listing()
    splits = [Split("t", i.path, 0, i.size, i.size, i.modified, etag=i.etag) for i in infos]
    ahead = SmallObjects(options)
    for split in splits:
        ahead.expect(split)
    total = 0
    for split in splits:
        reader = reader_of(split, options, coming=ahead.take(split))
        reader.open(0)
        total += len(reader.fill())
        reader.close()
    return total


def fetch_in_turn(client: Any, bucket: str, prefix: str) -> int:
    """The same with boto3."""
    total = 0
    for page in client.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=prefix):
        for found in page["Contents"]:
            total += len(client.get_object(Bucket=bucket, Key=found["Key"])["Body"].read())
    return total


def main() -> None:
    """Measure and print."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--small", action="store_true", help="few objects; the ratio means little")
    options.add_argument("--objects", type=int, default=500)
    options.add_argument("--bytes", type=int, default=8 << 10)
    options.add_argument("--rounds", type=int, default=3)
    options.add_argument("--latency", type=float, default=20.0, help="of a request, in milliseconds")
    given = options.parse_args()
    count, rounds = (50, 1) if given.small else (given.objects, given.rounds)
    heading(f"fetch_objects: {count} objects of {given.bytes:,} bytes, {given.latency:g} ms a request")
    seconds: dict[str, list[float]] = {"boto3, one at a time": [], "Tidemill, one task": []}
    with slow_s3(given.latency, "bench") as environment:
        os.environ.update(environment)
        client = boto3.client("s3", endpoint_url=environment["AWS_ENDPOINT_URL"], region_name="us-east-1")
        for number in range(count):
            client.put_object(Bucket="bench", Key=f"in/{number:06d}", Body=bytes(given.bytes))
        sides = {
            "boto3, one at a time": lambda: fetch_in_turn(client, "bench", "in/"),
            "Tidemill, one task": lambda: fetch("s3://bench/in/", {}),
        }
        for number in range(rounds):
            for name in sorted(sides, reverse=bool(number % 2)):
                start = time.perf_counter()
                assert sides[name]() == count * given.bytes
                seconds[name].append(time.perf_counter() - start)
    medians = {name: float(np.median(times)) for name, times in seconds.items()}
    lines = [(name, s * 1e3, count / s, count * given.bytes / s / 1e6) for name, s in medians.items()]
    table(("side", "ms", "objects/s", "MB/s"), lines)
    verdict("boto3 / Tidemill", medians["boto3, one at a time"] / medians["Tidemill, one task"], GOAL)


if __name__ == "__main__":
    main()
