"""Assembles the algebra of all views of a mill into one program.

Equal work is done once: one scan a table, and equal operations over equal inputs are one step. An
aggregate at the top of a view is *stored*: its changes are appended to state without looking anything
up, in the superstep that computed them. Only what somebody reads row by row gets an exchange and a
lookup.
"""

from __future__ import annotations

import hashlib
import pickle
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from tidemill.plan.aggregates import layout
from tidemill.plan.algebra import (
    Aggregate,
    Filter,
    Generate,
    Join,
    Node,
    Project,
    Scan,
    SemiJoin,
    TopRows,
    Union,
    children,
    relations,
)
from tidemill.plan.codec import fingerprint
from tidemill.plan.event_time import EventTimes, Lag
from tidemill.state.keys import KeyColumn
from tidemill.state.merge import MergeOp
from tidemill.task.expressions import Ref, remap
from tidemill.task.program import (
    Arrange,
    Calculate,
    Concatenate,
    Explode,
    GroupChanges,
    GroupPartial,
    Input,
    JoinChanges,
    Operation,
    Program,
    ReadPlan,
    ScanStep,
    SemiChanges,
    StateTable,
    Step,
    StoreKeyed,
    StoreRows,
    TableSource,
    TopChanges,
    ViewSnapshot,
    multiset_table,
    written_tables,
)


@dataclass(frozen=True)
class ViewDefinition:
    """A view as the assembler needs it. ``born`` is the epoch sealed last when it was created."""

    name: str
    uid: str
    root: Node
    born: int


