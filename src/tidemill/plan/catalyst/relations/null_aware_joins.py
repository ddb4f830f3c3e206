"""NOT IN over columns that may be NULL: semi and anti joins on equality, and rows that tell whether there is a NULL.

A comparison ``l = r OR isnull(l = r)`` holds unless both sides are known and differ. So of one comparison

    left row with l known     is matched by an equal r, or by any r that is NULL
    left row with l NULL      is matched by any right row

and with several of them each set of NULL columns, on either side, leaves an equality of the columns that remain. The
left rows are cut by which of their columns are NULL (T); each part passes one anti join for each set (S) of NULL
columns on the right, over the right rows that have these NULLs, with the columns in neither T nor S as keys:

    anti join (t, u, k = k2 OR isnull(k = k2))
      = (t where k is not NULL)  anti join u on k = k2   unless u has a row where k2 is NULL
      + (t where k is NULL)                              unless u has a row

A join without any key asks only whether there is a row: it is a filter over a count, which changes when the count
leaves or reaches 0. Then all left rows of the part come or go. Conjuncts that are equalities are keys of all of these
joins, so that NULLs count for the rows of their key alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import combinations

import pyarrow as pa

from tidemill.plan.algebra.build import columns_of, disjuncts, filtered, null_test
from tidemill.plan.algebra.nodes import Aggregate, AggregateCall, Filter, Join, Node, Project
from tidemill.task.expressions import Call, Expression, Literal, Ref, references, remap
from tidemill.task.functions.evaluate import can_fail

MOST_JOINS = 27
"""Three comparisons of columns that may be NULL on both sides. With more, pairs of rows are compared."""

SemiJoinBuilder = Callable[[Node, Node, list[Expression], bool], Node]
"""The left rows that have a match on the right under all conjuncts; with True those that have none."""


@dataclass(frozen=True)
class Comparison:
    """``left = right``, true also where one side is NULL, where ``left_wild`` and ``right_wild`` say so.

    ``equality`` is over the left columns followed by the right columns, ``left`` and ``right`` over those of one side.
    """

    equality: Expression
    left: Expression
    right: Expression
    left_wild: bool
    right_wild: bool


@dataclass(frozen=True)
class Matches:
    """Parts of the left rows, disjoint: those with a match and those without."""

    matched: tuple[Node, ...]
    unmatched: tuple[Node, ...]


def null_aware_matches(
    left: Node, right: Node, conjuncts: list[Expression], semi_join: SemiJoinBuilder
) -> Matches | None:
    """Which left rows have a match, where a conjunct holds for NULLs; None where none does, or for too many of them.

    Parameters
    ----------
    conjuncts : list of Expression
        The condition, over the left columns followed by the right columns.
    semi_join : callable
        Builds a semi or anti join without such conjuncts.
    """
    width = len(left.schema)
    found = {c: comparison(c, width) for c in conjuncts}
    comparisons = [c for c in found.values() if c is not None]
    others = [c for c, known in found.items() if known is None]
    if (conjuncts and not comparisons) or _joins(comparisons) > MOST_JOINS:
        return None
    excluded: tuple[Node, ...] = ()
    left_only = [c for c in others if references(c) and max(references(c)) < width and not can_fail(c)]
    if left_only:
        fails: list[Expression] = [
            Call("coalesce", (c, Literal(False, pa.bool_())), pa.bool_(), False) for c in left_only
        ]
        excluded = (filtered(left, [Call("not", (_all(fails),), pa.bool_(), False)]),)
        left = filtered(left, left_only)
        others = [c for c in others if c not in left_only]
    matched: list[Node] = []
    unmatched: list[Node] = []
    for wild, rows in _parts(left, comparisons):
        strict = [c for c in comparisons if c not in wild]
        for nulls in _subsets([c for c in strict if c.right_wild and c.right.nullable]):
            partners = filtered(right, [null_test("is_null", c.right) for c in nulls])
            condition = [c.equality for c in strict if c not in nulls] + others
            if condition:
                matched.append(semi_join(rows, partners, condition, False))
                rows = semi_join(rows, partners, condition, True)
            else:
                matched.append(_where_any(rows, partners, True))
                rows = _where_any(rows, partners, False)
        unmatched.append(rows)
    return Matches(tuple(matched), (*unmatched, *excluded))


def comparison(conjunct: Expression, width: int) -> Comparison | None:
    """``l = r OR isnull(l = r)``, also with ``isnull(l)`` or ``isnull(r)`` in its place; None for anything else."""
    parts = disjuncts(conjunct)
    equalities = [p for p in parts if isinstance(p, Call) and p.function == "eq"]
    if len(parts) < 2 or len(equalities) != 1:
        return None
    (equality,) = equalities
    first, second = equality.args
    used = references(first), references(second)
    if not all(used) or first.type != second.type:
        return None
    if max(used[0]) < width <= min(used[1]):
        left, right = first, second
    elif max(used[1]) < width <= min(used[0]):
        left, right = second, first
    else:
        return None
    wild = {left: False, right: False}
    for part in parts:
        if part == equality:
            continue
        if not (isinstance(part, Call) and part.function == "is_null"):
            return None
        (argument,) = part.args
        tested = (left, right) if argument == equality else (argument,)
        if not all(t in wild for t in tested):
            return None
        wild.update(dict.fromkeys(tested, True))
    moved = remap(right, {i: i - width for i in references(right)})
    return Comparison(equality, left, moved, wild[left], wild[right])


def _joins(comparisons: list[Comparison]) -> int:
    count = 1
    for c in comparisons:
        count *= 1 + (c.left_wild and c.left.nullable) + (c.right_wild and c.right.nullable)
    return count


def _parts(left: Node, comparisons: list[Comparison]) -> Iterator[tuple[tuple[Comparison, ...], Node]]:
    """The left rows by which of their columns are NULL."""
    able = [c for c in comparisons if c.left_wild and c.left.nullable]
    for wild in _subsets(able):
        tests = [null_test("is_null" if c in wild else "is_not_null", c.left) for c in able]
        yield wild, filtered(left, tests)


def _subsets(items: list[Comparison]) -> Iterator[tuple[Comparison, ...]]:
    """All subsets, the small ones first."""
    for size in range(len(items) + 1):
        yield from combinations(items, size)


def _where_any(rows: Node, partners: Node, some: bool) -> Node:
    """All rows where ``partners`` has a row (``some``) or has none; else no row."""
    count = Aggregate(Project(partners, (), ()), (), (AggregateCall("count", None, pa.int64(), False),), ("rows",))
    number = Ref(0, pa.int64(), False)
    condition = Call("gt" if some else "le", (number, Literal(0, pa.int64())), pa.bool_(), False)
    joined = Join(rows, Project(Filter(count, condition), (), ()), (), (), (), spread=True)
    return Project(joined, columns_of(rows), rows.schema.names)


def _all(parts: list[Expression]) -> Expression:
    return parts[0] if len(parts) == 1 else Call("and", tuple(parts), pa.bool_(), False)
