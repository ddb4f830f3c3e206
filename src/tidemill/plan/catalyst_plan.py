"""Catalyst's optimised logical plan, as JSON, to algebra.

Names and expression ids become column positions; computed join keys, aggregate arguments and FILTER
clauses become columns of projections below. Pure Python: the JVM is not needed here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from tidemill.errors import TidemillError
from tidemill.plan.aggregates import SUPPORTED
from tidemill.plan.algebra import (
    Aggregate,
    AggregateCall,
    Filter,
    Join,
    Node,
    Project,
    Scan,
    Union,
)
from tidemill.plan.catalyst_expressions import JsonTree, translate
from tidemill.plan.catalyst_expressions import tree as read_tree
from tidemill.schema import Field, type_from_spark, type_to_ddl
from tidemill.task.expressions import Call, Expression, Literal, Ref, references, remap

_AGGREGATES = {"Sum": "sum", "Count": "count", "Average": "avg", "Min": "min", "Max": "max"}
_SUPPORTED_NODES = "SELECT, WHERE, inner JOIN on equality, GROUP BY, HAVING, DISTINCT, UNION ALL"


@dataclass(frozen=True)
class _Bound:
    """An algebra node and where each Catalyst attribute is in its output."""

    node: Node
    inputs: Mapping[int, int]


def read_plan(nodes: list[dict[str, Any]], leaves: Sequence[str]) -> Node:
    """The algebra of an optimised logical plan.

    Parameters
    ----------
    nodes : list of dict
        ``optimizedPlan().toJSON()``, parsed: pre-order.
    leaves : sequence of str
        The relation behind each leaf, left to right.

    Raises
    ------
    TidemillError
        TM2101, TM2102, TM2103 or TM2104 for what is not supported yet.
    """
    reader = _PlanReader(leaves)
    bound = reader.read(read_tree(nodes))
    return bound.node


def _expressions(field: Any) -> list[JsonTree]:
    """Expression lists are lists of pre-order lists; a single expression is one pre-order list."""
    if not field:
        return []
    if isinstance(field[0], dict):
        return [read_tree(field)]
    return [read_tree(e) for e in field]


def _id(tree: JsonTree) -> int:
    return int(tree.fields["exprId"]["id"])


class _PlanReader:
    def __init__(self, leaves: Sequence[str]) -> None:
        self._leaves = list(reversed(leaves))

    def read(self, tree: JsonTree) -> _Bound:
        match tree.name:
            case "LogicalRDD":
                return self._scan(tree)
            case "Project":
                return self._project(tree)
            case "Filter":
                child = self.read(tree.children[0])
                (condition,) = _expressions(tree.fields["condition"])
                return _Bound(Filter(child.node, translate(condition, child.inputs)), child.inputs)
            case "Union":
                return self._union(tree)
            case "Join":
                return self._join(tree)
            case "Aggregate":
                return self._aggregate(tree)
            case "Sort" | "SubqueryAlias" | "RepartitionByExpression" | "Repartition" | "RebalancePartitions":
                return self.read(tree.children[0])  # the order of a view's rows is nobody's promise
        raise TidemillError(
            "TM2103",
            "this part of a query is not supported yet in a materialized view",
            got=_NAMES.get(tree.name, tree.name),
            hint=f"supported: {_SUPPORTED_NODES}",
        )

    def _scan(self, tree: JsonTree) -> _Bound:
        attributes = _expressions(tree.fields["output"])
        fields = tuple(
            Field(a.fields["name"], type_from_spark(a.fields["dataType"]), bool(a.fields["nullable"]))
            for a in attributes
        )
        return _Bound(Scan(self._leaves.pop(), fields), {_id(a): i for i, a in enumerate(attributes)})

    def _project(self, tree: JsonTree) -> _Bound:
        child = self.read(tree.children[0])
        outputs = _expressions(tree.fields["projectList"])
        expressions = tuple(translate(e, child.inputs) for e in outputs)
        names = tuple(e.fields["name"] for e in outputs)
        return _Bound(Project(child.node, expressions, names), {_id(e): i for i, e in enumerate(outputs)})

    def _union(self, tree: JsonTree) -> _Bound:
        children = [self.read(c) for c in tree.children]
        first = children[0]
        width = len(first.node.schema)
        for other in children[1:]:
            assert len(other.node.schema) == width
        return _Bound(Union(tuple(c.node for c in children)), first.inputs)

    def _join(self, tree: JsonTree) -> _Bound:
        kind = tree.fields["joinType"]
        name = kind if isinstance(kind, str) else str(kind.get("object", kind)).rstrip("$").rsplit(".", 1)[-1]
        if name.lower() not in ("inner", "cross"):
            raise TidemillError(
                "TM2104",
                "this kind of join is not supported yet in a materialized view",
                got=f"{name} join",
                hint="inner joins with at least one equality between the two sides",
            )
        left, right = self.read(tree.children[0]), self.read(tree.children[1])
        width = len(left.node.schema)
        inputs = {**left.inputs, **{i: p + width for i, p in right.inputs.items()}}
        conjuncts = [
            translate(part, inputs)
            for condition in _expressions(tree.fields.get("condition"))
            for part in _conjuncts(condition)
        ]
        return _equi_join(left.node, right.node, conjuncts, inputs)

    def _aggregate(self, tree: JsonTree) -> _Bound:
        child = self.read(tree.children[0])
        groups = _expressions(tree.fields["groupingExpressions"])
        outputs = _expressions(tree.fields["aggregateExpressions"])
        columns = [translate(g, child.inputs) for g in groups]
        names = [str(g.fields.get("name", f"group{i}")) for i, g in enumerate(groups)]
        inputs = {_id(g): i for i, g in enumerate(groups) if "exprId" in g.fields}
        calls: list[AggregateCall] = []

        def argument(expression: Expression) -> int:
            if expression not in columns:
                columns.append(expression)
            return columns.index(expression)

        def replace(node: JsonTree) -> JsonTree:
            """The expression with each aggregate call replaced by a reference to its result."""
            if node.name != "AggregateExpression":
                return JsonTree(node.name, node.fields, tuple(replace(c) for c in node.children))
            call = _call(node, child.inputs, argument)
            if call not in calls:
                calls.append(call)
            position = calls.index(call)
            inputs[-1 - position] = len(groups) + position
            fields = {
                "name": call.function,
                "dataType": type_to_spark(call.type),
                "nullable": call.nullable,
                "exprId": {"id": -1 - position},
            }
            return JsonTree("AttributeReference", fields, ())

        replaced = [replace(o) for o in outputs]
        projected = _projection(child.node, columns)
        names += [f"{c.function}{i}" for i, c in enumerate(calls)]
        aggregate = Aggregate(projected, tuple(range(len(groups))), tuple(calls), tuple(names))
        expressions = tuple(translate(e, inputs) for e in replaced)
        result = Project(aggregate, expressions, tuple(o.fields["name"] for o in outputs))
        return _Bound(result, {_id(o): i for i, o in enumerate(outputs)})


def _projection(child: Node, columns: list[Expression]) -> Node:
    """A projection to ``columns``, or the child itself when that is what it gives."""
    fields = child.schema.fields
    if len(columns) == len(fields) and all(isinstance(c, Ref) and c.index == i for i, c in enumerate(columns)):
        return child
    names = tuple(fields[c.index].name if isinstance(c, Ref) else f"column{i}" for i, c in enumerate(columns))
    return Project(child, tuple(columns), names)


def _call(node: JsonTree, inputs: Mapping[int, int], argument: Any) -> AggregateCall:
    function = node.children[0]
    distinct = bool(node.fields.get("isDistinct"))
    name = _AGGREGATES.get(function.name)
    if name is None or name not in SUPPORTED:
        raise TidemillError(
            "TM2102",
            "this aggregate function is not supported yet",
            got=function.name,
            hint="supported: sum, count, avg, min, max, each also DISTINCT",
        )
    arguments = [translate(c, inputs) for c in function.children if c.name != "EvalMode"]
    condition = translate(node.children[1], inputs) if len(node.children) > 1 else None
    if name == "count":
        value = _count_argument(arguments, distinct)
    else:
        value = arguments[0]
    if condition is not None:
        value = value if value is not None else Literal(1, pa.int32())
        value = Call("case", (condition, value, Literal(None, value.type)), value.type, True)
    type_, nullable = _result_type(name, value, node)
    return AggregateCall(name, None if value is None else argument(value), type_, nullable, distinct)


def _count_argument(arguments: list[Expression], distinct: bool) -> Expression | None:
    counted = [a for a in arguments if a.nullable]
    if distinct:
        if len(arguments) > 1:
            raise TidemillError(
                "TM2102",
                "COUNT(DISTINCT ...) of several columns is not supported yet",
                got=f"{len(arguments)} columns",
                hint="count over a SELECT DISTINCT of the columns",
            )
        return arguments[0]
    if not counted:
        return None
    if len(counted) == 1:
        return counted[0]
    present: Expression = Call("is_not_null", (counted[0],), pa.bool_(), False)
    for other in counted[1:]:
        present = Call("and", (present, Call("is_not_null", (other,), pa.bool_(), False)), pa.bool_(), False)
    one = Literal(1, pa.int32())
    return Call("case", (present, one, Literal(None, one.type)), one.type, True)


def _result_type(function: str, value: Expression | None, node: JsonTree) -> tuple[pa.DataType, bool]:
    """The type Spark gives to an aggregate."""
    if function == "count" or value is None:
        return pa.int64(), False
    type_ = value.type
    if function in ("min", "max"):
        return type_, True
    if pa.types.is_decimal(type_):
        extra = (10, 0) if function == "sum" else (4, 4)
        return pa.decimal128(min(38, type_.precision + extra[0]), min(38, type_.scale + extra[1])), True
    if function == "avg" or pa.types.is_floating(type_):
        if pa.types.is_integer(type_) or pa.types.is_floating(type_):
            return pa.float64(), True
    elif pa.types.is_integer(type_):
        return pa.int64(), True
    raise TidemillError(
        "TM2102",
        "this aggregate is not supported yet for this type",
        got=f"{function}({type_to_ddl(type_)}) in {node.children[0].name}",
        hint="cast the argument to a number",
    )


def type_to_spark(type_: pa.DataType) -> str:
    """Spark's JSON name of an atomic type."""
    names = {"tinyint": "byte", "smallint": "short", "int": "integer", "bigint": "long"}
    ddl = type_to_ddl(type_)
    return names.get(ddl, ddl)


