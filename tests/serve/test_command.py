"""``tidemill serve`` in a process of its own, and the other commands against it."""

from __future__ import annotations

import csv
import io
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from io import BytesIO
from pathlib import Path

import httpx
import psycopg
import pytest
from benchmarks.processes import descendants, is_java
from otlp_receiver import Receiver
from serving import Served

import tidemill as tm
from commands import here
from tidemill.cli.query.change_table import as_text
from tidemill.cli.query.local import answer
from tidemill.cli.query.output import write_parts
from tidemill.cli.query.remote import follow
from tidemill.serve.client.client import connect
from waiting import wait_until

ServeFactory = Callable[..., Served]

SCRIPT = """
CREATE TABLE orders (customer INT, amount DOUBLE) USING csv OPTIONS (path '{data}/*.csv', header true);
CREATE MATERIALIZED VIEW spending AS
  SELECT customer, COUNT(*) AS n, SUM(amount) AS amount FROM orders GROUP BY customer;
"""


class Process:
    """``tidemill serve`` on a free port."""

    def __init__(self, directory: Path, *more: str, environment: Mapping[str, str] | None = None) -> None:
        self.root = str(directory / "root")
        self._ended: tuple[int, str] | None = None
        arguments = [*more, "--root", self.root, "--port", "0", "--master", "local[2]"]
        self._errors = (directory / "errors").open("w+")
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tidemill", "serve", *arguments],
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
            env={**os.environ, **(environment or {})},
        )
        self.banner: list[str] = []
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.banner.append(line)
            if "http://" in line:
                self.url = line.split()[-1]
                return
        self._errors.seek(0)
        raise AssertionError(self._errors.read())

    def stop(self, number: int = signal.SIGTERM) -> tuple[int, str]:
        """Send a signal, once; the exit code, and what went to standard error."""
        if self._ended is not None:
            return self._ended
        self.process.send_signal(number)
        return self.ended()

    def ended(self) -> tuple[int, str]:
        """The exit code, once it ends, and what went to standard error."""
        code = self.process.wait(60)
        self._errors.seek(0)
        text = self._errors.read()
        self._errors.close()
        assert self.process.stdout is not None
        self.process.stdout.close()
        self._ended = code, text
        return code, text


@pytest.fixture(scope="module")
def script(tmp_path_factory: pytest.TempPathFactory) -> Path:
    data = tmp_path_factory.mktemp("served")
    (data / "a.csv").write_text("customer,amount\n1,2.5\n2,3\n1,4\n")
    path = data / "orders.sql"
    path.write_text(SCRIPT.format(data=data))
    return path


@pytest.fixture(scope="module")
def receiver() -> Iterator[Receiver]:
    """What the server's traces are exported to."""
    with Receiver() as found:
        yield found


@pytest.fixture(scope="module")
def served(script: Path, receiver: Receiver, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Process]:
    """With settings, and traces."""
    environment = {
        "OTEL_EXPORTER_OTLP_ENDPOINT": receiver.url,
        "OTEL_EXPORTER_OTLP_COMPRESSION": "gzip",
        "OTEL_RESOURCE_ATTRIBUTES": "deployment.environment=test",
        "OTEL_BSP_SCHEDULE_DELAY": "100",
    }
    set_ = [a for s in ("max_rows=3", "pg_port=0", "pg-max-connections=1") for a in ("--set", s)]
    options = (str(script), "--log-format", "json", "--traces", *set_)
    process = Process(tmp_path_factory.mktemp("server"), *options, environment=environment)
    yield process
    if process.process.poll() is None:
        process.process.kill()
        process.process.wait()


def rows(text: str) -> set[tuple[str, ...]]:
    return set(map(tuple, csv.reader(io.StringIO(text))))