class Assembler:
    """Builds one program. Views are given in the order they were created."""

    def __init__(self, views: Sequence[ViewDefinition], tables: Mapping[str, TableSource]) -> None:
        self.views = {v.name: v for v in views}
        self.tables = tables
        self._steps: list[Step] = []
        self._memo: dict[tuple[Operation, tuple[Input, ...], int], int] = {}
        self._changing: set[tuple[Aggregate, int]] = set()
        self._columns: dict[str, tuple[str, ...]] = {}
        self._sinks: dict[str, list[int]] = {}
        self._lowering = ""
        self._times = EventTimes(tables, lambda name: self.views[name].root)
        self._looked_up: dict[str, set[Lag | None]] = {}

    def program(self) -> Program:
        """The program of all views."""
        for view in self.views.values():
            self._note_columns(view.root)
            _, top = _finishing(view.root)
            self._note_changes(top.child if isinstance(top, Aggregate) else top, view.born)
        for view in self.views.values():
            self._lowering = view.name
            self._sinks[view.name] = []
            self._keep(self._store(view))
        steps = self._with_views()
        return Program(steps, fingerprint_program(steps))

    def retention(self) -> dict[str, tuple[Lag, ...]]:
        """State tables that compaction may cut: a row goes when it lies below every one of these lags.

        To be asked after :meth:`program`.
        """
        return {
            table: tuple(lag for lag in lags if lag is not None)
            for table, lags in self._looked_up.items()
            if None not in lags
        }

    def read_plan(self, name: str) -> ReadPlan:
        """How a view's rows are read from state."""
        view = self.views[name]
        steps, top = _finishing(view.root)
        if isinstance(top, Aggregate):
            partial = self._partial(top, view.born)
            return ReadPlan(partial.groups, partial.layout, partial.input_types, steps, view.root.schema)
        return ReadPlan(_view_table(view), None, (), (), view.root.schema)

    def begins_with_rows(self, name: str) -> bool:
        """Whether a view has rows over no input that only an epoch can write.

        An aggregate without GROUP BY gives a row over nothing. At the top of a view the reader makes it; below
        the top an epoch must have run.
        """
        _, top = _finishing(self.views[name].root)
        below = children(top) if isinstance(top, Aggregate) else (top,)
        return any(self._gives_first_row(node) for node in below)

    def _gives_first_row(self, node: Node) -> bool:
        if isinstance(node, Aggregate) and not node.keys:
            return True
        below = children(node)
        if isinstance(node, Scan) and node.relation in self.views:
            below = (self.views[node.relation].root,)
        return any(self._gives_first_row(child) for child in below)

    def append_only(self, node: Node) -> bool:
        """Whether a node never retracts a row."""
        match node:
            case Scan():
                if node.relation in self.tables:
                    return self.tables[node.relation].op_column is None
                return self.append_only(self.views[node.relation].root)
            case Union():
                return all(self.append_only(c) for c in node.children)
            case Join():
                return self.append_only(node.left) and self.append_only(node.right)
            case Project() | Filter() | Generate():
                return self.append_only(node.child)
            case SemiJoin():
                return not node.anti and self.append_only(node.left) and self.append_only(node.right)
            case Aggregate() | TopRows():
                return False

    def _note_columns(self, node: Node) -> None:
        """Columns of each table in use, in the table's order."""
        if isinstance(node, Scan) and node.relation in self.tables:
            used = {*self._columns.get(node.relation, ()), *(c.name for c in node.columns)}
            names = self.tables[node.relation].schema.names
            self._columns[node.relation] = tuple(n for n in names if n in used)
        for child in children(node):
            self._note_columns(child)

    def _note_changes(self, node: Node, born: int) -> None:
        """Which aggregates must give their changes, because something other than a reader of views wants them."""
        if isinstance(node, Aggregate):
            self._changing.add((node, born))
        if isinstance(node, Scan) and node.relation in self.views:
            upstream = self.views[node.relation]
            self._note_changes(upstream.root, upstream.born)
        for child in children(node):
            self._note_changes(child, born)

    def _store(self, view: ViewDefinition) -> int:
        """The step that writes a view's state."""
        _, top = _finishing(view.root)
        if not isinstance(top, Aggregate):
            return self._add(StoreRows(_view_table(view)), (self._rows(view.root, view.born),), view.born)
        if (top, view.born) in self._changing:
            return self._rows(top, view.born).step
        partial = self._partial(top, view.born)
        step = self._add(partial, (self._rows(top.child, view.born),), view.born)
        if not partial.multisets:
            return self._add(StoreKeyed(partial.groups), (Input(step),), view.born)
        return self._group_changes(partial, step, view.born, emit=False)

    def _group_changes(self, partial: GroupPartial, step: int, born: int, emit: bool) -> int:
        inputs = tuple(Input(step, port) for port in range(1 + len(partial.multisets)))
        return self._add(GroupChanges(partial, emit), inputs, born)

    def _rows(self, node: Node, born: int) -> Input:
        """The step that gives the changes of a node's rows."""
        match node:
            case Scan():
                return Input(self._scan(node, born))
            case Project() | Filter():
                operation, base = _calculation(node)
                source, operation = self._fused(base, operation, born)
                return Input(self._add(operation, (source,), born))
            case Union():
                return Input(self._add(Concatenate(), tuple(self._rows(c, born) for c in node.children), born))
            case Aggregate():
                partial = self._partial(node, born)
                step = self._add(partial, (self._rows(node.child, born),), born)
                return Input(self._group_changes(partial, step, born, emit=True))
            case Join():
                return self._join(node, born)
            case SemiJoin():
                return self._semi_join(node, born)
            case TopRows():
                return self._top(node, born)
            case Generate():
                explode = Explode(node.argument, node.kept, node.position, node.spread, node.outer)
                return Input(self._add(explode, (self._rows(node.child, born),), born))

    def _fused(self, base: Node, operation: Calculate, born: int) -> tuple[Input, Calculate]:
        """A calculation directly over a shared scan reads the scan's columns, without a step in between."""
        if not (isinstance(base, Scan) and base.relation in self.tables):
            return self._rows(base, born), operation
        positions = self._scan_positions(base)
        expressions = operation.expressions
        if expressions is None:
            fields = base.columns
            expressions = tuple(Ref(i, f.type, f.nullable) for i, f in enumerate(fields))
        condition = None if operation.condition is None else remap(operation.condition, positions)
        moved = Calculate(condition, tuple(remap(e, positions) for e in expressions))
        return Input(self._table_scan(base.relation)), moved

    def _scan_positions(self, node: Scan) -> dict[int, int]:
        columns = self._columns[node.relation]
        return {i: columns.index(f.name) for i, f in enumerate(node.columns)}

    def _table_scan(self, table: str) -> int:
        return self._add(ScanStep(self.tables[table], self._columns[table]), (), 0)

    def _scan(self, node: Scan, born: int) -> int:
        if node.relation in self.tables:
            positions = self._scan_positions(node)
            expressions = tuple(Ref(positions[i], f.type, f.nullable) for i, f in enumerate(node.columns))
            return self._add(Calculate(None, expressions), (Input(self._table_scan(node.relation)),), born)
        upstream = self.views[node.relation]
        changes = self._rows(upstream.root, upstream.born)
        names = upstream.root.schema.names
        expressions = tuple(Ref(names.index(f.name), f.type, f.nullable) for f in node.columns)
        inputs = [Input(self._add(Calculate(None, expressions), (changes,), born))]
        if born > upstream.born:
            snapshot = self._add(ViewSnapshot(upstream.name, self.read_plan(upstream.name)), (), born)
            inputs.append(Input(self._add(Calculate(None, expressions), (Input(snapshot),), born)))
        return self._add(Concatenate(), tuple(inputs), born)

    def _partial(self, node: Aggregate, born: int) -> GroupPartial:
        fields = node.child.schema.fields
        types = tuple(f.type for f in fields)
        chosen = layout(node, self.append_only(node.child))
        name = f"{self._identity(node)}:{born}"
        group_types = tuple(types[k] for k in node.keys)
        width = len(group_types)
        groups = StateTable(
            f"group:{name}",
            tuple(KeyColumn(t) for t in group_types),
            width,
            chosen.value_types(types),
            chosen.merge_ops(),
        )
        multisets = tuple(
            multiset_table(f"values{column}:{name}", (*group_types, types[column]), width)
            for column in chosen.multisets
        )
        for table in multisets:
            self._look_up(table, node.child, node.keys)
        return GroupPartial(node.keys, chosen, types, groups, multisets)

    def _join(self, node: Join, born: int) -> Input:
        left = self._arranged(node.left, born, node.left_keys, _required(node.left_keys, node.null_safe))
        right = self._arranged(node.right, born, node.right_keys, _required(node.right_keys, node.null_safe))
        self._look_up(left[0].table, node.right, node.right_keys)
        self._look_up(right[0].table, node.left, node.left_keys)
        operation = JoinChanges(left[0], right[0], len(node.left_keys))
        joined = Input(self._add(operation, (left[1], right[1]), born))
        if node.residual is None:
            return joined
        return Input(self._add(Calculate(node.residual, None), (joined,), born))

    def _semi_join(self, node: SemiJoin, born: int) -> Input:
        never = _required(node.left_keys, node.null_safe)
        left = self._arranged(node.left, born, node.left_keys, () if node.anti else never)
        required = _required(node.right_keys, node.null_safe)
        right = self._arranged(node.right, born, node.right_keys, required, keys_only=True)
        self._look_up(left[0].table, node.right, node.right_keys)
        self._look_up(right[0].table, node.left, node.left_keys)
        self._look_up(right[0].table, node.right, node.right_keys)
        operation = SemiChanges(left[0], right[0], len(node.left_keys), node.anti)
        return Input(self._add(operation, (left[1], right[1]), born))

    def _top(self, node: TopRows, born: int) -> Input:
        order = tuple(k.column for k in node.keys)
        columns = order + tuple(i for i in range(len(node.schema)) if i not in order)
        key = tuple(
            KeyColumn(node.schema.fields[k.column].type, k.descending, k.nulls_first) for k in node.keys
        ) + tuple(KeyColumn(node.schema.fields[i].type) for i in columns[len(order) :])
        source = self._rows(node.child, born)
        name = f"top:{self._identity(node)}:{born}"
        arrange = Arrange(columns, (), StateTable(name, key, 0, (pa.int64(),), (MergeOp.SUM,)))
        arranged = Input(self._add(arrange, (source,), born))
        self._keep(self._add(StoreKeyed(arrange.table), (arranged,), born))
        return Input(self._add(TopChanges(arrange, node.limit, node.offset), (arranged,), born))

    def _arranged(
        self, node: Node, born: int, keys: tuple[int, ...], required: tuple[int, ...], keys_only: bool = False
    ) -> tuple[Arrange, Input]:
        """A node's rows by key, and the step that stores them; the same for all that want them alike."""
        source = self._rows(node, born)
        others = () if keys_only else tuple(i for i in range(len(node.schema)) if i not in keys)
        order = keys + others
        identity = fingerprint((self._identity(node), list(order), list(required)))
        types = tuple(node.schema.types[i] for i in order)
        table = multiset_table(f"rows:{identity}:{born}", types, len(keys))
        arrange = Arrange(order, required, table)
        arranged = Input(self._add(arrange, (source,), born))
        self._keep(self._add(StoreKeyed(table), (arranged,), born))
        return arrange, arranged

    def _look_up(self, table: StateTable, by: Node, keys: tuple[int, ...]) -> None:
        """Note that a table is looked up by the keys of the changes of a node."""
        self._looked_up.setdefault(table.id, set()).add(self._times.of_keys(by, keys))

    def _keep(self, step: int) -> None:
        """The view being lowered depends on this step, which nothing reads."""
        self._sinks[self._lowering].append(step)

    def _identity(self, node: Node) -> str:
        """Names a stateful node: equal for equal work on the same relations."""
        uids = tuple(self.views[r].uid if r in self.views else self.tables[r].uid for r in relations(node))
        return fingerprint((node, uids))

    def _add(self, operation: Operation, inputs: tuple[Input, ...], born: int) -> int:
        key = (operation, inputs, born)
        if key not in self._memo:
            depth = max((self._steps[i.step].depth for i in inputs), default=0)
            if isinstance(operation, GroupChanges | JoinChanges | SemiChanges | TopChanges):
                depth += 1
            self._memo[key] = len(self._steps)
            self._steps.append(Step(operation, inputs, depth, born, frozenset()))
        return self._memo[key]

    def _with_views(self) -> tuple[Step, ...]:
        """Each step with the views that depend on it."""
        views: list[set[str]] = [set() for _ in self._steps]
        for name, sinks in self._sinks.items():
            stack = list(sinks)
            while stack:
                at = stack.pop()
                if name not in views[at]:
                    views[at].add(name)
                    stack += [i.step for i in self._steps[at].inputs]
        return tuple(
            Step(s.operation, s.inputs, s.depth, s.born, frozenset(v)) for s, v in zip(self._steps, views, strict=True)
        )


