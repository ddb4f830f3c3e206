"""Bytewax: a dataflow in two processes on loopback, each with one worker; Python parses. An environment of its own.

The dataflow gives its results when its input ends, so files of ``windows`` are as many partitions of a source that
waits for each, and the end of the last closes all windows.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from heapq import nsmallest
from importlib.metadata import version
from itertools import islice
from pathlib import Path
from typing import Any

import bytewax.operators as op
from bytewax.connectors.files import DirSource
from bytewax.dataflow import Dataflow
from bytewax.inputs import FixedPartitionedSource, StatefulSourcePartition
from bytewax.operators.windowing import EventClock, TumblingWindower, fold_window
from bytewax.outputs import DynamicSink, StatelessSinkPartition

from benchmarks.peers.jobs import EPOCH, JOBS, PLACES, WINDOW_SECONDS
from benchmarks.peers.side import Side, run

PROCESSES = 2
_BATCH = 1000
_POLL = timedelta(milliseconds=20)


class _Kept(StatelessSinkPartition[Any]):
    """Rows of one process, in a file at the end."""

    def __init__(self, worker: int) -> None:
        self._path = Path(os.environ["PEER_OUT"]) / f"{worker}.json"
        self._path.with_suffix(".begun").touch()
        self._rows: list[Any] = []

    def write_batch(self, items: list[Any]) -> None:
        self._rows += items

    def close(self) -> None:
        self._path.write_text(json.dumps(self._rows))


class _Rows(DynamicSink[Any]):
    def build(self, step_id: str, worker_index: int, worker_count: int) -> _Kept:
        return _Kept(worker_index)


class _Arriving(StatefulSourcePartition[str, int]):
    """The lines of a file that may not be there yet. Bytewax has no source for a directory that files come to."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lines: Any = None

    def next_batch(self) -> Iterable[str]:
        if self._lines is None:
            if not self._path.exists():
                return []
            self._lines = self._path.open()
        found = list(islice(self._lines, _BATCH))
        if not found:
            raise StopIteration
        return found

    def next_awake(self) -> datetime | None:
        return datetime.now(UTC) + _POLL if self._lines is None else None

    def snapshot(self) -> int:
        return 0


class _ArrivingFiles(FixedPartitionedSource[str, int]):
    def __init__(self, directory: str, files: int) -> None:
        self._directory, self._files = Path(directory), files

    def list_parts(self) -> list[str]:
        return [f"f{number:03d}.json" for number in range(self._files)]

    def build_part(self, step_id: str, for_part: str, resume_state: int | None) -> _Arriving:
        return _Arriving(self._directory / for_part)


def _read(flow: Dataflow, source: Path, table: str) -> Any:
    return op.input(table, flow, DirSource(source / table, "f*", _BATCH, lambda _: "shared"))


def _add(sums: tuple[int, int], row: tuple[int, int]) -> tuple[int, int]:
    return sums[0] + row[0], sums[1] + row[1]


def _none() -> tuple[int, int]:
    return 0, 0


def _groups(flow: Dataflow, source: Path) -> Any:
    def row(line: str) -> tuple[str, tuple[int, int]]:
        k, v, p = line.split(",")
        return k, (1, int(v) * int(p))

    lines = op.filter("no header", _read(flow, source, "t"), lambda line: not line.startswith("k"))
    sums = op.fold_final("sum", op.map("parse", lines, row), _none, _add)
    return op.map("rows", sums, lambda found: [int(found[0]), *found[1]])


def _top(flow: Dataflow, source: Path) -> Any:
    """Orders summed by customer, joined with the one row of each, kept by region. Integers fold as pairs do."""

    def order(line: str) -> tuple[str, int]:
        found = json.loads(line)
        return str(found["customer"]), found["amount"]

    def customer(line: str) -> tuple[str, str]:
        found = json.loads(line)
        return str(found["customer"]), found["region"]

    def place(found: tuple[str, tuple[int, str]]) -> tuple[str, list[tuple[int, int]]]:
        name, (total, region) = found
        return region, [(-total, int(name))]

    orders = op.map("orders of customers", _read(flow, source, "orders"), order)
    sums = op.fold_final("sum", orders, lambda: 0, lambda total, amount: total + amount)
    regions = op.map("regions of customers", _read(flow, source, "customers"), customer)
    placed = op.map("by region", op.join("join", sums, regions), place)
    best = op.fold_final("first", placed, list, lambda kept, one: nsmallest(PLACES, kept + one))
    return op.flat_map("rows", best, lambda found: [[found[0], c, -t] for t, c in found[1]])


def _windows(flow: Dataflow, source: Path) -> Any:
    def row(line: str) -> tuple[str, tuple[datetime, int]]:
        found = json.loads(line)
        return str(found["k"]), (datetime.fromisoformat(found["ts"]).replace(tzinfo=UTC), found["v"])

    def start(found: tuple[str, tuple[int, tuple[int, int]]]) -> list[int]:
        key, (window, sums) = found
        return [int(key), int(EPOCH.timestamp()) + window * WINDOW_SECONDS, *sums]

    lines = op.input("files", flow, _ArrivingFiles(str(source / "t"), int(os.environ["PEER_FILES"])))
    rows = op.map("parse", lines, row)
    clock = EventClock(lambda found: found[0], wait_for_system_duration=timedelta(days=1))
    length = TumblingWindower(timedelta(seconds=WINDOW_SECONDS), EPOCH)
    summed = fold_window("sum", rows, clock, length, _none, lambda s, r: (s[0] + 1, s[1] + r[1]), _add)
    return op.map("starts", summed.down, start)


def flow() -> Dataflow:
    """The dataflow of the job that the environment names."""
    found = Dataflow("peer")
    build = {"groups": _groups, "top": _top, "windows": _windows}[os.environ["PEER_JOB"]]
    op.output("out", build(found, Path(os.environ["PEER_SOURCE"])), _Rows())
    return found


def start(side: Side) -> None:
    """Start the processes, and put together what they leave."""
    given = {"PEER_JOB": side.job.name, "PEER_SOURCE": side.source, "PEER_OUT": side.work, "PEER_FILES": side.files}
    addresses = ";".join(f"127.0.0.1:{port}" for port in _free_ports())
    processes = [
        subprocess.Popen(
            [
                sys.executable,
                "-m",
                "bytewax.run",
                "benchmarks.peers.bytewax_side:flow()",
                "-i",
                str(n),
                "-a",
                addresses,
            ],
            env={**os.environ, **{name: str(value) for name, value in given.items()}},
        )
        for n in range(PROCESSES)
    ]
    while sum(1 for _ in side.work.glob("*.begun")) < PROCESSES and all(p.poll() is None for p in processes):
        time.sleep(0.005)
    side.ready()
    codes = [process.wait() for process in processes]
    if any(codes):
        raise SystemExit("a process of Bytewax failed")
    parts = [json.loads((side.work / f"{n}.json").read_text()) for n in range(PROCESSES)]
    side.answer((row for part in parts for row in part), version("bytewax"))


def _free_ports() -> list[int]:
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(PROCESSES)]
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


if __name__ == "__main__":
    run(dict.fromkeys(JOBS, start))
