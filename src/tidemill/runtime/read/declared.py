"""SHOW CONNECTORS, SHOW FORMATS and SHOW OPTIONS: what is declared, as tables."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import asdict, fields
from importlib.metadata import EntryPoint, entry_points
from typing import Any

import pyarrow as pa

from tidemill.connectors import registry as connectors
from tidemill.connectors.kinds import SOURCES, ConnectorKind
from tidemill.errors import TidemillError
from tidemill.formats import registry as formats
from tidemill.formats.inference.infer import INFERABLE
from tidemill.formats.kafka.format import value_formats
from tidemill.options.option import OptionGroup
from tidemill.options.views import VIEW_PROPERTIES
from tidemill.runtime.tables.table_options import GROUPS
from tidemill.sinks.registry import SINK_GROUPS, TARGETS
from tidemill.sinks.target import TargetKind

OPTIONS: tuple[OptionGroup, ...] = (*GROUPS, VIEW_PROPERTIES, *SINK_GROUPS)
"""Options of statements, in the order of the reference."""

_OFFERED = "of a package"


def connector_kinds() -> list[ConnectorKind]:
    """Sources and targets that are built in, then connectors of installed packages."""
    return [*SOURCES, *map(_target, TARGETS.values()), *map(_offered, _entries(connectors.ENTRY_POINT_GROUP))]


def connectors_table() -> pa.Table:
    """A row for each source and target: the attributes of :class:`ConnectorKind`."""
    names = [f.name for f in fields(ConnectorKind)]
    return _table(names, (asdict(kind).values() for kind in connector_kinds()))


def formats_table() -> pa.Table:
    """A row for each format: name, package (empty if built in), what it reads, and what it can be used for."""
    entries = {e.name.lower(): e for e in _entries(formats.ENTRY_POINT_GROUP)}
    names = (*formats.built_in(), *sorted(entries.keys() - set(formats.built_in())))
    in_messages = set(value_formats())
    rows = []
    for name in names:
        package = "" if name in formats.built_in() else _package(entries[name])
        rows.append((name, package, _about(name), name in INFERABLE, name in in_messages))
    return _table(("name", "package", "reads", "inference", "in_messages"), rows)


def options_table() -> pa.Table:
    """A row for each option: section, name, values, default, what it is for, whether ALTER may change it, secret."""
    rows = (
        (group.title, o.name, o.kind.wanted, o.shown_default, o.summary, o.alterable, o.secret)
        for group in OPTIONS
        for o in group.options
    )
    return _table(("section", "name", "values", "default", "about", "alterable", "secret"), rows)


DECLARED: dict[str, Callable[[], pa.Table]] = {
    "connectors": connectors_table,
    "formats": formats_table,
    "options": options_table,
}
"""By what stands behind SHOW."""


def _table(names: Iterable[str], rows: Iterable[Iterable[Any]]) -> pa.Table:
    columns = list(names)
    return pa.Table.from_pylist([dict(zip(columns, row, strict=True)) for row in rows])


def _target(kind: TargetKind) -> ConnectorKind:
    written = f"INTO {kind.name}, {kind.location.name} '...'"
    return ConnectorKind(
        kind.name, "out", written, kind.guarantee({}), "", kind.deletes, "", kind.library, kind.extra, kind.tried
    )


def _offered(entry: EntryPoint) -> ConnectorKind:
    return ConnectorKind(
        entry.name.lower(),
        "in",
        f"path '{entry.name.lower()}://...'",
        "exactly once",
        _OFFERED,
        "as files",
        ", ".join(sorted(INFERABLE)),
        _package(entry),
        "",
        _OFFERED,
    )


def _entries(group: str) -> list[EntryPoint]:
    return sorted(entry_points(group=group), key=lambda entry: entry.name)


def _package(entry: EntryPoint) -> str:
    return entry.value if entry.dist is None else str(entry.dist.name)


def _about(name: str) -> str:
    """The first line of what a format says of itself; why it cannot be loaded, where that is so."""
    try:
        text = type(formats.lookup(name)).__doc__ or ""
    except TidemillError as error:
        return error.message().splitlines()[0]
    return text.strip().splitlines()[0].replace("``", "") if text.strip() else ""
