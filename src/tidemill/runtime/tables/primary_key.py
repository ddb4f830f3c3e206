"""PRIMARY KEY of a table: its columns, and its checks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from tidemill.connectors.shared_options import VALUE_FORMAT
from tidemill.errors import TidemillError, nearest
from tidemill.formats.kafka.format import KAFKA
from tidemill.formats.orderbook.format import parse_rules, row_order
from tidemill.options.option import lowered
from tidemill.options.tables import OP_COLUMN
from tidemill.plan.sql.statements import CreateTable
from tidemill.schema import Schema

ORDER_BOOK, DEBEZIUM = "orderbook", "debezium"
CHANGE_FORMATS = frozenset({ORDER_BOOK, DEBEZIUM})
"""Formats whose messages have their own operations."""


def with_primary_key(statement: CreateTable) -> CreateTable:
    """The statement with its key columns as declared, and those NOT NULL.

    Raises
    ------
    TidemillError
        TM2030 for a column that does not exist, TM2031 when the format needs a key, TM2032 for opColumn beside a
        format that has its own operations, TM2034 and TM4030 for an order book.
    """
    statement = _order_book(statement) if statement.format == ORDER_BOOK else statement
    op_column = OP_COLUMN.of(lowered(statement.options))
    debezium = is_debezium(statement.format, lowered(statement.options))
    if op_column is not None and (debezium or statement.format in CHANGE_FORMATS):
        raise TidemillError(
            "TM2032",
            "opColumn contradicts the format",
            got=f"opColumn '{op_column}' USING {statement.format}",
            hint="leave opColumn out: the messages of this format say what they delete",
        )
    if debezium and not statement.primary_key:
        raise TidemillError(
            "TM2031",
            "a table of this format needs a PRIMARY KEY",
            got=f"{statement.name} USING {statement.format}",
            hint="CREATE TABLE name (id BIGINT, ..., PRIMARY KEY (id)) USING debezium OPTIONS (...)",
        )
    if not statement.primary_key:
        return statement
    names = {n.lower(): n for n in statement.schema.names if op_column is None or n.lower() != op_column.lower()}
    for i, name in enumerate(statement.primary_key):
        if name.lower() not in names or name.lower() in (n.lower() for n in statement.primary_key[:i]):
            raise TidemillError(
                "TM2030",
                "PRIMARY KEY does not name columns of the table, each once",
                got=name,
                hint=nearest(name, names.values()),
            )
    key = tuple(names[n.lower()] for n in statement.primary_key)
    fields = tuple(replace(f, nullable=f.nullable and f.name not in key) for f in statement.schema)
    return replace(statement, schema=Schema(fields), primary_key=key)


def is_debezium(format_: str, options: Mapping[str, str]) -> bool:
    """Whether the rows of a table are Debezium's change events; names of options in lower case."""
    return format_ == DEBEZIUM or (format_ == KAFKA and VALUE_FORMAT.of(options).lower() == DEBEZIUM)


def with_book_columns(statement: CreateTable) -> CreateTable:
    """The statement with the columns of an order book, if it leaves them out. TM4003 for its options."""
    if statement.format != ORDER_BOOK or len(statement.schema):
        return statement
    return replace(statement, schema=parse_rules(lowered(statement.options)).rows)


def _order_book(statement: CreateTable) -> CreateTable:
    """No column is ever NULL; the key is the order id."""
    rows, declared = parse_rules(lowered(statement.options)).rows, statement.schema
    order = row_order(declared, rows)
    schema = Schema(tuple(replace(f, nullable=False) for f in declared))
    key = declared.names[order.index(rows.names.index("id"))]
    if statement.primary_key and tuple(n.lower() for n in statement.primary_key) != (key.lower(),):
        raise TidemillError(
            "TM2034",
            "the key of an order book is the order id",
            got=f"PRIMARY KEY ({', '.join(statement.primary_key)})",
            hint=f"PRIMARY KEY ({key}), or none",
        )
    return replace(statement, schema=schema, primary_key=(key,))
