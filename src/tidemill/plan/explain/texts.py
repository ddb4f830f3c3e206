"""``EXPLAIN INCREMENTAL``: what a change costs, operator by operator."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidemill.plan.explain.column_names import exchange_columns, input_columns, step_columns
from tidemill.plan.lowering.analysis.definition import ViewDefinition
from tidemill.plan.lowering.analysis.small_sides import base_tables
from tidemill.plan.lowering.assemble import Assembler
from tidemill.task.program import (
    Input,
    LookupJoin,
    Operation,
    PairSums,
    Program,
    ScanStep,
    StateTable,
    ViewSnapshot,
)
from tidemill.task.program.costs import Cost, CostClass

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from tidemill.task.expressions.texts import Names
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
        epochs in which they do not change; one line describes the other epochs.
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
        self._exchanged_by = exchange_columns(program, self._columns)
        self._loading = self._fed_by({n for n, t in assembler.tables.items() if t.static})
        self._rare = self._fed_by(self.small) if self.looks_up else set()
        self._costs = {i: self._steps[i].operation.cost for i in self._mine}

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
        return sent(self._program, self._exchanged_by, number, source)

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
        return in_small(self._steps[number].operation, self._assembler.small.looked_up)

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
        text = of_small(step.operation.text(names, self._columns[number]), self._in_small(number))
        lines = [f"  #{number} superstep {step.depth}  {text}{arrow}   {spent}"]
        written, read = self._written(number), self._read(number)
        for table in dict.fromkeys((*written, *read)):
            done = [w for w, tables in (("looked up", read), ("appended", written)) if table in tables]
            cut = ", dropped behind the watermark" if table.id in self._retained else ""
            lines.append(f"       state {table.id}: {' and '.join(done)}, {_key(table)}{cut}")
        return lines


def sent(program: Program, exchanged_by: Sequence[Names | None], number: int, source: Input) -> str | None:
    """How the rows of an input of a step are spread over partitions; None where they stay in theirs.

    Parameters
    ----------
    exchanged_by : sequence
        As :func:`~tidemill.plan.explain.column_names.exchange_columns` gives it.
    """
    if program.steps[source.step].depth == program.steps[number].depth:
        return None
    if source.broadcast:
        return "to all partitions"
    columns = exchanged_by[source.step]
    if columns is None:
        return None
    return f"by [{', '.join(columns)}]" if columns else "to one partition"


def in_small(operation: Operation, small: Collection[str]) -> bool:
    """Whether an operation looks rows up in a small side: in one of the state tables ``small``."""
    lookup = isinstance(operation, LookupJoin) or (isinstance(operation, PairSums) and operation.complete is not None)
    return lookup and any(t.id in small for t in operation.read_tables)


def of_small(text: str, small: bool) -> str:
    """The text of an operation, which takes a side that does not change in the epoch to be complete."""
    if not small:
        return text
    return text.replace("a complete side", "a small side").replace("which is complete", "which is small")


def _key(table: StateTable) -> str:
    return f"key of {len(table.key)} columns, {len(table.value_types)} values"
