"""``tidemill serve`` in a process of its own, which can be killed and started again on the same root and ports."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import httpx

import tidemill as tm
from benchmarks.processes import descendants, is_java, kill, state_of

_START_SECONDS = 120.0
_HARMLESS = ("view.failed",)
"""Events at level *error* that actions cause on purpose: limits of views are exceeded."""


class ServerError(AssertionError):
    """A server does not start or end as it should, or has met a bug."""


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.create_server(("127.0.0.1", 0)) as found:
        return int(found.getsockname()[1])


class ServerProcess:
    """A server on a root; ports stay the same over restarts, so that clients find it again.

    Parameters
    ----------
    place : Path
        Directory for the root and logs.
    settings : sequence of str
        ``NAME=VALUE``, as ``--set`` takes them.

    Attributes
    ----------
    url, flight, postgres : str
        Addresses: of HTTP, of Flight, and a connection string for psycopg.
    starts : int
        How often it was started.
    """

    def __init__(self, place: Path, master: str = "local[2]", settings: Sequence[str] = ()) -> None:
        self.root = place / "root"
        self._place, self._master, self._settings = place, master, settings
        self.ports = {"http": free_port(), "flight": free_port(), "pg": free_port()}
        self.url = f"http://127.0.0.1:{self.ports['http']}"
        self.flight = f"grpc://127.0.0.1:{self.ports['flight']}"
        self.postgres = f"host=127.0.0.1 port={self.ports['pg']} user=client dbname=tidemill"
        self.starts = 0
        self._process: subprocess.Popen[bytes] | None = None
        self._checked = 0

    @property
    def pid(self) -> int:
        """Of the server now."""
        assert self._process is not None
        return self._process.pid

    @property
    def log(self) -> Path:
        """Standard error of the newest process."""
        return self._place / f"errors{self.starts}"

    def start(self) -> float:
        """Start it; seconds until it was ready.

        Raises
        ------
        ServerError
            When it ends, or is not ready in time.
        """
        began = time.monotonic()
        self.starts += 1
        self._checked = 0
        ports = (f"--{name}port={port}" for name, port in zip(("", "flight-", "pg-"), self.ports.values(), strict=True))
        command = [sys.executable, "-m", "tidemill", "serve", "--root", str(self.root), "--master", self._master]
        command += [*ports, "--log-format", "json", *(w for s in self._settings for w in ("--set", s))]
        with self.log.open("wb") as errors, (self._place / f"output{self.starts}").open("wb") as output:
            environment = {**os.environ, "PYTHONFAULTHANDLER": "1"}
            self._process = subprocess.Popen(command, stdout=output, stderr=errors, env=environment)
        while not self.is_ready():
            if self._process.poll() is not None or time.monotonic() - began > _START_SECONDS:
                raise ServerError(f"the server did not start: {self.log.read_text()[-2000:]}")
            time.sleep(0.1)
        return time.monotonic() - began

    def is_ready(self) -> bool:
        """Whether it answers."""
        try:
            return httpx.get(f"{self.url}/readyz", timeout=5).status_code == 200
        except httpx.TransportError:
            return False

    def kill(self) -> None:
        """``kill -9``; what Spark has started goes with it."""
        self.check_log()
        children = descendants(self.pid)
        self._send(signal.SIGKILL)
        for pid in children:
            kill(pid)

    def describe(self) -> str:
        """What it says of itself, and where its threads are; it is ended by that."""
        said = []
        for path in ("queues", "queries", "readers", "epochs?limit=5", "logs?limit=80"):
            try:
                said.append(f"{path}: {httpx.get(f'{self.url}/v1/{path}', timeout=10).text[:20_000]}")
            except httpx.HTTPError as error:
                said.append(f"{path}: {error!r}")
        if self._process is None or self._process.poll() is not None:
            return "\n".join([*said, "the server has ended"])
        for pid in filter(is_java, descendants(self.pid)):
            os.kill(pid, signal.SIGQUIT)  # Java writes its threads to its output
        time.sleep(2)
        self._send(signal.SIGABRT)
        output = (self._place / f"output{self.starts}").read_text(errors="replace")
        return "\n".join([*said, self.log.read_text(errors="replace")[-100_000:], output[-200_000:]])

    def stop(self) -> None:
        """SIGTERM. ServerError unless it ends with exit code 0."""
        children = descendants(self.pid)
        code = self._send(signal.SIGTERM)
        self.check_log()
        if code != 0:
            raise ServerError(f"SIGTERM: exit code {code}: {self.log.read_text()[-2000:]}")
        left = [pid for pid in children if Path(f"/proc/{pid}").exists() and state_of(pid) != "Z"]
        deadline = time.monotonic() + 10
        while left and time.monotonic() < deadline:
            time.sleep(0.1)
            left = [pid for pid in left if Path(f"/proc/{pid}").exists() and state_of(pid) != "Z"]
        if left:
            raise ServerError(f"SIGTERM: {len(left)} processes of Spark are left behind")

    def end(self) -> None:
        """End it in any case."""
        if self._process is not None and self._process.poll() is None:
            children = descendants(self.pid)
            self._send(signal.SIGKILL)
            for pid in children:
                kill(pid)

    def _send(self, number: int) -> int:
        assert self._process is not None
        self._process.send_signal(number)
        return self._process.wait(120)

    def check_log(self) -> None:
        """ServerError for a traceback, or an event that tells of a bug, since the last look at the log."""
        with self.log.open("rb") as file:
            file.seek(self._checked)
            text = file.read()
        whole = text[: text.rfind(b"\n") + 1]
        self._checked += len(whole)
        for line in whole.decode("utf-8", "replace").splitlines():
            if "Traceback (most recent call last)" in line:
                raise ServerError(f"a traceback in the log: {self.log.read_text()[-4000:]}")
            if line.startswith("{"):
                entry = json.loads(line)
                if entry["level"] == "error" and entry["event"] not in _HARMLESS:
                    raise ServerError(f"an error in the log: {line}")

    def count_answers(self) -> dict[str, int]:
        """HTTP answers of this process by the first digit of their status. ServerError for any with 5xx."""
        found: dict[str, int] = {}
        for line in httpx.get(f"{self.url}/metrics", timeout=30).text.splitlines():
            if line.startswith("tidemill_requests_total{"):
                status = line.split('status="')[1][0]
                found[status] = found.get(status, 0) + int(float(line.rsplit(" ", 1)[1]))
                if status == "5":
                    raise ServerError(f"the server answered with 5xx: {line}")
        return found

    def metric(self, name: str) -> float:
        """The value of a metric without labels."""
        for line in httpx.get(f"{self.url}/metrics", timeout=30).text.splitlines():
            if line.startswith(f"{name} "):
                return float(line.split()[1])
        raise ServerError(f"no metric {name}")


@contextlib.contextmanager
def server_process(place: Path) -> Iterator[ServerProcess]:
    """A server on a new root in ``place``, with two task slots; it is stopped at the end."""
    place.mkdir(parents=True, exist_ok=True)
    server = ServerProcess(place)
    server.start()
    try:
        yield server
        server.stop()
    finally:
        server.end()


def listening_port(client: tm.Client, name: str) -> int:
    """The port that a table over ``tcp+listen://127.0.0.1:0`` got."""
    end = time.monotonic() + 60
    while time.monotonic() < end:
        for row in client.sql(f"SELECT peer FROM {name}__status").to_pylist():
            if str(row["peer"]).rsplit(":", 1)[-1].isdigit():
                return int(str(row["peer"]).rsplit(":", 1)[-1])
        time.sleep(0.1)
    raise ServerError(f"table {name} does not listen")
