"""Where rows can come from: what each kind of source can do, declared for SHOW CONNECTORS and the reference."""

from __future__ import annotations

from dataclasses import dataclass

ALL, PART = "all", "what is retained"


@dataclass(frozen=True)
class ConnectorKind:
    """A kind of source or target.

    Attributes
    ----------
    name : str
    direction : str
        ``in`` or ``out``.
    written : str
        How statements name it.
    delivery : str
        How often each row or change counts.
    back_fill : str
        What a view that is created later still gets; empty for targets.
    deletes : str
        How rows are taken back.
    inference : str
        Of which formats columns need not be declared; empty for targets.
    library : str
        What it stands on; empty for what Tidemill does itself.
    extra : str
        The extra of the distribution that brings the library.
    tried : str
        What its tests run against.
    """

    name: str
    direction: str
    written: str
    delivery: str
    back_fill: str
    deletes: str
    inference: str
    library: str
    extra: str
    tried: str


_OF_FILES = "opColumn, Debezium's changes, order books; allowOverwrites replaces a file's rows"
_OF_MESSAGES = "opColumn, Debezium's changes"
_INFERRED = "csv, json, parquet, arrow, avro"

SOURCES: tuple[ConnectorKind, ...] = (
    ConnectorKind(
        "files",
        "in",
        "path 'file, directory or glob'",
        "exactly once",
        ALL,
        _OF_FILES,
        _INFERRED,
        "",
        "",
        "local disks, also full ones",
    ),
    ConnectorKind(
        "objects",
        "in",
        "path 's3://bucket/prefix', gs://, az://",
        "exactly once",
        ALL,
        _OF_FILES,
        _INFERRED,
        "obstore",
        "",
        "S3's API of moto; gs and az only by name",
    ),
    ConnectorKind(
        "notifications",
        "in",
        "useNotifications 'true', queueUrl",
        "exactly once",
        ALL,
        _OF_FILES,
        _INFERRED,
        "botocore",
        "sqs",
        "SQS of moto",
    ),
    ConnectorKind(
        "sockets",
        "in",
        "path 'tcp://host:port', tcp+listen://, unix://, unix+listen://",
        "exactly once from the spool on",
        PART,
        _OF_FILES,
        "",
        "",
        "",
        "2,000 connections on loopback",
    ),
    ConnectorKind(
        "standard input",
        "in",
        "path 'stdin://'",
        "exactly once from the spool on",
        PART,
        _OF_FILES,
        "",
        "",
        "",
        "pipes",
    ),
    ConnectorKind(
        "Spark streams",
        "in",
        "path 'ingest://', mill.ingest",
        "exactly once",
        PART,
        "opColumn",
        "",
        "pyspark",
        "",
        "Structured Streaming, also killed",
    ),
    ConnectorKind(
        "HTTP",
        "in",
        "path 'ingest://', POST /v1/readers/{name}/rows",
        "exactly once for each key",
        PART,
        "opColumn",
        "",
        "fastapi",
        "",
        "its own client, httpx, and schemathesis",
    ),
    ConnectorKind(
        "kafka",
        "in",
        "USING kafka",
        "exactly once",
        "what the topic retains",
        _OF_MESSAGES,
        "",
        "confluent-kafka",
        "kafka",
        "the broker Tansu with its storage in memory",
    ),
    ConnectorKind(
        "delta",
        "in",
        "USING delta",
        "exactly once, whole versions",
        ALL,
        "change data, and files that a version does not have any more",
        "delta",
        "deltalake",
        "delta",
        "versions that deltalake writes, on local disks and S3's API of moto",
    ),
    ConnectorKind(
        "iceberg",
        "in",
        "USING iceberg",
        "exactly once, whole snapshots",
        ALL,
        "files that a snapshot does not have any more",
        "iceberg",
        "pyiceberg",
        "iceberg",
        "snapshots that pyiceberg writes, with a catalogue in SQLite",
    ),
    ConnectorKind(
        "postgres",
        "in",
        "USING postgres",
        "exactly once",
        "all, unless retainBytes says less",
        "DELETE and UPDATE of the table",
        "postgres",
        "psycopg",
        "postgres",
        "PostgreSQL 15, also stopped and started",
    ),
    ConnectorKind(
        "mqtt",
        "in",
        "USING mqtt",
        "at least once to the spool (QoS 1), exactly once from there on",
        PART,
        "opColumn",
        "",
        "paho-mqtt",
        "mqtt",
        "Mosquitto 2.0, also killed and started",
    ),
    ConnectorKind("generator", "in", "USING generator", "exactly once", ALL, "", "", "", "", "Python's own arithmetic"),
)
"""Sources that are built in."""
