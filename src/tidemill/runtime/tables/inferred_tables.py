"""CREATE TABLE without columns: they are inferred from the files that are there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pyarrow as pa

from tidemill.errors import TidemillError
from tidemill.formats.inference.infer import INFERABLE, infer_columns
from tidemill.formats.inference.options import INFERENCE_OPTIONS, parse_inference
from tidemill.formats.rescue.options import EVOLUTION, RESCUE_OPTIONS, RESCUED_FORMATS, Evolution, rescuing
from tidemill.options.option import Option, lowered
from tidemill.options.tables import METADATA_COLUMN, OP_COLUMN, PATH
from tidemill.plan.sql.statements import CreateTable
from tidemill.runtime.tables.primary_key import ORDER_BOOK
from tidemill.schema import Schema
from tidemill.sources.file_metadata import with_metadata
from tidemill.sources.locations.location import location_of
from tidemill.sources.sockets.endpoints import is_socket


def with_columns(statement: CreateTable) -> CreateTable:
    """The statement with its columns, if it leaves them out, and with those of rescued data and of metadata if it asks
    for them.

    Raises
    ------
    TidemillError
        TM4071 when there is nothing to infer columns from, and others of :func:`infer_columns`; TM5001, TM5002 and
        TM5006 as listing the files; TM4003 for options that do not belong to the table.
    """
    options = lowered(statement.options)
    found = _with_rescued_data(statement, options)
    if statement.format == ORDER_BOOK:
        _refuse(options, (METADATA_COLUMN,), "leave it out: the columns of an order book are given")
    if is_socket(PATH.of(options) or ""):
        _refuse(options, (METADATA_COLUMN,), "leave it out: what is received does not lie in files")
    return replace(found, schema=with_metadata(found.schema, statement.format, options))


def _with_rescued_data(statement: CreateTable, options: Mapping[str, str]) -> CreateTable:
    inferred = not len(statement.schema) and statement.format in INFERABLE
    if not inferred:
        _refuse(options, INFERENCE_OPTIONS.options, "leave it out: the columns are declared")
    if statement.format not in RESCUED_FORMATS:
        _refuse(options, RESCUE_OPTIONS.options, f"only for tables USING {' and '.join(sorted(RESCUED_FORMATS))}")
        return replace(statement, schema=_infer(statement, options)) if inferred else statement
    if statement.primary_key and EVOLUTION.of(options) is Evolution.ADD:
        _refuse(options, (EVOLUTION,), "the rows of a table with a PRIMARY KEY keep their columns")
    schema = _infer(statement, options) if inferred else statement.schema
    schema, _ = rescuing(schema, options, inferred)
    return replace(statement, schema=schema)


def format_options(format_: str, options: Mapping[str, str], inferred: bool) -> dict[str, str]:
    """The options of a table with those that they imply."""
    return rescuing(Schema(()), options, inferred)[1] if format_ in RESCUED_FORMATS else dict(options)


def _refuse(options: Mapping[str, str], refused: Sequence[Option[object]], hint: str) -> None:
    for option in refused:
        if option.key in options:
            raise option.bad(options[option.key], hint)


def _infer(statement: CreateTable, options: Mapping[str, str]) -> Schema:
    """The columns of the files that are there; that of operations is text, as it has to be."""
    parse_inference(options)
    if PATH.key not in options:
        return Schema(())
    location = location_of(options[PATH.key], options)
    found: Sequence[str] = [f.path for f in location.listing() if f.size]
    if not found:
        raise TidemillError(
            "TM4071",
            "no columns can be inferred",
            got=f"{statement.name}: there are no files in {location.pattern}",
            hint="put a file with rows there first, or list the columns with their types",
        )
    schema = infer_columns(statement.format, found, options)
    operation = (OP_COLUMN.of(options) or "").lower()
    return Schema(tuple(replace(f, type=pa.string()) if f.name.lower() == operation else f for f in schema))
