"""What requests about adaptors make of a catalogue, and tables with the sources of theirs.

A table keeps the source that its adaptor had when the table was created, so that its rows are read again as they were.
"""

from __future__ import annotations

from dataclasses import replace

from tidemill.errors import TidemillError
from tidemill.formats.adaptor.format import ADAPTOR, ADAPTOR_SOURCE
from tidemill.options.option import lowered
from tidemill.plan.sql.statements import CreateTable
from tidemill.runtime.catalog.adaptors import Adaptor
from tidemill.runtime.catalog.catalog import Catalog

FORMAT = "adaptor"


def with_adaptor(catalog: Catalog, adaptor: Adaptor, may_replace: bool) -> Catalog:
    """The catalogue with an adaptor; TM8343 when the name is taken, unless it may be replaced.

    Tables go on with the source that they have.
    """
    if adaptor.name in catalog.adaptors and not may_replace:
        raise TidemillError(
            "TM8343",
            "there is an adaptor of this name",
            got=adaptor.name,
            hint="replace it: tables that use it go on with its earlier source",
        )
    return replace(catalog, adaptors={**catalog.adaptors, adaptor.name: adaptor})


def without_adaptor(catalog: Catalog, name: str) -> Catalog:
    """The catalogue without an adaptor. TM8342 when there is none, TM8344 while a table uses one of this name."""
    catalog.adaptor(name)
    users = users_of(catalog, name)
    if users:
        raise TidemillError(
            "TM8344", "tables use this adaptor", got=", ".join(users)[:200], hint="DROP TABLE first, or replace it"
        )
    return replace(catalog, adaptors={n: a for n, a in catalog.adaptors.items() if n != name.lower()})


def users_of(catalog: Catalog, name: str) -> list[str]:
    """The tables that were created with an adaptor of this name, in whatever version."""
    found = (t for t in catalog.tables.values() if t.format == FORMAT)
    return [t.name for t in found if ADAPTOR.of(t.options).lower() == name.lower()]


def resolved(catalog: Catalog, statement: CreateTable) -> CreateTable:
    """A CREATE TABLE with the source of its adaptor: ``USING adaptor OPTIONS (adaptor 'a')``, or ``USING a``.

    Raises
    ------
    TidemillError
        TM8342 when there is no such adaptor, TM4003 for a source in the statement itself: adaptors are created by
        requests of their own, which need another role.
    """
    options = lowered(statement.options)
    if statement.format.lower() in catalog.adaptors:
        options[ADAPTOR.key] = statement.format
    elif statement.format != FORMAT:
        return statement
    if ADAPTOR_SOURCE.key in options:
        raise ADAPTOR_SOURCE.bad("...", "leave it out, and name an adaptor: OPTIONS (adaptor 'name')")
    adaptor = catalog.adaptor(ADAPTOR.of(options))
    return replace(
        statement,
        format=FORMAT,
        options={**options, ADAPTOR.key: adaptor.name, ADAPTOR_SOURCE.key: adaptor.source},
    )
