"""A served mill with views of all types, and clients of it."""

from __future__ import annotations

import json
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg
from pyspark.sql import SparkSession

from tidemill.config import Settings
from tidemill.mill import Mill
from tidemill.serve.access.settings import ServerSettings
from tidemill.serve.running import Server
from tidemill.serve.service.service import Service

ZONE = "Europe/Berlin"

TYPES = """
CREATE TABLE things (
  id INT, flag BOOLEAN, tiny TINYINT, small SMALLINT, big BIGINT, real FLOAT, double DOUBLE, price DECIMAL(20, 4),
  huge DECIMAL(38, 10), name STRING, data BINARY, day DATE, at TIMESTAMP, local TIMESTAMP_NTZ,
  numbers ARRAY<INT>, words ARRAY<STRING>, point STRUCT<x: INT, y: STRING>, tags MAP<STRING, INT>
) USING json OPTIONS (path '{path}/things/*.json')
"""
ORDERS = "CREATE TABLE orders (customer INT, amount DECIMAL(12, 2)) USING csv OPTIONS (path '{path}/orders/*.csv')"
VIEWS = """
CREATE MATERIALIZED VIEW everything AS SELECT * FROM things;
CREATE MATERIALIZED VIEW spending AS
  SELECT customer, COUNT(*) AS n, SUM(amount) AS amount FROM orders GROUP BY customer;
CREATE MATERIALIZED VIEW customers AS SELECT DISTINCT customer, CONCAT('c', customer) AS name FROM orders;
"""
ROWS: list[dict[str, Any]] = [
    {
        "id": 1, "flag": True, "tiny": 127, "small": -32768, "big": 9223372036854775807, "real": 1.5, "double": 1e-300,
        "price": 12345.6789, "huge": 1, "name": "Grüße, \"x\" \\ y\tz", "data": "AP8=", "day": "2024-02-29",
        "at": "2024-07-01T12:00:00.123456", "local": "1969-12-31T23:59:59.5", "numbers": [1, None, -3],
        "words": ["a", "", None, "b c", 'q"\\', "NULL", "{,}"], "point": {"x": 1, "y": None},
        "tags": {"k": 1, "l": None},
    },
    {
        "id": 2, "flag": False, "tiny": -128, "small": 32767, "big": -9223372036854775808, "real": -0.0,
        "double": 1.7976931348623157e308, "price": -0.0001, "huge": -0.0000000001, "name": "", "data": "",
        "day": "0001-01-01", "at": "1883-11-18T12:00:00", "local": "9999-12-31T23:59:59.999999", "numbers": [],
        "words": [], "point": {"x": None, "y": "ö"}, "tags": {},
    },
    {"id": 3},
    {"id": 4, "real": "NaN", "double": "NaN", "price": 0, "huge": 9999999999999999999999999999.0, "name": "x" * 3000},
    {"id": 5, "real": "Infinity", "double": "-Infinity", "price": 9999999999999999.9999, "day": "9999-12-31",
     "at": "2024-10-27T02:30:00", "numbers": [7]},
]  # fmt: skip


@dataclass
class PostgresServer:
    """A mill, its server, and a directory for the files of its tables."""

    mill: Mill
    service: Service
    server: Server
    path: Path
    given: dict[str, Any] = field(default_factory=dict)

    @property
    def port(self) -> int:
        """Where it speaks PostgreSQL's protocol."""
        return int(self.server.addresses["postgresql"].rpartition(":")[2].partition("/")[0])

    def fill(self) -> None:
        """Create the views, and read the first rows."""
        for name in ("things", "orders"):
            (self.path / name).mkdir()
        lines = [json.dumps(row, ensure_ascii=False) for row in ROWS]
        (self.path / "things" / "a.json").write_text("\n".join(lines) + "\n")
        self.order("a", (1, "2.50"), (1, "4.00"), (2, "3.00"), (3, "0.25"))
        self.mill.sql(TYPES.format(path=self.path))
        self.mill.sql(ORDERS.format(path=self.path))
        self.mill.script(VIEWS)
        self.mill.advance()

    def order(self, name: str, *rows: tuple[int, str]) -> None:
        """A file of orders."""
        (self.path / "orders" / f"{name}.csv").write_text("".join(f"{c},{a}\n" for c, a in rows))

    def conninfo(self, **more: Any) -> dict[str, Any]:
        """How libpq connects."""
        return {"host": "127.0.0.1", "port": self.port, "user": "somebody", "dbname": "tidemill", **self.given, **more}

    def connect(self, autocommit: bool = False, **more: Any) -> psycopg.Connection[Any]:
        """A connection of psycopg's."""
        return psycopg.connect(**self.conninfo(**more), autocommit=autocommit, connect_timeout=20)

    def psql(self, *commands: str, options: tuple[str, ...] = (), **more: Any) -> subprocess.CompletedProcess[str]:
        """What Debian's psql answers to commands."""
        words = " ".join(f"{k}='{v}'" for k, v in self.conninfo(**more).items())
        arguments = [part for command in commands for part in ("-c", command)]
        return subprocess.run(
            ["psql", "-X", "-d", words, *options, *arguments], capture_output=True, text=True, timeout=60, check=False
        )

    def end(self) -> None:
        """End the server, then the mill."""
        self.server.__exit__()
        self.service.close()
        self.mill.close()


def open_server(spark: SparkSession, path: Path, mill: dict[str, Any], settings: dict[str, Any]) -> PostgresServer:
    """A mill below a path that is served."""
    given = {"master": "local[2]", "partitions": 2, "listing_seconds": 0.0, "time_zone": ZONE}
    opened = Mill(path / "root", spark=spark, settings=Settings(**{**given, **mill}))
    service = Service(opened, ServerSettings(**{"port": 0, "pg_port": 0, **settings}))
    server = Server(service)
    server.__enter__()
    return PostgresServer(opened, service, server, path)
