"""Conditions that scans may test before they parse the other columns.

A condition that every reader of a scan puts to its rows need not wait until a row is complete. Only what cannot fail is
taken: comparisons of columns with constants and with each other, tests for NULL, ``IN``, and what ``AND``, ``OR`` and
``NOT`` make of these. Readers keep their conditions, so a scan that does not heed it changes nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pyarrow as pa

from tidemill.plan.algebra.build import conjunction, conjuncts
from tidemill.task.expressions import Call, Expression, Literal, Ref
from tidemill.task.program import Calculate, ScanStep, Step

_NEVER_FAIL = frozenset(
    {"and", "or", "not", "eq", "lt", "le", "gt", "ge", "eq_null_safe", "in", "is_null", "is_not_null", "is_nan"}
)


def with_raw_filters(steps: Sequence[Step]) -> tuple[Step, ...]:
    """The same steps, whose scans know what all their readers ask of a row.

    Scans of change messages, of tables whose rows are kept and of those with a watermark are left as they are: there,
    each row counts before it is filtered.
    """
    return tuple(
        replace(step, operation=replace(step.operation, condition=_asked_by_all(steps, number)))
        if isinstance(step.operation, ScanStep) and _rows_are_free(step.operation)
        else step
        for number, step in enumerate(steps)
    )


def _rows_are_free(scan: ScanStep) -> bool:
    return not scan.sequenced and not scan.by_file and scan.source.op_column is None and scan.source.watermark is None


def _asked_by_all(steps: Sequence[Step], number: int) -> Expression | None:
    """What a row must pass to be kept by any reader of the scan; None when one reader keeps all."""
    asked: list[Expression] = []
    for step in steps:
        if all(source.step != number for source in step.inputs):
            continue
        operation = step.operation
        if not isinstance(operation, Calculate) or operation.condition is None:
            return None
        simple = conjunction([part for part in conjuncts(operation.condition) if _is_simple(part)])
        if simple is None:
            return None
        if simple not in asked:
            asked.append(simple)
    if not asked:
        return None
    condition = asked[0]
    for other in asked[1:]:
        condition = Call("or", (condition, other), pa.bool_(), True)
    return condition


def _is_simple(expression: Expression) -> bool:
    if isinstance(expression, Call):
        return expression.function in _NEVER_FAIL and all(_is_simple(arg) for arg in expression.args)
    return isinstance(expression, Ref | Literal) and not pa.types.is_nested(expression.type)
