"""Tables USING delta and iceberg: their columns are those of the table there, unless they are declared."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from tidemill.connectors.delta.delta_log import delta_log
from tidemill.connectors.iceberg.iceberg_table import iceberg_table
from tidemill.connectors.iceberg.options import TABLE, check_iceberg
from tidemill.connectors.registry import ICEBERG_SCHEME
from tidemill.connectors.versioned.errors import not_readable
from tidemill.connectors.versioned.versioned_table import VersionedTable
from tidemill.errors import FormatError
from tidemill.formats.columnar.rows import column_choice
from tidemill.formats.columnar.types import merged_schema
from tidemill.formats.versioned.format import DELTA, ICEBERG
from tidemill.options.option import lowered
from tidemill.options.tables import PATH
from tidemill.plan.sql.statements import CreateTable
from tidemill.schema import Field
from tidemill.sources.locations.location import pattern_of


def versions_of(
    format_: str, path: str, options: Mapping[str, str], columns: Sequence[Field], by_file: bool = False
) -> VersionedTable | None:
    """Where the versions of a table are listed, which must have some columns; None for tables of other formats.

    Names of options are in lower case. With ``by_file`` the rows of each file are kept by themselves in any case.
    """
    names = [column.name for column in columns]
    if format_ == DELTA:
        required = [column.name for column in columns if not column.nullable]
        return delta_log(path, options, names, by_file, required)
    return iceberg_table(options, names) if format_ == ICEBERG else None


def versioned_path(format_: str, options: Mapping[str, str]) -> str:
    """The path of a table; empty where none is given. TM4003 for options, TM5002 for the path of a Delta table."""
    if format_ == ICEBERG:
        if PATH.key in options:
            raise PATH.bad(options[PATH.key], "leave it out: the catalogue says where the table is")
        check_iceberg(options)
        return f"{ICEBERG_SCHEME}://{'.'.join(TABLE.of(options) or ())}"
    path = PATH.of(options)
    return pattern_of(path) if path else ""


def with_versioned_columns(statement: CreateTable) -> CreateTable:
    """The statement with the columns of the newest version, if it leaves them out; else their types are checked.

    Raises
    ------
    TidemillError
        TM5100 to TM5103 as reading the versions; TM5101 also for a column that no type of a table holds; TM4042 for one
        that is declared with a type which does not hold its values; as :func:`versioned_path`.
    """
    if statement.format not in (DELTA, ICEBERG):
        return statement
    options = lowered(statement.options)
    path = versioned_path(statement.format, options)
    versions = versions_of(statement.format, path, options, ()) if path else None
    if versions is None:
        return statement
    there = versions.schema()
    if len(statement.schema):
        column_choice(statement.schema, {}, ()).of(there)
        return statement
    try:
        schema = merged_schema([(path, there)])
    except FormatError as error:
        raise not_readable(path, error.got.removeprefix(f"{path}: "), "declare the other columns") from error
    return replace(statement, schema=schema)
