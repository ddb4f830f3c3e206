"""From a byte on a socket to a change at a subscriber, beside Structured Streaming: ``python -m benchmarks.freshness``.

A process sends ``--rate`` rows ``key,number`` a second over one TCP connection, in pieces of 10 ms. A view counts them
by key (ten keys) and keeps the largest number. A subscriber in another process is shown changes of that view: by
``tidemill serve`` as server-sent events, and by Structured Streaming (socket source, update mode, ``foreachBatch``) as
lines of JSON over a connection. A row is seen when a change has come whose largest number is not below that of the row;
its age counts from the time at which its piece was due, so a sender that is held up makes rows older. Engine, sender
and subscriber share the machine. No ratio is printed when a side's last state is not what the rows add up to.
"""

from __future__ import annotations

import argparse
import json
import socket
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any

import httpx
import numpy as np

import tidemill as tm
from benchmarks.measuring import heading, run_side, table, verdict, workspace
from benchmarks.server_process import listening_port, server_process
from benchmarks.streaming_peer import session

KEYS = 10
PIECES = 100
"""Pieces in a second."""

QUERY = "SELECT k, COUNT(*) AS c, MAX(n) AS m FROM t GROUP BY k"
Seen = tuple[float, dict[int, tuple[int, int]]]
"""When a change came (s since 1970), and the count and largest number of the keys that it concerns."""


def send(direction: str, port: str, rate: str, seconds: str) -> None:
    """Send rows at a steady pace, to a port or to who connects to it; prints when that begins, and how late it was."""
    if direction == "connect":
        connection = socket.create_connection(("127.0.0.1", int(port)))
    else:
        with socket.create_server(("127.0.0.1", int(port))) as listening:
            print(listening.getsockname()[1], flush=True)
            connection, _ = listening.accept()
    begin, late, number, piece = time.time() + 0.2, 0.0, 0, int(rate) // PIECES
    print(begin, flush=True)
    for place in range(int(seconds) * PIECES):
        due = begin + (place + 1) / PIECES
        time.sleep(max(due - time.time(), 0))
        late = max(late, time.time() - due)
        connection.sendall(b"".join(b"%d,%d\n" % (n % KEYS, n) for n in range(number, number + piece)))
        number += piece
    print(late, flush=True)
    sys.stdin.read()  # the connection stays until everything has been seen


def _sender(*arguments: object) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "benchmarks.freshness", "send", *map(str, arguments)]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def _line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    found = process.stdout.readline()
    if not found:
        raise SystemExit(f"{process.args} has ended")
    return found.strip()


class _Subscriber:
    """Notes what it is shown, on a thread of its own, until it has seen the last row."""

    def __init__(self, changes: Callable[[], Iterator[dict[int, tuple[int, int]]]], rows: int) -> None:
        self.seen: list[Seen] = []
        self.over = threading.Event()
        self._changes, self._rows = changes, rows
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self) -> None:
        newest = -1
        for change in self._changes():
            self.seen.append((time.time(), change))
            newest = max(newest, *(m for _, m in change.values()))
            if newest == self._rows - 1:
                self.over.set()
                return


def mill(work: str, rate: int, warm: int, seconds: int) -> dict[str, Any]:
    """Ages of rows, from ``tidemill serve``."""
    with server_process(Path(work)) as server, tm.connect(server.url) as client:
        client.sql("CREATE TABLE t (k INT, n BIGINT) USING csv OPTIONS (path 'tcp+listen://127.0.0.1:0')")
        client.sql(f"CREATE MATERIALIZED VIEW v AS {QUERY}")
        port = listening_port(client, "t")
        subscriber = _Subscriber(lambda: _events(f"{server.url}/v1/views/v/changes"), rate * (warm + seconds))
        with _sender("connect", port, rate, warm + seconds) as sender:
            return _ages(sender, subscriber, rate, warm, seconds)


def _events(url: str) -> Iterator[dict[int, tuple[int, int]]]:
    with httpx.stream("GET", url, timeout=None) as answer:
        for line in answer.iter_lines():
            if line.startswith("data: "):
                rows = json.loads(line[6:]).get("changes", ())
                added = {r["k"]: (r["c"], r["m"]) for r in rows if r["weight"] > 0}
                if added:
                    yield added


