"""What CREATE, ALTER and DROP SINK make of a catalogue. All functions are pure: catalog in, catalog out."""

from __future__ import annotations

import uuid
from dataclasses import replace

from tidemill.errors import TidemillError, nearest
from tidemill.plan.sql.statements import AlterSink, CreateSink
from tidemill.runtime.catalog.catalog import Catalog
from tidemill.runtime.catalog.sinks import Sink, new_sink
from tidemill.runtime.tables.suffixes import ERRORS_SUFFIX
from tidemill.schema import Schema
from tidemill.sources.locations.allowed_paths import AllowedPaths


def with_sink(catalog: Catalog, statement: CreateSink, created_at_epoch: int, allowed: AllowedPaths) -> Catalog:
    """The catalog with one more sink, unless it is there and the statement says IF NOT EXISTS.

    Raises
    ------
    TidemillError
        TM2012 when there is no such view, TM2036 for a table whose rows are not kept, TM8203 when there is a sink of
        this name; TM5045 when the target is not in ``allowed_paths``, TM8219 when it is in the mill's root; as
        :func:`checked_options`.
    """
    if statement.if_not_exists and statement.name in catalog.sinks:
        return catalog
    schema = read_schema(catalog, statement.view)
    sink = new_sink(statement, uuid.uuid4().hex, created_at_epoch, schema)
    allowed.check_target(sink.name, sink.location, sink.options)
    if allowed.in_root(sink.location):
        raise TidemillError(
            "TM8219",
            "a sink cannot write into the root of its mill",
            got=f"{sink.location} of sink {sink.name}, root {allowed.root}",
            hint="give it a directory of its own, outside the root",
        )
    if sink.name in catalog.sinks:
        raise TidemillError(
            "TM8203",
            "there is a sink of this name",
            got=sink.name,
            hint="choose another name, DROP SINK first, or write IF NOT EXISTS",
        )
    own = _OWN_PLACES.get(sink.target)
    others = [s for s in catalog.sinks.values() if own and _OWN_PLACES.get(s.target) == own and _same_place(s, sink)]
    if others:
        raise TidemillError(
            "TM8205",
            "two sinks cannot write to one place",
            got=f"{sink.location}, of sink {others[0].name}",
            hint="give each sink a directory or table of its own",
        )
    return replace(catalog, sinks={**catalog.sinks, sink.name: sink})


_OWN_PLACES = {"parquet": "path", "json": "path", "delta": "path", "iceberg": "catalog.uri", "postgres": "url"}
"""Targets whose place belongs to one sink, each with the option that says where that is."""


def _same_place(one: Sink, other: Sink) -> bool:
    name = _OWN_PLACES[one.target]
    return one.location == other.location and (name == "path" or one.options.get(name) == other.options.get(name))


def repeated(catalog: Catalog, statement: CreateSink) -> Catalog | None:
    """The catalog after a CREATE SINK that repeats what exists, with the secrets that it gives; None if it does not."""
    sink = catalog.sinks.get(statement.name)
    if sink is None or sink.view != statement.view:
        return None
    schema = read_schema(catalog, statement.view)
    if not sink.is_made_by(statement, schema):
        return None
    given = new_sink(statement, sink.id, sink.created_at_epoch, schema)
    changed = replace(sink, options=given.options, secrets=tuple(sorted({*sink.secrets, *given.secrets})))
    changed = changed.with_secrets_of(sink)
    return catalog if changed == sink else replace(catalog, sinks={**catalog.sinks, sink.name: changed})


def altered_sink(catalog: Catalog, statement: AlterSink, allowed: AllowedPaths) -> Catalog:
    """The catalog with a sink paused, resumed, or with other options.

    Errors as :meth:`Sink.with_options`; TM5045 for the server of a store that is not in ``allowed_paths``.
    """
    sink = found_sink(catalog, statement.name)
    if statement.paused is not None:
        changed = replace(sink, paused=statement.paused)
    else:
        changed = sink.with_options(statement.options, read_schema(catalog, sink.view))
        allowed.check_target(changed.name, changed.location, changed.options)
    return catalog if changed == sink else replace(catalog, sinks={**catalog.sinks, sink.name: changed})


def without_sink(catalog: Catalog, name: str) -> Catalog:
    """The catalog without a sink. TM8204 when there is none."""
    found_sink(catalog, name)
    return replace(catalog, sinks={n: s for n, s in catalog.sinks.items() if n != name})


def found_sink(catalog: Catalog, name: str) -> Sink:
    """The sink of a name. TM8204 when there is none."""
    if name not in catalog.sinks:
        hint = nearest(name, catalog.sinks) if catalog.sinks else "no sink has been created in this root"
        raise TidemillError("TM8204", "there is no sink of this name", got=name, hint=hint)
    return catalog.sinks[name]


def read_schema(catalog: Catalog, view: str) -> Schema:
    """The columns of what a sink reads: a view, a table that can be read, or the errors of a table."""
    table = catalog.tables.get(view.removesuffix(ERRORS_SUFFIX))
    if table is not None and view.endswith(ERRORS_SUFFIX):
        return table.errors_plan().schema
    if view in catalog.tables and view not in catalog.readable_tables():
        raise catalog.only_read_through_views(view)
    return catalog.described(view)[0]
