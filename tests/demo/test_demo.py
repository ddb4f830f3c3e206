"""``tidemill demo``: all parts run together, the summary is true, and each way to end it ends all of it."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path

import httpx
import pytest
from pyspark.sql import SparkSession
from rich.console import Console

import tidemill.demo.running as demo_running
from commands import here
from mill_factory import MillFactory
from tidemill.algos.strategies.registry import make_strategy
from tidemill.demo.exchange_process import ExchangeProcess
from tidemill.demo.running import FINANCE_VIEWS, Demo, State
from tidemill.demo.screen import picture, summary
from tidemill.errors import TidemillError

COMMAND = [sys.executable, "-m", "tidemill", "demo"]
VIEWS = Path(demo_running.__file__).with_name("views.sql").read_text()
FINANCE = Path(__file__).parents[2] / "examples" / "finance.sql"


def queries(script: str) -> dict[str, str]:
    """The queries of views by name, with single blanks."""
    plain = re.sub(r"--[^\n]*", "", script)
    found = re.findall(r"CREATE MATERIALIZED VIEW (\w+) AS\s+(.*?);", plain, re.DOTALL)
    return {name: " ".join(query.split()) for name, query in found}


def test_the_finance_views_are_those_of_the_example() -> None:
    own, example = queries(VIEWS), queries(FINANCE.read_text())
    assert {name: own[name] for name in FINANCE_VIEWS} == {name: example[name] for name in FINANCE_VIEWS}


@pytest.mark.slow
def test_parts_run_together(mill_factory: MillFactory, spark: SparkSession, seed: int) -> None:
    """At the end every finance view is what Spark makes of the orders, and the picture shows them."""
    shown: list[State] = []
    stopped = threading.Event()

    def show(state: State) -> None:
        shown.append(state)
        if state.epochs_compared > 5 and state.messages > 500 and sum(r.orders for r in state.strategies) > 2:
            stopped.set()

    mill = mill_factory(small_epoch_bytes=1 << 20)
    strategies = {name: make_strategy(name, {"volume": "200"}) for name in ("maker", "random")}
    end = Demo(mill, strategies, rate=400, seed=seed).run(stopped, 200.0, show)
    assert end.difference == "" and end.epochs_compared > 5 and end.orders_compared > 0, f"seed {seed}"
    assert end.messages > 500 and 0 < end.freshness[0] <= end.freshness[1]
    assert [r.name for r in end.strategies] == list(strategies) and all(r.error == "" for r in end.strategies)
    assert sum(r.orders for r in end.strategies) > 0
    text = summary(end).splitlines()
    assert [line.partition(":")[0] for line in text] == ["messages", "epochs", "freshness", "orders", "P&L", "books"]
    console = Console(record=True, width=160, file=open(os.devnull, "w"))  # noqa: PTH123, SIM115
    console.print(picture(end))
    drawn = console.export_text()
    best = max(price for side, price in end.levels if side == "B")
    assert f"{best / 10_000:.2f}" in drawn and all(name in drawn for name in (*FINANCE_VIEWS, *strategies))
    for name in ("bids", "asks"):
        spark.createDataFrame(mill.read(name).to_pandas()).createOrReplaceTempView(name)
    for name, query in queries(VIEWS).items():
        if name in FINANCE_VIEWS:
            expected = sorted(tuple(row) for row in spark.sql(query).collect())
            found = sorted(tuple(row.values()) for row in mill.read(name).to_pylist())
            assert len(found) == len(expected) and found == end_rows(end, name), f"{name}, seed {seed}"
            assert all(row == pytest.approx(other) for row, other in zip(found, expected)), f"{name}, seed {seed}"
    assert any(state.messages < end.messages for state in shown)


def end_rows(state: State, name: str) -> list[tuple[object, ...]]:
    rows = state.views[name]
    assert not isinstance(rows, str)
    return sorted(tuple(row.values()) for row in rows)


@pytest.mark.slow
def test_the_command_for_some_seconds(tmp_path: Path) -> None:
    """Its dashboard answers while it runs; its last lines are the summary."""
    command = [*COMMAND, "--seconds", "5", "--headless", "--rate", "200", "--root", str(tmp_path / "root")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None and process.stderr is not None
        first = process.stdout.readline()
        page = httpx.get(first.partition(" ")[2].strip(), timeout=30)
        out, error = process.communicate(timeout=120)
    assert (page.status_code, process.returncode) == (200, 0), error
    last = dict(line.split(":", 1) for line in out.splitlines()[-6:])
    assert list(last) == ["messages", "epochs", "freshness", "orders", "P&L", "books"]
    assert int(last["messages"].split()[0].replace(",", "")) > 0
    assert re.fullmatch(r"\s+p50 [\d.]+ ms, p99 [\d.]+ ms", last["freshness"])
    assert re.search(r"equal to the views at all [\d,]+ epochs", last["books"])
    assert "sobi" in last["P&L"] and "maker" in last["P&L"]
    assert "at 0 times" not in last["books"]
    (tmp_path / "file").touch()
    for taken in ("root", "file"):
        again = here("demo", "--headless", "--root", str(tmp_path / taken))
        assert again.code == 1 and again.err.startswith("TM7041")


@pytest.mark.slow
@pytest.mark.parametrize("seconds", [0.0, 5.0])
def test_a_signal_while_it_starts_ends_it(tmp_path: Path, seconds: float) -> None:
    """With a summary, and nothing is left."""
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    command = [*COMMAND, "--headless", "--rate", "200"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
    ) as process:
        assert process.stderr is not None
        assert process.stderr.readline().startswith("starting Spark")
        time.sleep(seconds)
        process.send_signal(signal.SIGTERM)
        out, error = process.communicate(timeout=120)
    assert process.returncode == 0 and "stopping" in error and "Traceback" not in error, error
    assert out.splitlines()[-1].startswith("books:")
    assert [path.name for path in tmp_path.glob("tidemill-*")] == []


def children(pid: int, part: str) -> list[int]:
    """Processes below another whose command has a text in it."""
    found = []
    for place in Path("/proc").glob("[0-9]*"):
        try:
            parent = int((place / "stat").read_text().rpartition(")")[2].split()[1])
            if parent == pid and part in (place / "cmdline").read_text():
                found.append(int(place.name))
        except (FileNotFoundError, ProcessLookupError):
            continue
    return found


@pytest.mark.slow
def test_an_exchange_that_is_killed_ends_the_demo() -> None:
    command = [*COMMAND, "--headless", "--rate", "200"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        process.stdout.readline()
        (exchange,) = children(process.pid, "exchange_process")
        os.kill(exchange, signal.SIGKILL)
        _, error = process.communicate(timeout=120)
    assert process.returncode == 1 and "TM7039" in error and "Traceback" not in error


def test_the_exchange_ends_with_who_has_begun_it() -> None:
    code = (
        "from tidemill.demo.exchange_process import ExchangeProcess; e = ExchangeProcess(1); e.trade(100); "
        "print(e._process.pid, flush=True); import time; time.sleep(100)"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        exchange = int(process.stdout.readline())
        process.kill()
    with suppress(FileNotFoundError, ProcessLookupError):  # in a new installation it compiles its kernels first
        while "Z" not in Path(f"/proc/{exchange}/stat").read_text().rpartition(")")[2].split()[0]:
            time.sleep(0.05)


def test_an_exchange_that_has_ended_says_so() -> None:
    with ExchangeProcess(1) as exchange:
        exchange.check()
        exchange._process.kill()
        exchange._process.wait()
        for call in (exchange.check, exchange.halt):
            with pytest.raises(TidemillError, match="TM7039"):
                call()