@pytest.mark.slow
def test_commands_find_the_server_of_a_root(served: Process) -> None:
    wait_until(lambda: httpx.get(f"{served.url}/healthz").json()["epoch"] >= 1)
    place = ("--root", served.root)
    assert here("sql", "CREATE MATERIALIZED VIEW dear AS SELECT * FROM spending WHERE amount > 5", *place).code == 0
    wait_until(lambda: here("query", "SELECT * FROM dear", *place, "--format", "csv").code == 0)
    expected = {("customer", "n", "amount"), ("1", "2", "6.5")}
    assert rows(here("query", "SELECT * FROM dear", *place, "--format", "csv").out) == expected
    named = here("query", "SELECT * FROM dear", "--server", served.url, "--format", "csv")
    assert rows(named.out) == expected
    assert "O(" in here("explain", "dear", *place).out
    assert "O(" in here("explain", "SELECT customer, MAX(amount) FROM orders GROUP BY customer", *place).out
    assert here("sql", "DROP VIEW dear", "--server", served.url).code == 0
    gone = here("query", "SELECT * FROM dear", *place)
    assert gone.code == 1 and "TM2004" in gone.err
    wrong = here("sql", "CREATE MATERIALIZED VIEW w AS SELECT nothing FROM orders", *place)
    assert wrong.code == 1 and "TM2004" in wrong.err and "line 1, column 38" in wrong.err
    assert "TM7030" in here("query", "SELECT 1").err
    assert "TM7030" in here("query", "SELECT 1", *place, "--server", served.url).err
    assert "TM8031" in here("query", "SELECT 1", "--server", "http://127.0.0.1:9").err


def test_settings_of_the_server(served: Process) -> None:
    addresses = json.loads((Path(served.root) / "serve" / "server.json").read_text())
    assert set(addresses) >= {"http", "postgresql"}, addresses
    with psycopg.connect(addresses["postgresql"]), pytest.raises(psycopg.OperationalError, match="TM8105"):
        psycopg.connect(addresses["postgresql"])
    many = "SELECT explode(sequence(1, {})) AS n FROM spending WHERE customer = 1"
    for rows_, status in ((3, 200), (4, 400)):
        answer = httpx.post(f"{served.url}/v1/sql", json={"statement": many.format(rows_)}, timeout=60)
        assert answer.status_code == status, answer.text


def test_a_signal_makes_everything_durable(served: Process, script: Path) -> None:
    with tm.connect(served.url) as client:
        cursor = client.cursor("spending", durable=False)
        fetched = [cursor.fetch()]
        wait_until(lambda: fetched[-1].changes or fetched.append(cursor.fetch()))  # the server may run no epoch yet
        before = fetched[-1]
        (script.parent / "b.csv").write_text("customer,amount\n3,1\n")
        wait_until(lambda: client.table("spending", where="customer = 3").to_pylist() != [])
    code, errors = served.stop()
    assert code == 0 and "Traceback" not in errors, errors
    entries = [json.loads(line) for line in errors.splitlines() if line.startswith("{")]
    assert [e["number"] for e in entries] == list(range(1, len(entries) + 1))
    assert [e["event"] for e in (entries[0], *entries[-2:])] == ["server.started", "server.stopping", "server.stopped"]
    assert entries[0]["fields"]["addresses"]["http"] == served.url and entries[0]["fields"]["root"] == served.root
    assert not (Path(served.root) / "serve" / "server.json").exists()
    out = here("query", "SELECT * FROM spending", "--root", served.root, "--format", "csv").out
    assert rows(out) == {("customer", "n", "amount"), ("1", "2", "6.5"), ("2", "1", "3"), ("3", "1", "1")}
    again = Process(Path(served.root).parent)
    with tm.connect(again.url) as client:
        after = client.open_cursor(cursor.id).fetch()
        assert sum(c.table.num_rows for c in before.changes) == 2
        assert [c.table.to_pylist() for c in after.changes] == [[{"customer": 3, "n": 1, "amount": 1.0, "__weight": 1}]]
    assert again.stop(signal.SIGINT)[0] == 0


