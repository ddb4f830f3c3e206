"""What is merged: few runs for a reader, little rewriting, small jobs; and that it is merged rightly."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import replace

import pytest

from tidemill.state.keys.keys import VNODES
from tidemill.state.store.compaction import DEEPEST, HIGHEST, LOWEST, Compaction, Policy, Slice, choose, conflict
from tidemill.state.store.rewriting import separator
from tidemill.state.versions.expiry import Expiry
from tidemill.state.versions.version import Run, Span, Version

TIERED = 1 << 90
"""A size of runs that nothing reaches: all stays in level 0."""


def generation(epoch: int, size: int, partitions: int = 1) -> list[Run]:
    """The runs that one epoch wrote."""
    return [Run("t", f"{epoch}-{p}", 0, size, size, epoch, epoch, epoch) for p in range(partitions)]


def tiered(runs: Sequence[Run], most: int) -> Compaction | None:
    """The one merge among young runs."""
    chosen = choose("t", runs, Policy(most, TIERED))
    assert len(chosen) <= 1
    assert all(c.level == 0 for c in chosen)
    return chosen[0] if chosen else None


def test_nothing_to_do_up_to_the_limit() -> None:
    runs = [r for e in range(1, 6) for r in generation(e, 10)]
    assert tiered(runs, 5) is None
    assert tiered([], 1) is None
    assert tiered(runs[:1], 1) is None


def test_equal_sizes_are_all_merged() -> None:
    runs = [r for e in range(1, 7) for r in generation(e, 10)]
    chosen = tiered(runs, 5)
    assert chosen is not None
    assert list(chosen.runs) == runs
    assert chosen.slices == (Slice(LOWEST, HIGHEST, tuple(runs), True, 60),)


def test_a_much_larger_old_generation_is_left_alone() -> None:
    runs = [*generation(1, 10_000), *(r for e in range(2, 8) for r in generation(e, 10))]
    chosen = tiered(runs, 5)
    assert chosen is not None
    assert (list(chosen.runs), chosen.slices[0].full) == (runs[1:], False)


def test_partitions_of_an_epoch_stay_together() -> None:
    runs = [r for e in range(1, 8) for r in generation(e, 10, partitions=3)]
    assert tiered(runs, 7) is None, "seven generations, however many partitions"
    chosen = tiered(runs, 6)
    assert chosen is not None
    assert len(chosen.runs) == 21


@pytest.mark.parametrize(("most", "least"), [(5, 2), (12, 4), (20, 6)])
def test_at_least_a_third_of_what_is_allowed_is_merged(most: int, least: int) -> None:
    runs = [r for e in range(most + 1) for r in generation(e, 10 ** (most - e))]
    chosen = tiered(runs, most)
    assert chosen is not None
    assert [r.bytes for r in chosen.runs] == [10**e for e in reversed(range(least))]


@pytest.mark.parametrize("most", [4, 12, 20])
def test_rewriting_grows_with_the_logarithm(most: int) -> None:
    epochs, written, runs = 2000, 0, []
    for epoch in range(1, epochs + 1):
        runs += generation(epoch, 1)
        chosen = tiered(runs, most)
        if chosen is not None:
            size = sum(r.bytes for r in chosen.runs)
            written += size
            kept = runs[: -len(chosen.runs)]
            merged = replace(chosen.runs[-1], file=f"m{epoch}", bytes=size, epoch_low=chosen.runs[0].epoch_low)
            runs = [*kept, merged]
        assert len(runs) <= most
    assert sum(r.bytes for r in runs) == epochs
    assert written <= 2 * epochs * math.log2(epochs), f"each row was rewritten {written / epochs:.1f} times"


def level_run(name: str, low: int, high: int, size: int, level: int = DEEPEST, epoch: int = 1) -> Run:
    """A run of all keys of some vnodes."""
    bounds = low.to_bytes(2, "big"), high.to_bytes(2, "big")
    return Run("t", f"{name}.sst", 0, size, size, 1, epoch, epoch, None, low, high, level, *bounds)


def test_only_overlapping_runs_of_the_next_level_are_rewritten() -> None:
    deep = [level_run(f"d{i}", i * 16, i * 16 + 16, 100) for i in range(16)]
    young = replace(generation(9, 900)[0], vnode_low=40, vnode_high=50)
    (chosen,) = choose("t", [*deep, young], Policy(12, 200))
    assert (chosen.level, list(chosen.runs)) == (DEEPEST, [deep[2], deep[3], young])
    assert [s.full for s in chosen.slices] == [True] * len(chosen.slices)


def test_a_level_that_is_too_large_gives_what_rewrites_least() -> None:
    deep = [level_run(f"d{i}", i * 8, i * 8 + 8, 100) for i in range(1, 32)]
    above = [
        level_run("a", 8, 128, 110, 5, 2),
        level_run("b", 128, 144, 110, 5, 2),
        level_run("c", 144, 256, 110, 5, 2),
    ]
    (chosen,) = choose("t", [*deep, *above], Policy(12, 100, 10))
    assert chosen.runs[-1] is above[1]
    assert [r.file for r in chosen.runs[:-1]] == ["d16.sst", "d17.sst"]


def test_a_run_that_overlaps_nothing_is_moved_unread() -> None:
    deep = [level_run(f"d{i}", i * 8, i * 8 + 8, 100) for i in range(1, 32)]
    above = [level_run("a", 0, 8, 200, 5, 2), level_run("b", 128, 256, 290, 5, 2)]
    (chosen,) = choose("t", [*deep, *above], Policy(12, 100, 10))
    assert chosen == Compaction("t", (above[0],), DEEPEST, (), moved=True)


def test_weights_of_zero_go_only_where_nothing_is_older() -> None:
    above = [level_run("a", 0, 64, 600, 5, 2)]
    deep = [level_run("d", 32, 64, 300)]
    young = [r for e in range(5, 12) for r in generation(e, 10)]
    tier = choose("t", [*deep, *above, *young], Policy(4, 1000))
    assert [s.full for c in tier if c.level == 0 for s in c.slices] == [False]
    (down,) = (c for c in choose("t", [*above, *young, *generation(12, 1000)], Policy(40, 1000)) if c.level)
    assert all(s.full for s in down.slices)


def test_what_is_being_merged_is_left_alone() -> None:
    runs = [r for e in range(1, 14) for r in generation(e, 10)]
    first = tiered(runs, 5)
    assert first is not None
    assert choose("t", runs, Policy(5, TIERED), busy=[first]) == []
    more = [*runs, *(r for e in range(14, 21) for r in generation(e, 10))]
    (second,) = choose("t", more, Policy(5, TIERED), busy=[first])
    assert not {r.file for r in second.runs} & {r.file for r in first.runs}
    assert not second.slices[0].full


BEFORE = (Expiry(0, None, 100),)


def test_a_run_of_which_all_has_expired_goes_unread() -> None:
    runs = [
        replace(r, spans=(Span(0, None, 0, 99 if r.epoch_high == 1 else 100),))
        for e in (1, 2)
        for r in generation(e, 10)
    ]
    assert choose("t", runs, Policy(12, 1 << 40), BEFORE) == [Compaction("t", (runs[0],), 0, ())]
    assert choose("t", runs, Policy(12, 1 << 40)) == []
    other = (Expiry(0, None, 100), Expiry(1, None, 1000))
    assert choose("t", runs, Policy(12, 1 << 40), other) == [], "of the second time nothing is known"


def test_a_run_of_which_half_has_expired_is_rewritten() -> None:
    deep = [level_run("d", 0, 8, 100), level_run("e", 8, 16, 100)]
    runs = [replace(deep[0], spans=(Span(0, None, 0, 180),)), replace(deep[1], spans=(Span(0, None, 50, 180),))]
    (chosen,) = choose("t", runs, Policy(12, 1000), BEFORE)
    assert (chosen.runs, chosen.level, chosen.slices[0].full) == ((runs[0],), DEEPEST, True)


def test_a_table_that_nothing_writes_is_cleaned_once() -> None:
    runs = generation(5, 1 << 20)
    assert choose("t", runs, Policy(), BEFORE, aged=4) == []
    (chosen,) = choose("t", runs, Policy(), BEFORE, aged=5)
    cleaned = [replace(r, spans=(Span(0, None, 100, 2**63 - 1),)) for r in chosen.runs]
    assert choose("t", cleaned, Policy(), BEFORE, aged=5) == []


def test_separators_are_short_and_between() -> None:
    chance = random.Random(3)
    for _ in range(2000):
        low, high = sorted(bytes(chance.choices(range(3), k=chance.randrange(5))) for _ in range(2))
        if low < high:
            found = separator(low, high)
            assert low < found <= high
            assert len(found) <= len(high)


class Table:
    """Runs with their keys: of each key which epochs wrote it. Merges are done as chosen."""

    def __init__(self, chance: random.Random, keys: int, skewed: bool) -> None:
        self.chance = chance
        self.space = [
            (0 if skewed else chance.randrange(VNODES)).to_bytes(2, "big") + i.to_bytes(3, "big") for i in range(keys)
        ]
        self.rows: dict[str, dict[bytes, list[int]]] = {}
        self.expected: dict[bytes, list[int]] = {}
        self.version = Version.empty()
        self.busy: list[tuple[Compaction, list[Run]]] = []
        self.written = 0
        self.largest = 0

    def run(self, rows: dict[bytes, list[int]], epochs: tuple[int, int], **place: object) -> Run:
        name = f"f{len(self.rows)}.sst"
        self.rows[name] = rows
        vnodes = [int.from_bytes(k[:2], "big") for k in rows]
        span = min(vnodes), max(vnodes) + 1
        return Run("t", name, 0, len(rows), len(rows), *epochs, epochs[1], None, *span, **place)  # type: ignore[arg-type]

    def epoch(self, most: int) -> list[Run]:
        """What one epoch writes, in runs by vnode as partitions do."""
        epoch = self.version.epoch + 1
        keys = self.chance.sample(self.space, self.chance.randrange(1, min(most, len(self.space))))
        partitions = self.chance.choice((1, 1, 2, 5))
        shares: dict[int, dict[bytes, list[int]]] = {}
        for key in keys:
            shares.setdefault(int.from_bytes(key[:2], "big") * partitions // VNODES, {})[key] = [epoch]
            self.expected.setdefault(key, []).append(epoch)
        return [self.run(rows, (epoch, epoch)) for rows in shares.values()]

    def merged(self, chosen: Compaction, run_bytes: int) -> list[Run]:
        """The runs that take the place of others."""
        if chosen.moved:
            return [replace(r, level=chosen.level) for r in chosen.runs]
        new: list[Run] = []
        for part in chosen.slices:
            rows: dict[bytes, list[int]] = {}
            for run in part.runs:
                for key, epochs in self.rows[run.file].items():
                    if part.low <= key < part.high:
                        rows.setdefault(key, []).extend(epochs)
            read = sum(len(e) for e in rows.values())
            self.largest = max(self.largest, read)
            self.written += len(rows)
            keys = sorted(rows)
            if not keys:
                continue
            pieces = max(1, round(len(keys) / run_bytes)) if chosen.level else 1
            low = max(part.low, keys[0][:2])
            for i in range(pieces):
                held = keys[len(keys) * i // pieces : len(keys) * (i + 1) // pieces]
                end = len(keys) * (i + 1) // pieces
                high = (
                    separator(keys[end - 1], keys[end])
                    if i + 1 < pieces
                    else min(part.high, (int.from_bytes(keys[-1][:2], "big") + 1).to_bytes(2, "big"))
                )
                place = {"level": chosen.level, "low": low, "high": high} if chosen.level else {}
                new.append(self.run({k: rows[k] for k in held}, chosen.epochs, **place))
                low = high
            if part.full:  # nothing older may be anywhere but in what is merged
                names = {r.file for r in chosen.runs}
                for run in self.version.runs("t"):
                    older = run.epoch_high < chosen.epochs[0] or run.level > chosen.level
                    if run.file not in names and older:
                        assert not rows.keys() & self.rows[run.file].keys()
        return new

    def check(self) -> int:
        """Every key is read as it was written, oldest first; returns the most runs that hold one key."""
        runs = self.version.runs("t")
        assert conflict(runs) is None
        found: dict[bytes, list[int]] = {}
        met: dict[bytes, int] = {}
        for run in runs:
            low, high = run.keys
            for key, epochs in self.rows[run.file].items():
                assert low <= key < high
                found.setdefault(key, []).extend(epochs)
        for key in found:
            met[key] = sum(run.keys[0] <= key < run.keys[1] for run in runs)
        assert found == self.expected
        return max(met.values())


@pytest.mark.parametrize("skewed", [False, True])
def test_random_tables_are_read_as_they_were_written(seed: int, skewed: bool) -> None:
    """Merges of all kinds, several at once, finished in any order or failed."""
    for case in range(6):
        chance = random.Random(f"{seed} {case}")
        policy = Policy(
            chance.randrange(3, 8), chance.choice((20, 60)), chance.choice((3, 10)), chance.choice((150, 400))
        )
        table = Table(chance, chance.choice((50, 400, 1200)), skewed)
        met = 0
        for step in range(150):
            new, gone = table.epoch(chance.choice((5, 60))), []
            done = [b for b in table.busy if chance.random() < 0.5]
            table.busy = [b for b in table.busy if b not in done]
            for chosen, outputs in done:
                if chance.random() < 0.9:  # the others have failed
                    new += outputs
                    gone += chosen.runs
            epoch = table.version.epoch + 1
            table.version = table.version.seal(epoch, [replace(r, added=epoch) for r in new], gone)
            busy = [c for c, _ in table.busy]
            for chosen in choose("t", table.version.runs("t"), policy, busy=busy):
                table.busy.append((chosen, table.merged(chosen, policy.run_bytes)))
            if step % 10 == 0 or step > 140:
                met = max(met, table.check())
        assert met > 1
        assert any(r.level for r in table.version.runs("t"))


@pytest.mark.slow
def test_readers_meet_few_runs_and_rows_are_rewritten_little(seed: int) -> None:
    """Upserts over a table that grows to 100 times what comes down at once, without rest between epochs."""
    chance = random.Random(seed)
    policy = Policy(8, 200, 10, 2000)
    table = Table(chance, 20_000, False)
    rows = 0
    for step in range(2500):
        new, gone = table.epoch(40), []
        rows += sum(r.rows for r in new)
        for chosen, outputs in table.busy:
            new += outputs
            gone += chosen.runs
        epoch = table.version.epoch + 1
        table.version = table.version.seal(epoch, [replace(r, added=epoch) for r in new], gone).forget(epoch)
        runs = table.version.runs("t")
        table.busy = [(c, table.merged(c, policy.run_bytes)) for c in choose("t", runs, policy)]
        if step % 100 == 99:
            assert table.check() <= policy.most + 4
    table.check()
    levels = {r.level for r in table.version.runs("t")}
    assert levels == {0, 5, 6}
    assert table.written / rows < 2 * math.log2(rows)
    assert table.largest < 8 * policy.slice_bytes, "a slice stays small"
