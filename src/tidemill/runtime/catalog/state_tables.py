"""Which state tables a catalogue has, and what their columns are called."""

from __future__ import annotations

from collections.abc import Iterator

from tidemill.plan.explain.column_names import table_columns
from tidemill.plan.lowering.assemble import Assembler
from tidemill.runtime.catalog import replacements
from tidemill.runtime.catalog.assemblers import Assemblers
from tidemill.runtime.catalog.catalog import Catalog
from tidemill.runtime.files.file_progress import clean_queue, cleaned_table, cursor_table, fetch_table, list_table
from tidemill.runtime.tables.table import STORED_ERRORS, source_tables
from tidemill.task.program import StateTable


def stored_tables(catalog: Catalog, assemblers: Assemblers | None = None) -> dict[str, StateTable]:
    """The state tables of all sources and views, by id: failed views, replacements and former ones included.

    Parameters
    ----------
    assemblers : Assemblers, optional
        May have assembled the catalog's views already.
    """
    found: dict[str, StateTable] = {}
    for assembler in _assemblers(catalog, assemblers or Assemblers()):
        found.update(assembler.state_tables())
    for table in catalog.tables.values():
        found |= {t.id: t for t in source_tables(table)}
    return found


def stored_columns(catalog: Catalog) -> dict[str, tuple[str, ...]]:
    """The names of the key columns of state tables, by id, as far as the plan knows them."""
    found: dict[str, tuple[str, ...]] = {}
    for assembler in _assemblers(catalog, Assemblers()):
        found.update(table_columns(assembler.program()))
    for views in (catalog.all_views, *replacements.former_groups(catalog)):
        found |= {f"view:{v.uid}": v.root.schema.names for v in views.values() if f"view:{v.uid}" in found}
    for table in catalog.tables.values():
        found |= {t(table.uid).id: ("file",) for t in (list_table, fetch_table, cleaned_table)}
        found[clean_queue(table.uid).id] = ("epoch", "file")
        found[cursor_table(table.uid).id] = ("prefix",)
        found[table.source().errors.id] = STORED_ERRORS.names
    return found


def _assemblers(catalog: Catalog, assemblers: Assemblers) -> Iterator[Assembler]:
    for views in (catalog.all_views, *replacements.former_groups(catalog)):
        yield assemblers.of(views.values(), catalog.tables)
