"""Assembles the algebra of all views of a mill into one program.

Equal work is done once: one scan a table, and equal operations over equal inputs are one step. An
aggregate at the top of a view is *stored*: its changes are appended to state without looking anything
up, in the superstep that computed them. Only an aggregate whose rows another step reads gets an exchange
and a lookup.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from tidemill.plan.algebra.identities import Identities, arrangement
from tidemill.plan.algebra.nodes import (
    Aggregate,
    Filter,
    Generate,
    Join,
    Node,
    Project,
    Recursion,
    Repeat,
    Scan,
    SemiJoin,
    TopRows,
    Union,
    Window,
    children,
    relations,
    summed,
)
from tidemill.plan.lowering.analysis.calculations import calculation, finishing, finishing_can_fail
from tidemill.plan.lowering.analysis.definition import ViewDefinition
from tidemill.plan.lowering.analysis.demand import Demand
from tidemill.plan.lowering.analysis.event_time import EventTimes, Lag
from tidemill.plan.lowering.analysis.placement import NOWHERE, Placement, after_calculation
from tidemill.plan.lowering.analysis.small_sides import SmallSides
from tidemill.plan.lowering.analysis.static_sides import StaticSides
from tidemill.plan.lowering.groups import Groups
from tidemill.plan.lowering.joins import Joins
from tidemill.plan.lowering.kept.kept_tables import append_only, kept_rows_plan
from tidemill.plan.lowering.ordered_rows import top_rows, window
from tidemill.plan.lowering.recursions import recursion
from tidemill.plan.lowering.scans import Scans
from tidemill.plan.lowering.step_list import StepList
from tidemill.task.program import (
    Arrange,
    Concatenate,
    Explode,
    Input,
    Operation,
    Program,
    ReadPlan,
    RepeatRows,
    StateTable,
    Step,
    StoreKeyed,
    StoreRows,
    TableSource,
    ViewLimit,
    multiset_table,
)


class Assembler:
    """Builds one program. Views are given in the order they were created.

    With ``moving`` the program is for epochs in which, of the small tables, only these have rows; without it for any
    epoch. State tables and their contents do not depend on it. Assemblers of one mill share
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
        self._state_tables: Mapping[str, StateTable] = {}
        self._steps = StepList()
        self._demand = Demand(self.views, tables)
        self._first: dict[str, bool] = {}
        self._lowering = ""
        self._placed: dict[Input, Placement] = {}
        self._lowered: dict[tuple[int, int, bool], tuple[Node, Input]] = {}
        self._times = EventTimes(tables, lambda name: self.views[name].root)
        self._looked_up: dict[str, set[Lag | None]] = {}
        self._static = StaticSides(self.views, tables)
        self.small = SmallSides(self.views, moving)
        self._begun: Collection[str] = ()
        self._use()

    def _use(self) -> None:
        self._joins = Joins(self, self._static, self.small, self.views, self.tables)
        self._groups = Groups(self, self._static, self.small)
        self._scans = Scans(self, self.views, self.tables, self._demand.columns)

    def extended(self, views: Sequence[ViewDefinition], tables: Mapping[str, TableSource]) -> Assembler | None:
        """An assembler of more views and tables, which begins with the program of this one.

        None where this one has no program yet, some of its views are not among them, or further ones change what is
        done for them: by reading other columns of their tables, or changes of an aggregate that was only stored.
        """
        if self._program is None:
            return None
        made = Assembler(views, tables, None, self._identities)
        if any(made.views.get(n) != v for n, v in self.views.items()):
            return None
        if any(tables.get(n) != t for n, t in self.tables.items()):
            return None
        demand, small = self._demand.extended(made.views, tables), self.small.extended(made.views)
        if demand is None or small is None:
            return None
        made._demand, made.small, made._steps, made._begun = demand, small, self._steps.copy(), self.views
        made._placed, made._first = self._placed.copy(), self._first.copy()
        made._looked_up = {table: lags.copy() for table, lags in self._looked_up.items()}
        made._use()
        return made

    def program(self) -> Program:
        """The program of all views, assembled at the first call."""
        if self._program is None:
            self._program, self._state_tables = self._assembled()
        return self._program

    def state_tables(self) -> Mapping[str, StateTable]:
        """Tables written by the program, by id."""
        self.program()
        return self._state_tables

    def _assembled(self) -> tuple[Program, dict[str, StateTable]]:
        self._demand.note()
        for source in self.tables.values():
            if source.kept is not None:
                self._scans.table_scan(source.name)
        for view in self.views.values():
            if view.name in self._begun:
                continue
            self._lowering = view.name
            self._lowered.clear()  # each view notes for itself what it depends on
            self.keep(self._store(view))
        limited = [v for v in self.views.values() if v.limits != (None, None)]
        return self._steps.program(tuple(ViewLimit(v.name, *v.limits, self._readers(v.name)) for v in limited))

    def changes_of(self, name: str) -> tuple[tuple[Step, ...], Input]:
        """The steps that give the changes of a view's rows without storing them, and the one that does."""
        self._demand.note()
        view = self.views[name]
        self._lowering = name
        top = self.rows(view.root, view.created_at_epoch)
        return self._steps.steps(), top

    def _readers(self, name: str) -> frozenset[str]:
        """The views that read a view, directly or not."""
        found = {name}
        while more := {v.name for v in self.views.values() if found & set(relations(v.root))} - found:
            found |= more
        return frozenset(found - {name})

    def retention(self) -> dict[str, tuple[Lag, ...]]:
        """State tables that compaction may cut: a row goes when it lies below every one of these lags.

        Call :meth:`program` first.
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
            partial = self._groups.partial(top, view.created_at_epoch)
            return ReadPlan(partial.groups, partial.layout, partial.input_types, steps, view.root.schema)
        return ReadPlan(_view_table(view), None, (), (), view.root.schema)

    def begins_with_rows(self, name: str) -> bool:
        """Whether a view has rows over no input that only an epoch can write.

        An aggregate without GROUP BY gives a row over nothing. At the top of a view the reader makes it; below
        the top an epoch must have run.
        """
        if name not in self._first:
            _, top = finishing(self.views[name].root)
            stored = isinstance(top, Aggregate) and not finishing_can_fail(self.views[name].root)
            below = summed(top) if isinstance(top, Aggregate) and stored else (top,)
            self._first[name] = any(self._gives_first_row(node) for node in below)
        return self._first[name]

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
            self.keep(self.rows(view.root, view.created_at_epoch).step)  # without a reader: it counts failing groups
        if (top, view.created_at_epoch) in self._demand.changing:
            return self.rows(top, view.created_at_epoch).step
        partial = self._groups.partial(top, view.created_at_epoch)
        groups = self._groups.sums(top, partial, view.created_at_epoch)
        if not partial.multisets:
            return self.add(StoreKeyed(partial.groups), (groups,), view.created_at_epoch)
        return self._groups.changes(top, partial, groups, view.created_at_epoch, emit=False)

    def rows(self, node: Node, created_at_epoch: int, single: bool = False) -> Input:
        """The step that gives the changes of a node's rows.

        With ``single`` an aggregate is folded where the rows of vnode 0 are, because its reader is there. The
        result is kept, because a node is also lowered to find out where its rows are.
        """
        key = (id(node), created_at_epoch, single)  # comparing nodes takes as long as lowering them
        if key not in self._lowered:
            self._lowered[key] = node, self._lower(node, created_at_epoch, single)
        return self._lowered[key][1]

    def _lower(self, node: Node, created_at_epoch: int, single: bool) -> Input:
        """Add the steps of a node."""
        match node:
            case Scan():
                return Input(self._scans.scan(node, created_at_epoch))
            case Project() | Filter():
                operation, base = calculation(node)
                source, operation = self._scans.fused(base, operation, created_at_epoch, single)
                return self.placed_by(
                    after_calculation(self.place(source), operation), operation, (source,), created_at_epoch
                )
            case Union():
                inputs = tuple(self.rows(c, created_at_epoch, single) for c in node.children)
                common = frozenset.intersection(*(self.place(i) for i in inputs))
                return self.placed_by(common, Concatenate(), inputs, created_at_epoch)
            case Aggregate():
                partial = self._groups.partial(node, created_at_epoch, single)
                groups = self._groups.sums(node, partial, created_at_epoch, single)
                return Input(self._groups.changes(node, partial, groups, created_at_epoch, emit=True, single=single))
            case Join():
                return self._joins.join(node, created_at_epoch)
            case SemiJoin():
                return self._joins.semi_join(node, created_at_epoch)
            case TopRows():
                return top_rows(self, node, created_at_epoch)
            case Window():
                return window(self, node, created_at_epoch)
            case Recursion():
                return recursion(self, node, created_at_epoch)
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

    def placed_by(
        self, placement: Placement, operation: Operation, inputs: tuple[Input, ...], created_at_epoch: int
    ) -> Input:
        """A step whose rows are at a place."""
        rows = Input(self.add(operation, inputs, created_at_epoch))
        self._placed[rows] = placement
        return rows

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
        self._steps.keep(self._lowering, step)

    def identity(self, node: Node) -> str:
        """Names a stateful node: equal for equal work on the same relations, whatever they are called."""
        return self._identities.of(node, self._uid)

    def window_names(self, node: Window) -> tuple[str, str]:
        """Names the rows of a window as they are ordered, and the node."""
        return self._identities.of_window(node, self._uid)

    def _uid(self, relation: str) -> str:
        return self.views[relation].uid if relation in self.views else self.tables[relation].uid

    def add(self, operation: Operation, inputs: tuple[Input, ...], created_at_epoch: int, *moves: bool) -> int:
        """The step that does this. ``moves`` tells which inputs need an exchange: of all, when it is one."""
        moved = moves * len(inputs) if len(moves) == 1 else moves or (False,) * len(inputs)
        return self._steps.add(operation, inputs, created_at_epoch, moved)


def state_tables(program: Program, view: str | None = None) -> dict[str, StateTable]:
    """Tables written by a program, or by those of its steps that one view depends on."""
    return {
        table.id: table
        for step in program.steps
        if view is None or view in step.views
        for table in step.operation.written_tables
    }


def _view_table(view: ViewDefinition) -> StateTable:
    types = view.root.schema.types
    return multiset_table(f"view:{view.uid}", types, len(types))
