"""Tables over sockets: views equal what was sent, each message once, whatever happens to mill and peers."""

from __future__ import annotations

import importlib.util
import json
import os
import random
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from mill_factory import MillFactory
from tidemill.errors import TidemillError
from tidemill.mill import Mill
from tidemill.runtime.catalog.catalog import Catalog
from tidemill.runtime.read.snapshot import Snapshot
from tidemill.runtime.spools import spools
from tidemill.runtime.spools.spools import Spools
from tidemill.sources.sockets.spool import Spool

KILLS = int(os.environ.get("TIDEMILL_CHAOS", "1"))
LISTEN = "path 'tcp+listen://127.0.0.1:0'"


def port_of(mill: Mill, table: str) -> int:
    """Where a table listens."""
    rows = mill.read(f"{table}__status").to_pylist()
    return next(int(r["peer"].rsplit(":", 1)[1]) for r in rows if r["state"] == "listening")


def connect(mill: Mill, table: str) -> socket.socket:
    return socket.create_connection(("127.0.0.1", port_of(mill, table)))


def messages(mill: Mill, table: str) -> int:
    """How many messages have come, as far as connections are remembered."""
    rows = mill.read(f"{table}__status").to_pylist()
    return sum(r["messages"] for r in rows if r["state"] != "closed")


