"""What expressions over the same rows have in common, so that it is computed once.

Spark writes a window of time as some twenty calls, with repetitions, and writes them again for the end of the window.
It also repeats what a subquery calculates wherever that is read. A call that occurs more than once becomes a column of
its own, behind those of the input, and its places read that column.

A call whose failure would be an error only for the rows that reach it (a value of CASE, what stands behind AND) is left
where it is, unless all rows reach it at another place.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from tidemill.task.expressions import Call, Expression, Ref, references
from tidemill.task.functions.columns.compute import Array
from tidemill.task.functions.columns.registry import lookup
from tidemill.task.functions.evaluate import CONDITIONAL, can_fail, can_fail_itself, evaluate


@dataclass(frozen=True)
class Sharing:
    """Expressions that read columns with what they have in common.

    Attributes
    ----------
    common : tuple of Expression
        Each gives one more column, behind those of the input and of the ones before it.
    expressions : tuple of Expression
        Over all of these columns.
    """

    common: tuple[Expression, ...]
    expressions: tuple[Expression, ...]

    def evaluate(self, batch: pa.RecordBatch) -> list[Array]:
        """The values of each expression for the rows of the input. Errors as of ``evaluate``."""
        for expression in self.common:
            columns = [*batch.columns, evaluate(expression, batch)]
            batch = pa.RecordBatch.from_arrays(columns, names=[str(i) for i in range(len(columns))])
        return [evaluate(expression, batch) for expression in self.expressions]


def share(expressions: Sequence[Expression], width: int) -> Sharing:
    """Take out what is computed more than once by expressions over ``width`` columns."""
    return _Sharer(width).share(expressions)


@dataclass(frozen=True)
class Filtering:
    """A condition, and expressions over the rows that it keeps.

    Attributes
    ----------
    condition : Sharing
        Its first expression is the condition; the others are calls that the expressions have, too, and become columns
        behind those of the input.
    kept : tuple of int
        Which of all these columns the expressions read.
    expressions : Sharing
        Over all these columns.
    """

    condition: Sharing
    kept: tuple[int, ...]
    expressions: Sharing


def share_with_condition(condition: Expression, expressions: Sequence[Expression], width: int) -> Filtering:
    """Take out what is computed more than once by a condition and by expressions over the rows that it keeps.

    A call of both is computed for all rows, if the condition computes it for all, or it cannot fail.
    """
    sharer = _Sharer(width)
    both = sharer.in_both(condition, expressions)
    rest = sharer.with_columns(expressions, both)
    return Filtering(share((condition, *both), width), sharer.read_by(rest), share(rest, width + len(both)))


class _Sharer:
    """Numbers equal calls alike, from the leaves up; a tree that repeats itself is walked once for each number."""

    def __init__(self, width: int) -> None:
        self._width = width
        self._numbers: dict[Any, int] = {}
        self._seen: dict[int, int] = {}
        self._nodes: list[Expression] = []
        self._below: list[tuple[int, ...]] = []
        self._fails: list[bool] = []
        self._shared: set[int] = set()
        self._rewritten: dict[int, Expression] = {}
        self._common: list[Expression] = []

    def share(self, expressions: Sequence[Expression]) -> Sharing:
        roots = [self._number(e) for e in expressions]
        uses = Counter(roots)
        for number in self._reached(roots, self._below.__getitem__):
            uses.update(self._below[number])
        by_all = set(self._reached(roots, self._reached_below))
        shared = {n for n, count in uses.items() if count > 1 and isinstance(self._nodes[n], Call)}
        self._shared = {n for n in shared if n in by_all or not self._fails[n]}
        if not self._shared:
            return Sharing((), tuple(expressions))
        rewritten = tuple(self._rewrite(n) for n in roots)
        return Sharing(tuple(self._common), rewritten)

    def in_both(self, condition: Expression, expressions: Sequence[Expression]) -> list[Expression]:
        """The largest calls of some expressions that a condition has, too, and that may be evaluated for all rows.

        The condition evaluates them for all rows, or they cannot fail.
        """
        root, others = self._number(condition), [self._number(e) for e in expressions]
        for_all = set(self._reached([root], self._reached_below))
        tested = {n for n in self._reached([root], self._below.__getitem__) if n in for_all or not self._fails[n]}
        tested = {n for n in tested if self._below[n]}

        def below(number: int) -> tuple[int, ...]:
            return () if number in tested else self._below[number]

        return [self._nodes[n] for n in self._reached(others, below) if n in tested]

    def with_columns(self, expressions: Sequence[Expression], columns: Sequence[Expression]) -> tuple[Expression, ...]:
        """Expressions that read calls from columns, which stand behind those of the input."""
        for at, column in enumerate(columns):
            self._rewritten[self._number(column)] = Ref(self._width + at, column.type, column.nullable)
        return tuple(self._rewrite(self._number(e)) for e in expressions)

    def read_by(self, expressions: Sequence[Expression]) -> tuple[int, ...]:
        """The columns that expressions read, ascending."""
        found: set[int] = set()
        for number in self._reached([self._number(e) for e in expressions], self._below.__getitem__):
            node = self._nodes[number]
            if isinstance(node, Ref):
                found.add(node.index)
            elif isinstance(node, Call):
                found.update(*map(references, node.args[node.plain :]))
        return tuple(sorted(found))

    def _number(self, expression: Expression) -> int:
        if id(expression) in self._seen:  # a tree may be small in memory and large when it is walked
            return self._seen[id(expression)]
        below: tuple[int, ...] = ()
        key: Any = expression
        if isinstance(expression, Call):
            below = tuple(self._number(arg) for arg in expression.args[: expression.plain])
            bodies = expression.args[expression.plain :]
            key = (expression.function, below, bodies, expression.type, expression.nullable, expression.options)
        found = self._numbers.setdefault(key, len(self._nodes))
        if found == len(self._nodes):
            self._nodes.append(expression)
            self._below.append(below)
            self._fails.append(self._can_fail(expression, below))
        self._seen[id(expression)] = found
        return found

    def _can_fail(self, expression: Expression, below: tuple[int, ...]) -> bool:
        """As :func:`~tidemill.task.functions.evaluate.can_fail`, by what is known of the arguments."""
        if not isinstance(expression, Call):
            return False
        bodies = expression.args[expression.plain :]
        if expression.function != "try" and (any(self._fails[n] for n in below) or any(map(can_fail, bodies))):
            return True
        return can_fail_itself(expression)

    @staticmethod
    def _reached(roots: Sequence[int], below: Callable[[int], Iterable[int]]) -> Iterator[int]:
        """Each number that is reached from the roots, once."""
        seen, waiting = set(roots), list(dict.fromkeys(roots))
        while waiting:
            number = waiting.pop()
            yield number
            for lower in below(number):
                if lower not in seen:
                    seen.add(lower)
                    waiting.append(lower)

    def _reached_below(self, number: int) -> Iterator[int]:
        """Arguments that are evaluated for all rows, where the call is."""
        node, below = self._nodes[number], self._below[number]
        if not isinstance(node, Call) or not below or node.function == "try":
            return
        if node.function in CONDITIONAL:
            yield below[0]
            return
        spec = lookup(node.function)
        ordered = below if spec.order == "left" else below[::-1]
        yield ordered[0]
        yield from (n for n in ordered[1:] if not spec.strict or not self._fails[n])

    def _rewrite(self, number: int) -> Expression:
        if number in self._rewritten:
            return self._rewritten[number]
        node = self._nodes[number]
        made: Expression = node
        if isinstance(node, Call):
            args = tuple(self._rewrite(n) for n in self._below[number])
            made = replace(node, args=(*args, *node.args[node.plain :]))
        if number in self._shared:
            self._common.append(made)
            made = Ref(self._width + len(self._common) - 1, node.type, node.nullable)
        self._rewritten[number] = made
        return made
