"""Steps of aggregates."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from tidemill.state.tables import StateTable
from tidemill.task.aggregates.accumulators import AggregateLayout
from tidemill.task.expressions.texts import Names, listed, name_of, names_of
from tidemill.task.program.costs import Cost, CostClass
from tidemill.task.program.operation import Operation, TableNames


@dataclass(frozen=True)
class GroupPartial(Operation):
    """Accumulators per group of this task's rows; keyed output, ports: groups, then one per multiset."""

    keys: tuple[int, ...]
    layout: AggregateLayout
    input_types: tuple[pa.DataType, ...]
    groups: StateTable
    multisets: tuple[StateTable, ...]

    def column_names(self, inputs: Sequence[Names], arranged_in: TableNames) -> Names:
        return (*names_of(inputs[0], self.keys), *_results(self.layout, inputs[0]))

    def text(self, inputs: Sequence[Names], output: Names) -> str:
        results = ", ".join(_results(self.layout, inputs[0]))
        return f"Partial groups by {listed(inputs[0], self.keys)} of [{results}]"

    def exchange_names(self, output: Names, first_input: Names | None) -> Names | None:
        return output[: self.groups.distribution]

    def keyed_names(self, table: StateTable, first_input: Names, output: Names) -> Names:
        if table not in self.multisets:
            return output[: len(table.key)]
        multiset = self.layout.multisets[self.multisets.index(table)]
        return tuple(first_input[c] for c in (*self.keys, *multiset.columns) if c < len(first_input))


@dataclass(frozen=True)
class GroupChanges(Operation):
    """Folds partial groups into state and emits each changed group: its old row with -1, its new row with +1."""

    partial: GroupPartial
    emit: bool
    """Whether a step reads the changes; else only the tables are written."""

    @property
    def compares(self) -> bool:
        """Whether groups are compared with what they were: lists that are too large are always reported."""
        return self.emit or any(a.declared.is_list for a in self.partial.layout.accumulators)

    @property
    def written_tables(self) -> tuple[StateTable, ...]:
        return (self.partial.groups, *self.partial.multisets)

    @property
    def read_tables(self) -> tuple[StateTable, ...]:
        return (*((self.partial.groups,) if self.compares else ()), *self.partial.multisets)

    @property
    def cost(self) -> Cost:
        kept = self.partial.layout.accumulators
        if any(a.of_group for a in kept):
            return Cost(CostClass.GROUPS, "reads all values of an affected group")
        extremes = any(a.recomputed for a in kept)
        return Cost(CostClass.LOOKUPS, "looks for the extreme of an affected group" if extremes else "")

    def text(self, inputs: Sequence[Names], output: Names) -> str:
        return "Changes of groups" if self.emit else "Fold groups"

    def table_names(self, table: StateTable, first_input: Names, keyed: Names) -> Names:
        return keyed


@dataclass(frozen=True)
class Comparison:
    """A condition on a value ``y`` of the right side for a row of the left: monotone in ``y``.

    ``form`` is ``value`` (``y op bound``), ``value_minus_bound`` (``y - bound op limit``) or
    ``bound_minus_value`` (``bound - y op limit``). The last two are for doubles and are evaluated as written, with
    the rounding of the subtraction. ``op`` is ``lt``, ``le``, ``gt`` or ``ge`` in Spark's order, where NaN is the
    greatest number. ``bound`` is a position among the key columns of the left side.
    """

    form: str
    op: str
    bound: int
    limit: float | None = None

    def text(self) -> str:
        """The condition as EXPLAIN shows it."""
        bound = f"left.${self.bound}"
        sides = {"value": "y", "value_minus_bound": f"y - {bound}", "bound_minus_value": f"{bound} - y"}
        symbol = {"lt": "<", "le": "<=", "gt": ">", "ge": ">="}[self.op]
        return f"{sides[self.form]} {symbol} {bound if self.form == 'value' else repr(self.limit)}"


