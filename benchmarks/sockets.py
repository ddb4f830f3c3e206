"""2,000 TCP sources on one thread: its share of a core, loss, freshness; and what an idle socket costs.

Another process sends numbered messages with the time at which they were sent, ``--rate`` a second over each
connection, while a mill keeps a grouped view over them. A message is as fresh as the epoch that shows it: from being
sent until that epoch is sealed and readable. Loss is what was sent and is not counted by the view in the end, or is
counted twice. For idle sockets it is the memory of the reading process that grows, per connection; buffers of the
kernel are not in it. The sender is Python too, and takes a part of the same cores.

What tells messages apart is measured alone, too, over the same rows as lines of CSV, as native rows, and as these in
frames: rows a second, from bytes as they are read of a connection to whole messages.
"""

from __future__ import annotations

import argparse
import heapq
import resource
import socket
import struct
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.measuring import heading, run_side, table, workspace
from benchmarks.tidemill_side import open_mill

_SPARE_FILES = 200


def _more_files() -> int:
    """Allow as many open files as may be; returns how many that is."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    return most


def send(port: str, connections: str, rate: str, seconds: str) -> None:
    """Send over many connections, each at a steady pace of its own; prints how many messages that were."""
    _more_files()
    pause, count = 1 / float(rate), int(connections)
    opened = [socket.create_connection(("127.0.0.1", int(port))) for _ in range(count)]
    print("open", flush=True)
    begin = time.monotonic() + 0.2
    due = [(begin + pause * n / count, n, 0) for n in range(count)]
    heapq.heapify(due)
    sent = 0
    end = begin + float(seconds)
    while due[0][0] < end:
        now = time.monotonic()
        if due[0][0] > now:
            time.sleep(max(due[0][0] - now, 0.001))
        while due[0][0] <= now:
            at, number, place = due[0]
            opened[number].sendall(b"%d,%d,%d\n" % (number, place, time.time_ns()))
            heapq.heapreplace(due, (at + pause, number, place + 1))
            sent += 1
    print(f"{sent} {time.monotonic() - end:.3f}", flush=True)
    time.sleep(1)


def mill(work: str, connections: int, rate: float, seconds: float) -> dict[str, Any]:
    """Loss, freshness (ms) and processor time of the mill's side."""
    _more_files()
    with open_mill(Path(work) / "root") as found:
        found.sql("CREATE TABLE t (c INT, n BIGINT, at BIGINT) USING csv OPTIONS (path 'tcp+listen://127.0.0.1:0')")
        found.sql("CREATE MATERIALIZED VIEW v AS SELECT c, COUNT(*) AS k, SUM(n) AS s FROM t GROUP BY c")
        port = found.read("t__status").to_pylist()[0]["peer"].rsplit(":", 1)[1]
        _warm_up(found, int(port))
        command = [sys.executable, "-m", "benchmarks.sockets", "send", port]
        arguments = [str(connections), str(rate), str(seconds)]
        sealed: list[tuple[float, str, int, int]] = []
        with subprocess.Popen([*command, *arguments], stdout=subprocess.PIPE, text=True) as sender:
            assert sender.stdout is not None and sender.stdout.readline() == "open\n"
            thread = _cpu_of_reader(found)
            began, cpu = time.monotonic(), thread()
            while time.monotonic() - began < seconds + 0.5:
                _note(found, sealed)
            used, lasted = thread() - cpu, time.monotonic() - began
            sent, behind = sender.stdout.readline().split()
            sender.wait()
        while _note(found, sealed):
            pass
        rows = found.read("v").to_pylist()
        got = sum(r["k"] for r in rows if r["c"] >= 0)
        right = all(r["s"] == r["k"] * (r["k"] - 1) // 2 for r in rows if r["c"] >= 0)
        ages = _ages(sealed)
    half, most = np.percentile(ages, [50, 99])
    return {
        "sent": int(sent),
        "sender_behind": float(behind),
        "lost": int(sent) - got,
        "in_order": right,
        "epochs": len(sealed),
        "share": used / lasted,
        "p50": float(half),
        "p99": float(most),
    }


def _warm_up(found: Any, port: int) -> None:
    with socket.create_connection(("127.0.0.1", port)) as first:
        for number in range(10):
            first.sendall(b"-1,%d,0\n" % number)
            time.sleep(0.1)
            found.advance()


def _note(found: Any, sealed: list[tuple[float, str, int, int]]) -> bool:
    """Run an epoch, if there is anything to read, and note when it was sealed and what it read."""
    report = found.advance()
    if report is None:
        time.sleep(0.005)
        return False
    now = time.time_ns()
    sealed += [(now, path, start, end) for _, path, start, end in report.read]
    return True


def _cpu_of_reader(found: Any) -> Any:
    """A function that gives the processor seconds of the thread that reads sockets."""
    thread = found._coordinator.arrivals._reader._thread
    clock = time.pthread_getcpuclockid(thread.ident)
    return lambda: time.clock_gettime(clock)


def _ages(sealed: list[tuple[float, str, int, int]]) -> np.ndarray:
    """Milliseconds from the sending of each message to the seal of the epoch that read it."""
    ages: list[np.ndarray] = []
    for at, path, start, end in sealed:
        data = Path(path).read_bytes()[start:end]
        sent = np.array([int(line.rsplit(b",", 1)[1]) for line in data.splitlines()], np.int64)
        ages.append((at - sent[sent > 0]) / 1e6)
    return np.concatenate(ages)


def connect_idle(port: str, connections: str) -> None:
    """Open connections, and hold them until there is no more input."""
    _more_files()
    opened = [socket.create_connection(("127.0.0.1", int(port))) for _ in range(int(connections))]
    print("open", flush=True)
    sys.stdin.read()
    for connection in opened:
        connection.close()


def idle(work: str, connections: int) -> dict[str, Any]:
    """Bytes for each idle socket, and processor seconds that they take in a second."""
    from tidemill.sources.sockets.endpoints import parse_endpoints
    from tidemill.sources.sockets.inlet import Inlet, InletOptions
    from tidemill.sources.sockets.reader import SocketReader
    from tidemill.sources.sockets.spool import Spool

    count = min(connections, _more_files() - _SPARE_FILES)
    reader = SocketReader()
    reader.add(
        Inlet("t", Spool(Path(work)), InletOptions()), parse_endpoints("tcp+listen://127.0.0.1:0"), must_open=True
    )
    port = reader.status("t")[0].peer.rsplit(":", 1)[1]
    before = _resident()
    command = [sys.executable, "-m", "benchmarks.sockets", "connect_idle", port, str(count)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as peers:
        assert peers.stdout is not None and peers.stdin is not None
        peers.stdout.readline()
        while len(reader._tables["t"].connections) <= count:
            time.sleep(0.05)
        bytes_each = (_resident() - before) / count
        cpu = time.process_time()
        time.sleep(2.0)
        share = (time.process_time() - cpu) / 2.0
        peers.stdin.close()
    reader.close()
    return {"sockets": count, "bytes": bytes_each, "share": share}


def framers(rows: int) -> dict[str, float]:
    """Rows a second, by what they are written as; the best of several times."""
    from tidemill.sources.sockets.connections import READ_BYTES
    from tidemill.sources.sockets.framing import Framing, RecordFraming, RowFraming

    values = [(n % 2000, n, 1_700_000_000_000_000_000 + 1000 * n) for n in range(rows)]
    packed = [struct.pack("<Biqq", 0, *v) for v in values]
    cases: dict[str, tuple[Framing | RowFraming | RecordFraming, bytes]] = {
        "csv lines": (Framing(), b"".join(b"%d,%d,%d\n" % v for v in values)),
        "native rows": (RowFraming(len(packed[0])), b"".join(packed)),
        "frames of one row": (
            RecordFraming(4, "little", 0, 1 << 20),
            b"".join(struct.pack("<I", len(p)) + p for p in packed),
        ),
    }
    found = {}
    for name, (framing, data) in cases.items():
        pieces = [data[at : at + READ_BYTES] for at in range(0, len(data), READ_BYTES)]
        lasted = []
        for _ in range(7):
            framer = framing.begin()
            began = time.perf_counter()
            for piece in pieces:
                framer.feed(piece)
            lasted.append(time.perf_counter() - began)
            assert framer.messages == rows
        found[name] = rows / min(lasted)
    return found


def _resident() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize()


def main() -> None:
    """Measure and print."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--small", action="store_true", help="under a minute; fewer connections, less time")
    options.add_argument("--connections", type=int, default=2000)
    options.add_argument("--rate", type=float, default=10.0, help="messages a second over each connection")
    options.add_argument("--seconds", type=float, default=30.0)
    options.add_argument("--idle", type=int, default=10_000)
    given = options.parse_args()
    connections, seconds, idle_count = given.connections, given.seconds, given.idle
    if given.small:
        connections, seconds, idle_count = 200, 5.0, 1000
    heading(f"sockets: {connections:,} connections, {given.rate:g} messages a second each, {seconds:g} s, one thread")
    side = "benchmarks.sockets"
    with workspace() as place:
        flow = run_side(side, "mill", work=str(place), connections=connections, rate=given.rate, seconds=seconds)
        still = run_side(side, "idle", work=str(place / "idle"), connections=idle_count)
    rates = run_side(side, "framers", rows=500_000 if given.small else 2_000_000)
    columns = ("messages", "lost", "sender late s", "epochs", "share of a core", "fresh p50 ms", "p99 ms")
    names = ("sent", "lost", "sender_behind", "epochs", "share", "p50", "p99")
    table(columns, [tuple(flow[n] for n in names)])
    assert flow["in_order"] and flow["lost"] == 0
    table(("idle sockets", "bytes each", "share of a core"), [(still["sockets"], int(still["bytes"]), still["share"])])
    lines = rates["csv lines"]
    table(("messages", "million rows/s", "x lines"), [(n, rate / 1e6, rate / lines) for n, rate in rates.items()])


if __name__ == "__main__":
    if sys.argv[1:2] in (["send"], ["connect_idle"]):
        globals()[sys.argv[1]](*sys.argv[2:])
    else:
        main()
