"""Expressions that depend on the session's time zone. Catalyst writes it into each of them, as ``timeZoneId``.

Timestamps are instants; kernels show them as a clock in UTC does. An expression of another zone is computed in one of
the ways of :class:`InZone`. A class that is not listed in ``CLASSES`` is refused, so that no zone is
ignored by mistake: list a class here together with its rule. Where Catalyst has no ``timeZoneId`` and
Spark looks at the session instead, :func:`with_zone` adds one.
"""

from __future__ import annotations

from enum import Enum
from typing import Any

import pyarrow as pa

from tidemill.plan.catalyst.expressions.rules import Rule, Translator, call, unsupported
from tidemill.plan.catalyst.trees.tree import JsonTree, translated
from tidemill.schema import TIMESTAMP
from tidemill.task.expressions import Expression, Literal
from tidemill.zones import is_utc


class InZone(Enum):
    """How the time zone affects an expression.

    ``IGNORED``: not at all. ``LOCAL``: it computes with local timestamps. ``OPTION``: the zone is an option of a call;
    see :func:`zone_option`.
    """

    IGNORED = 1
    LOCAL = 2
    OPTION = 3


CLASSES: dict[str, InZone] = {
    **dict.fromkeys(("VariantGet", "DateAddInterval"), InZone.IGNORED),  # no timestamp of a VARIANT is read; whole days
    **dict.fromkeys(
        ("Hour", "Minute", "Second", "SecondWithFraction", "DateFormatClass", "SubtractTimestamps", "TimestampDiff"),
        InZone.LOCAL,
    ),
    **dict.fromkeys(
        (
            "Cast", "AnsiCast", "FromUnixTime", "GetTimestamp", "JsonToStructs", "MakeTimestamp",
            "CsvToStructs", "StructsToCsv",
            "MonthsBetween", "PythonUDF", "Sequence", "SpecifiedWindowFrame", "TimestampAdd", "TimestampAddInterval",
            "StructsToJsonEvaluator", "TimestampAddYMInterval", "ToUnixTimestamp", "TruncTimestamp", "UnixTimestamp",
        ),
        InZone.OPTION,
    ),
}  # fmt: skip

_OF_SESSION = ("PythonUDF", "SpecifiedWindowFrame")
"""Classes of nodes that depend on the session's zone, but have no ``timeZoneId``."""


def zone_of(node: JsonTree) -> str | None:
    """The time zone that an expression depends on; None for UTC, or for none."""
    zone = node.fields.get("timeZoneId")
    return None if zone is None or is_utc(zone) else str(zone)


def zone_option(node: JsonTree) -> dict[str, Any]:
    """The option ``zone`` of the call that an expression becomes; no option for UTC."""
    zone = zone_of(node)
    return {} if zone is None else {"zone": zone}


def in_zone(node: JsonTree, rule: Rule) -> Rule:
    """The rule of an expression's class, with the expression's zone taken into account.

    Raises
    ------
    TidemillError
        TM2101 for a class that is not listed.
    """
    zone = zone_of(node)
    if zone is None:
        return rule
    way = CLASSES.get(node.name)
    if way is None:
        raise unsupported(f"{node.name} in the time zone {zone}", "it is supported in UTC: see the setting time_zone")
    return _locally(rule, zone) if way is InZone.LOCAL else rule


def _locally(rule: Rule, zone: str) -> Rule:
    def local(node: JsonTree, to: Translator) -> Expression:
        children = []
        for child in node.children:
            value = to.translate(child, to.inputs)
            changed = value.type == TIMESTAMP
            children.append(translated(shown(value, zone), child.fields.get("java")) if changed else child)
        found = rule(JsonTree(node.name, node.fields, tuple(children)), to)
        return instants(found, zone) if found.type == TIMESTAMP else found

    return local


def shown(time: Expression, zone: str | None) -> Expression:
    """A timestamp as the clock of a zone shows it."""
    return time if zone is None else call("from_utc_timestamp", (Literal(zone, pa.string()), time), time.type)


def instants(time: Expression, zone: str | None) -> Expression:
    """The instant at which the clock of a zone shows a timestamp."""
    return time if zone is None else call("to_utc_timestamp", (Literal(zone, pa.string()), time), time.type)


def with_zone(nodes: Any, zone: str) -> Any:
    """A plan of :func:`~tidemill.plan.catalyst.trees.tree.read_plan`, in which nodes without a zone of their own
    have that of the session."""
    if not is_utc(zone):
        _add_zone(nodes, zone)
    return nodes


def _add_zone(found: Any, zone: str) -> None:
    if isinstance(found, list):
        for inner in found:
            _add_zone(inner, zone)
    elif isinstance(found, dict):
        if str(found.get("class", "")).rsplit(".", 1)[-1] in _OF_SESSION:
            found["timeZoneId"] = zone
        for inner in found.values():
            if isinstance(inner, list | dict):
                _add_zone(inner, zone)