def peer(work: str, rate: int, warm: int, seconds: int) -> dict[str, Any]:
    """Ages of rows, from Structured Streaming."""
    with (
        socket.create_server(("127.0.0.1", 0)) as listening,
        _sender("listen", 0, rate, warm + seconds) as sender,
    ):
        port, out = _line(sender), listening.getsockname()[1]
        command = [sys.executable, "-m", "benchmarks.freshness", "engine", port, str(out), work]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as engine:
            connection, _ = listening.accept()
            subscriber = _Subscriber(lambda: _lines(connection.makefile()), rate * (warm + seconds))
            try:
                return _ages(sender, subscriber, rate, warm, seconds)
            finally:
                engine.kill()


def _lines(file: IO[str]) -> Iterator[dict[int, tuple[int, int]]]:
    for line in file:
        yield {int(k): (c, m) for k, c, m in json.loads(line)}


def engine(port: str, out: str, work: str) -> None:
    """Structured Streaming, which writes what each batch changes to a connection; until it is ended."""
    spark = session("default")
    connection = socket.create_connection(("127.0.0.1", int(out)))

    def deliver(frame: Any, _: int) -> None:
        rows = [(row.k, row.c, row.m) for row in frame.collect()]
        if rows:
            connection.sendall(json.dumps(rows).encode() + b"\n")

    lines = spark.readStream.format("socket").option("host", "127.0.0.1").option("port", port).load()
    lines.selectExpr("from_csv(value, 'k INT, n BIGINT') AS row").selectExpr("row.k", "row.n").createOrReplaceTempView(
        "t"
    )
    writer = spark.sql(QUERY).writeStream.outputMode("update").foreachBatch(deliver)
    writer.option("checkpointLocation", f"{work}/checkpoint").start().awaitTermination()


def _ages(sender: subprocess.Popen[str], subscriber: _Subscriber, rate: int, warm: int, seconds: int) -> dict[str, Any]:
    """Percentiles of the ages (ms) of the rows after the first ``warm`` seconds, and whether all were counted once."""
    begin = float(_line(sender))
    late = float(_line(sender))
    complete = subscriber.over.wait(60)
    assert sender.stdin is not None
    sender.stdin.close()
    rows, state, ages, last = rate * (warm + seconds), dict[int, tuple[int, int]](), [], -1
    for at, change in subscriber.seen:
        state |= change
        newest = max(m for _, m in change.values())
        numbers = np.arange(last + 1, newest + 1)
        due = begin + (numbers // (rate // PIECES) + 1) / PIECES
        ages.append((at - due)[numbers >= warm * rate] * 1e3)
        last = max(last, newest)
    found = np.concatenate(ages)
    right = {k: (rows // KEYS, rows - KEYS + k) for k in range(KEYS)}
    p50, p99, most = (float(x) for x in np.percentile(found, [50, 99, 100])) if len(found) else (0.0, 0.0, 0.0)
    return {
        "right": complete and state == right,
        "seen": len(found),
        "p50": p50,
        "p99": p99,
        "most": most,
        "late": late * 1e3,
        "changes": len(subscriber.seen),
    }


def main() -> None:
    """Measure and print."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--small", action="store_true", help="under a minute; one round, less time")
    options.add_argument("--rate", type=int, default=20_000, help="rows a second, a multiple of 1,000")
    options.add_argument("--warm", type=int, default=30, help="seconds before ages count")
    options.add_argument("--seconds", type=int, default=40)
    options.add_argument("--rounds", type=int, default=3)
    given = options.parse_args()
    rounds, warm, seconds = (1, 20, 5) if given.small else (given.rounds, given.warm, given.seconds)
    heading(f"freshness: {given.rate:,} rows/s from a socket to a subscriber, {seconds} s, {rounds} rounds in turn")
    found: dict[str, list[dict[str, Any]]] = {"mill": [], "peer": []}
    with workspace() as place:
        for number in range(rounds):
            for side, answers in found.items():
                work = str(place / f"{side}{number}")
                answers.append(
                    run_side("benchmarks.freshness", side, work=work, rate=given.rate, warm=warm, seconds=seconds)
                )
    columns = ("side", "right", "changes", "sender late ms", "p50 ms", "p99 ms", "most ms")
    names = ("right", "changes", "late", "p50", "p99", "most")
    table(columns, [(side, *(a[n] for n in names)) for side, answers in found.items() for a in answers])
    if all(a["right"] for answers in found.values() for a in answers):
        for what in ("p50", "p99"):
            ours, theirs = (statistics.median(a[what] for a in found[s]) for s in ("mill", "peer"))
            verdict(f"{what}, {ours:.0f} ms against {theirs:.0f} ms", theirs / ours, 10)
    else:
        print("a side has not counted all rows once: no ratio")


if __name__ == "__main__":
    if sys.argv[1:2] in (["send"], ["engine"]):
        globals()[sys.argv[1]](*sys.argv[2:])
    else:
        main()