@dataclass(frozen=True)
class Term:
    """``coefficient * left * right``: products of one accumulator of either side, by position in their layouts.

    Of a product of two sums of doubles ``left_signs`` and ``right_signs`` are the accumulators that count values above
    zero (NaN among them) and below zero: they decide what infinities become.
    """

    coefficient: float
    left: int
    right: int
    left_signs: tuple[int, int] | None = None
    right_signs: tuple[int, int] | None = None


@dataclass(frozen=True)
class PairSums(Operation):
    """Partial groups of an aggregate over pairs of rows, from sums per key of either side.

    Inputs: partial groups of the left (0) and of the right side (1); a step of its own stores either. A left group
    meets a right one when their first ``key_width`` key columns are equal and, with ``comparisons``, when these
    hold for the right side's next key column, which then is its last: all of them, or with ``any_of`` any. Without
    comparisons it is a join by equality. NULL keys are equal; for SQL's equality they are filtered out before.

    ``output`` describes what comes out: for accumulator i of its layout the sum of ``terms[i]`` over all pairs.
    ``keys`` are its key columns, by position in the left key columns followed by the right ones; with comparisons
    only left ones.

    The vnode of either table is that of the same columns, at most ``key_width`` of them. A sum that is multiplied with
    a sum and whose argument may be NULL has a ``count`` of that argument beside it (``task/dataflow/pair_terms.py``).
    """

    left: GroupPartial
    right: GroupPartial
    key_width: int
    comparisons: tuple[Comparison, ...]
    any_of: bool
    keys: tuple[int, ...]
    terms: tuple[tuple[Term, ...], ...]
    output: GroupPartial
    complete: int | None = None
    """The side that does not change in the epoch: complete before the other has any group, or small and unchanged. The
    other side is then the only input and is not exchanged."""

    @property
    def read_tables(self) -> tuple[StateTable, ...]:
        if self.complete is not None:
            return ((self.left, self.right)[self.complete].groups,)
        return (self.left.groups, self.right.groups)

    @property
    def cost(self) -> Cost:
        if not self.comparisons:
            single = all(len(side.groups.key) == self.key_width for side in (self.left, self.right))
            return Cost(CostClass.LOOKUPS, "" if single else "and matching groups")
        if self.complete == 1 or changes_probe_left(self):
            return Cost(CostClass.LOOKUPS)
        who = "changes" if self.complete == 0 else "changes of the right side"
        return Cost(CostClass.GROUPS, f"{who} read the left groups of their key")

    def column_names(self, inputs: Sequence[Names], arranged_in: TableNames) -> Names:
        left, right = inputs[0], inputs[-1]
        if self.complete == 0:
            left = arranged_in(self.left.groups)
        elif self.complete == 1:
            right = arranged_in(self.right.groups)
        width = len(self.left.groups.key)
        keys = (name_of(left, k) if k < width else name_of(right, k - width) for k in self.keys)
        return (*keys, *(r.function for r in self.output.layout.results))

    def text(self, inputs: Sequence[Names], output: Names) -> str:
        keys = f"Pair sums on {self.key_width} key{'' if self.key_width == 1 else 's'}"
        if self.complete is not None:
            keys += f" by lookup in the {('left', 'right')[self.complete]} side, which is complete"
        if not self.comparisons:
            return keys
        shown = (" or " if self.any_of else " and ").join(c.text() for c in self.comparisons)
        return f"{keys}, ordered by y = right.${self.key_width}: {shown}"

    def exchange_names(self, output: Names, first_input: Names | None) -> Names | None:
        return output[: self.output.groups.distribution]


def changes_probe_left(operation: PairSums) -> bool:
    """Whether a changed right group finds its left ones by search, as left ones find right ones.

    That is the case where the left table is sorted by the one bound and the output needs only the shared keys; else all
    left groups of the shared key are read.
    """
    width = operation.key_width
    return all(c.bound == width for c in operation.comparisons) and all(k < width for k in operation.keys)


def _results(layout: AggregateLayout, columns: Names) -> Names:
    """The results of an aggregate as text."""
    found = []
    for result in layout.results:
        kept = layout.accumulators[result.value]
        argument = "*" if kept.argument is None else name_of(columns, kept.argument)
        found.append(f"{result.function}({'DISTINCT ' if kept.distinct else ''}{argument})")
    return tuple(found)
