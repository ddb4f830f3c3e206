"""Tidemill's server in a process of its own, for the benchmarks that are its clients."""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import tidemill as tm
from tidemill.serve.stored.addresses import served_at


@dataclass(frozen=True)
class ServerProcess:
    """A server that runs.

    Attributes
    ----------
    url : str
        Of HTTP.
    pid : int
        Of the process that answers; Spark's JVM and workers are children of it.
    """

    url: str
    pid: int

    @property
    def port(self) -> int:
        """Of HTTP, on 127.0.0.1."""
        return int(urlsplit(self.url).port or 0)

    def resident(self) -> int:
        """Resident bytes of the process that answers, without Spark's."""
        found = re.search(r"VmRSS:\s+(\d+) kB", Path(f"/proc/{self.pid}/status").read_text())
        assert found is not None
        return int(found[1]) << 10


@contextlib.contextmanager
def server_process(place: Path) -> Iterator[ServerProcess]:
    """``tidemill serve`` on a new root in ``place``, with two task slots; it is stopped at the end."""
    place.mkdir(parents=True, exist_ok=True)
    root, log = str(place / "root"), place / "server.log"
    command = [sys.executable, "-m", "tidemill", "serve", "--root", root, "--port", "0", "--master", "local[2]"]
    with log.open("w") as lines:
        process = subprocess.Popen(command, stdout=lines, stderr=lines)
    try:
        end = time.monotonic() + 120
        while (addresses := served_at(root)) is None:
            if process.poll() is not None or time.monotonic() > end:
                raise SystemExit("the server does not start:\n" + log.read_text()[-2000:])
            time.sleep(0.1)
        yield ServerProcess(addresses["http"], process.pid)
    finally:
        process.terminate()
        try:
            process.wait(60)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def listening_port(client: tm.Client, name: str) -> int:
    """The port that a table over ``tcp+listen://127.0.0.1:0`` got."""
    end = time.monotonic() + 60
    while time.monotonic() < end:
        for row in client.sql(f"SELECT peer FROM {name}__status").to_pylist():
            if str(row["peer"]).rsplit(":", 1)[-1].isdigit():
                return int(str(row["peer"]).rsplit(":", 1)[-1])
        time.sleep(0.1)
    raise SystemExit(f"table {name} does not listen")


def processor_seconds(pid: int) -> float:
    """Processor time of a process, without its children (s)."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
