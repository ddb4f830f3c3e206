"""DuckDB, closed off from everything but the views that a query names."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any

import duckdb

from tidemill.errors import TidemillError
from tidemill.serve.postgres.catalogue.functions import looking_up, macros, of_values
from tidemill.serve.postgres.protocol.errors import PostgresError, cancelled
from tidemill.serve.postgres.query.parsing import too_deep
from tidemill.serve.postgres.query.view_rows import ViewRows

_CLOSED: dict[str, str | bool] = {
    "enable_external_access": False,  # no file, no network, no ATTACH, COPY, INSTALL or LOAD
    "python_enable_replacements": False,  # a name is never a variable of this program
    "autoload_known_extensions": False,
    "autoinstall_known_extensions": False,
    "allow_community_extensions": False,
    "temp_directory": "",  # memory is limited, and so nothing is written to disk in its place
    "integer_division": True,
    "default_null_order": "postgres",
    "allowed_configs": "['TimeZone']",
}
_STATES = {
    "BinderException": ("TM8125", "the query does not resolve in DuckDB", "42703"),
    "CatalogException": ("TM8125", "the query does not resolve in DuckDB", "42883"),
    "ParserException": ("TM8123", "the SQL of the query cannot be parsed", "42601"),
    "SyntaxException": ("TM8123", "the SQL of the query cannot be parsed", "42601"),
    "NotImplementedException": ("TM8126", "the query failed in DuckDB", "0A000"),
    "ConversionException": ("TM8126", "the query failed in DuckDB", "22P02"),
    "OutOfRangeException": ("TM8126", "the query failed in DuckDB", "22003"),
    "PermissionException": ("TM8126", "the query failed in DuckDB", "42501"),
}
_BROKEN = ("FatalException", "InternalException")


class EngineSession:
    """A session of DuckDB's that one thread uses, and that others may interrupt, also while it is closed.

    Attributes
    ----------
    connection : duckdb.DuckDBPyConnection
        For the thread that uses it.
    """

    def __init__(self, connection: duckdb.DuckDBPyConnection) -> None:
        self.connection = connection
        self._lock = threading.Lock()
        self._closed = False

    def interrupt(self) -> None:
        """Make the statement that runs fail. Nothing when the session is closed: DuckDB would raise an error."""
        with self._lock:
            if not self._closed:
                self.connection.interrupt()

    def close(self) -> None:
        """End it; may be called again."""
        with self._lock:
            self._closed = True
            self.connection.close()


class DuckDBEngine:
    """One database in memory for all connections, so that its limit of memory is that of all together.

    Parameters
    ----------
    memory_bytes : int
        For joins, groups and sorts of all queries together.
    threads : int
        Of all queries together.
    """

    def __init__(self, memory_bytes: int, threads: int) -> None:
        self._config: dict[str, str | bool | int | float | list[str]] = {
            **_CLOSED,
            "memory_limit": f"{memory_bytes}B",
            "threads": threads,
        }
        self._lock = threading.Lock()
        self._database: duckdb.DuckDBPyConnection | None = None

    def session(self, zone: str) -> EngineSession:
        """A session that sees nothing yet. Its owner closes it.

        Parameters
        ----------
        zone : str
            The time zone of dates and times of expressions.
        """
        with self._lock:
            if self._database is None:
                self._database = self._opened()
            found = self._database.cursor()
        found.execute(f"SET TimeZone = '{zone}'")
        return EngineSession(found)

    def _opened(self) -> duckdb.DuckDBPyConnection:
        database = duckdb.connect(":memory:", config=self._config)
        for statement in (*macros(), *of_values()):
            database.execute(statement)
        database.execute("SET lock_configuration = true")
        return database

    def close(self) -> None:
        """End it; sessions are closed before."""
        with self._lock:
            if self._database is not None:
                self._database.close()
                self._database = None

    def numbered(self, error: duckdb.Error, views: Mapping[str, Any] | None = None) -> TidemillError:
        """What DuckDB says as an error with a number; a database that has broken is replaced by a new one."""
        for view in (views or {}).values():
            if isinstance(view, ViewRows) and isinstance(view.failure, TidemillError):
                return view.failure
        kind = type(error).__name__
        if kind == "InterruptException":
            return cancelled("while DuckDB answered it")
        if kind in _BROKEN:
            with self._lock:
                self._database = None  # those who use it keep it
        said = _said(error)
        if said.startswith("Max expression depth limit"):
            return too_deep()
        if kind == "OutOfMemoryException":
            return TidemillError(
                "TM8113",
                "the query needs more memory than the server gives",
                got=said.partition("Database is launched")[0].strip(),
                hint="the setting pg_memory_bytes; or keep what it computes as a materialized view",
            )
        number, what, state = _STATES.get(kind, ("TM8126", "the query failed in DuckDB", "22000"))
        if said.startswith("Division by zero"):
            state = "22012"
        elif kind == "ConversionException" and "field value out of range" in said:
            state = "22008"
        elif "Table" in said and "does not exist" in said:
            state = "42P01"
        return PostgresError(number, what, said, "DuckDB answers it: see docs/postgres.md for the dialect", state)


def look_up_definitions(session: EngineSession) -> None:
    """Give a session the functions that look up definitions; their relation is there already."""
    for statement in looking_up():
        session.connection.execute(statement)


def _said(error: duckdb.Error) -> str:
    text = str(error).split("\n\nLINE ")[0].partition("Error: ")
    lines = (text[2] or text[0]).strip().splitlines()
    said = " ".join(line.strip() for line in lines if line.strip())
    return said.partition(" Use TRY(")[0][:500]
