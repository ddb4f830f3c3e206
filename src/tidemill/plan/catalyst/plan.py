"""Catalyst's optimised logical plan, as JSON, to algebra.

Names and expression ids become column positions; computed join keys, aggregate arguments and FILTER
clauses become columns of projections below. Pure Python: the JVM is not needed here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import pyarrow as pa

from tidemill.errors import TidemillError
from tidemill.plan.algebra.build import columns_of, projection
from tidemill.plan.algebra.nodes import (
    Aggregate,
    AggregateCall,
    Filter,
    Node,
    Project,
    Repeat,
    Scan,
    Union,
)
from tidemill.plan.catalyst.aggregates.aggregates import aggregate
from tidemill.plan.catalyst.aggregates.reader import AggregateReader
from tidemill.plan.catalyst.aggregates.rows_of_groups import rows_of_groups
from tidemill.plan.catalyst.expressions.expressions import translate
from tidemill.plan.catalyst.input_types import check_input_types
from tidemill.plan.catalyst.relations import values as catalyst_values
from tidemill.plan.catalyst.relations.generate import generate
from tidemill.plan.catalyst.relations.joins import build_join
from tidemill.plan.catalyst.relations.order import Ordered, bounds, check_aggregates, first_rows, ordered
from tidemill.plan.catalyst.relations.pivot import has_pivot, unpivoted
from tidemill.plan.catalyst.relations.recursion import DEFAULT_LIMITS, RecursionLimits, recursion, reference, with_last
from tidemill.plan.catalyst.relations.sessions import is_session, merge_sessions, with_session
from tidemill.plan.catalyst.relations.subqueries import ONE_ROW, some_rows, with_subqueries
from tidemill.plan.catalyst.relations.windows import check_decided, follows_rows, read_window
from tidemill.plan.catalyst.trees.field_names import columns_renamed
from tidemill.plan.catalyst.trees.places import passing
from tidemill.plan.catalyst.trees.tree import JsonTree, aggregate_calls, translated, trees
from tidemill.plan.catalyst.trees.tree import tree as read_tree
from tidemill.schema import Field, type_from_spark
from tidemill.task.expressions import Expression, Literal, Ref

_SUPPORTED_NODES = (
    "SELECT, WHERE, all joins, subqueries, GROUP BY with ROLLUP and CUBE, HAVING, DISTINCT, UNION, "
    "ORDER BY with LIMIT, window functions, explode, window()"
)


@dataclass(frozen=True)
class _Bound:
    """An algebra node and where each Catalyst attribute is in its output.

    ``columns`` are those that Catalyst's operator has, in its order, where the node has others, too: windows keep
    computed columns that they are partitioned or ordered by.
    """

    node: Node
    inputs: Mapping[int, int]
    columns: tuple[int, ...] | None = None

    @property
    def output(self) -> tuple[int, ...]:
        """Positions of the columns that Catalyst's operator has."""
        return tuple(range(len(self.node.schema))) if self.columns is None else self.columns

    def exact(self) -> _Bound:
        """The same without other columns."""
        if self.columns is None:
            return self
        columns = columns_of(self.node)
        places = {c: i for i, c in enumerate(self.columns)}
        inputs = {identity: places[c] for identity, c in self.inputs.items() if c in places}
        return _Bound(projection(self.node, [columns[c] for c in self.columns]), inputs)


def read_plan(
    nodes: list[dict[str, Any]],
    relations: Mapping[int, str],
    marks: Mapping[str, str] | None = None,
    base: Node | None = None,
    limits: RecursionLimits = DEFAULT_LIMITS,
) -> Node:
    """The algebra of an optimised logical plan.

    Parameters
    ----------
    nodes : list of dict
        As :func:`~tidemill.plan.catalyst.trees.tree.read_plan` gives them.
    relations : dict
        RDD id to name of every relation that a view may read.
    marks : dict, optional
        RDD name to relation, for leaves of DataFrames.
    base : Node, optional
        The node that constant rows are built on in a query without a table; without it such a query is refused.
    limits : RecursionLimits
        How far recursions may go.

    Raises
    ------
    TidemillError
        TM2006 for a foreign relation; TM2101, TM2102, TM2103 or TM2104 for what is not supported yet.
    """
    reader = _PlanReader(relations, marks or {}, base, limits)
    leaf = catalyst_values.base_of(nodes)
    if leaf is not None:
        reader.base = catalyst_values.narrow(reader.relation(read_tree([leaf])))
    root = reader.read(read_tree(nodes)).exact().node
    check_input_types(root)
    return root


