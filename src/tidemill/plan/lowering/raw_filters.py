"""Conditions that scans may test before they parse the other columns.

A condition that every reader of a scan puts to its rows need not wait until a row is complete. Only what cannot fail is
taken: comparisons of columns with constants and with each other, tests for NULL, ``IN``, and what ``AND``, ``OR`` and
``NOT`` make of these. Readers keep their conditions, so a scan that does not heed it changes nothing.
"""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa

from tidemill.plan.algebra.build import conjunction, conjuncts
from tidemill.task.expressions import Call, Expression, Literal, Ref
from tidemill.task.program import Calculate, Operation, ScanStep

_NEVER_FAIL = frozenset(
    {"and", "or", "not", "eq", "lt", "le", "gt", "ge", "eq_null_safe", "in", "is_null", "is_not_null", "is_nan"}
)
_MOST = 16
"""Conditions of a scan. To test more costs more than it saves, since a row that any of them keeps is parsed."""


class RawFilters:
    """What readers of scans ask of a row, by the number of the scan's step; none where one of them keeps all rows.

    Scans of change messages, of tables whose rows are kept and of those with a watermark are left as they are: there,
    each row counts before it is filtered.
    """

    def __init__(self) -> None:
        self._asked: dict[int, frozenset[Expression]] = {}
        self._conditions: dict[int, Expression | None] = {}

    def copy(self) -> RawFilters:
        """The same, to which other readers may be added."""
        made = RawFilters()
        made._asked, made._conditions = self._asked.copy(), self._conditions.copy()
        return made

    def read(self, number: int, scan: Operation, reader: Operation) -> bool:
        """Note a reader of a step; returns whether the step is a scan that it changes."""
        if not isinstance(scan, ScanStep) or not _rows_are_free(scan):
            return False
        before = self._conditions.get(number)
        if number in self._conditions and before is None:
            return False
        simple = _simple(reader)
        asked = self._asked.get(number, frozenset())
        if simple in asked:
            return False
        if simple is None or len(asked) == _MOST:
            self._conditions[number] = None
        else:
            self._asked[number] = asked | {simple}
            either = simple if before is None else Call("or", (before, simple), pa.bool_(), True)
            self._conditions[number] = either
        return True

    def filtered(self, number: int, operation: Operation) -> Operation:
        """The operation of a step; a scan knows what all its readers ask of a row."""
        condition = self._conditions.get(number)
        return replace(operation, condition=condition) if condition and isinstance(operation, ScanStep) else operation


def _rows_are_free(scan: ScanStep) -> bool:
    return not scan.sequenced and not scan.by_file and scan.source.op_column is None and scan.source.watermark is None


def _simple(reader: Operation) -> Expression | None:
    """What a row must pass to be kept by a reader, as far as it may be tested early; None when that is nothing."""
    if not isinstance(reader, Calculate) or reader.condition is None:
        return None
    return conjunction([part for part in conjuncts(reader.condition) if _is_simple(part)])


def _is_simple(expression: Expression) -> bool:
    if isinstance(expression, Call):
        return expression.function in _NEVER_FAIL and all(_is_simple(arg) for arg in expression.args)
    return isinstance(expression, Ref | Literal) and not pa.types.is_nested(expression.type)
