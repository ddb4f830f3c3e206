"""What clients of a server wait for, and what they cost it: ``python -m benchmarks.server_load``.

Four parts, each with a server of its own. **results**: the full result of a view of 1,000 rows as JSON, asked for as
fast as eight connections can, and at a fixed rate, whose latencies count from the time at which a request was due.
**subscribers**: 200 subscribers of server-sent events on 20 views over rows from a socket; the age of the newest row
that a change shows, counted from when it was due to be sent. **cursors**: memory of the server for each of 10,000
stored cursors that nobody fetches from, and epochs with and without them. **deaf**: subscribers that never read, while
every epoch changes 1,000 rows of their view; memory of the server, and epochs with and without them. Sums of what
subscribers got, and views, must equal what the rows add up to; there are no figures otherwise. Clients, sender, server
and Spark share the machine.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import re
import socket
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np

import tidemill as tm
from benchmarks.measuring import heading, run_side, table, workspace
from benchmarks.processes import processor_seconds, resident_bytes
from benchmarks.server_process import ServerProcess, listening_port, server_process

_ROWS = 1_000
_PIECES = 20
"""Pieces in a second that the sender divides its rows into."""


# -- full results ------------------------------------------------------------------------------------


def results(work: str, requests: int, rates: list[int]) -> list[dict[str, Any]]:
    """Latencies (ms) of full results, for as many as go and for each offered rate."""
    place = Path(work)
    place.mkdir(parents=True)
    lines = "".join(f"{i},{i * 1.5},name{i % 50}\n" for i in range(_ROWS))
    (place / "rows.csv").write_text(lines)
    expected = sorted([i, f"name{i % 50}", i * 1.5] for i in range(_ROWS))
    with server_process(place) as server, tm.connect(server.url) as client:
        client.sql(f"CREATE TABLE f (id INT, x DOUBLE, s STRING) USING csv OPTIONS (path '{place}/*.csv')")
        client.sql("CREATE MATERIALIZED VIEW w AS SELECT id, s, SUM(x) AS x FROM f GROUP BY id, s")
        while client.table("w").to_arrow().num_rows < _ROWS:
            time.sleep(0.2)
        asyncio.run(_ask(server, 500, 8, None, expected))
        found = []
        for rate, connections in [(None, 8), *((rate, 64) for rate in rates)]:
            count = requests if rate is None else rate * 10
            found.append(asyncio.run(_ask(server, count, connections, rate, expected)))
        return found


async def _ask(
    server: ServerProcess, requests: int, connections: int, rate: int | None, expected: list[Any]
) -> dict[str, Any]:
    begin = time.perf_counter() + 0.1
    due = [None if rate is None else begin + i / rate for i in range(requests)][::-1]
    latencies: list[float] = []
    bodies: Counter[bytes] = Counter()
    cpu, began = processor_seconds(server.pid), time.perf_counter()
    await asyncio.gather(*(_connection(server.ports["http"], due, latencies, bodies) for _ in range(connections)))
    lasted = time.perf_counter() - began
    for body in bodies:
        assert sorted(json.loads(body)["rows"]) == expected
    p50, p99, most = (float(x) for x in np.percentile(latencies, [50, 99, 100]))
    return {
        "offered": rate or 0,
        "reached": requests / lasted,
        "p50": p50,
        "p99": p99,
        "most": most,
        "cores": (processor_seconds(server.pid) - cpu) / lasted,
    }


async def _connection(port: int, due: list[float | None], latencies: list[float], bodies: Counter[bytes]) -> None:
    """Ask on one connection until nothing is due any more."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    request = f"GET /v1/views/w HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n".encode()
    while due:
        at = due.pop()
        if at is not None:
            await asyncio.sleep(max(at - time.perf_counter(), 0))
        began = time.perf_counter() if at is None else at
        writer.write(request)
        head = await reader.readuntil(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 200"), head
        length = re.search(rb"content-length: (\d+)", head, re.IGNORECASE)
        assert length is not None
        body = await reader.readexactly(int(length[1]))
        latencies.append((time.perf_counter() - began) * 1e3)
        bodies[body] += 1
    writer.close()


# -- subscribers --------------------------------------------------------------------------------------


def send(port: str, rate: str, seconds: str, keys: str) -> None:
    """Send rows ``key,number`` over a connection at a steady pace; prints when that begins."""
    connection = socket.create_connection(("127.0.0.1", int(port)))
    begin, number, piece = time.time() + 0.2, 0, int(rate) // _PIECES
    print(begin, flush=True)
    for place in range(int(float(seconds) * _PIECES)):
        time.sleep(max(begin + (place + 1) / _PIECES - time.time(), 0))
        connection.sendall(b"".join(b"%d,%d\n" % (n % int(keys), n) for n in range(number, number + piece)))
        number += piece
    print("sent", flush=True)
    sys.stdin.read()


def _sender(port: int, rate: int, seconds: float, keys: int) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "benchmarks.server_load", "send", *map(str, (port, rate, seconds, keys))]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def _line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def subscribers(work: str, count: int, views: int, rate: int, warm: int, seconds: int) -> dict[str, Any]:
    """Ages (ms) of the newest row in each change that each subscriber gets after the first ``warm`` seconds."""
    keys, rows = 10, rate * (warm + seconds)
    with server_process(Path(work)) as server, tm.connect(server.url) as client:
        client.sql("CREATE TABLE t (k INT, n BIGINT) USING csv OPTIONS (path 'tcp+listen://127.0.0.1:0')")
        for v in range(views):
            query = f"SELECT k, COUNT(*) AS c, SUM(n + {v}) AS s, MAX(n) AS m FROM t GROUP BY k"
            client.sql(f"CREATE MATERIALIZED VIEW v{v} AS {query}")
        port, first = listening_port(client, "t"), int(client.status()["epoch"])
        cpu, began = processor_seconds(server.pid), time.perf_counter()
        with _sender(port, rate, warm + seconds, keys) as sender:
            begin = float(_line(sender))
            seen = asyncio.run(_subscribe(server.ports["http"], count, views, rows))
            assert sender.stdin is not None
            sender.stdin.close()
        cores = (processor_seconds(server.pid) - cpu) / (time.perf_counter() - began)
        epochs = int(client.status()["epoch"]) - first
    ages: list[float] = []
    for number, (state, changes) in enumerate(seen):
        v, each = number % views, rows // keys
        assert {r: w for r, w in state.items() if w} == {
            (k, each, sum(range(k, rows, keys)) + v * each, rows - keys + k): 1 for k in range(keys)
        }, f"subscriber {number}"
        ages += [(at - begin - (m // (rate // _PIECES) + 1) / _PIECES) * 1e3 for at, m in changes if m >= warm * rate]
    p50, p99, most = (float(x) for x in np.percentile(ages, [50, 99, 100]))
    return {"changes": len(ages), "epochs": epochs, "p50": p50, "p99": p99, "most": most, "cores": cores}


async def _subscribe(port: int, count: int, views: int, rows: int) -> list[Any]:
    async def one(number: int) -> tuple[Counter[tuple[Any, ...]], list[tuple[float, int]]]:
        reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1 << 24)
        path = f"/v1/views/v{number % views}/changes"
        writer.write(f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n".encode())
        state: Counter[tuple[Any, ...]] = Counter()
        changes: list[tuple[float, int]] = []
        while not changes or changes[-1][1] < rows - 1:
            line = await reader.readline()
            assert line and not line.startswith(b"event: error"), (number, await reader.readline())
            if line.startswith(b"data: ") and b'"changes"' in line:
                at, found = time.time(), json.loads(line[6:])["changes"]
                for row in found:
                    state[row["k"], row["c"], row["s"], row["m"]] += row["weight"]
                if found:
                    changes.append((at, max(r["m"] for r in found if r["weight"] > 0)))
        writer.close()
        return state, changes

    return await asyncio.wait_for(asyncio.gather(*(one(i) for i in range(count))), 180)


# -- clients that do nothing --------------------------------------------------------------------------


def cursors(work: str, count: int, seconds: int) -> dict[str, Any]:
    """Memory for each cursor that nobody fetches from, and epochs without and with them."""
    with server_process(Path(work)) as server, tm.connect(server.url) as client:
        port, rate = _changing_view(client), 2_000
        with _sender(port, rate, 600, _ROWS) as sender:
            _line(sender)
            time.sleep(seconds)  # warm
            without = _epochs(client, seconds)
            asyncio.run(_create_cursors(server.ports["http"], 200))
            before, began = resident_bytes(server.pid), time.perf_counter()
            asyncio.run(_create_cursors(server.ports["http"], count))
            each = (time.perf_counter() - began) / count
            gained = resident_bytes(server.pid) - before
            within = _epochs(client, seconds)
            sender.kill()
    return {"cursors": count, "ms": each * 1e3, "bytes": gained / count, "without": without, "with": within}


async def _create_cursors(port: int, count: int) -> None:
    left = [count]
    body = b'{"views": ["v"]}'
    head = f"POST /v1/cursors HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Type: application/json\r\n"
    request = head.encode() + b"Content-Length: %d\r\n\r\n" % len(body) + body

    async def one() -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        while left[0] > 0:
            left[0] -= 1
            writer.write(request)
            answer = await reader.readuntil(b"\r\n\r\n")
            assert b" 20" in answer[:15], answer
            length = re.search(rb"content-length: (\d+)", answer, re.IGNORECASE)
            assert length is not None
            await reader.readexactly(int(length[1]))
        writer.close()

    await asyncio.gather(*(one() for _ in range(8)))


def deaf(work: str, count: int, seconds: int) -> dict[str, Any]:
    """Memory of the server (bytes) and epochs, without and with subscribers that never read."""
    with server_process(Path(work)) as server, tm.connect(server.url) as client:
        port = _changing_view(client)
        with _sender(port, 2_000, 600, _ROWS) as sender:
            _line(sender)
            time.sleep(seconds)  # warm
            without, before = _epochs(client, seconds), resident_bytes(server.pid)
            still, http = [], server.ports["http"]
            for _ in range(count):
                connection = socket.socket()
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
                connection.connect(("127.0.0.1", http))
                connection.sendall(
                    f"GET /v1/views/v/changes HTTP/1.1\r\nHost: 127.0.0.1:{server.ports['http']}\r\n\r\n".encode()
                )
                still.append(connection)
            time.sleep(1)
            begun = resident_bytes(server.pid)
            within, after = _epochs(client, seconds), resident_bytes(server.pid)
            for connection in still:
                connection.close()
            sender.kill()
    return {
        "subscribers": count,
        "first": (begun - before) / count,
        "gained": after - begun,
        "without": without,
        "with": within,
    }


def _changing_view(client: tm.Client) -> int:
    """A view of which every epoch changes up to 1,000 rows; returns the port that takes its rows."""
    client.sql("CREATE TABLE t (k INT, n BIGINT) USING csv OPTIONS (path 'tcp+listen://127.0.0.1:0')")
    client.sql("CREATE MATERIALIZED VIEW v AS SELECT k, COUNT(*) AS c, MAX(n) AS m FROM t GROUP BY k")
    return listening_port(client, "t")


def _epochs(client: tm.Client, seconds: int) -> float:
    """Epochs that are sealed in a second."""
    began, first = time.perf_counter(), int(client.status()["epoch"])
    time.sleep(seconds)
    return (int(client.status()["epoch"]) - first) / (time.perf_counter() - began)


def main() -> None:
    """Measure and print."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--small", action="store_true", help="under a minute; fewer clients, less time")
    options.add_argument("--part", choices=("results", "subscribers", "cursors", "deaf"), help="only this one")
    given = options.parse_args()
    small = given.small
    parts: dict[str, dict[str, Any]] = {
        "results": {"requests": 500, "rates": [200]} if small else {"requests": 6_000, "rates": [300, 600, 1_000]},
        "subscribers": {"count": 20, "views": 4, "rate": 1_000, "warm": 10, "seconds": 5}
        if small
        else {"count": 200, "views": 20, "rate": 1_000, "warm": 20, "seconds": 40},
        "cursors": {"count": 500, "seconds": 3} if small else {"count": 10_000, "seconds": 20},
        "deaf": {"count": 4, "seconds": 3} if small else {"count": 50, "seconds": 30},
    }
    heading(f"server_load: full results, {parts['subscribers']['count']} subscribers, idle cursors, deaf subscribers")
    with workspace() as place:
        found = {
            part: run_side("benchmarks.server_load", part, work=str(place / part), **arguments)
            for part, arguments in parts.items()
            if given.part in (None, part)
        }
    if "results" in found:
        columns = ("offered requests/s", "reached", "p50 ms", "p99 ms", "most ms", "cores of the server")
        names = ("reached", "p50", "p99", "most", "cores")
        table(columns, [(r["offered"] or "as many as go", *(r[n] for n in names)) for r in found["results"]])
    if "subscribers" in found:
        one, arguments = found["subscribers"], parts["subscribers"]
        columns = ("subscribers", "views", "rows/s", "epochs", "changes", "p50 ms", "p99 ms", "most ms", "cores")
        names = ("epochs", "changes", "p50", "p99", "most", "cores")
        table(columns, [(*(arguments[n] for n in ("count", "views", "rate")), *(one[n] for n in names))])
    if "cursors" in found:
        one = found["cursors"]
        columns = ("idle cursors", "ms to create", "bytes each", "epochs/s without", "with")
        table(columns, [(one["cursors"], one["ms"], int(one["bytes"]), one["without"], one["with"])])
    if "deaf" in found:
        one = found["deaf"]
        columns = ("deaf subscribers", "bytes each at first", "bytes gained later", "epochs/s without", "with")
        table(columns, [(one["subscribers"], int(one["first"]), int(one["gained"]), one["without"], one["with"])])


if __name__ == "__main__":
    if sys.argv[1:2] == ["send"]:
        send(*sys.argv[2:])
    else:
        main()
