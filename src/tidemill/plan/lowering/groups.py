"""The steps of aggregates: of rows, and of sums over pairs of rows."""

from __future__ import annotations

from dataclasses import replace

from tidemill.plan.algebra.aggregates import layout
from tidemill.plan.algebra.nodes import Aggregate, Pairs, PairTerm
from tidemill.plan.lowering.analysis.group_places import GroupPlaces
from tidemill.plan.lowering.analysis.small_sides import SmallSides
from tidemill.plan.lowering.analysis.static_sides import StaticSides
from tidemill.plan.lowering.steps import Steps
from tidemill.state.keys.keys import KeyColumn
from tidemill.task.aggregates.accumulators import AggregateLayout, Multiset
from tidemill.task.program import (
    Concatenate,
    GroupChanges,
    GroupPartial,
    Input,
    PairSums,
    StateTable,
    StoreKeyed,
    Term,
    multiset_table,
)


class Groups:
    """Lowers aggregates."""

    def __init__(self, steps: Steps, static: StaticSides, small: SmallSides) -> None:
        self._steps = steps
        self._static = static
        self._small = small
        self._places = GroupPlaces(lambda *node: steps.place(steps.rows(*node)), static, small)

    def changes(
        self,
        node: Aggregate,
        partial: GroupPartial,
        groups: Input,
        created_at_epoch: int,
        emit: bool,
        single: bool = False,
    ) -> int:
        """The step that folds partial groups into state and, with ``emit``, gives the changes of the groups.

        With ``single`` it runs where the rows of vnode 0 are.
        """
        inputs = tuple(Input(groups.step, port) for port in range(1 + len(partial.multisets)))
        moves = not self._places.in_place(node, partial, created_at_epoch, single)
        step = self._steps.add(GroupChanges(partial, emit), inputs, created_at_epoch, moves)
        self._steps.put(Input(step), frozenset({tuple(range(partial.groups.distribution))}))
        return step

    def partial(self, node: Aggregate, created_at_epoch: int, single: bool = False) -> GroupPartial:
        """The partial groups of an aggregate: folded where their rows are if that can be, else spread by all keys."""
        distribution = self._places.distribution(node, created_at_epoch, single)
        return self._groups(node, created_at_epoch, len(node.keys) if distribution is None else distribution)

    def _groups(
        self, node: Aggregate, created_at_epoch: int, distribution: int, kind: str = "group", retracted: bool = False
    ) -> GroupPartial:
        """Partial groups; with ``retracted`` their products may be retracted although no row of their input is."""
        types = node.child.schema.types
        factorised = node.pairs is not None or bool(node.parts)
        append_only = not factorised and self._steps.append_only(node.child)
        chosen = layout(node, append_only and not retracted)
        spread = "" if distribution == len(node.keys) else f":{distribution}"
        name = f"{self._steps.identity(node)}:{created_at_epoch}{spread}"
        if append_only and retracted:
            name += ":retracted"
        group_types = tuple(types[k] for k in node.keys)
        groups = StateTable(
            f"{kind}:{name}",
            tuple(KeyColumn(t) for t in group_types),
            distribution,
            chosen.value_types(types),
            chosen.merge_ops(),
        )
        multisets = tuple(
            multiset_table(_values_table(m, name), (*group_types, *(types[c] for c in m.columns)), distribution)
            for m in chosen.multisets
        )
        for table in multisets:
            self._steps.look_up(table, node.child, node.keys)
        return GroupPartial(node.keys, chosen, types, groups, multisets)

    def sums(self, node: Aggregate, partial: GroupPartial, created_at_epoch: int, single: bool = False) -> Input:
        """The step that gives the partial groups of an aggregate."""
        if node.parts:
            sums = tuple(self.sums(part, partial, created_at_epoch, single) for part in node.parts)
            return Input(self._steps.add(Concatenate(), sums, created_at_epoch))
        if node.pairs is None:
            return Input(
                self._steps.add(partial, (self._steps.rows(node.child, created_at_epoch, single),), created_at_epoch)
            )
        pairs = node.pairs
        complete = self._static.complete_side(pairs, created_at_epoch)
        if complete is not None:
            return self._lookup_pairs(pairs, partial, created_at_epoch, complete)
        width = self._places.pair_distribution(pairs, created_at_epoch)
        sides = []
        inputs = []
        moves = []
        retracted = not self._append_only_pairs(pairs)
        for side in (pairs.left, pairs.right):
            groups = self._groups(side, created_at_epoch, width, "side", retracted)
            stream = self.sums(side, groups, created_at_epoch, single=width == 0)
            self._steps.keep(self._steps.add(StoreKeyed(groups.groups), (stream,), created_at_epoch))
            sides.append(groups)
            inputs.append(stream)
            moves.append(not self._places.side_in_place(side, width, created_at_epoch))
        self._steps.look_up(sides[0].groups, pairs.right.child, pairs.right.keys[: pairs.key_width])
        self._steps.look_up(sides[1].groups, pairs.left.child, pairs.left.keys[: pairs.key_width])
        terms = _pair_terms(pairs, partial.layout, sides[0].layout, sides[1].layout)
        operation = PairSums(
            sides[0], sides[1], pairs.key_width, pairs.comparisons, pairs.any_of, pairs.keys, terms, partial
        )
        small = self._small.side(pairs, created_at_epoch)
        if small is not None and self._small.unchanged((pairs.left, pairs.right)[small], created_at_epoch):
            self._small.looked_up.add(sides[small].groups.id)
            return Input(self._steps.add(replace(operation, complete=small), (inputs[1 - small],), created_at_epoch))
        return Input(self._steps.add(operation, tuple(inputs), created_at_epoch, *moves))

    def _append_only_pairs(self, pairs: Pairs) -> bool:
        """Whether no pair is ever retracted.

        Else infinities are kept apart from finite values: a row of the other side takes all its pairs with it.
        """
        return self._steps.append_only(pairs.left.child) and self._steps.append_only(pairs.right.child)

    def _lookup_pairs(self, pairs: Pairs, partial: GroupPartial, created_at_epoch: int, complete: int) -> Input:
        """Sums over pairs of one side's partial groups, where they are, with the other side, which is complete."""
        sides = (pairs.left, pairs.right)
        retracted = not self._append_only_pairs(pairs)
        groups = tuple(self._groups(side, created_at_epoch, pairs.key_width, "side", retracted) for side in sides)
        sums = tuple(self.sums(side, own, created_at_epoch) for side, own in zip(sides, groups, strict=True))
        self._steps.keep(self._steps.add(StoreKeyed(groups[complete].groups), (sums[complete],), created_at_epoch))
        waiting = sides[1 - complete]
        self._steps.look_up(groups[complete].groups, waiting.child, waiting.keys[: pairs.key_width])
        terms = _pair_terms(pairs, partial.layout, groups[0].layout, groups[1].layout)
        shape = (pairs.key_width, pairs.comparisons, pairs.any_of, pairs.keys, terms)
        operation = PairSums(groups[0], groups[1], *shape, partial, complete)
        return Input(self._steps.add(operation, (sums[1 - complete],), created_at_epoch))


