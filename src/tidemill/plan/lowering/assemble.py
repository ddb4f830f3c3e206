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
from dataclasses import replace

import pyarrow as pa

from tidemill.plan.algebra.aggregates import layout
from tidemill.plan.algebra.identities import Identities, arrangement
from tidemill.plan.algebra.nodes import (
    Aggregate,
    Filter,
    Generate,
    Join,
    Node,
    Pairs,
    Project,
    Recursion,
    Repeat,
    Scan,
    SemiJoin,
    TopRows,
    Union,
    Window,
    children,
    summed,
)
from tidemill.plan.lowering.analysis.calculations import calculation, finishing, finishing_can_fail
from tidemill.plan.lowering.analysis.definition import ViewDefinition
from tidemill.plan.lowering.analysis.demand import Demand
from tidemill.plan.lowering.analysis.event_time import EventTimes, Lag
from tidemill.plan.lowering.analysis.group_places import GroupPlaces
from tidemill.plan.lowering.analysis.placement import NOWHERE, ONE_PLACE, Placement, after_calculation
from tidemill.plan.lowering.analysis.small_sides import SmallSides
from tidemill.plan.lowering.analysis.static_sides import StaticSides
from tidemill.plan.lowering.join_steps import Joins
from tidemill.plan.lowering.kept.file_versions import version_steps
from tidemill.plan.lowering.kept.kept_tables import append_only, kept_rows_plan
from tidemill.plan.lowering.kept.keyed_tables import message_key, message_steps
from tidemill.plan.lowering.pair_accumulators import pair_accumulators
from tidemill.plan.lowering.raw_filters import with_raw_filters
from tidemill.plan.lowering.recursion_steps import recursion
from tidemill.plan.lowering.windows import window_changes
from tidemill.state.keys.keys import KeyColumn
from tidemill.state.merge.merge import MergeOp
from tidemill.task.aggregates.accumulators import Multiset
from tidemill.task.expressions import Ref, remap
from tidemill.task.program import (
    Arrange,
    Calculate,
    Concatenate,
    Explode,
    GroupChanges,
    GroupPartial,
    Input,
    Operation,
    PairSums,
    Program,
    ReadPlan,
    RepeatRows,
    ScanStep,
    StateTable,
    Step,
    StoreKeyed,
    StoreRows,
    TableSource,
    TopChanges,
    ViewSnapshot,
    multiset_table,
)


