"""What expressions read, and the same expressions over other columns."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from tidemill.task.expressions.nodes import Call, Expression, Ref, Variable


def walk(expression: Expression) -> Iterator[Expression]:
    """The expression and everything below it, parents first."""
    yield expression
    if isinstance(expression, Call):
        for arg in expression.args:
            yield from walk(arg)


def references(expression: Expression) -> frozenset[int]:
    """Positions of the input columns that the expression reads."""
    return frozenset(e.index for e in walk(expression) if isinstance(e, Ref))


def remap(expression: Expression, positions: dict[int, int]) -> Expression:
    """The same expression over an input whose columns moved from ``i`` to ``positions[i]``."""
    if isinstance(expression, Ref):
        return Ref(positions[expression.index], expression.type, expression.nullable)
    if isinstance(expression, Call):
        args = tuple(remap(arg, positions) for arg in expression.args)
        return Call(expression.function, args, expression.type, expression.nullable, expression.options)
    return expression


def substitute(expression: Expression, inputs: tuple[Expression, ...]) -> Expression:
    """The same expression with ``Ref(i)`` replaced by ``inputs[i]``."""
    if isinstance(expression, Ref):
        return inputs[expression.index]
    if isinstance(expression, Call):
        args = tuple(substitute(arg, inputs) for arg in expression.args)
        return Call(expression.function, args, expression.type, expression.nullable, expression.options)
    return expression


def bind(expression: Expression, values: Mapping[int, Expression]) -> Expression:
    """The same expression with values in place of free variables, by number."""
    if isinstance(expression, Variable):
        return values.get(expression.number, expression)
    if not isinstance(expression, Call):
        return expression
    args = [bind(arg, values) for arg in expression.args[: expression.plain]]
    for numbers, body in zip(expression.option("binds", ()), expression.args[expression.plain :], strict=True):
        args.append(bind(body, {n: v for n, v in values.items() if n not in numbers}))
    return Call(expression.function, tuple(args), expression.type, expression.nullable, expression.options)
