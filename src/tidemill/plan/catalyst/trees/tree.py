"""Catalyst expression trees, rebuilt from the JSON that is written of Spark's plans.

``plan.toJSON()`` leaves out what cannot be guessed: whether a cast is ``CAST`` or ``try_cast``, the escape character of
LIKE, the id of the RDD at each leaf, which ``planner.java`` writes too; and the bytes of binary constants, the lists of
``InSet`` and ``PivotFirst``, the options of from_json. :func:`read_plan` asks the Java objects for exactly these.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any


class InJava:
    """A node in the JVM, which is fetched when it is asked for: most never are.

    Parameters
    ----------
    fetch : callable
        Gives the node.
    """

    def __init__(self, fetch: Callable[[], Any]) -> None:
        self._fetch = fetch

    @cached_property
    def node(self) -> Any:
        """The node."""
        return self._fetch()

    def child(self, position: int) -> InJava:
        """One of its children."""
        return InJava(lambda: self.node.children().apply(position))

    def expression(self, position: int) -> InJava:
        """One of the expressions of a node of a plan."""
        return InJava(lambda: self.node.expressions().apply(position))

    def plan(self) -> InJava:
        """The plan of a subquery."""
        return InJava(lambda: self.node.plan())


@dataclass(frozen=True)
class JsonTree:
    """One node of a Catalyst expression.

    Attributes
    ----------
    name : str
        The class without its package, e.g. ``GreaterThan``.
    fields : dict
        Every JSON field of the node; ``java`` is the node in the JVM (:class:`InJava`), where there is one.
    children : tuple of JsonTree
        In Catalyst's order.
    """

    name: str
    fields: dict[str, Any]
    children: tuple[JsonTree, ...]

    @property
    def id(self) -> int:
        """The ``exprId`` of an attribute or named expression."""
        return int(self.fields["exprId"]["id"])


TRANSLATED = "Translated"
"""The name of a node that contains an expression of :mod:`tidemill.task.expressions`."""


def translated(expression: Any, java: InJava | None = None) -> JsonTree:
    """A node that replaces what has been translated already, and the node in the JVM that it was."""
    return JsonTree(TRANSLATED, {"expression": expression, "java": java}, ())


def tree(nodes: list[dict[str, Any]]) -> JsonTree:
    """Rebuild a tree from Catalyst's pre-order list of nodes."""
    remaining = iter(nodes)

    def build() -> JsonTree:
        fields = next(remaining)
        children = tuple(build() for _ in range(fields["num-children"]))
        return JsonTree(fields["class"].rsplit(".", 1)[-1], fields, children)

    return build()


def trees(field: Any) -> list[JsonTree]:
    """The expressions of a field: lists of them are lists of pre-order lists, a single one is one pre-order list."""
    if not field:
        return []
    if isinstance(field[0], dict):
        return [tree(field)]
    return [tree(e) for e in field]


def attribute_id(node: JsonTree) -> int | None:
    """The ``exprId`` of an attribute; None for any other expression."""
    return node.id if node.name == "AttributeReference" else None


def aggregate_calls(node: JsonTree) -> list[JsonTree]:
    """The aggregate calls in an expression."""
    return (
        [node] if node.name == "AggregateExpression" else [c for child in node.children for c in aggregate_calls(child)]
    )


def read_plan(plan: Any, text: str) -> list[dict[str, Any]]:
    """The nodes of a Java ``LogicalPlan``, with what its JSON leaves out.

    ``text`` is the JSON that ``planner.java`` has written of the plan.
    """
    nodes: list[dict[str, Any]] = json.loads(text)
    _complete_plan(iter(nodes), InJava(lambda: plan))
    return nodes


def elements(sequence: Any) -> Iterator[Any]:
    """The elements of a collection of Scala."""
    iterator = sequence.iterator()
    while iterator.hasNext():
        yield iterator.next()


def _complete_plan(nodes: Iterator[dict[str, Any]], java: InJava) -> None:
    fields = next(nodes)
    fields["java"] = java
    if fields["class"].endswith(".LocalRelation"):
        plan = java.node
        types = [attribute.dataType() for attribute in elements(plan.output())]
        fields["rows"] = [[_java_part(row, i, type_) for i, type_ in enumerate(types)] for row in elements(plan.data())]
    elif fields["class"].endswith(".UnionLoop"):
        plan = java.node
        fields["outputIds"] = [int(a.exprId().id()) for a in elements(plan.output())]
        fields["maxDepth"] = plan.maxDepth().get() if plan.maxDepth().isDefined() else None
        fields["mostRows"] = plan.limit().get() if plan.limit().isDefined() else None
    for position, listed in enumerate(list(_expression_lists(fields))):
        _complete(listed, java.expression(position))
    for position in range(fields["num-children"]):
        _complete_plan(nodes, java.child(position))


