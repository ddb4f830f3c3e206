"""``EXPLAIN INCREMENTAL``: what a change costs, operator by operator."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidemill.plan.algebra import Node
from tidemill.plan.assemble import Assembler, ViewDefinition
from tidemill.task.accumulators import OF_GROUP
from tidemill.task.expressions import Call, Expression, Literal, Ref
from tidemill.task.program import (
    ApplyBook,
    ApplyChangelog,
    Arrange,
    ArrangeMessages,
    Calculate,
    Concatenate,
    Explode,
    GroupChanges,
    GroupPartial,
    JoinChanges,
    Operation,
    PairSums,
    RepeatRows,
    ScanStep,
    SemiChanges,
    StateTable,
    StoreKeyed,
    StoreRows,
    TopChanges,
    ViewSnapshot,
    WindowChanges,
    changes_probe_left,
    read_tables,
    written_tables,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tidemill.task.program import TableSource


def explain(views: list[ViewDefinition], tables: Mapping[str, TableSource], root: Node) -> str:
    """The plan of a query as it would run beside the views it reads.

    Returns
    -------
    str
        One line a step: superstep, operator, cost of a change of size d against state of size n, and the
        state tables with what is done to them.
    """
    assembler = Assembler([*views, ViewDefinition("(query)", "(query)", root, 0)], tables)
    program = assembler.program()
    mine = [(i, s) for i, s in enumerate(program.steps) if "(query)" in s.views]
    retained = assembler.retention()
    depths = {s.depth for _, s in mine}
    lines = [f"supersteps: {1 + max(depths)}   steps: {len(mine)}"]
    for number, step in mine:
        inputs = ", ".join(f"#{i.step}" + (f".{i.port}" if i.port else "") for i in step.inputs)
        arrow = f" <- {inputs}" if inputs else ""
        lines.append(
            f"  #{number} superstep {step.depth}  {_describe(step.operation)}{arrow}   {_cost(step.operation)}"
        )
        for table in written_tables(step.operation):
            read = table in read_tables(step.operation)
            cut = ", let go of behind the watermark" if table.id in retained else ""
            how = "looked up and appended" if read else "appended"
            lines.append(f"       state {table.id}: {how}, {_key(table)}{cut}")
    plan = assembler.read_plan("(query)")
    how = "merge runs, finish groups" if plan.layout else "merge runs"
    extra = f", then {len(plan.steps)} projections and filters" if plan.steps else ""
    lines.append(f"  read: {how}{extra}")
    return "\n".join(lines)


def _describe(operation: Operation) -> str:
    match operation:
        case ScanStep():
            return f"Scan {operation.source.name} [{', '.join(operation.columns)}]"
        case ViewSnapshot():
            return f"ViewSnapshot {operation.view}"
        case Calculate():
            parts = []
            if operation.condition is not None:
                parts.append(f"where {show(operation.condition)}")
            if operation.expressions is not None:
                parts.append("[" + ", ".join(show(e) for e in operation.expressions) + "]")
            return "Calculate " + " ".join(parts)
        case Explode():
            return f"Explode{' outer' if operation.outer else ''} {show(operation.argument)}"
        case Concatenate():
            return "Concatenate"
        case GroupPartial():
            kept = ", ".join(
                f"{a.kind}{'' if a.argument is None else f'(${a.argument})'}" for a in operation.layout.accumulators
            )
            return f"GroupPartial by [{', '.join(f'${k}' for k in operation.keys)}] keep [{kept}]"
        case GroupChanges():
            return "GroupChanges" if operation.emit else "GroupFold"
        case StoreKeyed():
            return "Store"
        case StoreRows():
            return "Store rows"
        case Arrange():
            return f"Arrange by [{', '.join(f'${k}' for k in operation.columns[: operation.table.distribution])}]"
        case PairSums():
            return _describe_pair_sums(operation)
        case SemiChanges():
            return f"{'Anti' if operation.anti else 'Semi'} join on {operation.key_width} keys"
        case RepeatRows():
            return f"Repeat ${operation.column} times"
        case TopChanges():
            return f"Top {'all' if operation.limit is None else operation.limit} after {operation.offset}"
        case WindowChanges():
            keys = [f"${c}" for c in operation.rows.columns]
            partition, order = keys[: operation.partition], keys[operation.partition :][: operation.order]
            calls = ", ".join(c.function for c in operation.calls)
            first = "" if operation.limit is None else f" first {operation.limit}"
            return f"Window [{calls}] by [{', '.join(partition)}] order [{', '.join(order)}]{first}"
        case ArrangeMessages():
            return "Arrange messages by key and place"
        case ApplyChangelog():
            return f"Apply changelog of [{', '.join(f'${k}' for k in operation.changelog.key)}]"
        case ApplyBook():
            return "Apply order book"
        case JoinChanges():
            return f"Join on {operation.key_width} key{'s' if operation.key_width > 1 else ''}"


def _describe_pair_sums(operation: PairSums) -> str:
    keys = f"Pair sums on {operation.key_width} key{'' if operation.key_width == 1 else 's'}"
    if not operation.comparisons:
        return keys
    symbols = {"lt": "<", "le": "<=", "gt": ">", "ge": ">="}
    shown = []
    for c in operation.comparisons:
        bound = f"left.${c.bound}"
        sides = {"value": "y", "value_minus_bound": f"y - {bound}", "bound_minus_value": f"{bound} - y"}
        shown.append(f"{sides[c.form]} {symbols[c.op]} {bound if c.form == 'value' else repr(c.limit)}")
    return (
        f"{keys}, ordered by y = right.${operation.key_width}: {(' or ' if operation.any_of else ' and ').join(shown)}"
    )


def _cost(operation: Operation) -> str:
    match operation:
        case GroupChanges():
            kept = operation.partial.layout.accumulators
            if any(a.kind in OF_GROUP for a in kept):
                return "O(d log n), O(values of affected groups)"
            extremes = any(a.recomputed for a in kept)
            return "O(d log n), O(affected groups)" if extremes else "O(d log n)"
        case JoinChanges() | SemiChanges():
            return "O(d log n + matches)" if operation.key_width else "O(n)"
        case PairSums():
            if not operation.comparisons:
                keys = operation.left.groups.key, operation.right.groups.key
                single = all(len(key) == operation.key_width for key in keys)
                return "O(d log n)" if single else "O(d log n + matching groups)"
            return "O(d log n)" if changes_probe_left(operation) else "O(d log n), right changes O(n of the key)"
        case TopChanges():
            return "O(d log n + limit)" if operation.limit is not None else "O(n)"
        case WindowChanges():
            if operation.limit is not None:
                return "O(d log n + affected partitions * limit)"
            return "O(d log n + affected partitions)" if operation.partition else "O(n)"
        case ViewSnapshot():
            return "O(n) once"
        case ApplyChangelog() | ApplyBook():
            return "O(d log n)"
        case GroupPartial() | Arrange() | ArrangeMessages() | StoreKeyed() | StoreRows():
            return "O(d log d)"
        case Explode():
            return "O(elements of d)"
    return "O(d)"


def _key(table: StateTable) -> str:
    return f"key of {len(table.key)} columns, {len(table.value_types)} values"


def show(expression: Expression) -> str:
    """An expression as text, columns as ``$position``."""
    match expression:
        case Ref():
            return f"${expression.index}"
        case Literal():
            return "NULL" if expression.value is None else repr(expression.value)
        case Call():
            return f"{expression.function}({', '.join(show(a) for a in expression.args)})"
