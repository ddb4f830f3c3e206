"""A topic of JSON messages grouped by key: Tidemill, Bytewax, Spark over the same rows in files, and a bare consumer.

The broker is Tansu with its topics in memory, a process beside the sides. Every side has been warmed up over a small
topic. The bare consumers are ``confluent-kafka`` in two processes, each of which fetches one partition and throws the
messages away. Bytewax (`pip install bytewax`) runs as two processes with the standard library's JSON, as its own
examples do; it is left out where it is not installed. No ratio is printed unless all answers are equal.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import statistics
import subprocess
import sys
import time
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
from confluent_kafka import Consumer, TopicPartition
from tests.kafka_broker import Broker

from benchmarks.measuring import heading, run_side, table, verdict, workspace
from benchmarks.tidemill_side import open_mill

PARTITIONS, KEYS = 2, 1000
GOAL_BARE, GOAL_BYTEWAX = 1.5, 5.0
_COLUMNS = "(k INT, v BIGINT, name STRING)"
_QUERY = "SELECT k, COUNT(*) AS n, SUM(v) AS s FROM t GROUP BY k"


def fill(broker: Broker, topic: str, rows: int, lines: Path) -> int:
    """Messages of both partitions, and the same rows as files of lines; returns their bytes."""
    random, size = np.random.default_rng(1), 0
    broker.create(topic, PARTITIONS)
    lines.mkdir(parents=True)
    for partition in range(PARTITIONS):
        keys, values = random.integers(0, KEYS, rows // PARTITIONS), random.integers(0, 10**6, rows // PARTITIONS)
        texts = [f'{{"k":{k},"v":{v},"name":"item {k}"}}' for k, v in zip(keys.tolist(), values.tolist(), strict=True)]
        broker.send(topic, texts[:-1], partition)
        broker.send(topic, texts[-1:], partition)  # whose offset the broker tells right: Bytewax reads up to there
        (lines / f"{partition}.json").write_text("\n".join(texts))
        size += sum(map(len, texts))
    return size


def _answer(rows: Any) -> list[int]:
    """Keys, rows and sum of all groups, and a digest of them."""
    found = sorted((int(k), int(n), int(s)) for k, n, s in rows)
    digest = sum(hash(row) for row in found)
    return [len(found), sum(n for _, n, _ in found), sum(s for *_, s in found), digest]


def tidemill(work: str, servers: str, topic: str, small: str) -> dict[str, Any]:
    """Seconds of the epochs that read the topic."""
    with open_mill(Path(work), listing_seconds=0.0, checkpoint_seconds=1e9) as mill:
        for name, of in (("warm", small), ("t", topic)):
            options = f"'kafka.bootstrap.servers' '{servers}', subscribe '{of}', 'value.format' 'json'"
            mill.sql(f"CREATE TABLE {name} {_COLUMNS} USING kafka OPTIONS ({options}, startingOffsets 'earliest')")
        mill.sql(f"CREATE MATERIALIZED VIEW w AS {_QUERY.replace(' t ', ' warm ')}")
        list(mill.drain())
        mill.sql(f"CREATE MATERIALIZED VIEW g AS {_QUERY}")
        begin = time.perf_counter()
        epochs = len(list(mill.drain()))
        seconds = time.perf_counter() - begin
        rows = mill.read("g").to_pylist()
        return {"seconds": seconds, "epochs": epochs, "answer": _answer(tuple(r.values()) for r in rows)}


def bare(servers: str, topic: str, small: str, rows: int) -> dict[str, Any]:
    """Seconds of two processes that fetch a partition each, connected before."""
    context = get_context("spawn")
    barrier, ended = context.Barrier(PARTITIONS + 1), context.Queue()
    most = rows // PARTITIONS
    given = [(servers, small, topic, number, most, barrier, ended) for number in range(PARTITIONS)]
    processes = [context.Process(target=_consume, args=one) for one in given]
    for process in processes:
        process.start()
    barrier.wait()
    begin = time.perf_counter()
    counts = [ended.get() for _ in processes]
    seconds = time.perf_counter() - begin
    for process in processes:
        process.join()
    return {"seconds": seconds, "messages": sum(counts)}


def _consume(servers: str, small: str, topic: str, number: int, most: int, barrier: Any, ended: Any) -> None:
    given = {"bootstrap.servers": servers, "group.id": "bare", "enable.partition.eof": True, "log_level": 0}
    consumer = Consumer(given)
    _count(consumer, small, number, 10_000)
    barrier.wait()
    ended.put(_count(consumer, topic, number, most))
    consumer.close()


def _count(consumer: Any, topic: str, number: int, most: int) -> int:
    consumer.assign([TopicPartition(topic, number, 0)])
    count = 0
    while count < most:
        count += sum(m.error() is None for m in consumer.consume(10_000, 0.01))
    return count


def spark_files(lines: str, small: str) -> dict[str, Any]:
    """Seconds of a batch query of Spark over the rows as lines in files, warm."""
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master("local[2]").config("spark.driver.memory", "4g")  # type: ignore[attr-defined]
    spark = builder.config("spark.sql.shuffle.partitions", "2").config("spark.ui.enabled", "false").getOrCreate()
    for at in (small, lines):
        begin = time.perf_counter()
        spark.read.schema(_COLUMNS.strip("()")).json(at).createOrReplaceTempView("t")
        rows = spark.sql(_QUERY).collect()
        seconds = time.perf_counter() - begin
    return {"seconds": seconds, "answer": _answer(tuple(r) for r in rows)}


def bytewax(work: str, servers: str, topic: str, small: str) -> dict[str, Any]:
    """Seconds of two processes of Bytewax, from the first message that one sees to the end."""
    Path(work).mkdir(parents=True)
    command = [sys.executable, "-m", "bytewax.testing", "benchmarks.kafka_bytewax:flow", "-p", "2"]
    environment = {"SERVERS": servers, "TOPIC": topic, "OUT": work}
    done = subprocess.run(command, env={**os.environ, **environment}, capture_output=True, text=True, check=False)
    parts = [json.loads(path.read_text()) for path in Path(work).glob("*.json")]
    if not parts:
        raise SystemExit(done.stdout + done.stderr)
    rows = [row for part in parts for row in part["rows"]]
    seconds = max(p["ended"] for p in parts) - min(p["begun"] for p in parts)
    return {"seconds": seconds, "answer": _answer(rows)}


def main() -> None:
    """All sides, in turn."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--small", action="store_true")
    given = parser.parse_args()
    rows, rounds = (50_000, 1) if given.small else (given.rows, given.rounds)
    heading(f"A topic of {rows:,} JSON messages grouped by {KEYS:,} keys: medians of {rounds}")
    broker = Broker()
    try:
        with workspace() as work:
            size = fill(broker, "big", rows, work / "lines")
            fill(broker, "small", 20_000, work / "few")
            place = {"servers": broker.servers, "topic": "big", "small": "small"}
            found: dict[str, list[dict[str, Any]]] = {}
            for number in range(rounds):
                sides = {
                    "Tidemill": lambda n=number: run_side(_HERE, "tidemill", work=str(work / f"t{n}"), **place),
                    "confluent-kafka alone": lambda: run_side(_HERE, "bare", **place, rows=rows),
                    "Spark over files": lambda: run_side(
                        _HERE, "spark_files", lines=str(work / "lines"), small=str(work / "few")
                    ),
                }
                if importlib.util.find_spec("bytewax") is not None:
                    sides["Bytewax"] = lambda n=number: run_side(_HERE, "bytewax", work=str(work / f"b{n}"), **place)
                for name, side in sides.items():
                    found.setdefault(name, []).append(side())
    finally:
        broker.close()
    medians = {name: statistics.median(f["seconds"] for f in figures) for name, figures in found.items()}
    table(
        ["side", "seconds", "messages/s", "MB/s"],
        [[name, s, round(rows / s), size / s / 1e6] for name, s in medians.items()],
    )
    answers = {json.dumps(f["answer"]) for figures in found.values() for f in figures if "answer" in f}
    counts = {f["messages"] for f in found["confluent-kafka alone"]}
    if len(answers) != 1 or counts != {rows}:
        print(f"the answers differ, so there is no ratio: {answers}, {counts}")
        return
    own = medians["Tidemill"]
    verdict("as fast as fetching and throwing away", medians["confluent-kafka alone"] / own, 1 / GOAL_BARE)
    if "Bytewax" in medians:
        verdict("Bytewax", medians["Bytewax"] / own, GOAL_BYTEWAX)
    verdict("Spark over files", medians["Spark over files"] / own, 1.0)


_HERE = "benchmarks.kafka_topic"

if __name__ == "__main__":
    main()
