"""Tables USING delta: their columns are those of the Delta table, unless they are declared."""

from __future__ import annotations

from dataclasses import replace

from tidemill.connectors.delta.delta_log import delta_log
from tidemill.connectors.delta.errors import not_readable
from tidemill.errors import FormatError
from tidemill.formats.columnar.rows import column_choice
from tidemill.formats.columnar.types import merged_schema
from tidemill.formats.delta.format import DELTA
from tidemill.options.option import lowered
from tidemill.options.tables import PATH
from tidemill.plan.sql.statements import CreateTable
from tidemill.sources.locations.location import pattern_of


def with_delta_columns(statement: CreateTable) -> CreateTable:
    """The statement with the columns of the newest version, if it leaves them out; else their types are checked.

    Raises
    ------
    TidemillError
        TM5100 to TM5103 as reading the log; TM5101 also for a column that no type of a table holds; TM4042 for one that
        is declared with a type which does not hold its values.
    """
    options = lowered(statement.options)
    path = PATH.of(options)
    if statement.format != DELTA or not path:
        return statement
    pattern = pattern_of(path)
    there = delta_log(pattern, options).schema()
    if len(statement.schema):
        column_choice(statement.schema, {}, ()).of(there)
        return statement
    try:
        schema = merged_schema([(pattern, there)])
    except FormatError as error:
        raise not_readable(pattern, error.got, "declare the other columns") from error
    return replace(statement, schema=schema)
