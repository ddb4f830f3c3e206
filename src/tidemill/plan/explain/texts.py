"""``EXPLAIN INCREMENTAL``: what a change costs, operator by operator."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidemill.plan.explain.costs import Cost, CostClass, cost
from tidemill.plan.explain.step_columns import Names, exchanged_by, input_columns, results, show, step_columns
from tidemill.plan.lowering.assemble import Assembler
from tidemill.plan.lowering.definition import ViewDefinition
from tidemill.plan.lowering.small_sides import base_tables
from tidemill.task.program import (
    ApplyBook,
    ApplyChangelog,
    ApplyFileVersions,
    Arrange,
    ArrangeMessages,
    Calculate,
    Concatenate,
    Explode,
    GroupChanges,
    GroupPartial,
    Input,
    JoinChanges,
    LookupJoin,
    Operation,
    PairSums,
    Program,
    RecursiveChanges,
    RepeatRows,
    ScanStep,
    SemiChanges,
    StateTable,
    StoreKeyed,
    StoreRows,
    TopChanges,
    ViewSnapshot,
    WindowChanges,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from tidemill.task.program import TableSource

QUERY = "(query)"
"""The name of a query that is no view yet."""


def explain(
    views: Sequence[ViewDefinition],
    tables: Mapping[str, TableSource],
    query: ViewDefinition,
) -> str:
    """The plan of a query as it would run, or of a view as it runs, beside other views.

    Parameters
    ----------
    views : sequence of ViewDefinition
        All views of the mill; when none of them has the name of ``query``, that one is added.

    Returns
    -------
    str
        A head of a few lines: supersteps, exchanges and by which columns, state tables, the worst class of cost, and
        which views have some of the steps too. Then one line a step: its number in the mill's program, superstep,
        operator with columns by name, where its rows come from, and its cost. Under a step the state tables that it
        appends to or looks up. Δ are the changed rows of an epoch, n all rows. A plan with small sides is that of
        epochs in which they are still; a line says what the others take.
    """
    every = list(views) if any(v.name == query.name for v in views) else [*views, query]
    assembler = Assembler(every, tables)
    usual = _Explanation(assembler, assembler.program(), query)
    if not usual.small:
        return usual.text()
    assembler = Assembler(every, tables, frozenset())
    unchanged = _Explanation(assembler, assembler.program(), query)
    return unchanged.text(usual) if unchanged.looks_up else usual.text()


class _Explanation:
    """The steps of one view in a program."""

    def __init__(self, assembler: Assembler, program: Program, query: ViewDefinition) -> None:
        self._assembler, self._program, self._name = assembler, program, query.name
        self._steps = program.steps
        self.small = assembler.small.tables & base_tables(query.root, assembler.views)
        self._retained = assembler.retention()
        self._mine = [i for i, s in enumerate(self._steps) if query.name in s.views]
        self._columns = step_columns(program)
        self._loading = self._fed_by({n for n, t in assembler.tables.items() if t.static})
        self._rare = self._fed_by(self.small) if self.looks_up else set()
        self._costs = {i: cost(self._steps[i].operation) for i in self._mine}

    @property
    def looks_up(self) -> bool:
        """Whether small sides are looked up."""
        return any(self._in_small(i) for i in self._mine)

    def text(self, usual: _Explanation | None = None) -> str:
        """All lines; ``usual`` is the same for epochs in which small tables change."""
        lines = [self._head()]
        if usual is not None:
            lines.append(f"small: {', '.join(sorted(self.small))}; when changed {usual._head()}")
        lines += [*self._exchanges(), *self._shared()]
        for number in self._mine:
            lines += self._step(number)
        plan = self._assembler.read_plan(self._name)
        how = "merge runs, finish groups" if plan.layout else "merge runs"
        extra = f", then {len(plan.steps)} projections and filters" if plan.steps else ""
        return "\n".join([*lines, f"  read: {how}{extra}"])

    def _head(self) -> str:
        depths = {self._steps[i].depth for i in self._mine}
        stored = {t.id for i in self._mine for t in self._written(i)}
        seldom = self._loading | self._rare
        worst = max((c.kind for i, c in self._costs.items() if i not in seldom), default=CostClass.CHANGES)
        counts = (
            f"supersteps: {1 + max(depths)}",
            f"exchanges: {len(self._edges())}",
            f"state tables: {len(stored)}",
            f"steps: {len(self._mine)}",
            f"worst: {worst}",
        )
        return "   ".join(counts)

    def _edges(self) -> dict[tuple[int, int], str]:
        """Exchanges: (from, to) and how rows are spread. Rows that only go on to a later superstep are none."""
        found: dict[tuple[int, int], str] = {}
        for number in self._mine:
            for source in self._steps[number].inputs:
                how = self._sent(number, source)
                if how is not None:
                    found.setdefault((source.step, number), how)
        return found

    def _sent(self, number: int, source: Input) -> str | None:
        if self._steps[source.step].depth == self._steps[number].depth:
            return None
        if source.broadcast:
            return "to all partitions"
        columns = exchanged_by(self._program, source.step, self._columns)
        if columns is None:
            return None
        return f"by [{', '.join(columns)}]" if columns else "to one partition"

    def _exchanges(self) -> list[str]:
        return [f"exchange: #{a} to #{b} {how}" for (a, b), how in self._edges().items()]

    def _shared(self) -> list[str]:
        """Which other views have steps of this one."""
        with_views: dict[str, list[int]] = {}
        for number in self._mine:
            for view in self._steps[number].views - {self._name}:
                with_views.setdefault(view, []).append(number)
        return [
            f"shared with {view}: {', '.join(f'#{n}' for n in numbers)}" for view, numbers in sorted(with_views.items())
        ]

    def _in_small(self, number: int) -> bool:
        """Whether a step looks rows up in a small side."""
        operation = self._steps[number].operation
        lookup = isinstance(operation, LookupJoin) or (
            isinstance(operation, PairSums) and operation.complete is not None
        )
        return lookup and any(t.id in self._assembler.small.looked_up for t in operation.read_tables)

    def _fed_by(self, tables: Collection[str]) -> set[int]:
        """Steps that only some tables give rows to."""
        found: set[int] = set()
        for number, step in enumerate(self._steps):
            if isinstance(step.operation, ScanStep):
                if step.operation.source.name in tables:
                    found.add(number)
            elif step.inputs and not isinstance(step.operation, ViewSnapshot):
                inputs = {i.step for i in step.inputs}
                if inputs <= found:
                    found.add(number)
        return found

    def _written(self, number: int) -> tuple[StateTable, ...]:
        """State tables, without the errors of input tables."""
        operation = self._steps[number].operation
        return () if isinstance(operation, ScanStep) else operation.written_tables

    def _read(self, number: int) -> tuple[StateTable, ...]:
        """State tables that are looked up, without the errors of input tables."""
        operation = self._steps[number].operation
        return () if isinstance(operation, ScanStep) else operation.read_tables

    def _step(self, number: int) -> list[str]:
        step = self._steps[number]
        names = [input_columns(self._program, self._columns, i) for i in step.inputs]
        sources = ", ".join(f"#{i.step}" + (f".{i.port}" if i.port else "") for i in step.inputs)
        arrow = f" <- {sources}" if sources else ""
        spent = self._costs[number]
        if number in self._loading:
            spent = Cost(spent.kind, "only while static tables load")
        elif number in self._rare:
            spent = Cost(spent.kind, "only when small tables change")
        text = describe(step.operation, names, self._columns[number])
        if self._in_small(number):
            text = text.replace("a complete side", "a small side").replace("which is complete", "which is small")
        lines = [f"  #{number} superstep {step.depth}  {text}{arrow}   {spent}"]
        written, read = self._written(number), self._read(number)
        for table in dict.fromkeys((*written, *read)):
            done = [w for w, tables in (("looked up", read), ("appended", written)) if table in tables]
            cut = ", let go of behind the watermark" if table.id in self._retained else ""
            lines.append(f"       state {table.id}: {' and '.join(done)}, {_key(table)}{cut}")
        return lines


def _key(table: StateTable) -> str:
    return f"key of {len(table.key)} columns, {len(table.value_types)} values"


def describe(operation: Operation, inputs: Sequence[Names], own: Names) -> str:
    """An operator in one line; ``inputs`` and ``own`` are names of columns that come in and go out."""
    first: Names = inputs[0] if inputs else ()

    def listed(columns: Sequence[int], names: Names = first) -> str:
        return f"[{', '.join(names[c] if c < len(names) else f'${c}' for c in columns)}]"

    match operation:
        case ScanStep():
            kept = "" if operation.condition is None else f" where {show(operation.condition, own)}"
            return f"Scan {operation.source.name} {listed(range(len(own)), own)}{kept}"
        case ViewSnapshot():
            return f"Snapshot of {operation.view}"
        case Calculate():
            parts = [] if operation.condition is None else [f"where {show(operation.condition, first)}"]
            if operation.expressions is not None:
                parts.append("[" + ", ".join(show(e, first) for e in operation.expressions) + "]")
            return "Calculate " + " ".join(parts)
        case Explode():
            return f"Explode{' outer' if operation.outer else ''} {show(operation.argument, first)}"
        case Concatenate():
            return "Concatenate"
        case GroupPartial():
            return f"Partial groups by {listed(operation.keys)} of [{', '.join(results(operation.layout, first))}]"
        case GroupChanges():
            return "Changes of groups" if operation.emit else "Fold groups"
        case StoreKeyed() | StoreRows():
            return "Store"
        case Arrange():
            return f"Arrange by {listed(operation.columns[: operation.table.distribution])}"
        case PairSums():
            return pair_sums(operation)
        case JoinChanges():
            return _join(operation, inputs)
        case LookupJoin():
            kind = {"inner": "Join", "semi": "Semi join", "anti": "Anti join"}[operation.kind]
            return f"{kind} by lookup of {listed(operation.keys)} in a complete side"
        case SemiChanges():
            kind = "Anti" if operation.anti else "Semi"
            return f"{kind} join on {listed(operation.left.columns[: operation.key_width])}"
        case RepeatRows():
            return f"Repeat {listed((operation.column,))} times"
        case TopChanges():
            order = listed(operation.rows.columns[: len(operation.rows.columns)])
            return f"Top {'all' if operation.limit is None else operation.limit} after {operation.offset} in {order}"
        case WindowChanges():
            columns = operation.rows.columns
            ordered = columns[operation.partition :][: operation.order]
            limit = "" if operation.limit is None else f" {_until(operation)}"
            calls = ", ".join(c.function for c in operation.calls)
            return f"Window [{calls}] by {listed(columns[: operation.partition])} order {listed(ordered)}{limit}"
        case RecursiveChanges():
            return _recursion(operation)
        case ArrangeMessages():
            return f"Arrange messages by {listed(operation.key)} and place"
        case ApplyChangelog():
            return f"Apply changelog of {listed(operation.changelog.key, operation.changelog.rows.names)}"
        case ApplyBook():
            return "Apply order book"
        case ApplyFileVersions():
            return "Apply versions of files"
    return type(operation).__name__


def _until(operation: WindowChanges) -> str:
    if operation.limited == "row_number":
        return f"first {operation.limit}"
    return f"up to {operation.limited} {operation.limit}"


def _recursion(operation: RecursiveChanges) -> str:
    joins = len(operation.joins)
    bound = operation.last or operation.levels
    steps = f"{joins} join{'' if joins == 1 else 's'} a level"
    return f"Recursion, {steps}" + ("" if bound is None else f", at most {bound} levels")


def _join(operation: JoinChanges, inputs: Sequence[Names]) -> str:
    if operation.broadcast:
        return "Join with one row"
    if not operation.key_width:
        return "Join all pairs"
    pairs = zip(operation.left.columns[: operation.key_width], operation.right.columns, strict=False)
    return "Join on " + " and ".join(f"{inputs[0][a]} = {inputs[1][b]}" for a, b in pairs)


def pair_sums(operation: PairSums) -> str:
    """Which pairs are summed up."""
    keys = f"Pair sums on {operation.key_width} key{'' if operation.key_width == 1 else 's'}"
    if operation.complete is not None:
        keys += f" by lookup in the {('left', 'right')[operation.complete]} side, which is complete"
    if not operation.comparisons:
        return keys
    symbols = {"lt": "<", "le": "<=", "gt": ">", "ge": ">="}
    shown = []
    for c in operation.comparisons:
        bound = f"left.${c.bound}"
        sides = {"value": "y", "value_minus_bound": f"y - {bound}", "bound_minus_value": f"{bound} - y"}
        shown.append(f"{sides[c.form]} {symbols[c.op]} {bound if c.form == 'value' else repr(c.limit)}")
    both = (" or " if operation.any_of else " and ").join(shown)
    return f"{keys}, ordered by y = right.${operation.key_width}: {both}"