def _conjuncts(tree: JsonTree) -> list[JsonTree]:
    if tree.name == "And":
        return [part for child in tree.children for part in _conjuncts(child)]
    return [tree]


def _equi_join(left: Node, right: Node, conjuncts: list[Expression], inputs: Mapping[int, int]) -> _Bound:
    """Split a join condition into keys and the rest; computed keys become extra columns of the sides."""
    width = len(left.schema)
    left_columns: list[Expression] = [Ref(i, f.type, f.nullable) for i, f in enumerate(left.schema.fields)]
    right_columns: list[Expression] = [Ref(i, f.type, f.nullable) for i, f in enumerate(right.schema.fields)]
    keys: list[tuple[int, int, bool]] = []
    rest: list[Expression] = []
    for conjunct in conjuncts:
        sides = _key_sides(conjunct, width)
        if sides is None:
            rest.append(conjunct)
            continue
        for columns, side in zip((left_columns, right_columns), sides, strict=True):
            if side not in columns:
                columns.append(side)
        null_safe = isinstance(conjunct, Call) and conjunct.function == "eq_null_safe"
        keys.append((left_columns.index(sides[0]), right_columns.index(sides[1]), null_safe))
    if not keys:
        raise TidemillError(
            "TM2104",
            "a join without an equality between its sides is not supported yet in a materialized view",
            got="cross join" if not conjuncts else "inequality join",
            hint="add a condition of the form left.column = right.column",
        )
    new_left, new_right = _projection(left, left_columns), _projection(right, right_columns)
    moved = {i: i for i in range(width)}
    moved |= {width + i: len(left_columns) + i for i in range(len(right.schema))}
    residual: Expression | None = None
    for part in (remap(r, moved) for r in rest):
        residual = part if residual is None else Call("and", (residual, part), pa.bool_(), True)
    left_keys, right_keys, null_safe_keys = zip(*keys, strict=True)
    join = Join(new_left, new_right, left_keys, right_keys, null_safe_keys, residual)
    fields = join.schema.fields
    plain: list[Expression] = [Ref(p, fields[p].type, fields[p].nullable) for p in moved.values()]
    return _Bound(_projection(join, plain), inputs)  # without the computed keys, which nothing above knows


def _key_sides(conjunct: Expression, width: int) -> tuple[Expression, Expression] | None:
    """The two sides of ``left = right`` over the columns of either input, or None when it is not that."""
    if not isinstance(conjunct, Call) or conjunct.function not in ("eq", "eq_null_safe"):
        return None
    first, second = conjunct.args
    used = [references(first), references(second)]
    if not all(used) or first.type != second.type:
        return None
    if max(used[0]) < width <= min(used[1]):
        left, right = first, second
    elif max(used[1]) < width <= min(used[0]):
        left, right = second, first
    else:
        return None
    return left, remap(right, {i: i - width for i in references(right)})


_NAMES = {
    "GlobalLimit": "LIMIT",
    "LocalLimit": "LIMIT",
    "Offset": "OFFSET",
    "Window": "a window function",
    "Expand": "ROLLUP, CUBE or GROUPING SETS",
    "Generate": "explode or LATERAL VIEW",
    "LocalRelation": "VALUES",
    "OneRowRelation": "SELECT without FROM",
    "Intersect": "INTERSECT",
    "Except": "EXCEPT",
    "Range": "range()",
}
