"""Catalyst expression trees, rebuilt from the JSON that Spark prints.

``plan.toJSON()`` leaves out what cannot be guessed: whether a cast is ``CAST`` or ``try_cast``, the bytes of
binary constants, the lists of ``InSet`` and ``PivotFirst``, the escape character of LIKE, the options of from_json.
:func:`read_plan` and :func:`read_expression` ask the Java objects for exactly these, and for the id of the RDD at each
leaf.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class JsonTree:
    """One node of a Catalyst expression.

    Attributes
    ----------
    name : str
        The class without its package, e.g. ``GreaterThan``.
    fields : dict
        Every JSON field of the node; ``java`` is the node in the JVM, where there is one.
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


def translated(expression: Any, java: Any = None) -> JsonTree:
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


def read_expression(expression: Any) -> JsonTree:
    """The tree of a Java ``Expression``, with the fields that its JSON leaves out."""
    nodes = json.loads(expression.toJSON())
    _complete(nodes, expression)
    return tree(nodes)


def read_plan(plan: Any, text: str | None = None) -> list[dict[str, Any]]:
    """``json.loads(plan.toJSON())`` of a Java ``LogicalPlan``, with what the JSON of expressions leaves out.

    ``text`` is ``plan.toJSON()`` where the caller has it: Spark takes tens of milliseconds to write it.
    """
    nodes: list[dict[str, Any]] = json.loads(plan.toJSON() if text is None else text)
    _complete_plan(iter(nodes), plan)
    return nodes


def elements(sequence: Any) -> Iterator[Any]:
    """The elements of a collection of Scala."""
    iterator = sequence.iterator()
    while iterator.hasNext():
        yield iterator.next()


def _nth(sequence: Any, count: int) -> Iterator[Any]:
    """The elements of a ``Seq`` of Scala of known length, with one call of Java for each instead of two."""
    return (sequence.apply(i) for i in range(count))


def _complete_plan(nodes: Iterator[dict[str, Any]], plan: Any) -> None:
    fields = next(nodes)
    fields["java"] = plan
    if fields["class"].endswith(".LogicalRDD"):
        fields["rddId"] = plan.rdd().id()
        fields["rddName"] = plan.rdd().name()
    elif fields["class"].endswith(".LocalRelation"):
        types = [attribute.dataType() for attribute in elements(plan.output())]
        fields["rows"] = [[_java_part(row, i, type_) for i, type_ in enumerate(types)] for row in elements(plan.data())]
    elif fields["class"].endswith(".UnionLoop"):
        fields["outputIds"] = [int(a.exprId().id()) for a in elements(plan.output())]
        fields["maxDepth"] = plan.maxDepth().get() if plan.maxDepth().isDefined() else None
        fields["mostRows"] = plan.limit().get() if plan.limit().isDefined() else None
    elif fields["class"].endswith(".Generate"):
        fields["keptIds"] = [int(a.exprId().id()) for a in elements(plan.requiredChildOutput())]
    elif fields["class"].endswith(".Expand") and fields["projections"] is None:  # a list that toJSON does not know
        rows = elements(plan.projections())
        fields["projections"] = [[json.loads(e.toJSON()) for e in elements(row)] for row in rows]
    listed = list(_expression_lists(fields))
    if fields["num-children"] or any(len(nodes_) > 1 for nodes_ in listed):
        expressions = plan.expressions()
        for nodes_, expression in zip(listed, _nth(expressions, expressions.size()), strict=True):
            _complete(nodes_, expression)
    if fields["num-children"]:
        for child in _nth(plan.children(), fields["num-children"]):
            _complete_plan(nodes, child)


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


def _complete(nodes: list[dict[str, Any]], expression: Any) -> None:
    remaining = iter(nodes)

    def visit(java: Any) -> None:
        fields = next(remaining)
        fields["java"] = java
        name = fields["class"].rsplit(".", 1)[-1]
        if "evalMode" in fields:
            fields["evalMode"] = java.evalMode().toString()
        elif "evalContext" in fields:
            fields["evalMode"] = java.evalContext().evalMode().toString()
        if "escapeChar" in fields:
            fields["escapeChar"] = str(java.escapeChar())
        if name == "InSet":
            fields["hset"] = [_java_value(value) for value in elements(java.hset())]
        elif name in ("LikeAll", "LikeAny", "NotLikeAll", "NotLikeAny"):
            fields["patterns"] = [_java_value(value) for value in elements(java.patterns())]
        elif name == "Literal" and fields["dataType"] in ("binary", "timestamp"):
            fields["value"] = java.value()  # JSON has a text in the time zone of some session
        elif name == "Literal" and isinstance(fields["dataType"], dict) and java.value() is not None:
            fields["nested"] = _java_nested(java.value(), java.dataType())
        elif name == "Literal" and fields["dataType"] == "object" and evaluator(fields) in _WITH_OPTIONS:
            fields["options"] = string_map(java.value().options())
            zone = java.value().timeZoneId()
            fields["timeZoneId"] = zone.get() if zone.isDefined() else None
        elif name in _WITH_OPTIONS:
            fields["options"] = string_map(java.options())
        elif name == "PivotFirst":
            type_ = java.pivotColumn().dataType()
            fields["pivotColumnValues"] = [
                None if v is None else _java_nested(v, type_) for v in elements(java.pivotColumnValues())
            ]
        elif isinstance(fields.get("plan"), list) and hasattr(java, "plan"):
            _complete_plan(iter(fields["plan"]), java.plan())
        if fields["num-children"]:
            for child in _nth(java.children(), fields["num-children"]):
                visit(child)

    visit(expression)


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
