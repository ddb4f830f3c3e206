"""Settings of a server."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass, field

from tidemill.errors import TidemillError
from tidemill.serve.logs.server_log import check
from tidemill.serve.traces.exporting import check_traces


@dataclass(frozen=True)
class ServerSettings:
    """Addresses, access and limits of a server.

    Parameters
    ----------
    host : str
        Address to listen on. Without tokens it must be a loopback address.
    port : int
        Port of HTTP; 0 for a free one.
    flight_port : int or None
        Port of Arrow Flight; None to leave it out, 0 for a free one.
    pg_port : int or None
        Port of PostgreSQL's protocol; None to leave it out, 0 for a free one.
    tokens : str
        A file with a line ``role token`` each: ``read``, ``write`` or ``admin``. Without it everybody who reaches the
        server is ``admin``.
    tls_certificate : str
        PEM file of the certificate. With it, and ``tls_key``, all protocols are encrypted.
    tls_key : str
        PEM file of the certificate's key.
    hosts : tuple of str
        Names in the Host header by which clients may address the server, beside ``host`` and the loopback names.
    max_body_bytes : int
        Longest body of a request, and longest message over WebSocket and PostgreSQL's protocol.
    max_statement_length : int
        Longest statement, in characters (TM8012); over PostgreSQL's protocol longest text of one message.
    max_rows : int
        Most rows in an answer of JSON or CSV (TM8012); Arrow and cursors give more.
    max_cursors : int
        Most cursors over HTTP that are open (TM8012).
    max_subscribers : int
        Most subscribers at the same time, beyond which HTTP takes no more (TM8012); those of Arrow Flight count, too.
    max_statements : int
        Most statements at the same time that change something or that Spark answers, over all protocols (TM8012).
    requests_per_second : int
        Most requests in a second from one address (TM8009); 0 for no limit.
    cache_bytes : int
        Memory for encoded results, and as much for encoded changes.
    progress_seconds : float
        Least time between two ``progress`` events of a subscriber.
    idle_seconds : float
        Time between two looks for new input while there is none.
    pg_duckdb_bytes : int
        Over PostgreSQL's protocol, a query whose views have at most so many bytes in their runs is answered by DuckDB,
        others by Spark.
    pg_memory_bytes : int
        Memory of DuckDB for the joins, groups and sorts of all queries together (TM8113).
    pg_max_connections : int
        Most connections over PostgreSQL's protocol at the same time (TM8105).
    pg_statement_seconds : float
        Longest time of a statement over PostgreSQL's protocol (TM8112); 0 for no limit.
    pg_stalled_seconds : float
        Longest time that a client of PostgreSQL's protocol may do nothing within a transaction, or read nothing of a
        result; then its connection is closed (TM8106).
    log_level : str
        Least important level of the log: ``debug``, ``info``, ``warning`` or ``error``.
    log_format : str
        How lines of the log are written: ``text`` or ``json``.
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
    port: int = 8320
    flight_port: int | None = None
    pg_port: int | None = None
    tokens: str = ""
    tls_certificate: str = ""
    tls_key: str = ""
    hosts: tuple[str, ...] = field(default=())
    max_body_bytes: int = 4 << 20
    max_statement_length: int = 100_000
    max_rows: int = 1_000_000
    max_cursors: int = 100_000
    max_subscribers: int = 10_000
    max_statements: int = 64
    requests_per_second: int = 0
    cache_bytes: int = 64 << 20
    progress_seconds: float = 1.0
    idle_seconds: float = 0.02
    pg_duckdb_bytes: int = 256 << 20
    pg_memory_bytes: int = 1 << 30
    pg_max_connections: int = 200
    pg_statement_seconds: float = 600.0
    pg_stalled_seconds: float = 300.0
    log_level: str = "info"
    log_format: str = "text"
    log_entries: int = 2_000
    slow_epoch_seconds: float = 10.0
    adaptors: bool = False
    traces: bool = False

    def check(self) -> None:
        """Refuse settings that would let strangers in.

        Raises
        ------
        TidemillError
            TM8001 for an address beyond loopback without tokens, TM8002 for half of a TLS identity, TM8320 for a level
            or format of the log that there is not, TM8330 for traces without OpenTelemetry.
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
        check(self.log_level, self.log_format)
        if self.traces:
            check_traces()

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