class Assembler:
    """Builds one program. Views are given in the order they were created.

    The program is for epochs in which only rows of the tables ``moving`` come, as far as small tables go; without it
    for any. Which state tables there are, and what is in them, does not depend on it. Assemblers of one mill share
    ``identities``.
    """

    def __init__(
        self,
        views: Sequence[ViewDefinition],
        tables: Mapping[str, TableSource],
        moving: frozenset[str] | None = None,
        identities: Identities | None = None,
    ) -> None:
        self.views = {v.name: v for v in views}
        self.tables = tables
        self._identities = identities or Identities()
        for view in views:
            self._identities.give(view.root, view.names)
        self._program: Program | None = None
        self._steps: list[Step] = []
        self._memo: dict[tuple[Operation, tuple[Input, ...], int], int] = {}
        self._demand = Demand(self.views, tables)
        self._sinks: dict[str, list[int]] = {}
        self._lowering = ""
        self._placed: dict[Input, Placement] = {}
        self._lowered: dict[tuple[int, int, bool], tuple[Node, Input]] = {}
        self._times = EventTimes(tables, lambda name: self.views[name].root)
        self._looked_up: dict[str, set[Lag | None]] = {}
        self._static = StaticSides(self.views, tables)
        self.small = SmallSides(self.views, moving)
        self._joins = Joins(self, self._static, self.small, self.views, tables)
        self._groups_at = GroupPlaces(self._place_of, self._static, self.small)

    def program(self) -> Program:
        """The program of all views, made when it is asked for first."""
        if self._program is None:
            self._program = self._assembled()
        return self._program

    def _assembled(self) -> Program:
        self._demand.note()
        for source in self.tables.values():
            if source.kept is not None:
                self._table_scan(source.name)
        for view in self.views.values():
            self._lowering = view.name
            self._lowered.clear()  # each view notes for itself what it depends on
            self._sinks[view.name] = []
            self.keep(self._store(view))
        steps = with_raw_filters(self._with_views())
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
        """How the rows of a view, or of a table whose rows are kept, are read from state."""
        if name in self.tables:
            return kept_rows_plan(self.tables[name])
        self._demand.note()
        view = self.views[name]
        steps, top = finishing(view.root)
        if isinstance(top, Aggregate):
            partial = self._partial(top, view.created_at_epoch)
            return ReadPlan(partial.groups, partial.layout, partial.input_types, steps, view.root.schema)
        return ReadPlan(_view_table(view), None, (), (), view.root.schema)

    def begins_with_rows(self, name: str) -> bool:
        """Whether a view has rows over no input that only an epoch can write.

        An aggregate without GROUP BY gives a row over nothing. At the top of a view the reader makes it; below
        the top an epoch must have run.
        """
        _, top = finishing(self.views[name].root)
        stored = isinstance(top, Aggregate) and not finishing_can_fail(self.views[name].root)
        below = summed(top) if isinstance(top, Aggregate) and stored else (top,)
        return any(self._gives_first_row(node) for node in below)

    def _gives_first_row(self, node: Node) -> bool:
        if isinstance(node, Aggregate) and not node.keys:
            return True
        below = summed(node) if isinstance(node, Aggregate) else children(node)
        if isinstance(node, Scan) and node.relation in self.views:
            below = (self.views[node.relation].root,)
        return any(self._gives_first_row(child) for child in below)

    def append_only(self, node: Node) -> bool:
        """Whether a node never retracts a row."""
        match node:
            case Scan():
                if node.relation in self.tables:
                    source = self.tables[node.relation]
                    return source.op_column is None if source.kept is None else append_only(source)
                return self.append_only(self.views[node.relation].root)
            case Union():
                return all(self.append_only(c) for c in node.children)
            case Join():
                return self.append_only(node.left) and self.append_only(node.right)
            case Project() | Filter() | Generate() | Repeat():
                return self.append_only(node.child)
            case SemiJoin():
                return not node.anti and self.append_only(node.left) and self.append_only(node.right)
            case Recursion():
                return all(p.sign > 0 for p in node.paths) and all(map(self.append_only, children(node)))
            case Aggregate() | TopRows() | Window():
                return False

    def _store(self, view: ViewDefinition) -> int:
        """The step that writes a view's state."""
        _, top = finishing(view.root)
        if not isinstance(top, Aggregate):
            return self.add(
                StoreRows(_view_table(view)), (self.rows(view.root, view.created_at_epoch),), view.created_at_epoch
            )
        if finishing_can_fail(view.root):
            self.keep(self.rows(view.root, view.created_at_epoch).step)  # nobody reads it: failing groups are counted
        if (top, view.created_at_epoch) in self._demand.changing:
            return self.rows(top, view.created_at_epoch).step
        partial = self._partial(top, view.created_at_epoch)
        groups = self._sums(top, partial, view.created_at_epoch)
        if not partial.multisets:
            return self.add(StoreKeyed(partial.groups), (groups,), view.created_at_epoch)
        return self._group_changes(top, partial, groups, view.created_at_epoch, emit=False)

    def _group_changes(
        self,
        node: Aggregate,
        partial: GroupPartial,
        groups: Input,
        created_at_epoch: int,
        emit: bool,
        single: bool = False,
    ) -> int:
        inputs = tuple(Input(groups.step, port) for port in range(1 + len(partial.multisets)))
        moves = not self._groups_at.in_place(node, partial, created_at_epoch, single)
        step = self.add(GroupChanges(partial, emit), inputs, created_at_epoch, moves)
        self._placed[Input(step)] = frozenset({tuple(range(partial.groups.distribution))})
        return step

    def rows(self, node: Node, created_at_epoch: int, single: bool = False) -> Input:
        """The step that gives the changes of a node's rows.

        With ``single`` an aggregate is folded where the rows of vnode 0 are, because its reader is there. A node is
        asked for by all that want to know where its rows are, so what is found is kept, under the node itself.
        """
        key = (id(node), created_at_epoch, single)  # comparing nodes takes as long as lowering them
        if key not in self._lowered:
            self._lowered[key] = node, self._lower(node, created_at_epoch, single)
        return self._lowered[key][1]

    def _lower(self, node: Node, created_at_epoch: int, single: bool) -> Input:
        """Add the steps of a node."""
        match node:
            case Scan():
                return Input(self._scan(node, created_at_epoch))
            case Project() | Filter():
                operation, base = calculation(node)
                source, operation = self._fused(base, operation, created_at_epoch, single)
                return self.placed_by(
                    after_calculation(self.place(source), operation), operation, (source,), created_at_epoch
                )
            case Union():
                inputs = tuple(self.rows(c, created_at_epoch, single) for c in node.children)
                common = frozenset.intersection(*(self.place(i) for i in inputs))
                return self.placed_by(common, Concatenate(), inputs, created_at_epoch)
            case Aggregate():
                partial = self._partial(node, created_at_epoch, single)
                groups = self._sums(node, partial, created_at_epoch, single)
                return Input(self._group_changes(node, partial, groups, created_at_epoch, emit=True, single=single))
            case Join():
                return self._joins.join(node, created_at_epoch)
            case SemiJoin():
                return self._joins.semi_join(node, created_at_epoch)
            case TopRows():
                return self._top(node, created_at_epoch)
            case Window():
                return self._window(node, created_at_epoch)
            case Recursion():
                return recursion(self, node, self.identity(node), created_at_epoch)
            case Generate():
                explode = Explode(node.argument, node.kept, node.position, node.spread, node.outer)
                return Input(self.add(explode, (self.rows(node.child, created_at_epoch),), created_at_epoch))
            case Repeat():
                return Input(
                    self.add(RepeatRows(node.count), (self.rows(node.child, created_at_epoch),), created_at_epoch)
                )

    def place(self, rows: Input) -> Placement:
        """Where the rows of a step are."""
        return self._placed.get(rows, NOWHERE)

    def put(self, rows: Input, placement: Placement) -> None:
        """Note where the rows of a step are."""
        self._placed[rows] = placement

    def _place_of(self, node: Node, created_at_epoch: int, single: bool) -> Placement:
        """Where the rows of a node are."""
        return self.place(self.rows(node, created_at_epoch, single))

    def placed_by(
        self, placement: Placement, operation: Operation, inputs: tuple[Input, ...], created_at_epoch: int
    ) -> Input:
        """A step whose rows are at a place."""
        rows = Input(self.add(operation, inputs, created_at_epoch))
        self._placed[rows] = placement
        return rows

    def _fused(self, base: Node, operation: Calculate, created_at_epoch: int, single: bool) -> tuple[Input, Calculate]:
        """A calculation directly over a shared scan reads the scan's columns, without a step in between."""
        if not (isinstance(base, Scan) and base.relation in self.tables) or self._comes_later(
            base.relation, created_at_epoch
        ):
            return self.rows(base, created_at_epoch, single), operation
        positions = self._scan_positions(base)
        expressions = operation.expressions
        if expressions is None:
            fields = base.columns
            expressions = tuple(Ref(i, f.type, f.nullable) for i, f in enumerate(fields))
        condition = None if operation.condition is None else remap(operation.condition, positions)
        moved = Calculate(condition, tuple(remap(e, positions) for e in expressions))
        return Input(self._table_scan(base.relation)), moved

    def _scan_positions(self, node: Scan) -> dict[int, int]:
        columns = self._demand.columns[node.relation]
        return {i: columns.index(f.name) for i, f in enumerate(node.columns)}

    def _table_scan(self, table: str) -> int:
        """The step that gives a table's rows; where they are kept, they are kept once for all views."""
        source = self.tables[table]
        if source.versions is not None:
            scan_files, apply_versions = version_steps(source)
            scan_rows = self.add(scan_files, (), 0)
            rows = Input(self.add(apply_versions.rows, (Input(scan_rows),), 0))
            withdrawn = self.add(apply_versions.withdrawn, (Input(scan_rows, 1),), 0)
            return self.add(apply_versions, (rows, Input(withdrawn, broadcast=True)), 0, True)
        if source.changelog is None:
            return self.add(ScanStep(source, self._demand.columns[table]), (), 0)
        scan, arrange, apply = message_steps(source)
        arranged = self.add(arrange, (Input(self.add(scan, (), 0)),), 0)
        step = self.add(apply, (Input(arranged),), 0, True)
        self._placed[Input(step)] = frozenset({message_key(source)})
        return step

    def _comes_later(self, table: str, created_at_epoch: int) -> bool:
        """Whether a reader created at an epoch must begin with the rows that a table had kept by then."""
        kept = self.tables[table].kept
        return kept is not None and created_at_epoch > kept.created_at_epoch

    def _scan(self, node: Scan, created_at_epoch: int) -> int:
        if node.relation in self.tables:
            positions = self._scan_positions(node)
            expressions = tuple(Ref(positions[i], f.type, f.nullable) for i, f in enumerate(node.columns))
            operation = Calculate(None, expressions)
            scan = Input(self._table_scan(node.relation))
            placement = after_calculation(self.place(scan), operation)
            rows = self.placed_by(placement, operation, (scan,), created_at_epoch).step
            if not self._comes_later(node.relation, created_at_epoch):
                return rows
            snapshot = self.add(
                ViewSnapshot(node.relation, kept_rows_plan(self.tables[node.relation])), (), created_at_epoch
            )
            first = self.add(Calculate(None, expressions), (Input(snapshot),), created_at_epoch)
            return self.add(Concatenate(), (Input(rows), Input(first)), created_at_epoch)
        upstream = self.views[node.relation]
        changes = self.rows(upstream.root, upstream.created_at_epoch)
        names = upstream.root.schema.names
        expressions = tuple(Ref(names.index(f.name), f.type, f.nullable) for f in node.columns)
        operation = Calculate(None, expressions)
        inputs = [
            self.placed_by(after_calculation(self.place(changes), operation), operation, (changes,), created_at_epoch)
        ]
        if created_at_epoch == upstream.created_at_epoch:
            return inputs[0].step
        snapshot = self.add(ViewSnapshot(upstream.name, self.read_plan(upstream.name)), (), created_at_epoch)
        inputs.append(Input(self.add(Calculate(None, expressions), (Input(snapshot),), created_at_epoch)))
        return self.add(Concatenate(), tuple(inputs), created_at_epoch)

    def _partial(self, node: Aggregate, created_at_epoch: int, single: bool = False) -> GroupPartial:
        """The partial groups of an aggregate: folded where their rows are if that can be, else spread by all keys."""
        distribution = self._groups_at.distribution(node, created_at_epoch, single)
        return self._groups(node, created_at_epoch, len(node.keys) if distribution is None else distribution)

    def _groups(
        self, node: Aggregate, created_at_epoch: int, distribution: int, kind: str = "group", retracted: bool = False
    ) -> GroupPartial:
        """Partial groups; ``retracted`` tells that what is made of them may be taken back, though no row is."""
        types = node.child.schema.types
        factorised = node.pairs is not None or bool(node.parts)
        append_only = not factorised and self.append_only(node.child)
        chosen = layout(node, append_only and not retracted)
        spread = "" if distribution == len(node.keys) else f":{distribution}"
        name = f"{self.identity(node)}:{created_at_epoch}{spread}"
        if append_only and retracted:
            name += ":retracted"
        group_types = tuple(types[k] for k in node.keys)
        groups = StateTable(
            f"{kind}:{name}",
            tuple(KeyColumn(t) for t in group_types),
            distribution,
            chosen.value_types(types),
            chosen.merge_ops(),
        )
        multisets = tuple(
            multiset_table(_values_table(m, name), (*group_types, *(types[c] for c in m.columns)), distribution)
            for m in chosen.multisets
        )
        for table in multisets:
            self.look_up(table, node.child, node.keys)
        return GroupPartial(node.keys, chosen, types, groups, multisets)

    def _sums(self, node: Aggregate, partial: GroupPartial, created_at_epoch: int, single: bool = False) -> Input:
        """The step that gives the partial groups of an aggregate."""
        if node.parts:
            sums = tuple(self._sums(part, partial, created_at_epoch, single) for part in node.parts)
            return Input(self.add(Concatenate(), sums, created_at_epoch))
        if node.pairs is None:
            return Input(self.add(partial, (self.rows(node.child, created_at_epoch, single),), created_at_epoch))
        pairs = node.pairs
        complete = self._static.complete_side(pairs, created_at_epoch)
        if complete is not None:
            return self._lookup_pairs(pairs, partial, created_at_epoch, complete)
        width = self._groups_at.pair_distribution(pairs, created_at_epoch)
        sides = []
        inputs = []
        moves = []
        retracted = not self._append_only_pairs(pairs)
        for side in (pairs.left, pairs.right):
            groups = self._groups(side, created_at_epoch, width, "side", retracted)
            stream = self._sums(side, groups, created_at_epoch, single=width == 0)
            self.keep(self.add(StoreKeyed(groups.groups), (stream,), created_at_epoch))
            sides.append(groups)
            inputs.append(stream)
            moves.append(not self._groups_at.side_in_place(side, width, created_at_epoch))
        self.look_up(sides[0].groups, pairs.right.child, pairs.right.keys[: pairs.key_width])
        self.look_up(sides[1].groups, pairs.left.child, pairs.left.keys[: pairs.key_width])
        terms = pair_accumulators(pairs, partial.layout, sides[0].layout, sides[1].layout)
        operation = PairSums(
            sides[0], sides[1], pairs.key_width, pairs.comparisons, pairs.any_of, pairs.keys, terms, partial
        )
        small = self.small.side(pairs, created_at_epoch)
        if small is not None and self.small.unchanged((pairs.left, pairs.right)[small], created_at_epoch):
            self.small.looked_up.add(sides[small].groups.id)
            return Input(self.add(replace(operation, complete=small), (inputs[1 - small],), created_at_epoch))
        return Input(self.add(operation, tuple(inputs), created_at_epoch, *moves))

    def _append_only_pairs(self, pairs: Pairs) -> bool:
        """Whether no pair ever goes. Else an infinity on one side must stay apart from what is finite beside it: all
        its pairs may go with a row of the other side."""
        return self.append_only(pairs.left.child) and self.append_only(pairs.right.child)

    def _lookup_pairs(self, pairs: Pairs, partial: GroupPartial, created_at_epoch: int, complete: int) -> Input:
        """Sums over pairs of one side's partial groups, where they are, with the other side, which is complete."""
        sides = (pairs.left, pairs.right)
        retracted = not self._append_only_pairs(pairs)
        groups = tuple(self._groups(side, created_at_epoch, pairs.key_width, "side", retracted) for side in sides)
        sums = tuple(self._sums(side, own, created_at_epoch) for side, own in zip(sides, groups, strict=True))
        self.keep(self.add(StoreKeyed(groups[complete].groups), (sums[complete],), created_at_epoch))
        waiting = sides[1 - complete]
        self.look_up(groups[complete].groups, waiting.child, waiting.keys[: pairs.key_width])
        terms = pair_accumulators(pairs, partial.layout, groups[0].layout, groups[1].layout)
        shape = (pairs.key_width, pairs.comparisons, pairs.any_of, pairs.keys, terms)
        operation = PairSums(groups[0], groups[1], *shape, partial, complete)
        return Input(self.add(operation, (sums[1 - complete],), created_at_epoch))

    def _top(self, node: TopRows, created_at_epoch: int) -> Input:
        order = tuple(k.column for k in node.keys)
        columns = order + tuple(i for i in range(len(node.schema)) if i not in order)
        key = tuple(
            KeyColumn(node.schema.fields[k.column].type, k.descending, k.nulls_first) for k in node.keys
        ) + tuple(KeyColumn(node.schema.fields[i].type) for i in columns[len(order) :])
        source = self.rows(node.child, created_at_epoch)
        name = f"top:{self.identity(node)}:{created_at_epoch}"
        arrange = Arrange(columns, (), StateTable(name, key, 0, (pa.int64(),), (MergeOp.SUM,)))
        arranged = Input(self.add(arrange, (source,), created_at_epoch))
        self.keep(self.add(StoreKeyed(arrange.table), (arranged,), created_at_epoch))
        moves = () not in self.place(source)
        found = Input(self.add(TopChanges(arrange, node.limit, node.offset), (arranged,), created_at_epoch, moves))
        self._placed[found] = ONE_PLACE
        return found

    def _window(self, node: Window, created_at_epoch: int) -> Input:
        source = self.rows(node.child, created_at_epoch)
        operation = window_changes(node, self._identities.of_window(node, self._uid), created_at_epoch)
        arranged = Input(self.add(operation.rows, (source,), created_at_epoch))
        self.keep(self.add(StoreKeyed(operation.rows.table), (arranged,), created_at_epoch))
        partition = operation.rows.columns[: operation.rows.table.distribution]
        moves = partition not in self.place(source)
        found = Input(self.add(operation, (arranged,), created_at_epoch, moves))
        self._placed[found] = frozenset({partition})
        return found

    def arranged(
        self,
        node: Node,
        created_at_epoch: int,
        keys: tuple[int, ...],
        required: tuple[int, ...],
        keys_only: bool = False,
    ) -> tuple[Arrange, Input, bool]:
        """A node's rows by key, the step that arranges them, and whether they must move to where they belong.

        They are stored by a step of their own, which is the same for all that want them alike.
        """
        source = self.rows(node, created_at_epoch)
        others = () if keys_only else tuple(i for i in range(len(node.schema)) if i not in keys)
        order = keys + others
        identity = arrangement(self.identity(node), order, required, len(keys))
        types = tuple(node.schema.types[i] for i in order)
        table = multiset_table(f"rows:{identity}:{created_at_epoch}", types, len(keys))
        arrange = Arrange(order, required, table)
        arranged = Input(self.add(arrange, (source,), created_at_epoch))
        self.keep(self.add(StoreKeyed(table), (arranged,), created_at_epoch))
        return arrange, arranged, keys not in self.place(source)

    def look_up(self, table: StateTable, by: Node | None, keys: tuple[int, ...]) -> None:
        """Note that a table is looked up by the keys of the changes of a node; without one, that it is read whole."""
        lag = None if by is None else self._times.of_keys(by, keys)
        self._looked_up.setdefault(table.id, set()).add(lag)

    def keep(self, step: int) -> None:
        """The view being lowered depends on this step, which nothing reads."""
        self._sinks.setdefault(self._lowering, []).append(step)

    def identity(self, node: Node) -> str:
        """Names a stateful node: equal for equal work on the same relations, whatever they are called."""
        return self._identities.of(node, self._uid)

    def _uid(self, relation: str) -> str:
        return self.views[relation].uid if relation in self.views else self.tables[relation].uid

    def add(self, operation: Operation, inputs: tuple[Input, ...], created_at_epoch: int, *moves: bool) -> int:
        """The step that does this. ``moves`` tells which inputs need an exchange: of all, when it is one."""
        key = (operation, inputs, created_at_epoch)
        if key not in self._memo:
            moved = moves * len(inputs) if len(moves) == 1 else moves or (False,) * len(inputs)
            depths = (self._steps[i.step].depth + m for i, m in zip(inputs, moved, strict=True))
            depth = max(depths, default=0)
            self._memo[key] = len(self._steps)
            self._steps.append(Step(operation, inputs, depth, created_at_epoch, frozenset()))
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
            Step(s.operation, s.inputs, s.depth, s.created_at_epoch, frozenset(v))
            for s, v in zip(self._steps, views, strict=True)
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
        for table in step.operation.written_tables
    }


def _values_table(multiset: Multiset, name: str) -> str:
    columns = "_".join(map(str, multiset.columns))
    optional = "n" if multiset.required < len(multiset.columns) else ""
    return f"values{columns}{optional}:{name}"


def _view_table(view: ViewDefinition) -> StateTable:
    types = view.root.schema.types
    return multiset_table(f"view:{view.uid}", types, len(types))
