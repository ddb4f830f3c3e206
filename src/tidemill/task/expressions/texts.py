"""Expressions and columns as text, for EXPLAIN."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

from tidemill.task.expressions.nodes import Call, Expression, Literal, Ref, Variable

Names: TypeAlias = tuple[str, ...]
"""Names of columns, by position."""

_LONGEST = 40
_COMPARISONS = {"eq": "=", "eq_null_safe": "<=>", "ne": "<>", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}
_INFIX = {**_COMPARISONS, "and": "and", "or": "or", "add": "+", "subtract": "-", "multiply": "*", "divide": "/"}


def name_of(columns: Names, position: int) -> str:
    """The name of a column, ``$position`` where it is not known."""
    return columns[position] if position < len(columns) else f"${position}"


def names_of(columns: Names, positions: Iterable[int]) -> Names:
    """The names of some columns, in the order of their positions."""
    return tuple(name_of(columns, p) for p in positions)


def listed(columns: Names, positions: Iterable[int]) -> str:
    """The names of some columns in brackets."""
    return f"[{', '.join(names_of(columns, positions))}]"


def show(expression: Expression, columns: Names) -> str:
    """An expression as text."""
    match expression:
        case Ref():
            return name_of(columns, expression.index)
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


def show_short(expression: Expression, columns: Names) -> str:
    """An expression as the name of a column: shortened to 40 characters."""
    text = show(expression, columns)
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"


def _flat(function: str, inside: Call) -> bool:
    """Whether an operand needs no parentheses."""
    return function == inside.function == "and" or (function in ("and", "or") and inside.function in _COMPARISONS)
