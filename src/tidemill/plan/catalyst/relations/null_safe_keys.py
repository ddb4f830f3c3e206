"""Reads back what Catalyst makes of ``a <=> b`` between join inputs.

    coalesce(a, zero) = coalesce(b, zero) AND isnull(a) = isnull(b)    ->    a <=> b

Floats come with a normalisation of NaN and -0.0 around the ``coalesce``; keys are encoded normalised anyway.
"""

from __future__ import annotations

from tidemill.task.expressions import Call, Expression, Literal


def merge_null_tests(conjuncts: list[Expression]) -> list[Expression]:
    """The same condition with such pairs of conjuncts as one null-safe equality each."""
    pairs = {}
    for conjunct in conjuncts:
        sides = _null_tests(conjunct)
        if sides is not None:
            pairs[sides] = conjunct
    if not pairs:
        return conjuncts
    found: list[Expression] = []
    used = []
    for conjunct in conjuncts:
        sides = _filled(conjunct)
        if sides in pairs and isinstance(conjunct, Call):
            used.append(pairs[sides])
            found.append(Call("eq_null_safe", sides, conjunct.type, False))
        else:
            found.append(conjunct)
    return [c for c in found if c not in used]


def _null_tests(conjunct: Expression) -> tuple[Expression, Expression] | None:
    """a, b of ``isnull(a) = isnull(b)``."""
    if not (isinstance(conjunct, Call) and conjunct.function == "eq"):
        return None
    left, right = conjunct.args
    if all(isinstance(side, Call) and side.function == "is_null" for side in (left, right)):
        assert isinstance(left, Call) and isinstance(right, Call)
        return left.args[0], right.args[0]
    return None


def _filled(conjunct: Expression) -> tuple[Expression, Expression] | None:
    """a, b of ``coalesce(a, zero) = coalesce(b, zero)``."""
    if not (isinstance(conjunct, Call) and conjunct.function == "eq"):
        return None
    left, right = (_without_normalisation(side) for side in conjunct.args)
    if not (isinstance(left, Call) and isinstance(right, Call)):
        return None
    if left.function != "coalesce" or right.function != "coalesce" or len(left.args) != 2 or len(right.args) != 2:
        return None
    zeros = (left.args[1], right.args[1])
    if zeros[0] == zeros[1] and isinstance(zeros[0], Literal) and zeros[0].value is not None:
        return left.args[0], right.args[0]
    return None


def _without_normalisation(expression: Expression) -> Expression:
    if isinstance(expression, Call) and expression.function == "normalize_float":
        return expression.args[0]
    return expression
