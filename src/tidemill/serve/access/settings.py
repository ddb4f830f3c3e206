"""Settings of a server."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from tidemill.config import POSITIVE
from tidemill.errors import TidemillError

_PORT: Mapping[str, float] = {"most": 65_535}


@dataclass(frozen=True)
class ServerSettings:
    """How a server listens, whom it lets in, and what one request may take.

    The command ``tidemill serve`` takes each of them as ``--set NAME=VALUE``, with the bounds in a field's metadata.

    Parameters
    ----------
    host : str
        Address to listen on. Without tokens it must be a loopback address.
    port : int
        Port of HTTP; 0 takes a free one.
    flight_port : int or None
        Port of Arrow Flight, 0 for a free one. None does not serve it.
    pg_port : int or None
        Port of PostgreSQL's protocol, 0 for a free one. None does not serve it.
    tokens : str
        A file with a line ``role token`` each: ``read``, ``write`` or ``admin``. Without it everybody who reaches the
        server is ``admin``.
    tls_certificate : str
        PEM file of the server's certificate. HTTP, Flight and PostgreSQL's protocol are encrypted with it and its key.
    tls_key : str
        PEM file of the certificate's key.
    hosts : tuple of str
        Names by which browsers and clients may address the server, beside ``host`` and the loopback names.
    max_connections : int
        Most connections over HTTP at the same time, those of WebSocket and server-sent events among them. A request
        over one more is refused.
    max_body_bytes : int
        Largest body of a request, and message of PostgreSQL's protocol.
    max_statement_length : int
        Most characters of a statement.
    max_rows : int
        Most rows in one answer of JSON or CSV: more are refused with a hint at Arrow and cursors. Over HTTP and Flight
        also most rows of a query that Spark answers, in any format.
    max_cursors : int
        Most cursors at the same time.
    max_subscribers : int
        Most subscribers at the same time; 0 for none.
    max_statements : int
        Most statements at the same time that change something or that Spark answers.
    requests_per_second : int
        Most requests of one address; 0 for no limit.
    cache_bytes : int
        Memory for encoded results, and as much for changes.
    progress_seconds : float
        Least time between two messages to a subscriber about sealed epochs without changes.
    idle_seconds : float
        Pause between two looks for new input when there is none.
    pg_duckdb_bytes : int
        Over PostgreSQL's protocol DuckDB answers a query whose views have at most so many bytes in their runs, and
        Spark others.
    pg_memory_bytes : int
        Memory of DuckDB for the joins, groups and sorts of all queries together.
    pg_max_connections : int
        Most connections over PostgreSQL's protocol at the same time.
    pg_statement_seconds : float
        How long a statement over PostgreSQL's protocol may take; 0 for no limit.
    pg_stalled_seconds : float
        A connection over PostgreSQL's protocol is ended when its client does nothing for so long within a transaction,
        or reads nothing of a result.
    log_level : str
        The least important events that are noted: debug, info, warning or error.
    log_format : str
        How lines of the log are written: text or json.
    log_entries : int
        Newest entries of the log that are kept in memory.
    slow_epoch_seconds : float
        Epochs that take longer are warnings in the log; 0 for none.
    adaptors : bool
        Whether admins may create Python adaptors.
    traces : bool
        Whether traces are recorded and exported, as the environment variables of OpenTelemetry say.
    """

    host: str = "127.0.0.1"
    port: int = field(default=8320, metadata=_PORT)
    flight_port: int | None = field(default=None, metadata=_PORT)
    pg_port: int | None = field(default=None, metadata=_PORT)
    tokens: str = ""
    tls_certificate: str = ""
    tls_key: str = ""
    hosts: tuple[str, ...] = field(default=())
    max_connections: int = field(default=15_000, metadata=POSITIVE)
    max_body_bytes: int = field(default=4 << 20, metadata=POSITIVE)
    max_statement_length: int = field(default=100_000, metadata=POSITIVE)
    max_rows: int = field(default=1_000_000, metadata=POSITIVE)
    max_cursors: int = field(default=100_000, metadata=POSITIVE)
    max_subscribers: int = 10_000
    max_statements: int = field(default=64, metadata=POSITIVE)
    requests_per_second: int = 0
    cache_bytes: int = 64 << 20
    progress_seconds: float = 1.0
    idle_seconds: float = 0.02
    pg_duckdb_bytes: int = 256 << 20
    pg_memory_bytes: int = field(default=1 << 30, metadata={"least": 16 << 20})
    pg_max_connections: int = field(default=200, metadata=POSITIVE)
    pg_statement_seconds: float = 600.0
    pg_stalled_seconds: float = field(default=300.0, metadata={"least": 0.1})
    log_level: str = "info"
    log_format: str = "text"
    log_entries: int = field(default=2_000, metadata=POSITIVE)
    slow_epoch_seconds: float = 10.0
    adaptors: bool = False
    traces: bool = False

    def check(self) -> None:
        """Refuse settings that would let strangers in.

        Raises
        ------
        TidemillError
            TM8001 for an address beyond loopback without tokens, TM8002 for half of a TLS identity, TM8022 for one
            that cannot be used, TM8320 for a level or format of the log that there is not, TM8330 for traces without
            OpenTelemetry.
        """
        if not self.is_loopback and not self.tokens:
            raise TidemillError(
                "TM8001",
                "a server beyond loopback needs tokens",
                got=f"host {self.host}, no --tokens",
                hint="--tokens FILE with lines `role token`, or --host 127.0.0.1",
            )
        if bool(self.tls_certificate) != bool(self.tls_key):
            raise TidemillError(
                "TM8002",
                "TLS needs a certificate and its key",
                got="only one of --tls-certificate and --tls-key",
                hint="give both, as PEM files",
            )
        # imported here: the command's help asks for names and defaults only
        from tidemill.serve.access.tls import tls_context
        from tidemill.serve.logs.server_log import check
        from tidemill.serve.traces.exporting import check_traces

        check(self.log_level, self.log_format)
        tls_context(self.tls_certificate, self.tls_key)
        if self.traces:
            check_traces()

    def certificate_expires_at(self) -> datetime | None:
        """Until when the certificate is valid; None without one. TM8022 when it cannot be used."""
        from tidemill.serve.access.tls import expires_at, tls_context

        context = tls_context(self.tls_certificate, self.tls_key)
        return None if context is None else expires_at(self.tls_certificate, context)

    @property
    def is_loopback(self) -> bool:
        """Whether only processes of this machine can reach the server."""
        if self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False

    @property
    def known_hosts(self) -> frozenset[str]:
        """Names that a Host header may have, in lower case and without port."""
        names = {self.host, *self.hosts}
        if self.is_loopback:
            names |= {"127.0.0.1", "localhost", "::1"}
        return frozenset(n.lower() for n in names)
