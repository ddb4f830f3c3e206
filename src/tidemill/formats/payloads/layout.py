"""Which columns of a table of messages are parts of a message, and which are in its value."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa

from tidemill.errors import TidemillError, nearest
from tidemill.options.option import Option
from tidemill.schema import Field, Schema, type_to_ddl

Types = Mapping[str, tuple[pa.DataType, ...]]
"""By part of a message, the types that its column may have, the usual one first."""


@dataclass(frozen=True)
class Layout:
    """Which columns of a table are parts of a message, and which are in its value.

    Attributes
    ----------
    parts : dict
        What a column of a message has, by the column's name.
    value : Schema
        The columns in the value.
    """

    parts: Mapping[str, str]
    value: Schema


def layout_of(
    schema: Schema, options: Mapping[str, str], columns: Mapping[str, Option[str | None]], own: Types | None
) -> Layout:
    """Which columns are parts of a message; names of options in lower case.

    Parameters
    ----------
    columns : mapping
        By part of a message, the option that names its column.
    own : mapping or None
        Parts by which columns are named when values have no format; None when they have one.

    Raises
    ------
    TidemillError
        TM4003 for an option that names no column, or does not belong here; TM4006 for a column that messages lack.
    """
    if own is not None:
        for option in columns.values():
            if option.key in options:
                raise option.bad(options[option.key], "only with value.format; else columns have their own names")
        known = {name.lower(): name for name in own}
        for name in schema.names:
            if name.lower() not in known:
                raise TidemillError(
                    "TM4006",
                    "there is no column of this name",
                    got=name,
                    hint=f"{nearest(name, own)}; with 'value.format' values have columns of their own",
                )
        return Layout({n: known[n.lower()] for n in schema.names}, Schema(()))
    names, parts = {n.lower(): n for n in schema.names}, {}
    for part, option in columns.items():
        column = option.of(options)
        if column is None:
            continue
        if column.lower() not in names or names[column.lower()] in parts:
            raise option.bad(column, f"a column of the table, another for each part: {nearest(column, schema.names)}")
        parts[names[column.lower()]] = part
    return Layout(parts, Schema(tuple(f for f in schema if f.name not in parts)))


def with_parts(
    schema: Schema, options: Mapping[str, str], columns: Mapping[str, Option[str | None]], types: Types
) -> Schema:
    """The columns of values, and behind them those that options name for parts of messages; names in lower case."""
    there = {name.lower() for name in schema.names}
    named = [(part, option.of(options)) for part, option in columns.items()]
    more = [Field(n, types[part][0]) for part, n in named if n is not None and n.lower() not in there]
    return Schema((*schema, *more))


def check_parts(format_name: str, schema: Schema, layout: Layout, types: Types) -> None:
    """TM4004 for a column of a message with a type that its part does not have."""
    for name, part in layout.parts.items():
        field = next(f for f in schema if f.name == name)
        if field.type not in types[part]:
            raise TidemillError(
                "TM4004",
                f"the column {name!r} has a type that {format_name} cannot hold",
                got=type_to_ddl(field.type),
                hint=f"the {part} of a message is {' or '.join(type_to_ddl(t) for t in types[part])}",
            )
