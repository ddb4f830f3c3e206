"""Names for the columns of the steps of a program, for people; and by which columns rows are exchanged."""

from __future__ import annotations

from collections.abc import Sequence

from tidemill.task.aggregates.accumulators import AggregateLayout
from tidemill.task.expressions import Call, Expression, Literal, Ref, Variable
from tidemill.task.program import (
    ApplyBook,
    ApplyChangelog,
    ApplyFileVersions,
    Arrange,
    ArrangeMessages,
    Calculate,
    Concatenate,
    Explode,
    GroupPartial,
    Input,
    JoinChanges,
    LookupJoin,
    PairSums,
    Program,
    RepeatRows,
    ScanStep,
    StateTable,
    StoreKeyed,
    ViewSnapshot,
    WindowChanges,
)

Names = tuple[str, ...]
FILE = "file"
"""What rows that are kept by file have besides their columns."""

_LONGEST = 40
_COMPARISONS = {"eq": "=", "eq_null_safe": "<=>", "ne": "<>", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}
_INFIX = {**_COMPARISONS, "and": "and", "or": "or", "add": "+", "subtract": "-", "multiply": "*", "divide": "/"}


def step_columns(program: Program) -> list[Names]:
    """For each step the names of what comes out; of arranged rows in the order of the rows arranged.

    A computed column is named by its expression, shortened.
    """
    found: list[Names] = []
    stored = {s.operation.table.id: s.inputs[0].step for s in program.steps if isinstance(s.operation, StoreKeyed)}

    def of_table(table: StateTable) -> Names:
        return found[stored[table.id]] if stored.get(table.id, len(found)) < len(found) else ()

    for step in program.steps:
        inputs = [input_columns(program, found, i) for i in step.inputs]
        first: Names = inputs[0] if inputs else ()
        match step.operation:
            case ScanStep(by_file=True):
                names = (*step.operation.columns, FILE)
            case ScanStep():
                names = step.operation.columns + (("operation", "place") if step.operation.sequenced else ())
            case ViewSnapshot():
                names = step.operation.plan.schema.names
            case Calculate(expressions=(_, *_) as expressions):
                names = tuple(_short(show(e, first)) for e in expressions)
            case Calculate(expressions=()):
                names = ()
            case Explode():
                kept = tuple(_name(first, k) for k in step.operation.kept)
                names = (*kept, *(("pos",) if step.operation.position else ()), "col")
            case RepeatRows():
                names = tuple(n for i, n in enumerate(first) if i != step.operation.column)
            case GroupPartial():
                keys = tuple(_name(first, k) for k in step.operation.keys)
                names = (*keys, *results(step.operation.layout, first))
            case PairSums():
                names = _pair_names(step.operation, *pair_sides(step.operation, inputs, of_table))
            case JoinChanges():
                names = _both(first, inputs[1])
            case LookupJoin(kind="inner"):
                other = of_table(step.operation.other.table)
                names = _both(other, first) if step.operation.other_first else _both(first, other)
            case WindowChanges():
                names = (*first, *(c.function for c in step.operation.calls))
            case ApplyChangelog() | ApplyBook():
                names = step.operation.changelog.rows.names
            case ApplyFileVersions():
                names = step.operation.versions.rows.names
            case _:
                names = first
        found.append(names)
    return found


def input_columns(program: Program, columns: Sequence[Names], source: Input) -> Names:
    """The names of what a step reads from another: of a scan by file, port 1 gives files."""
    scanned = isinstance(program.steps[source.step].operation, ScanStep)
    return (FILE,) if scanned and source.port else columns[source.step]


def pair_sides(operation: PairSums, inputs: list[Names], of_table: object) -> tuple[Names, Names]:
    """The names of both sides, of which a complete one is no input."""
    assert callable(of_table)
    if operation.complete is None:
        return inputs[0], inputs[1]
    sides = [inputs[0], inputs[0]]
    sides[operation.complete] = of_table((operation.left, operation.right)[operation.complete].groups)
    return sides[0], sides[1]


def _pair_names(operation: PairSums, left: Names, right: Names) -> Names:
    width = len(operation.left.groups.key)
    keys = tuple(_name(left, k) if k < width else _name(right, k - width) for k in operation.keys)
    return (*keys, *(r.function for r in operation.output.layout.results))


def results(layout: AggregateLayout, columns: Names) -> Names:
    """The results of an aggregate as text."""
    found = []
    for result in layout.results:
        kept = layout.accumulators[result.value]
        argument = "*" if kept.argument is None else _name(columns, kept.argument)
        found.append(f"{result.function}({'DISTINCT ' if kept.distinct else ''}{argument})")
    return tuple(found)


def exchanged_by(program: Program, step: int, columns: list[Names]) -> list[str] | None:
    """By which columns the rows that a step gives are sent to other partitions; None when they stay in theirs."""
    operation, inputs = program.steps[step].operation, program.steps[step].inputs
    match operation:
        case Arrange():
            return [_name(columns[step], c) for c in operation.columns[: operation.table.distribution]]
        case GroupPartial():
            return list(columns[step][: operation.groups.distribution])
        case PairSums():
            return list(columns[step][: operation.output.groups.distribution])
        case ArrangeMessages():
            return [_name(columns[step], c) for c in operation.key]
        case Concatenate() if inputs:
            return exchanged_by(program, inputs[0].step, columns)
    return None


def show(expression: Expression, columns: Names) -> str:
    """An expression as text."""
    match expression:
        case Ref():
            return _name(columns, expression.index)
        case Literal():
            return "NULL" if expression.value is None else repr(expression.value)
        case Variable():
            return f"x{expression.number}"
        case Call(function=function, args=args):
            shown = [show(a, columns) for a in args]
            for i, numbers in enumerate(expression.option("binds", ()), expression.plain):
                shown[i] = f"({', '.join(f'x{n}' for n in numbers)}) -> {shown[i]}"
            if function not in _INFIX or len(args) != 2:
                return f"{function}({', '.join(shown)})"
            inner = [
                f"({text})" if isinstance(a, Call) and a.function in _INFIX and not _flat(function, a) else text
                for a, text in zip(args, shown, strict=True)
            ]
            return f" {_INFIX[function]} ".join(inner)


def _flat(function: str, inside: Call) -> bool:
    """Whether an operand needs no parentheses."""
    return function == inside.function == "and" or (function in ("and", "or") and inside.function in _COMPARISONS)


def _both(left: Names, right: Names) -> Names:
    """The columns of two sides, told apart where they have the same name."""
    return left + tuple(f"right.{n}" if n in left else n for n in right)


def _name(columns: Names, position: int) -> str:
    return columns[position] if position < len(columns) else f"${position}"


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"