def _expression_lists(value: Any) -> Iterator[list[dict[str, Any]]]:
    """The pre-order lists of expressions inside the fields of a plan node, in their order."""
    if isinstance(value, dict):
        for name, inner in value.items():
            if name != "joinType":  # an existence join holds the attribute it adds there
                yield from _expression_lists(inner)
    elif isinstance(value, list):
        if value and isinstance(value[0], dict) and "num-children" in value[0]:
            if ".plans." not in value[0]["class"] and ".execution." not in value[0]["class"]:
                yield value
        else:
            for inner in value:
                yield from _expression_lists(inner)


def _complete(nodes: list[dict[str, Any]], java: InJava) -> None:
    remaining = iter(nodes)

    def visit(java: InJava) -> None:
        fields = next(remaining)
        fields["java"] = java
        name = fields["class"].rsplit(".", 1)[-1]
        if name == "InSet":
            fields["hset"] = [_java_value(value) for value in elements(java.node.hset())]
        elif name in ("LikeAll", "LikeAny", "NotLikeAll", "NotLikeAny"):
            fields["patterns"] = [_java_value(value) for value in elements(java.node.patterns())]
        elif name == "Literal" and fields["dataType"] in ("binary", "timestamp"):
            fields["value"] = java.node.value()  # JSON has a text in the time zone of some session
        elif name == "Literal" and isinstance(fields["dataType"], dict) and fields["value"] is not None:
            fields["nested"] = _java_nested(java.node.value(), java.node.dataType())
        elif name == "Literal" and fields["dataType"] == "object" and evaluator(fields) in _WITH_OPTIONS:
            fields["options"] = string_map(java.node.value().options())
            zone = java.node.value().timeZoneId()
            fields["timeZoneId"] = zone.get() if zone.isDefined() else None
        elif name in _WITH_OPTIONS:
            fields["options"] = string_map(java.node.options())
        elif name == "PivotFirst":
            type_ = java.node.pivotColumn().dataType()
            fields["pivotColumnValues"] = [
                None if v is None else _java_nested(v, type_) for v in elements(java.node.pivotColumnValues())
            ]
        elif isinstance(fields.get("plan"), list):
            _complete_plan(iter(fields["plan"]), java.plan())
        for position in range(fields["num-children"]):
            visit(java.child(position))

    visit(java)


_WITH_OPTIONS = frozenset(
    {"JsonToStructs", "CsvToStructs", "StructsToCsv", "XmlToStructs", "StructsToJsonEvaluator", "StructsToCsvEvaluator"}
)
"""Expressions and evaluators whose options are not in their JSON."""


def evaluator(fields: Mapping[str, Any]) -> str:
    """The class of the object that a literal is, such as ``StructsToJsonEvaluator``."""
    return str(fields["value"]).partition("(")[0]


def string_map(entries: Any) -> dict[str, str]:
    """A map of Scala, with keys and values as text."""
    return {str(pair._1()): str(pair._2()) for pair in elements(entries)}


def _java_nested(value: Any, type_: Any) -> Any:
    """A constant array or struct as a list of its parts, a map as a list of pairs."""
    kind = type_.typeName()
    if kind == "array":
        element = type_.elementType()
        return [_java_part(value, i, element) for i in range(value.numElements())]
    if kind == "struct":
        fields = type_.fields()
        return [_java_part(value, i, field.dataType()) for i, field in enumerate(fields)]
    if kind == "map":
        keys, values = value.keyArray(), value.valueArray()
        return [
            [_java_part(keys, i, type_.keyType()), _java_part(values, i, type_.valueType())]
            for i in range(value.numElements())
        ]
    return _java_value(value)


def _java_part(parent: Any, position: int, type_: Any) -> Any:
    return None if parent.isNullAt(position) else _java_nested(parent.get(position, type_), type_)


def _java_value(value: Any) -> Any:
    return value if value is None or isinstance(value, bool | int | float | bytes | str) else value.toString()
