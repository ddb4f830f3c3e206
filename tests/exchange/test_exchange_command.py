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
def serving(*options: str) -> Iterator[tuple[subprocess.Popen[str], int]]:
    """The process, and its port."""
    command = [sys.executable, "-m", "tidemill", "exchange", "serve", "--port", "0", *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield process, int(process.stdout.readline().rpartition(":")[2])
        finally:
            process.kill()


def refused(*options: str) -> str:
    command = [sys.executable, "-m", "tidemill", "exchange", "serve", *options]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
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
