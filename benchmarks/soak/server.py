"""``tidemill serve`` in a process of its own, which can be killed and started again on the same root and ports."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import httpx

from benchmarks.soak.error import SoakError

_START_SECONDS = 120.0
_HARMLESS = ("view.failed",)
"""Events at level *error* that actions cause on purpose: limits of views are exceeded."""


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.create_server(("127.0.0.1", 0)) as found:
        return int(found.getsockname()[1])


class ServerProcess:
    """A server on a root; ports stay the same over restarts, so that clients find it again.

    Attributes
    ----------
    url, flight, postgres : str
        Addresses: of HTTP, of Flight, and a connection string for psycopg.
    starts : int
        How often it was started.
    """

    def __init__(self, place: Path, master: str) -> None:
        self.root = place / "root"
        self._place, self._master = place, master
        self.ports = {"http": free_port(), "flight": free_port(), "pg": free_port()}
        self.url = f"http://127.0.0.1:{self.ports['http']}"
        self.flight = f"grpc://127.0.0.1:{self.ports['flight']}"
        self.postgres = f"host=127.0.0.1 port={self.ports['pg']} user=soak dbname=tidemill"
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
        SoakError
            When it ends, or is not ready in time.
        """
        began = time.monotonic()
        self.starts += 1
        self._checked = 0
        ports = (f"--{name}port={port}" for name, port in zip(("", "flight-", "pg-"), self.ports.values(), strict=True))
        command = [sys.executable, "-m", "tidemill", "serve", "--root", str(self.root), "--master", self._master]
        settings = ("history_epochs=500", "spark_conf.spark.driver.memory=1g")
        command += [*ports, "--log-format", "json", *(w for s in settings for w in ("--set", s))]
        with self.log.open("wb") as errors, (self._place / f"output{self.starts}").open("wb") as output:
            self._process = subprocess.Popen(command, stdout=output, stderr=errors)
        while not self.is_ready():
            if self._process.poll() is not None or time.monotonic() - began > _START_SECONDS:
                raise SoakError(f"the server did not start: {self.log.read_text()[-2000:]}")
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
            _kill(pid)

    def stop(self) -> None:
        """SIGTERM. SoakError unless it ends with exit code 0."""
        children = descendants(self.pid)
        code = self._send(signal.SIGTERM)
        self.check_log()
        if code != 0:
            raise SoakError(f"SIGTERM: exit code {code}: {self.log.read_text()[-2000:]}")
        left = [pid for pid in children if Path(f"/proc/{pid}").exists() and state_of(pid) != "Z"]
        deadline = time.monotonic() + 10
        while left and time.monotonic() < deadline:
            time.sleep(0.1)
            left = [pid for pid in left if Path(f"/proc/{pid}").exists() and state_of(pid) != "Z"]
        if left:
            raise SoakError(f"SIGTERM: {len(left)} processes of Spark are left behind")

    def end(self) -> None:
        """End it in any case."""
        if self._process is not None and self._process.poll() is None:
            children = descendants(self.pid)
            self._send(signal.SIGKILL)
            for pid in children:
                _kill(pid)

    def _send(self, number: int) -> int:
        assert self._process is not None
        self._process.send_signal(number)
        return self._process.wait(120)

    def check_log(self) -> None:
        """SoakError for a traceback, or an event that tells of a bug, since the last look at the log."""
        with self.log.open("rb") as file:
            file.seek(self._checked)
            text = file.read()
        whole = text[: text.rfind(b"\n") + 1]
        self._checked += len(whole)
        for line in whole.decode("utf-8", "replace").splitlines():
            if "Traceback (most recent call last)" in line:
                raise SoakError(f"a traceback in the log: {self.log.read_text()[-4000:]}")
            if line.startswith("{"):
                entry = json.loads(line)
                if entry["level"] == "error" and entry["event"] not in _HARMLESS:
                    raise SoakError(f"an error in the log: {line}")

    def count_answers(self) -> dict[str, int]:
        """HTTP answers of this process by the first digit of their status. SoakError for any with 5xx."""
        found: dict[str, int] = {}
        for line in httpx.get(f"{self.url}/metrics", timeout=30).text.splitlines():
            if line.startswith("tidemill_requests_total{"):
                status = line.split('status="')[1][0]
                found[status] = found.get(status, 0) + int(float(line.rsplit(" ", 1)[1]))
                if status == "5":
                    raise SoakError(f"the server answered with 5xx: {line}")
        return found

    def metric(self, name: str) -> float:
        """The value of a metric without labels."""
        for line in httpx.get(f"{self.url}/metrics", timeout=30).text.splitlines():
            if line.startswith(f"{name} "):
                return float(line.split()[1])
        raise SoakError(f"no metric {name}")


def state_of(pid: int) -> str:
    """The letter of a process's state; Z also when it has gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return "Z"


def children(pid: int) -> list[int]:
    """Living child processes."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[1]) == pid and fields[0] != "Z":
            found.append(int(stat.parent.name))
    return found


def descendants(pid: int) -> list[int]:
    """Living processes below one, parents first."""
    found = []
    for child in children(pid):
        found += [child, *descendants(child)]
    return found


def is_java(pid: int) -> bool:
    """Whether a process is a Java virtual machine."""
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip() == "java"
    except OSError:
        return False


def workers(pid: int) -> list[int]:
    """Python workers of Spark: forks of the daemons that Java virtual machines have started."""
    machines = [p for p in descendants(pid) if is_java(p)]
    return [w for java in machines for daemon in children(java) if not is_java(daemon) for w in children(daemon)]


def executors(pid: int) -> list[int]:
    """Executors of ``local-cluster``: Java virtual machines below another one."""
    return [p for java in descendants(pid) if is_java(java) for p in descendants(java) if is_java(p)]


def _kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return


def kill_some(pids: list[int]) -> int:
    """``kill -9``; how many there were."""
    for pid in pids:
        _kill(pid)
    return len(pids)
