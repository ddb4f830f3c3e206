"""Versions as manifests have them, against the sets of changes that each run holds."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace

import pytest

from tidemill.state.versions import unmerged as module
from tidemill.state.versions.unmerged import MOST_GENERATIONS, unmerged
from tidemill.state.versions.version import Run, Span, Swap, Version


class Story:
    """Epochs of one table, with merges and checkpoints; a change is ``(epoch, task)``."""

    def __init__(self, chance: random.Random, history: int) -> None:
        self.chance, self.history, self.left_out = chance, history, 1 << 40
        self.version = Version.empty()
        self.holds: dict[str, frozenset[tuple[int, int]]] = {}
        self.written: Counter[str] = Counter()
        """How often a checkpoint has written each change: of a sealed run, of a merge."""
        self.direct: set[str] = set()

    def new_file(self, changes: frozenset[tuple[int, int]], durable: bool) -> str:
        file = f"{len(self.holds)}.{'sst' if durable else 'run'}"
        self.holds[file] = changes
        return file

    def seal(self, tasks: int, merge: int = 0, slices: int = 1, direct: bool = False) -> None:
        """An epoch of some tasks; the newest so many generations have been merged meanwhile."""
        epoch = self.version.epoch + 1
        runs = []
        for task in range(tasks):
            file = self.new_file(frozenset([(epoch, task)]), durable=False)
            place = (epoch, epoch, epoch, None, task, task + 1)
            runs.append(Run("t", file, 0, 1, 1, *place))
        generations = sorted({(r.epoch_low, r.epoch_high) for r in self.version.runs("t")})[-merge:] if merge else []
        gone = [r for r in self.version.runs("t") if (r.epoch_low, r.epoch_high) in generations]
        if len(generations) > 1:
            changes = sorted(c for r in gone for c in self.holds[r.file])
            low, high = generations[0][0], generations[-1][1]
            for i in range(slices):
                file = self.new_file(frozenset(changes[i::slices]), durable=direct)
                runs.append(Run("t", file, 0, 1, 1, low, high, epoch, None, i, i + 1))
        self.version = self.version.seal(epoch, runs, gone if len(generations) > 1 else ())
        self.version = self.version.forget(epoch - self.history)

    def checkpoint(self) -> Version:
        """What a manifest has; the mill reads from durable objects what they have."""
        published = unmerged(self.version, self.left_out)
        swaps = []
        for run in published.every():
            if not run.is_durable:
                self.written["sealed" if run.epoch_low == run.epoch_high else "merged"] += len(self.holds[run.file])
                swaps.append(Swap((run,), (replace(run, file=self.new_file(self.holds[run.file], durable=True)),)))
        self.version = self.version.swapped(swaps)
        return published.swapped(swaps)

    def changes(self, version: Version, epoch: int) -> list[tuple[int, int]]:
        """All changes that the runs visible at an epoch hold."""
        return sorted(c for r in version.runs("t", epoch) for c in self.holds[r.file])


def check(story: Story, published: Version) -> None:
    """The same changes at every epoch that can be read, none twice."""
    mine = story.version
    assert (published.epoch, published.horizon) == (mine.epoch, mine.horizon)
    for epoch in range(max(mine.horizon, 0), mine.epoch + 1):
        expected = story.changes(mine, epoch)
        assert story.changes(published, epoch) == expected
        assert len(set(expected)) == len(expected)
        assert {e for e, _ in expected} == set(range(1, epoch + 1))
    for epoch in range(max(mine.horizon, 1), mine.epoch + 1):
        assert [r.epoch_low for r in published.changes("t", epoch)] == [r.epoch_low for r in mine.changes("t", epoch)]


def test_any_story(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    chance = random.Random(seed)
    left_out = 0
    for _ in range(40):
        monkeypatch.setattr(module, "MOST_GENERATIONS", chance.choice([3, 10, 30, 1000]))
        story = Story(chance, chance.choice([0, 1, 5, 40]))
        for _ in range(chance.randint(5, 120)):
            merge = chance.choice([0, 0, 2, 5, 50])
            story.seal(chance.choice([1, 1, 3]), merge, chance.choice([1, 2]), chance.random() < 0.2)
            if chance.random() < 0.3:
                published = story.checkpoint()
                check(story, published)
                assert all(r.is_durable for r in published.every())
                left_out += any(not r.is_durable for r in story.version.every())
                if chance.random() < 0.1:  # the mill ends here, and goes on from its manifest
                    story.version = published
    assert left_out > 50


def test_young_merges_are_never_written() -> None:
    """Three generations become one, and three of these, while older epochs are forgotten."""
    story = Story(random.Random(0), history=20)
    for epoch in range(1, 400):
        story.seal(1, merge=3 if epoch % 3 == 0 else 0, direct=epoch % 60 == 0)
        if epoch % 60 == 0:
            story.seal(1, merge=1000, direct=True)
        story.checkpoint()
        assert len(unmerged(story.version, story.left_out).runs("t")) <= MOST_GENERATIONS
    assert story.written["merged"] == 0
    assert story.written["sealed"] == story.version.epoch


def test_what_is_merged_is_written_when_there_are_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_GENERATIONS", 10)
    story = Story(random.Random(0), history=1000)
    for epoch in range(1, 60):
        story.seal(1, merge=4 if epoch % 4 == 0 else 0)
        published = story.checkpoint()
        check(story, published)
        assert len(published.runs("t")) <= max(10, len(story.version.runs("t")))
    assert 0 < story.written["merged"] <= 60
    kept = {r.removed for r in story.version.retired["t"]}
    assert kept, "history"


def test_inputs_are_kept_while_their_merge_is_in_a_buffer_alone() -> None:
    story = Story(random.Random(0), history=5)
    for epoch in range(1, 30):
        story.seal(1, merge=3 if epoch == 4 else 0)
    merge = next(r for r in story.version.every() if r.epoch_low != r.epoch_high)
    inputs = {r.file for r in story.version.every() if r.was_merged(4, (1, 3))}
    assert len(inputs) == 3
    assert inputs <= unmerged(story.version, 1 << 40).files()
    durable = Swap((merge,), (replace(merge, file="merged.sst"),))
    after = story.version.swapped([durable]).forget(26)
    assert not inputs & after.files()
    assert "merged.sst" in {r.file for r in after.runs("t")}


def test_merges_in_buffers_have_few_bytes() -> None:
    """The newest stay there; others are written."""
    story = Story(random.Random(0), history=5)
    story.left_out = 4  # each run has one byte
    for epoch in range(1, 200):
        story.seal(1, merge=3 if epoch % 3 == 0 else 0)
        check(story, story.checkpoint())
        assert sum(not r.is_durable for r in story.version.every()) <= 4
    assert 0 < story.written["merged"] < 250


def test_what_is_held_has_no_merges_within_merges() -> None:
    """Of merges of merges a version holds the first inputs alone, once no epoch sees the merges between."""
    story = Story(random.Random(0), history=2)
    for epoch in range(1, 40):
        story.seal(1, merge=1000 if epoch % 4 == 0 else 0)
        check(story, story.checkpoint())
    outer = max((r for r in story.version.runs("t")), key=lambda r: r.epoch_high - r.epoch_low)
    held = story.version.held["t"]
    assert sorted(r.epoch_low for r in held) == list(range(1, outer.epoch_high + 1))
    assert all(r.epoch_low == r.epoch_high and r.is_durable and r.removed == outer.added for r in held)
    assert len(held) + len(story.version.retired.get("t", ())) + len(story.version.runs("t")) < 50


def test_merges_of_tables_whose_rows_expire_are_written() -> None:
    version = Version.empty()
    for epoch in (1, 2):
        version = version.seal(epoch, [Run("t", f"{epoch}.run", 0, 1, 1, epoch, epoch, epoch)])
    merged = Run("t", "m.run", 0, 1, 1, 1, 2, 3, spans=(Span(0, None, 1, 2),))
    version = version.seal(3, [merged], version.runs("t"))
    assert [r.file for r in unmerged(version, 1 << 40).runs("t")] == ["m.run"]
    plain = replace(merged, spans=())
    version = Version(3, {"t": (plain,)}, 0, version.retired)
    assert [r.file for r in unmerged(version, 1 << 40).runs("t")] == ["1.run", "2.run"]