def _pair_terms(
    pairs: Pairs, output: AggregateLayout, left: AggregateLayout, right: AggregateLayout
) -> tuple[tuple[Term, ...], ...]:
    """For each accumulator of the output the products of the sides' accumulators that it sums."""

    def term(found: PairTerm) -> Term:
        positions = [
            0 if call is None else side.results[call].value for call, side in ((found.left, left), (found.right, right))
        ]
        signs = [
            None if calls is None else (side.results[calls[0]].value, side.results[calls[1]].value)
            for calls, side in ((found.left_signs, left), (found.right_signs, right))
        ]
        return Term(found.coefficient, positions[0], positions[1], signs[0], signs[1])

    terms: list[tuple[Term, ...]] = [()] * len(output.accumulators)
    terms[0] = (Term(1.0, 0, 0),)
    for call, result in enumerate(output.results):
        if result.count:
            terms[result.count] = (term(pairs.counts[call]),)
        if result.function != "count":
            terms[result.value] = tuple(term(t) for t in pairs.sums[call])
    return tuple(terms)


def _values_table(multiset: Multiset, name: str) -> str:
    columns = "_".join(map(str, multiset.columns))
    optional = "n" if multiset.required < len(multiset.columns) else ""
    return f"values{columns}{optional}:{name}"
