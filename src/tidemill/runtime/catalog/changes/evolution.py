"""New columns in files of a table (``schemaEvolutionMode 'addNewColumns'``).

A task that finds them fails with TM4074, so the epoch is not sealed. Then the table gets the columns at its end, which
is made durable, and the epoch is run again over the same files. Views keep their columns.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace

import pyarrow as pa

from tidemill.errors import TidemillError
from tidemill.formats.columnar.types import common_type
from tidemill.formats.inference.infer import INFERABLE, infer_columns
from tidemill.formats.inference.options import parse_inference, with_hints
from tidemill.formats.rescue.new_columns import NewColumnsError, new_names
from tidemill.formats.rescue.options import EVOLUTION, Evolution
from tidemill.runtime.catalog.catalog import Catalog
from tidemill.runtime.tables.error_budget import malformed_rows
from tidemill.runtime.tables.table import Table
from tidemill.schema import Field, Schema, type_to_ddl
from tidemill.sources.split import SplitResult


def with_new_columns(catalog: Catalog, error: NewColumnsError) -> tuple[Catalog, TidemillError]:
    """The catalog with the new columns of a file, and a warning (TM4075).

    All new columns of a sample of the file are added, so that one epoch is rarely run more than twice.

    Raises
    ------
    NewColumnsError
        The given one, when the table takes no new columns.
    """
    table = catalog.tables[error.table]
    if EVOLUTION.of(table.options) is not Evolution.ADD:
        raise error
    fields = _new_fields(table, error)
    if not fields:  # the name of a column that is not read from files
        raise error
    grown = replace(table, declared=Schema((*table.declared, *fields)), added=(*table.added, *(f.name for f in fields)))
    warning = TidemillError(
        "TM4075",
        "a table has new columns",
        got=f"{table.name}: {', '.join(f'{f.name} {type_to_ddl(f.type)}' for f in fields)}, from {error.path}",
        hint="views that exist keep their columns, a view that is created now can have these; structs do not grow",
    )
    return replace(catalog, tables={**catalog.tables, table.name: grown}), warning


def row_warnings(results: Sequence[SplitResult]) -> tuple[str, ...]:
    """Warnings about the rows of an epoch: malformed ones, and fields that are not added."""
    return (*malformed_rows(results), *fields_not_added(results))


def fields_not_added(results: Iterable[SplitResult]) -> tuple[str, ...]:
    """TM4076 as text, once for each table of which an epoch had rows with new fields within its structs.

    Structs of a table never grow: their type is part of keys in the state of views, where equal rows of the old and the
    new type would differ.
    """
    found = Counter[str]()
    for result in results:
        if result.new_within and result.split.backfill_target is None:
            found[result.split.table] += result.new_within
    return tuple(
        TidemillError(
            "TM4076",
            "new fields within structs are not added",
            got=f"{table}: {rows:,} rows of this epoch have some",
            hint="they are in the rescued data, if the table has it; create the table again, or name the field as a "
            "column: `field.<column>` 'struct/field'",
        ).message()
        for table, rows in sorted(found.items())
    )


def _new_fields(table: Table, error: NewColumnsError) -> list[Field]:
    """The new columns with the types that the file shows, or by hints; STRING where it shows none."""
    given = dict(table.options)
    limits = parse_inference(given)
    without_hints = {k: v for k, v in given.items() if k != "schemahints"}
    sampled = Schema(())
    if table.format in INFERABLE:
        sampled = infer_columns(table.format, [error.path], without_hints)
    types: dict[str, pa.DataType] = {f.name.lower(): f.type for f in sampled}
    for name, type_ in error.columns.items():
        if type_ is not None and limits.types:
            before = types.get(name.lower(), type_)
            types[name.lower()] = common_type(before, type_) or pa.string()
    names = new_names([*error.columns, *sampled.names], table.declared.names)
    hints = tuple(h for h in limits.hints if h.path[0].lower() in {n.lower() for n in names})
    found = with_hints(Schema(tuple(Field(n, types.get(n.lower(), pa.string())) for n in names)), hints)
    return list(found)
