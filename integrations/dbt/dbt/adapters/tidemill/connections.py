"""Connections to a server over PostgreSQL's protocol."""

from __future__ import annotations

from dataclasses import dataclass

from dbt.adapters.contracts.connection import Connection
from dbt.adapters.postgres import PostgresConnectionManager, PostgresCredentials


@dataclass
class TidemillCredentials(PostgresCredentials):
    """What a profile has.

    Attributes
    ----------
    password : str
        A token, where the server has tokens.
    wait_seconds : float
        How long ``dbt run`` waits for a view to have its whole history; 0 does not wait.
    """

    host: str = "127.0.0.1"
    user: str = "dbt"
    port: int = 5432
    password: str = ""
    database: str = "tidemill"
    schema: str = "public"
    wait_seconds: float = 600.0

    def __post_init__(self) -> None:
        self.autocommit = True  # CREATE and DROP are not part of transactions

    @property
    def type(self) -> str:
        """The type in profiles."""
        return "tidemill"

    def _connection_keys(self) -> tuple[str, ...]:
        return ("host", "port", "user", "database", "schema", "sslmode", "sslrootcert", "wait_seconds")


class TidemillConnectionManager(PostgresConnectionManager):
    """Connections without transactions."""

    TYPE = "tidemill"

    def _should_skip_transaction_statements(self) -> bool:
        return True

    def cancel(self, connection: Connection) -> None:
        """Cancel the statement of a connection, as CTRL+C in ``psql``."""
        connection.handle.cancel()