@pytest.mark.slow
def test_java_is_killed(served: Process) -> None:
    """The server ends, so that its supervisor can start it again."""
    if served.process.poll() is None:
        served.stop()
    again = Process(Path(served.root).parent, "--log-format", "json")
    (java,) = [n for n in descendants(again.process.pid) if is_java(n)]
    os.kill(java, signal.SIGKILL)
    code, errors = again.ended()
    assert code == 1 and "Traceback" not in errors, errors
    assert "TM6003: Java has ended" in errors and '"java.ended"' in errors


def test_a_collector_receives_the_traces_of_a_server(served: Process, receiver: Receiver) -> None:
    wait_until(lambda: any(s.name == "epoch" for s in receiver.spans))
    if served.process.poll() is None:
        assert httpx.get(f"{served.url}/v1/views").status_code == 200
    code, errors = served.stop(signal.SIGTERM)
    assert code == 0 and "Traceback" not in errors, errors
    assert receiver.paths == {"/v1/traces"}
    names = {s.name for s in receiver.spans}
    assert {"epoch", "epoch.run", "epoch.superstep", "epoch.seal", "checkpoint", "request"} <= names
    assert receiver.resources[0]["service.name"] == "tidemill"
    assert receiver.resources[0]["deployment.environment"] == "test"
    epoch = next(s for s in receiver.spans if s.name == "epoch")
    found = {a.key: a.value.int_value for a in epoch.attributes}
    assert found["tidemill.epoch"] == 1 and found["tidemill.rows"] == 3
    below = [s.name for s in receiver.spans if s.parent_span_id == epoch.span_id]
    assert sorted(below) == ["epoch.admit", "epoch.list", "epoch.run", "epoch.seal"]


def test_an_address_beyond_loopback_needs_tokens(tmp_path: Path) -> None:
    found = here("serve", "--root", str(tmp_path / "root"), "--host", "0.0.0.0")
    assert found.code == 1 and "TM8001" in found.err


def test_commands_print_the_time_zone_of_the_mill(serve: ServeFactory, tmp_path: Path) -> None:
    """From a server as from the files of a root: 00:30 in UTC is 02:30 in Berlin, in summer."""
    served = serve(mill={"time_zone": "Europe/Berlin"})
    (tmp_path / "a.csv").write_text("2024-06-30T00:30:00.000001Z\n")
    served.sql(f"CREATE TABLE t (at TIMESTAMP) USING csv OPTIONS (path '{tmp_path}/*.csv')")
    served.sql("CREATE MATERIALIZED VIEW v AS SELECT at, CAST(at AS STRING) AS text, array(at) AS more FROM t")
    served.mill.advance()
    served.mill.checkpoint()
    shown = "2024-06-30 02:30:00.000001"
    for query in ("SELECT * FROM v", "SELECT at, CAST(at AS STRING) AS text, more FROM v WHERE at > DATE '2000-01-01'"):
        by_server = here("query", query, "--server", served.url).out
        assert by_server.count(shown) == 3, by_server
        line = json.loads(here("query", query, "--server", served.url, "--format", "json").out)
        assert line == {"at": f"{shown}+02:00", "text": shown, "more": [f"{shown}+02:00"]}
    for format_ in ("table", "csv", "json"):
        stored = BytesIO()
        parts = answer(str(tmp_path / "root"), "SELECT * FROM v", None, None)
        assert not isinstance(parts, str)
        write_parts(parts, format_, stored)
        assert here("query", "SELECT * FROM v", "--server", served.url, "--format", format_).raw == stored.getvalue()
    with connect(served.url) as client:
        _, changes = next(iter(follow(client, "v", 0)))
    assert as_text(changes).count(shown) == 3
    answered = served.http.post("/v1/sql", json={"statement": "SELECT at FROM v"}).json()
    assert answered["rows"] == [["2024-06-30T02:30:00.000001+02:00"]]
