"""The accumulators of an aggregate over pairs, in terms of those of either side."""

from __future__ import annotations

from tidemill.plan.algebra.nodes import Pairs, PairTerm
from tidemill.task.aggregates.accumulators import AggregateLayout
from tidemill.task.program import Term


def pair_accumulators(
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
