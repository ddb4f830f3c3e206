"""The size-tiered policy: few runs, little rewriting."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from tidemill.state.compaction import choose
from tidemill.state.version import Run


def generation(epoch: int, size: int, partitions: int = 1) -> list[Run]:
    """The runs that one epoch wrote."""
    return [Run("t", f"{epoch}-{p}", 0, size, size, epoch, epoch, epoch) for p in range(partitions)]


def test_nothing_to_do_up_to_the_limit() -> None:
    runs = [r for e in range(1, 6) for r in generation(e, 10)]
    assert choose("t", runs, 5) is None
    assert choose("t", [], 1) is None
    assert choose("t", runs[:1], 1) is None


def test_equal_sizes_are_all_merged() -> None:
    runs = [r for e in range(1, 7) for r in generation(e, 10)]
    chosen = choose("t", runs, 5)
    assert chosen is not None
    assert (list(chosen.runs), chosen.full) == (runs, True)


def test_a_much_larger_old_generation_is_left_alone() -> None:
    runs = [*generation(1, 10_000), *(r for e in range(2, 8) for r in generation(e, 10))]
    chosen = choose("t", runs, 5)
    assert chosen is not None
    assert (list(chosen.runs), chosen.full) == (runs[1:], False)


def test_partitions_of_an_epoch_stay_together() -> None:
    runs = [r for e in range(1, 8) for r in generation(e, 10, partitions=3)]
    assert choose("t", runs, 7) is None, "seven generations, however many partitions"
    chosen = choose("t", runs, 6)
    assert chosen is not None
    assert len(chosen.runs) == 21


@pytest.mark.parametrize(("most", "least"), [(5, 2), (12, 4), (20, 6)])
def test_at_least_a_third_of_what_is_allowed_is_merged(most: int, least: int) -> None:
    runs = [r for e in range(most + 1) for r in generation(e, 10 ** (most - e))]
    chosen = choose("t", runs, most)
    assert chosen is not None
    assert [r.bytes for r in chosen.runs] == [10**e for e in reversed(range(least))]


@pytest.mark.parametrize("most", [4, 12, 20])
def test_rewriting_grows_with_the_logarithm(most: int) -> None:
    epochs, written, runs = 2000, 0, []
    for epoch in range(1, epochs + 1):
        runs += generation(epoch, 1)
        chosen = choose("t", runs, most)
        if chosen is not None:
            size = sum(r.bytes for r in chosen.runs)
            written += size
            kept = runs[: -len(chosen.runs)]
            merged = replace(chosen.runs[-1], file=f"m{epoch}", bytes=size, epoch_low=chosen.runs[0].epoch_low)
            runs = [*kept, merged]
        assert len(runs) <= most
    assert sum(r.bytes for r in runs) == epochs
    assert written <= 2 * epochs * math.log2(epochs), f"each row was rewritten {written / epochs:.1f} times"