def fingerprint_program(steps: tuple[Step, ...]) -> str:
    """Names a program among all that a worker process may meet."""
    return hashlib.sha256(pickle.dumps(steps)).hexdigest()[:16]


def state_tables(program: Program, view: str | None = None) -> dict[str, StateTable]:
    """Tables written by a program, or by those of its steps that one view depends on."""
    return {
        table.id: table
        for step in program.steps
        if view is None or view in step.views
        for table in written_tables(step.operation)
    }


def _view_table(view: ViewDefinition) -> StateTable:
    types = view.root.schema.types
    return multiset_table(f"view:{view.uid}", types, len(types))


def _required(keys: tuple[int, ...], null_safe: tuple[bool, ...]) -> tuple[int, ...]:
    """Keys that match nothing when NULL."""
    return tuple(dict.fromkeys(k for k, safe in zip(keys, null_safe, strict=True) if not safe))


def _finishing(root: Node) -> tuple[tuple[Calculate, ...], Node]:
    """The projections and filters on top of a view, as steps to apply when it is read, and what is below."""
    if isinstance(root, Project | Filter):
        operation, base = _calculation(root)
        if isinstance(base, Aggregate):
            return (operation,), base
        steps, top = _finishing(base)
        return (*steps, operation), top
    return (), root


def _calculation(node: Node) -> tuple[Calculate, Node]:
    """A projection over a filter as one calculation, with the node below."""
    if isinstance(node, Filter):
        return Calculate(node.condition, None), node.child
    assert isinstance(node, Project)
    if isinstance(node.child, Filter):
        return Calculate(node.child.condition, node.expressions), node.child.child
    return Calculate(None, node.expressions), node.child
