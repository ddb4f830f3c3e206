"""Which state tables a catalogue has."""

from __future__ import annotations

from tidemill.plan.assemble import Assembler, state_tables
from tidemill.runtime import replacements
from tidemill.runtime.catalog import Catalog
from tidemill.runtime.progress import list_table
from tidemill.task.program import StateTable


def stored_tables(catalog: Catalog) -> dict[str, StateTable]:
    """The state tables of all sources and views, by id: failed views, replacements and former ones included."""
    sources = {t.name: t.source() for t in catalog.tables.values()}
    found: dict[str, StateTable] = {}
    for views in (catalog.everything, *replacements.former_groups(catalog)):
        found.update(state_tables(Assembler([v.definition() for v in views.values()], sources).program()))
    for table in catalog.tables.values():
        listed = list_table(table.uid, table.watermark is not None)
        found |= {listed.id: listed, table.source().errors.id: table.source().errors}
    return found
