"""A real PostgreSQL for tests, from Debian's packages, on a free port of loopback."""

from __future__ import annotations

import getpass
import os
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

import psycopg
from tests.kafka_broker import free_port

_PROGRAMS = sorted(Path("/usr/lib/postgresql").glob("*/bin"))
_SECONDS = 60


class PostgresServer:
    """A server with logical replication, whose superuser is ``postgres`` without a password.

    PostgreSQL does not run as root: then it runs as the user ``postgres`` of Debian's package.
    """

    def __init__(self, **settings: str) -> None:
        assert _PROGRAMS, "apt-get install postgresql"
        self._programs = _PROGRAMS[-1]
        self._as: list[str] = ["runuser", "-u", "postgres", "--"] if getpass.getuser() == "root" else []
        self._directory = Path(tempfile.mkdtemp(prefix="tidemill-postgres-"))
        if self._as:
            shutil.chown(self._directory, "postgres")
        self.port = free_port()
        data = str(self._directory / "data")
        given = ["-A", "trust", "-U", "postgres", "--no-sync", "-E", "UTF8", "--locale=C.UTF-8"]
        self._run("initdb", "-D", data, *given)
        self._settings = {
            "wal_level": "logical",
            "max_replication_slots": "60",
            "max_wal_senders": "60",
            "fsync": "off",
            "listen_addresses": "127.0.0.1",
            "unix_socket_directories": "",
            **settings,
        }
        self._process: subprocess.Popen[bytes] | None = None
        self.start()

    def _run(self, program: str, *arguments: str) -> None:
        command = [*self._as, str(self._programs / program), *arguments]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, timeout=_SECONDS, cwd="/")

    def start(self) -> None:
        """Start, and wait until it answers."""
        settings = [part for name, value in self._settings.items() for part in ("-c", f"{name}={value}")]
        command = [
            *self._as,
            str(self._programs / "postgres"),
            "-D",
            str(self._directory / "data"),
            "-p",
            str(self.port),
        ]
        with (self._directory / "log").open("ab") as log:
            self._process = subprocess.Popen([*command, *settings], stdout=log, stderr=log, cwd="/")
        until = time.monotonic() + _SECONDS
        while True:
            try:
                self.connect().close()
            except psycopg.OperationalError:
                log_text = (self._directory / "log").read_text()
                assert time.monotonic() < until and self._process.poll() is None, log_text[-2000:]
                time.sleep(0.1)
            else:
                return

    def stop(self, how: int = signal.SIGINT) -> None:
        """Stop it: at once, as a crash, with SIGQUIT."""
        assert self._process is not None
        os.kill(self._server(), how)
        self._process.wait(_SECONDS)
        self._process = None

    def _server(self) -> int:
        return int((self._directory / "data" / "postmaster.pid").read_text().split()[0])

    def connect(self, database: str = "postgres", user: str = "postgres") -> psycopg.Connection[Any]:
        """A connection as a superuser, whose statements are transactions."""
        return psycopg.connect(f"host=127.0.0.1 port={self.port} user={user} dbname={database}", autocommit=True)

    def options(self, table: str, **others: str) -> str:
        """Options of a table of a mill."""
        given = {"url": f"postgresql://127.0.0.1:{self.port}/postgres", "user": "postgres", "dbtable": table, **others}
        return ", ".join(f"{name} '{value}'" for name, value in given.items())

    def close(self) -> None:
        """Stop it, and remove its files."""
        if self._process is not None:
            self.stop()
        shutil.rmtree(self._directory)
