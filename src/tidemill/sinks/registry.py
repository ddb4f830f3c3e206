"""Targets by name, and the checks of a sink's options."""

from __future__ import annotations

from collections.abc import Mapping

from tidemill.errors import SECRET_OPTIONS, TidemillError, nearest
from tidemill.objectstore.connection import CONNECTION_OPTIONS
from tidemill.options.option import Option, OptionGroup, lowered
from tidemill.schema import WEIGHT, Schema
from tidemill.sinks.delta import DELTA
from tidemill.sinks.files import JSON, PARQUET
from tidemill.sinks.iceberg import ICEBERG
from tidemill.sinks.kafka import KAFKA
from tidemill.sinks.options import MODE, SINK_OPTIONS
from tidemill.sinks.postgres import POSTGRES
from tidemill.sinks.target import EPOCH, TargetKind, bad_location
from tidemill.sinks.tcp import TCP
from tidemill.sinks.webhook import WEBHOOK

TARGETS: Mapping[str, TargetKind] = {
    kind.name: kind for kind in (PARQUET, JSON, DELTA, ICEBERG, KAFKA, POSTGRES, TCP, WEBHOOK)
}
"""All kinds of targets."""

SINK_GROUPS: tuple[OptionGroup, ...] = (SINK_OPTIONS, *(kind.options for kind in TARGETS.values()))
"""All options of sinks, in the order of the reference."""

_RESERVED = (WEIGHT, EPOCH, "__sequence")


def target_kind(name: str) -> TargetKind:
    """The kind of target of a name. TM8200 when there is none."""
    if name not in TARGETS:
        raise TidemillError("TM8200", "there is no target of this name", got=name, hint=nearest(name, TARGETS))
    return TARGETS[name]


def checked_options(target: str, given: Mapping[str, str], schema: Schema) -> dict[str, str]:
    """The options of a sink as they are stored: names in lower case, the location made absolute.

    Parameters
    ----------
    target : str
        Name of the kind.
    schema : Schema
        Columns of the view.

    Raises
    ------
    TidemillError
        TM8200 for the target, TM8201 for an option that it does not take, TM4003 for a bad value, TM8207 for the
        location, TM8208 when a package is missing, TM8209 for a column that it cannot take.
    """
    kind = target_kind(target)
    known = _known(kind)
    for name in given:
        option_of(kind, name)
    options = lowered(given)
    for option in known.values():
        option.of(options)
    if MODE.of(options) not in kind.modes:
        raise MODE.bad(options[MODE.key], f"a sink INTO {target} delivers {' or '.join(kind.modes)}")
    location = kind.location.of(options)
    if location is None or not location.strip():
        raise bad_location(target, kind.location.name, "is missing", f"OPTIONS ({kind.location.name} '...')")
    options[kind.location.key] = kind.resolve(location.strip())
    kind.check(options, schema)
    taken = [n for n in schema.names if n.lower() in _RESERVED]
    if taken:
        raise TidemillError(
            "TM8209",
            "a column of the view cannot be written to this target",
            got=taken[0],
            hint="the name is that of a column of the sink: give it another one in the view",
        )
    return options


def needed_secrets(options: Mapping[str, str]) -> tuple[str, ...]:
    """Options among those given that are not stored, and that the environment cannot give: they are needed again."""
    return tuple(sorted(n for n in options if n in SECRET_OPTIONS and n not in CONNECTION_OPTIONS.keys))


def option_of(kind: TargetKind, name: str) -> Option[object]:
    """The option of a name in any case. TM8201 when there is none."""
    known = _known(kind)
    family = next((n for n in known if n.endswith("*") and name.lower().startswith(n[:-1])), name.lower())
    if name.lower() not in known and family not in known:
        hint = nearest(name, [option.name for option in known.values()])
        raise TidemillError("TM8201", "unknown option of a sink", got=f"{name}, INTO {kind.name}", hint=hint)
    return known.get(name.lower(), known[family])


def _known(kind: TargetKind) -> dict[str, Option[object]]:
    return {option.key: option for group in (SINK_OPTIONS, kind.options) for option in group.options}