class _PlanReader:
    def __init__(
        self, relations: Mapping[int, str], marks: Mapping[str, str], base: Node | None, limits: RecursionLimits
    ) -> None:
        self._relations = relations
        self._marks = marks
        self._limits = limits
        self._loops: dict[int, Scan] = {}
        self.base = base

    def read(self, tree: JsonTree) -> _Bound:
        with passing(tree):
            return self._read(tree)

    def _read(self, tree: JsonTree) -> _Bound:
        match tree.name:
            case "LogicalRDD":
                return self._scan(tree)
            case "UnionLoop":
                return self._loop(tree)
            case "UnionLoopRef":
                attributes = trees(tree.fields["output"])
                return _Bound(self._loops[int(tree.fields["loopId"])], {a.id: i for i, a in enumerate(attributes)})
            case "Project":
                return self._project(tree)
            case "Filter":
                return self._filter(tree)
            case "Union":
                return self._union(tree)
            case "Join":
                return self._join(tree)
            case "Aggregate":
                return self._aggregate(tree)
            case "Expand":
                return self._expand(tree)
            case "Generate" if _is_replicate(tree):
                return self._replicate(tree)
            case "Window":
                return self._window(tree)
            case "Generate":
                return self._generate(tree)
            case "ArrowEvalPython" | "BatchEvalPython":
                return self._called(tree)
            case "OneRowRelation":
                return _Bound(catalyst_values.one_row(self.base), {})
            case "LocalRelation" | "Range":
                attributes = trees(tree.fields["output"])
                rows = (
                    catalyst_values.numbers
                    if tree.name == "Range"
                    else partial(catalyst_values.values, attributes=attributes)
                )
                return _Bound(rows(tree, base=self.base), {a.id: i for i, a in enumerate(attributes)})
            case "GlobalLimit" | "LocalLimit" | "Offset":
                return self._top(tree)
            case "Sort" | "SubqueryAlias" | "RepartitionByExpression" | "Repartition" | "RebalancePartitions":
                # Operators that rely on the order of rows read the Sort themselves (relations/order.py).
                return self.read(tree.children[0])
            case "Sample":
                raise TidemillError(
                    "TM2105",
                    "a sample is not decided by the rows",
                    got="TABLESAMPLE, or sample() of a DataFrame",
                    hint="a condition on a hash of the key: WHERE pmod(xxhash64(key), 100) < 10",
                )
        if tree.name in _FOREIGN:
            raise foreign(_FOREIGN[tree.name])
        raise TidemillError(
            "TM2103",
            "this part of a query is not supported yet in a materialized view",
            got=_NAMES.get(tree.name, tree.name),
            hint=f"supported: {_SUPPORTED_NODES}",
        )

    def _scan(self, tree: JsonTree) -> _Bound:
        attributes = trees(tree.fields["output"])
        return _Bound(self.relation(tree), {a.id: i for i, a in enumerate(attributes)})

    def relation(self, tree: JsonTree) -> Scan:
        """The table or view of a leaf."""
        attributes = trees(tree.fields["output"])
        fields = tuple(
            Field(a.fields["name"], type_from_spark(a.fields["dataType"]), bool(a.fields["nullable"]))
            for a in attributes
        )
        relation = self._relations.get(tree.fields["rddId"]) or self._marks.get(tree.fields.get("rddName") or "")
        if relation is None:
            raise foreign("a Spark table or DataFrame")
        return Scan(relation, fields)

    def _called(self, tree: JsonTree) -> _Bound:
        """The columns of the child, and one for each Python function."""
        child = self.read(tree.children[0])
        columns = columns_of(child.node)
        called = [translate(e, child.inputs) for e in trees(tree.fields["udfs"])]
        found = {r.id: len(columns) + i for i, r in enumerate(trees(tree.fields["resultAttrs"]))}
        node = projection(child.node, [*columns, *called])
        return _Bound(node, {**child.inputs, **found}, (*child.output, *found.values()))

    def _filter(self, tree: JsonTree) -> _Bound:
        below = self._below(tree)
        child, (condition,) = self._with_subqueries(below, trees(tree.fields["condition"]))
        kept = Filter(child.node, translate(condition, child.inputs))
        if child.node is below.node or below.node == ONE_ROW:
            return replace(below, node=kept)
        return replace(below, node=projection(kept, columns_of(below.node)))

    def _project(self, tree: JsonTree) -> _Bound:
        return self._projected(tree, self._below(tree))

    def _projected(self, tree: JsonTree, below: _Bound) -> _Bound:
        listed = trees(tree.fields["projectList"])
        child, outputs = self._with_subqueries(below, listed)
        expressions = tuple(translate(e, child.inputs) for e in outputs)
        names = tuple(e.fields["name"] for e in outputs)
        return _Bound(Project(child.node, expressions, names), {e.id: i for i, e in enumerate(outputs)})

    def _union(self, tree: JsonTree) -> _Bound:
        children = [self.read(c).exact() for c in tree.children]
        first = children[0]
        width = len(first.node.schema)
        for other in children[1:]:
            assert len(other.node.schema) == width
        types = first.node.schema.types
        return _Bound(Union(tuple(columns_renamed(c.node, types) for c in children)), first.inputs)

    def _loop(self, tree: JsonTree) -> _Bound:
        """WITH RECURSIVE. Its limit is that of a LIMIT above, which then stops the recursion; -1 is LIMIT ALL."""
        loop, depth, limit = int(tree.fields["id"]), tree.fields["maxDepth"], tree.fields["mostRows"]
        anchor = self.read(tree.children[0]).exact().node
        self._loops[loop] = reference(loop, anchor.schema)
        step = columns_renamed(self.read(tree.children[1]).exact().node, anchor.schema.types)
        levels = self._limits.levels if depth is None else int(depth)
        rows = self._limits.rows if limit is None else None
        node = recursion(loop, anchor, step, RecursionLimits(levels, rows))
        if limit == 1:  # any row will do, and there is one of the first level if there is one at all
            node = replace(node, last=1)
        return _Bound(node, {identity: i for i, identity in enumerate(tree.fields["outputIds"])})

    def _join(self, tree: JsonTree) -> _Bound:
        kind, exists = _join_kind(tree.fields["joinType"])
        left, right = self.read(tree.children[0]), self.read(tree.children[1])
        width = len(left.node.schema)
        inputs = {**left.inputs, **{i: p + width for i, p in right.inputs.items()}}
        conjuncts = [
            translate(part, inputs)
            for condition in trees(tree.fields.get("condition"))
            for part in _conjuncts(condition)
        ]
        node = build_join(kind, left.node, right.node, conjuncts)
        if exists is not None:
            return _Bound(node, {**left.inputs, exists: width}, (*left.output, width))
        if kind in ("LeftSemi", "LeftAnti"):
            return replace(left, node=node)
        return _Bound(node, inputs, (*left.output, *(width + c for c in right.output)))

    def _expand(self, tree: JsonTree) -> _Bound:
        """GROUPING SETS: every row once per set, with the columns that are not of the set NULL."""
        child = self.read(tree.children[0])
        outputs = trees(tree.fields["output"])
        fields = [
            Field(o.fields["name"], type_from_spark(o.fields["dataType"]), bool(o.fields["nullable"])) for o in outputs
        ]
        parts: list[Node] = []
        for row in tree.fields["projections"]:
            columns = [translate(e, child.inputs) for e in trees(row)]
            typed = [
                Literal(None, f.type) if c == Literal(None, pa.null()) else c
                for c, f in zip(columns, fields, strict=True)
            ]
            parts.append(Project(child.node, tuple(typed), tuple(f.name for f in fields)))
        return _Bound(Union(tuple(parts)), {o.id: i for i, o in enumerate(outputs)})

    def _generate(self, tree: JsonTree) -> _Bound:
        child = self.read(tree.children[0])
        (generator,) = trees(tree.fields["generator"])
        listed = [int(i) for i in tree.fields["keptIds"]]
        outputs = trees(tree.fields["generatorOutput"])
        kept = tuple(child.inputs[i] for i in listed)
        names = tuple(str(o.fields["name"]) for o in outputs)
        node = generate(child.node, generator, child.inputs, kept, bool(tree.fields["outer"]), names)
        ids = [*listed, *(o.id for o in outputs)]
        return _Bound(node, {identity: i for i, identity in enumerate(ids)})

    def _top(self, tree: JsonTree) -> _Bound:
        """LIMIT and OFFSET over ORDER BY."""
        limit, offset, below = bounds(tree)
        at, between = below, list[JsonTree]()
        while at.name == "Project":
            between.append(at)
            at = at.children[0]
        rows = None if limit is None and not offset else ordered(at, self)
        if rows is None:
            found = self.read(below)
            if limit == 0:
                return replace(found, node=Filter(found.node, Literal(False, pa.bool_())))
            first = None if limit is None or offset else with_last(found.node, limit)
            if first is not None:
                return replace(found, node=first)
            unlimited = limit is None and not offset
            return found if unlimited else replace(found, node=some_rows(found.node, limit, offset))
        result = _Bound(first_rows(rows, limit, offset), rows.inputs, rows.output).exact()
        for project in reversed(between):
            result = self._projected(project, result)
        return result

    def _window(self, tree: JsonTree) -> _Bound:
        """A window whose functions follow the order of rows without having one takes that of a Sort right below."""
        order = follows_rows(tree)
        rows: Ordered | None = ordered(tree.children[0], self) if order else None
        if rows is not None:
            window = read_window(tree, rows.node, rows.inputs, rows.output, rows.keys)
            return _Bound(*window)
        child = self.read(tree.children[0])
        window = read_window(tree, child.node, child.inputs, child.output)
        if order:
            check_decided(tree, window[0])
        return _Bound(*window)

    def _replicate(self, tree: JsonTree) -> _Bound:
        """INTERSECT ALL and EXCEPT ALL: each row as often as a column says."""
        child = self.read(tree.children[0])
        (generator,) = trees(tree.fields["generator"])
        columns = columns_of(child.node)
        count, *values = (translate(c, child.inputs) for c in generator.children)
        outputs = trees(tree.fields["generatorOutput"])
        inputs = {**child.inputs, **{o.id: len(columns) + i for i, o in enumerate(outputs)}}
        rows = projection(child.node, [*columns, *values, count])
        return _Bound(Repeat(rows, len(columns) + len(values)), inputs)

    def rows(self, tree: JsonTree) -> tuple[Node, Mapping[int, int]]:
        """See :class:`~tidemill.plan.catalyst.relations.order.Reader`."""
        found = self.read(tree)
        return found.node, found.inputs

    def subqueries(
        self, node: Node, inputs: Mapping[int, int], expressions: list[JsonTree]
    ) -> tuple[Node, Mapping[int, int], list[JsonTree]]:
        """See :class:`~tidemill.plan.catalyst.relations.order.Reader`."""
        return with_subqueries(node, inputs, expressions, self._row)

    def _with_subqueries(self, child: _Bound, expressions: list[JsonTree]) -> tuple[_Bound, list[JsonTree]]:
        node, inputs, replaced = with_subqueries(child.node, child.inputs, expressions, self._row)
        return _Bound(node, inputs), replaced

    def _row(self, plan: JsonTree) -> Node:
        return self.read(plan).node

    def _below(self, tree: JsonTree) -> _Bound:
        """The input of a node whose expressions may have subqueries."""
        (child,) = tree.children
        listed = tree.fields.get("projectList") or [tree.fields.get("condition")]
        alone = child.name == "OneRowRelation" and any("Subquery" in str(n["class"]) for e in listed for n in e or ())
        return _Bound(ONE_ROW, {}) if alone else self.read(child)

    def _aggregate(self, tree: JsonTree) -> _Bound:
        below = tree.children[0]
        groups = trees(tree.fields["groupingExpressions"])
        outputs = trees(tree.fields["aggregateExpressions"])
        check_aggregates(tree, outputs)
        if has_pivot(outputs):
            below, groups, outputs = unpivoted(below, groups, outputs)
        inside = [call for o in outputs for call in aggregate_calls(o)]
        rows = self.read(below)
        session = next((g for g in groups if is_session(g)), None)
        merged: tuple[Expression, Expression] | None = None
        if session is not None:
            others = [translate(g, rows.inputs) for g in groups if g is not session]
            node, merged = merge_sessions(rows.node, rows.inputs[session.id], others)
            rows = _Bound(node, rows.inputs)
        child, replaced = self._with_subqueries(rows, [*inside, *groups])
        arguments, keys = replaced[: len(inside)], replaced[len(inside) :]
        call_of = dict(zip(map(id, inside), arguments, strict=True))
        columns = [
            merged[0] if merged and g is session else translate(key, child.inputs)
            for g, key in zip(groups, keys, strict=True)
        ]
        names = [str(g.fields.get("name", f"group{i}")) for i, g in enumerate(groups)]
        inputs = {g.id: i for i, g in enumerate(groups) if "exprId" in g.fields}
        calls: list[AggregateCall] = []

        def argument(expression: Expression) -> int:
            if expression not in columns:
                columns.append(expression)
            return columns.index(expression)

        def result(call: AggregateCall) -> Expression:
            if call not in calls:
                calls.append(call)
            return Ref(len(groups) + calls.index(call), call.type, call.nullable)

        reader = AggregateReader(child.inputs, argument, result, False, *rows_of_groups(arguments, child.inputs))

        def replaced_calls(node: JsonTree) -> JsonTree:
            """The expression with aggregate calls replaced by expressions over their results, and groups by columns."""
            if node.name != "AggregateExpression":
                at = next((i for i, g in enumerate(groups) if _same(node, g)), None)
                if at is not None:
                    return translated(Ref(at, columns[at].type, columns[at].nullable), node.fields.get("java"))
                return JsonTree(node.name, node.fields, tuple(replaced_calls(c) for c in node.children))
            with passing(node):
                return translated(aggregate(call_of[id(node)], reader), node.fields.get("java"))

        replaced = [replaced_calls(o) for o in outputs]
        if merged is not None:
            end = merged[1]
            until = result(AggregateCall("max", argument(end), end.type, True))
        projected = projection(child.node, columns)
        names += [f"{c.function}{i}" for i, c in enumerate(calls)]
        grouped = Aggregate(projected, tuple(range(len(groups))), tuple(calls), tuple(names))
        above: Node = grouped
        if session is not None:
            above, inputs[session.id] = with_session(grouped, groups.index(session), until)
        found, replaced = self._with_subqueries(_Bound(above, inputs), replaced)
        expressions = tuple(translate(e, found.inputs) for e in replaced)
        node = Project(found.node, expressions, tuple(o.fields["name"] for o in outputs))
        return _Bound(node, {o.id: i for i, o in enumerate(outputs)})