def until(condition: Callable[[], bool], seconds: float = 120.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not come about"
        time.sleep(0.01)


def take(mill: Mill, table: str, count: int) -> None:
    """Wait for so many messages, and run epochs over them."""
    until(lambda: messages(mill, table) >= count)
    assert list(mill.drain())


def rows(mill: Mill, view: str) -> Counter[Any]:
    return Counter(tuple(r.values()) for r in mill.read(view).to_pylist())


def test_views_over_many_connections_equal_what_was_sent(mill_factory: MillFactory, seed: int) -> None:
    """Bytes are cut anywhere while epochs run; a view over a second table in JSON; a view that comes later."""
    chance = random.Random(seed)
    mill = mill_factory(small_epoch_bytes=1 << 20)
    mill.sql(f"CREATE TABLE t (c INT, n INT, s STRING) USING csv OPTIONS ({LISTEN})")
    mill.sql(f"CREATE TABLE j (c INT, n INT) USING json OPTIONS ({LISTEN}, framing 'length', lengthBytes '2')")
    mill.sql("CREATE MATERIALIZED VIEW v AS SELECT * FROM t")
    mill.sql(
        "CREATE MATERIALIZED VIEW w AS SELECT t.c, COUNT(*) AS k, SUM(j.n) AS s FROM t JOIN j ON t.n = j.n GROUP BY t.c"
    )
    sent = [
        (c, n, chance.choice(('a "quoted" text', "", "x,y", "é" * chance.randrange(20))))
        for c in range(12)
        for n in range(40)
    ]
    quoted = [(c, n, s if s else None) for c, n, s in sent]
    pairs = [(c, n) for c in range(5) for n in range(40)]
    waiting: dict[socket.socket, bytes] = {}
    for c in range(12):
        lines = [
            '{},{},"{}"\n'.format(a, b, s.replace('"', '""')) if s else f"{a},{b},\n" for a, b, s in sent if a == c
        ]
        waiting[connect(mill, "t")] = "".join(lines).encode()
    for c in range(5):
        texts = [json.dumps({"n": b, "c": a}, indent=0).replace("\n", " ").encode() for a, b in pairs if a == c]
        waiting[connect(mill, "j")] = b"".join(len(x).to_bytes(2, "big") + x for x in texts)
    opened = list(waiting)
    step = 0
    while waiting:
        connection = chance.choice(list(waiting))
        size = chance.choice((1, 3, 17, 90, 400))
        connection.sendall(waiting[connection][:size])
        waiting[connection] = waiting[connection][size:]
        if not waiting[connection]:
            del waiting[connection]
        step += 1
        if step % 120 == 0:
            mill.advance()
    until(lambda: (messages(mill, "t"), messages(mill, "j")) == (len(sent), len(pairs)))
    list(mill.drain())
    mill.sql("CREATE MATERIALIZED VIEW later AS SELECT * FROM t WHERE n < 20")
    list(mill.drain())
    assert rows(mill, "v") == Counter(quoted)
    assert rows(mill, "later") == Counter(r for r in quoted if r[1] < 20)
    assert rows(mill, "w") == Counter((c, 40 * 5, 5 * sum(range(40))) for c in range(12))
    assert mill.read("t__errors").num_rows == 0
    shown = mill.query("SELECT SUM(messages) AS m, SUM(errors) AS e FROM t__status").collect()[0]
    assert (shown.m, shown.e) == (len(sent), 0)
    for connection in opened:
        connection.close()


def test_bad_messages_spoil_no_other(mill_factory: MillFactory) -> None:
    """A quote that is never closed, a bracket with which a file of JSON would be one array, a byte order mark."""
    mill = mill_factory(small_epoch_bytes=1 << 20)
    mill.sql(f"CREATE TABLE t (n INT, s STRING) USING csv OPTIONS ({LISTEN})")
    mill.sql(f"CREATE TABLE j (n INT) USING json OPTIONS ({LISTEN})")
    mill.sql("CREATE MATERIALIZED VIEW v AS SELECT n FROM t UNION ALL SELECT n + 100 FROM j")
    with connect(mill, "t") as good, connect(mill, "t") as bad, connect(mill, "j") as objects:
        bad.sendall(b'"\n\xef\xbb\xbf')
        until(lambda: messages(mill, "t") == 1)
        good.sendall(b'1,a\n2,"b\n3,c\n')
        until(lambda: messages(mill, "t") == 4)
        good.sendall(b'4,"d\n5,"e"\n')
        objects.sendall(b'[{"n": 1},\n{"n": 2}\n[\n{"n": 3}\n')
        until(lambda: messages(mill, "t") + messages(mill, "j") == 10)
        list(mill.drain())
    read = rows(mill, "v")
    assert {(n,) for n in (1, 3, 5, 102, 103)} <= read.keys()
    raw = {r["raw"] for r in mill.read("t__errors").to_pylist()}
    assert {b'2,"b\n', b'4,"d\n', b'"\n'} == {r if r.endswith(b"\n") else r + b"\n" for r in raw}


def test_what_was_read_is_reclaimed_when_it_is_durable(
    mill_factory: MillFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spools, "Spool", partial(Spool, segment_bytes=4000))
    mill = mill_factory(small_epoch_bytes=1 << 20)
    options = f"{LISTEN}, retainBytes '9000', maxSpoolBytes '1m'"
    mill.sql(f"CREATE TABLE t (n INT, s STRING) USING csv OPTIONS ({options})")
    with connect(mill, "t") as connection:
        connection.sendall(b"".join(b"%d,%s\n" % (n, b"x" * 90) for n in range(100)))
        until(lambda: messages(mill, "t") == 100)
        assert mill.advance() is None  # nothing is read, and nothing lost, before there is a view
        mill.sql("CREATE MATERIALIZED VIEW v AS SELECT n FROM t")
        spool = next(Path(str(mill.snapshot().store.objects.directory), "spool").iterdir())
        for n in range(100, 600, 10):
            connection.sendall(b"".join(b"%d,%s\n" % (m, b"x" * 90) for m in range(n, n + 10)))
            if n % 100 == 90:
                take(mill, "t", n + 10)
                mill.checkpoint()
    until(lambda: messages(mill, "t") == 600)
    list(mill.drain())
    assert rows(mill, "v") == Counter((n,) for n in range(600))
    mill.checkpoint()
    kept = sorted(spool.glob("*.segment"))
    size = sum(p.stat().st_size for p in kept)
    assert 9_000 <= size < 45_000  # what is retained, the newest, and what the last epoch read
    mill.sql("CREATE MATERIALIZED VIEW w AS SELECT n FROM t")
    reports = list(mill.drain())
    told = [w for r in reports for w in r.warnings if "TM5027" in w]
    assert len(told) == 1 and "bytes are gone" in told[0]
    late = rows(mill, "w")
    assert late == Counter((n,) for n in range(600 - len(late), 600)) and len(late) >= 50
    mill.sql("DROP VIEW v")
    mill.sql("DROP VIEW w")
    mill.sql("DROP TABLE t")
    assert not spool.exists()


def test_a_mill_that_is_opened_again_goes_on(mill_factory: MillFactory) -> None:
    """What was in the spool and in no epoch is read once; a place that is taken meanwhile is tried again."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    mill = mill_factory(small_epoch_bytes=1 << 20)
    mill.sql(f"CREATE TABLE t (n INT) USING csv OPTIONS (path 'tcp+listen://127.0.0.1:{port}')")
    mill.sql("CREATE MATERIALIZED VIEW v AS SELECT n FROM t")
    with connect(mill, "t") as connection:
        connection.sendall(b"1\n2\n")
        take(mill, "t", 2)
        connection.sendall(b"3\n")
        until(lambda: messages(mill, "t") == 3)
    mill.close()
    with socket.create_server(("127.0.0.1", port)):
        mill = mill_factory(small_epoch_bytes=1 << 20)
        list(mill.drain())
        assert rows(mill, "v") == Counter([(1,), (2,), (3,)])
    until(lambda: mill.read("t__status").to_pylist()[0]["state"] == "listening")
    with connect(mill, "t") as connection:
        connection.sendall(b"4\n")
        take(mill, "t", 1)
    assert rows(mill, "v") == Counter([(1,), (2,), (3,), (4,)])


@pytest.mark.parametrize(
    ("table", "number"),
    [
        ("(a INT) USING csv OPTIONS (path 'tcp://127.0.0.1')", "TM5020"),
        ("(a INT) USING parquet OPTIONS (path 'tcp://127.0.0.1:1')", "TM5024"),
        ("USING json OPTIONS (path 'tcp://127.0.0.1:1')", "TM5024"),
        ("(a INT) USING csv OPTIONS (path 'tcp://127.0.0.1:1', static 'true')", "TM5024"),
        ("(a INT) USING csv OPTIONS (path 'tcp://127.0.0.1:1', compression 'gzip')", "TM5024"),
        ("(a INT) USING csv OPTIONS (path 'tcp://127.0.0.1:1', header 'true')", "TM4003"),
        ("(a INT) USING csv OPTIONS (path 'tcp://127.0.0.1:1', framing 'words')", "TM4003"),
        ("(a INT) USING csv OPTIONS (path 'tcp://127.0.0.1:1', lengthBytes '4')", "TM4003"),
        ("(a INT) USING csv OPTIONS (path 'tcp://127.0.0.1:1', messageTimeout '4')", "TM4003"),
        ("(a INT) USING csv OPTIONS (path 'tcp://127.0.0.1:1', maxSpoolBytes '4k')", "TM4003"),
        ("(a INT) USING csv OPTIONS (path 'tcp://127.0.0.1:1', maxMessageByte '4k')", "'maxMessageBytes'"),
        ("(a INT) USING csv OPTIONS (path 'tcp+listen://127.0.0.1:0', greeting 'hello')", "servers that are connected"),
        (
            "(a INT) USING csv OPTIONS (path 'tcp://127.0.0.1:1,tcp://127.0.0.1:2', greeting 'from {lines}')",
            "one server",
        ),
        (
            "(a INT) USING csv OPTIONS (path 'tcp://127.0.0.1:1', framing 'length', greeting 'after {last}')",
            "sends lines",
        ),
        ("(a INT) USING native OPTIONS (path 'tcp://127.0.0.1:1', greeting 'from {lines}')", "sends lines"),
        (f"(a INT) USING csv OPTIONS (path 'tcp://127.0.0.1:1', greeting '{'x' * 5000}')", "at most 4096 bytes"),
        ("(a INT) USING csv OPTIONS (path '/tmp', retainBytes '4k')", "TM4005"),
        ("(a INT) USING csv OPTIONS (path 'tcp+listen://127.0.0.1:{taken}')", "TM5021"),
    ],
)
def test_refused(mill_factory: MillFactory, table: str, number: str) -> None:
    mill = mill_factory()
    with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(TidemillError, match=number):
        mill.sql("CREATE TABLE t " + table.replace("{taken}", str(taken.getsockname()[1])))
    assert mill.sql("SHOW TABLES").count() == 0  # type: ignore[union-attr]


def test_new_fields_become_columns(mill_factory: MillFactory) -> None:
    mill = mill_factory(small_epoch_bytes=1 << 20)
    mill.sql(f"CREATE TABLE t (a INT) USING json OPTIONS ({LISTEN}, schemaEvolutionMode 'addNewColumns')")
    mill.sql("CREATE MATERIALIZED VIEW v AS SELECT a FROM t")
    with connect(mill, "t") as connection:
        connection.sendall(b'{"a": 1}\n{"a": 2, "b": "new"}\n')
        take(mill, "t", 2)
        mill.sql("CREATE MATERIALIZED VIEW w AS SELECT a, b FROM t")
        connection.sendall(b'{"a": 3, "b": "x"}\n')
        take(mill, "t", 3)
    assert rows(mill, "v") == Counter([(1,), (2,), (3,)])
    assert rows(mill, "w") == Counter([(1, None), (2, "new"), (3, "x")])


def test_other_processes_learn_of_the_status(mill_factory: MillFactory) -> None:
    """As ``tidemill query`` does: from a file that is about a second old."""
    mill = mill_factory(small_epoch_bytes=1 << 20)
    mill.sql(f"CREATE TABLE t (a INT) USING csv OPTIONS ({LISTEN})")
    mill.sql("CREATE MATERIALIZED VIEW v AS SELECT a FROM t")
    root = str(mill.snapshot().store.objects)
    assert Snapshot.open(root).read("t__status").num_rows == 0
    with connect(mill, "t") as connection:
        connection.sendall(b"1\n")
        take(mill, "t", 1)

        def shown() -> list[tuple[str, int]]:
            mill.advance()
            return [(r["state"], r["messages"]) for r in Snapshot.open(root).read("t__status").to_pylist()]

        until(lambda: shown() == [("listening", 0), ("connected", 1)])
        mill.close()
        found = Snapshot.open(root)
        assert found.readable("t__status")
        assert {r["state"] for r in found.read("t__status").to_pylist()} == {"stopped"}


def test_the_status_takes_its_name(mill_factory: MillFactory) -> None:
    mill = mill_factory()
    mill.sql(f"CREATE TABLE t (a INT) USING csv OPTIONS ({LISTEN})")
    with pytest.raises(TidemillError, match="TM2010"):
        mill.sql("CREATE MATERIALIZED VIEW t__status AS SELECT a FROM t")


def test_a_root_that_is_no_directory_is_refused(spark: Any) -> None:
    with Mill("memory://pushed", spark=spark) as mill, pytest.raises(TidemillError, match="TM5025"):
        mill.sql("CREATE TABLE t (a INT) USING csv OPTIONS (path 'tcp://127.0.0.1:1')")


def test_spools_of_tables_that_are_gone(tmp_path: Path) -> None:
    """They are deleted; one that a later catalog made is not: its manifest may come back."""
    for folder in ("t%231", "u%237"):
        (tmp_path / "spool" / folder).mkdir(parents=True)
    Spools(tmp_path).tidy(Catalog(next_uid=7))
    assert [p.name for p in (tmp_path / "spool").iterdir()] == ["u%237"]


class Sender(threading.Thread):
    """Numbered messages over one connection after another, for as long as it is told to."""

    def __init__(self, number: int, port: int, seed: int, message: Callable[..., bytes]) -> None:
        super().__init__(daemon=True)
        self.number, self.port, self.chance, self.message = number, port, random.Random(seed), message
        self.stopped = threading.Event()
        self.connections = 0

    def run(self) -> None:
        while not self.stopped.is_set():
            try:
                with socket.create_connection(("127.0.0.1", self.port)) as connection:
                    self.connections += 1
                    self._send(connection)
            except OSError:  # the mill was killed, or is not there yet
                time.sleep(0.02)

    def _send(self, connection: socket.socket) -> None:
        at, data = 0, b""
        while not self.stopped.is_set():
            if len(data) < 2000:
                data += b"".join(self.message(self.number, self.connections, n) for n in range(at, at + 100))
                at += 100
            size = self.chance.choice((1, 10, 300))
            connection.sendall(data[:size])
            data = data[size:]
            time.sleep(0.02)  # the test lasts for as long as its rows are counted, after each kill


MESSAGES: tuple[Callable[..., bytes], ...] = (
    lambda *row: b"%d,%d,%d\n" % row,
    lambda *row: struct.pack("<Biii", 0, *row),
    lambda *row: struct.pack("<H", len(b"%d,%d,%d" % row)) + b"%d,%d,%d" % row,
)
"""Of the three tables of ``socket_mill.py``."""


@pytest.mark.slow
@pytest.mark.timeout(200 + 90 * KILLS)
def test_crash_at_any_moment(mill_factory: MillFactory, tmp_path: Path, seed: int) -> None:
    """Of each connection there is a beginning, each message once, and all that any sealed epoch had shown."""
    chance = random.Random(seed)
    with ExitStack() as stack:
        free = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in MESSAGES]
        ports = [f.getsockname()[1] for f in free]
    senders = [Sender(n, ports[n % 3], seed + n, MESSAGES[n % 3]) for n in range(6)]
    for sender in senders:
        sender.start()
    script = Path(__file__).with_name("socket_mill.py")
    shown = 0
    for _ in range(KILLS):
        command = [sys.executable, str(script), str(tmp_path / "root"), *map(str, ports)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True) as process:
            assert process.stdout is not None
            epochs = chance.randrange(1, 8)
            for line in process.stdout:
                shown = max(shown, int(line))
                epochs -= 1
                if epochs <= 0:
                    break
            time.sleep(chance.random() * 0.2)
            process.send_signal(signal.SIGKILL)
    for sender in senders:
        sender.stopped.set()
        sender.join()
    assert shown > 0
    mill = mill_factory(small_epoch_bytes=1 << 20)
    list(mill.drain())
    found = mill.read("v").to_pylist()
    assert len(found) >= shown
    numbers: dict[tuple[int, int], list[int]] = {}
    for row in found:
        numbers.setdefault((row["c"], row["k"]), []).append(row["n"])
    for sent in numbers.values():
        assert sorted(sent) == list(range(len(sent)))
    assert len(numbers) >= len(senders)
    assert all(mill.read(f"{table}__errors").num_rows == 0 for table in "tfs")


def test_the_example(mill_factory: MillFactory) -> None:
    path = Path(__file__).parents[3] / "examples" / "sensors.py"
    found = importlib.util.spec_from_file_location("sensors", path)
    assert found is not None and found.loader is not None
    example = importlib.util.module_from_spec(found)
    found.loader.exec_module(example)
    mill = mill_factory(small_epoch_bytes=1 << 20)
    sent = example.follow(mill, seconds=1.0, sensors=4)
    shown = mill.read("by_sensor").to_pylist()
    assert sum(r["readings"] for r in shown) == sent > 0
    assert sorted(r["sensor"] for r in shown) == [0, 1, 2, 3]
