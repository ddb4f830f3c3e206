"""``tidemill exchange serve`` in a process of its own, and what its page shows."""

from __future__ import annotations

import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "exchange.md"


@contextmanager
def serving(*options: str, command: tuple[str, ...] = ("serve",)) -> Iterator[tuple[subprocess.Popen[str], int]]:
    """The process, and its port."""
    whole = (sys.executable, "-m", "tidemill", "exchange", *command, "--port", "0", *options)
    with subprocess.Popen(whole, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield process, int(process.stdout.readline().rpartition(":")[2])
        finally:
            process.kill()


def refused(*options: str, command: str = "serve") -> str:
    whole = [sys.executable, "-m", "tidemill", "exchange", command, *options]
    done = subprocess.run(whole, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1
    return done.stderr


def test_the_example_of_the_page() -> None:
    block = re.findall(r"```\n(.*?)```", PAGE.read_text(), re.DOTALL)[1]
    sent = "".join(f"{line}\n" for line in re.findall(r"echo '(.*?)'", block))
    shown = block.splitlines()[1:]
    with serving("--symbol", "ACME:5:100", "--symbol", "ZED") as (process, port):
        with socket.create_connection(("127.0.0.1", port), timeout=30) as client, client.makefile("r") as answers:
            client.sendall(bytes(4) + sent.encode())
            found = [answers.readline().rstrip("\n") for _ in shown]
        midnight = re.compile(r"^\d{4,8} ")  # the exchange's own time, which is another one each day
        assert [midnight.sub("T ", line) for line in found] == [midnight.sub("T ", line) for line in shown]
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0


@pytest.mark.parametrize("text", ["", "A B", "ACME:0", "ACME:5:", "ACME:1:1:1", "ACME:-1", "Ä", "A" * 17])
def test_what_is_no_symbol(text: str) -> None:
    assert refused("--symbol", text).startswith("TM7032")


def test_a_symbol_is_given_once() -> None:
    assert "give each symbol once" in refused("--symbol", "A", "--symbol", "A:5")


def test_a_port_that_is_taken() -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        assert refused("--port", str(other.getsockname()[1])).startswith("TM7031")


def book_of(lines: list[str]) -> dict[int, tuple[str, int, int]]:
    """The orders that a trace leaves, in plain Python: id to side, volume, price."""
    book: dict[int, tuple[str, int, int]] = {}
    for line in lines:
        _, id_, action, volume, price = line.split(",")
        if action in "BS":
            book[int(id_)] = action, int(volume), int(price)
        elif int(id_) in book and action in "EC" and book[int(id_)][1] > int(volume):
            side, left, at = book[int(id_)]
            book[int(id_)] = side, left - int(volume), at
        elif action in "ECFD":
            book.pop(int(id_), None)
    return book


def test_a_trace_is_generated_and_replayed(tmp_path: Path) -> None:
    """A listener's snapshot is the book that the trace leaves; the clients of ``--policy replay`` do not trade."""
    trace = tmp_path / "trace.csv"
    options = ("--messages", "5000", "--seed", "9", "--resting", "300")
    generate = [sys.executable, "-m", "tidemill", "exchange", "generate", str(trace), *options]
    subprocess.run(generate, check=True, timeout=60)
    lines = trace.read_text().splitlines()
    assert len(lines) == 5000
    trace.write_text("\n".join([*lines[:100], "nonsense,,", "1,2,Q,3,4", *lines[100:]]) + "\n")
    command = ("replay", str(trace), "--speed", "0", "--policy", "replay")
    with serving(command=command) as (process, port):
        assert process.stdout is not None
        told = process.stdout.readline()
        count = sum(",C,0," not in line for line in lines)
        assert told == f"the trace is at its end: {count:,} requests, 0 rejected, 2 malformed rows left out\n"
        with socket.create_connection(("127.0.0.1", port), timeout=30) as client, client.makefile("r") as answers:
            client.sendall(b"\x01\0\0\0snapshot ACME\nsnapshot NONE\n")
            until_the_last = iter(answers.readline, "0 0 0 J TM9512 there is no such symbol\n")
            rows = [line.split() for line in until_the_last]
        found = {int(row[1]) - (1 << 40): (row[3], int(row[4]), int(row[5])) for row in rows if row[3] in "BS"}
        assert found == book_of(lines)
        with socket.create_connection(("127.0.0.1", port), timeout=30) as client, client.makefile("r") as answers:
            client.sendall(b"\0\0\0\0" + b"1 0 7 B 100 275000\n")
            assert "TM9509" in answers.readline()


def test_a_trace_that_cannot_be_replayed(tmp_path: Path) -> None:
    assert refused(str(tmp_path / "none.csv"), command="replay").startswith("TM7033")
    bad = tmp_path / "bad.csv"
    bad.write_text("1,2,Q,3,4\n")
    options = ("--port", "0", "--speed", "0", "--once")
    assert refused(str(bad), "--trace-mode", "FAILFAST", *options, command="replay").startswith("TM4020")
    assert refused(str(bad), "--trace-mode", "SOMETIMES", *options, command="replay").startswith("TM4003")
    assert refused(str(tmp_path / "no" / "dir.csv"), command="generate").startswith("TM7034")


def test_a_market_trades_while_the_exchange_is_served() -> None:
    with serving("--market", "2000", "--seed", "4") as (process, port):
        with socket.create_connection(("127.0.0.1", port), timeout=60) as client, client.makefile("r") as answers:
            client.sendall(b"trace ACME\n")
            actions = {answers.readline().split(",")[2] for _ in range(3000)}
        assert {"B", "S", "D", "E", "F"} <= actions
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0