def _same(node: JsonTree, group: JsonTree) -> bool:
    """Whether an expression is what is grouped by, if that is more than a column: Spark leaves some in both places."""
    if node.name != group.name or group.name == "AttributeReference":
        return False
    return bool(node.fields["java"].node.semanticEquals(group.fields["java"].node))


def _is_replicate(tree: JsonTree) -> bool:
    generators = trees(tree.fields["generator"])
    return generators[0].name == "ReplicateRows"


def _join_kind(field: Any) -> tuple[str, int | None]:
    """Catalyst's join type, and for an existence join the id of the attribute it adds."""
    if isinstance(field, str):
        return field, None
    name = str(field.get("product-class", field.get("object", ""))).rstrip("$").rsplit(".", 1)[-1]
    if name == "ExistenceJoin":
        exists = field["exists"]
        attribute = exists[0] if isinstance(exists, list) else exists
        return name, int(attribute["exprId"]["id"])
    return name, None


def _conjuncts(tree: JsonTree) -> list[JsonTree]:
    if tree.name == "And":
        return [part for child in tree.children for part in _conjuncts(child)]
    return [tree]


def foreign(what: str) -> TidemillError:
    """TM2006 for a relation that does not belong to the mill."""
    return TidemillError(
        "TM2006",
        "a view can only read tables and views of its mill",
        got=what,
        hint="CREATE TABLE ... USING ... first",
    )


_FOREIGN = {
    "LogicalRelation": "files or a table of Spark",
    "HiveTableRelation": "a table of Hive",
    "DataSourceV2Relation": "a table of Spark",
    "DataSourceV2ScanRelation": "a table of Spark",
    "StreamingRelation": "a stream of Spark",
    "StreamingRelationV2": "a stream of Spark",
    "InMemoryRelation": "a cached DataFrame",
    "ExternalRDD": "a DataFrame",
}

_NAMES = {
    "Deduplicate": "dropDuplicates",
    "Generate": "explode or LATERAL VIEW",
    "MapPartitions": "a function written by the user",
    "EventTimeWatermark": "WATERMARK",
    "Intersect": "INTERSECT",
    "Except": "EXCEPT",
}
