"""Versions: sealing, compacting and forgetting against a dictionary of epochs."""

from __future__ import annotations

import json
import random
from collections import Counter
from dataclasses import replace

from tidemill.state.store.compaction import Policy, choose
from tidemill.state.versions.unmerged import unmerged
from tidemill.state.versions.version import Run, Span, Version


def run(file: str, epoch: int, table: str = "t", low: int | None = None, size: int = 100) -> Run:
    """A run of one epoch, or of epochs ``low`` to ``epoch``."""
    return Run(table, file, 0, 1, size, epoch if low is None else low, epoch, epoch)


def names(runs: tuple[Run, ...]) -> list[str]:
    return [r.file for r in runs]


def test_empty() -> None:
    version = Version.empty()
    assert (version.epoch, version.horizon, version.runs("t"), version.files()) == (0, 0, (), frozenset())


def test_each_epoch_sees_what_was_added_up_to_it() -> None:
    version = Version.empty().seal(1, [run("a", 1)]).seal(2, []).seal(3, [run("b", 3), run("u", 3, "other")])
    assert names(version.runs("t")) == ["a", "b"]
    assert names(version.runs("t", 2)) == ["a"]
    assert names(version.runs("t", 0)) == []
    assert names(version.changes("t", 3)) == ["b"]
    assert names(version.changes("t", 2)) == []
    assert version.files() == {"a", "b", "u"}


def test_a_version_is_not_changed_by_the_next() -> None:
    first = Version.empty().seal(1, [run("a", 1)])
    first.seal(2, [replace(run("m", 1, low=1), added=2)], [first.runs("t")[0]])
    assert names(first.runs("t")) == ["a"]


def test_compacted_runs_stay_for_older_epochs() -> None:
    version = Version.empty().seal(1, [run("a", 1)]).seal(2, [run("b", 2)])
    merged = replace(run("m", 2, low=1), added=3)
    version = version.seal(3, [run("c", 3), merged], version.runs("t"))
    assert names(version.runs("t")) == ["m", "c"], "oldest changes first"
    assert names(version.runs("t", 2)) == ["a", "b"]
    assert names(version.changes("t", 2)) == ["b"]
    assert names(version.changes("t", 3)) == ["c"], "a merge is no change"


def test_forgetting_keeps_what_the_horizon_sees() -> None:
    version = Version.empty().seal(1, [run("a", 1)]).seal(2, [run("b", 2)])
    version = version.seal(3, [replace(run("m.sst", 2, low=1), added=3)], version.runs("t")).seal(4, [run("d", 4)])
    assert version.forget(2).files() == {"a", "b", "m.sst", "d"}
    assert version.forget(3).files() == {"m.sst", "d"}
    assert names(version.forget(3).runs("t", 3)) == ["m.sst"]
    assert version.forget(3).forget(1).horizon == 3, "what is forgotten does not come back"
    assert version.forget(-5).horizon == 0


def test_tables_without_history_keep_what_is_visible() -> None:
    version = Version.empty()
    for epoch in range(1, 4):
        version = version.seal(epoch, [run(f"{t}{epoch}", epoch, t) for t in "tu"])
    merged = [replace(run(f"m{t}.sst", 3, t, low=1), added=4) for t in "tu"]
    version = version.seal(4, merged, [*version.runs("t"), *version.runs("u")]).forget(1, {"u", "never there"})
    assert names(version.runs("u")) == ["mu.sst"]
    assert names(version.runs("t", 2)) == ["t1", "t2"]
    assert version.files() == {"t1", "t2", "t3", "mt.sst", "mu.sst"}
    assert version.horizon == 1


def test_inputs_of_merges_in_buffers_are_held_without_history() -> None:
    version = Version.empty().seal(1, [run("a", 1)]).seal(2, [run("b", 2)])
    version = version.seal(3, [replace(run("m", 2, low=1), added=3)], version.runs("t")).forget(-5, {"t"})
    assert names(version.runs("t")) == ["m"]
    assert sorted(r.file for r in version.held["t"]) == ["a", "b"]
    assert names(unmerged(version, 1 << 20).runs("t")) == ["a", "b"]


def test_dropped_tables_are_gone_and_others_are_not() -> None:
    version = Version.empty().seal(1, [run("a", 1), run("b", 1, "kept")]).drop(["t", "never there"])
    assert version.tables.keys() == {"kept"}
    assert version.files() == {"b"}


def test_levels_are_older_than_young_runs_and_survive_a_manifest() -> None:
    young = run("young", 4)
    spans = (Span(0, None, -5, 7), Span(2, 1, 0, 2**63 - 1))
    deep = [
        replace(run(f"deep{level}", 9, low=1), level=level, low=b"\0\1", high=b"\0\xff\7", spans=spans)
        for level in (5, 6)
    ]
    version = Version.empty().seal(10, [*deep, young])
    assert names(version.runs("t")) == ["deep6", "deep5", "young"]
    assert Version.from_json(json.loads(json.dumps(version.to_json()))) == version


def test_a_run_that_was_moved_is_where_it_was_for_older_epochs() -> None:
    deep = replace(run("a.sst", 1), level=5, low=b"\0\1", high=b"\0\2")
    version = Version.empty().seal(1, [deep])
    version = version.seal(2, [replace(deep, level=6, added=2)], [deep])
    assert [[r.level for r in version.runs("t", e)] for e in (1, 2)] == [[5], [6]]
    assert version.files() == {"a.sst"}


def test_vnode_ranges_overlap() -> None:
    part = replace(run("a", 1), vnode_low=64, vnode_high=128)
    assert part.overlaps(0, 256)
    assert part.overlaps(127, 128)
    assert not part.overlaps(128, 256)
    assert not part.overlaps(0, 64)


def test_random_histories_agree_with_a_dictionary_of_epochs(seed: int) -> None:
    """Seal, merge what the policy chooses, forget and reload; every epoch that is left reads as it was."""
    for case in range(40):
        chance = random.Random(seed + case)
        contents: dict[str, Counter[int]] = {}
        expected: dict[int, Counter[int]] = {0: Counter()}
        version, made = Version.empty(), 0
        history, most = chance.choice([2, 5, 100]), chance.randrange(1, 6)
        waiting: tuple[tuple[Run, ...], Run] | None = None
        for epoch in range(1, 40):
            state, new = Counter(expected[epoch - 1]), []
            for _ in range(chance.randrange(3)):
                made += 1
                changes = Counter({chance.randrange(5): chance.choice([-1, 1, 2]) for _ in range(3)})
                contents[f"f{made}"] = changes
                new.append(run(f"f{made}", epoch, size=chance.randrange(1, 1000)))
                for key, weight in changes.items():
                    state[key] += weight
            removed: tuple[Run, ...] = ()
            if waiting is not None and chance.random() < 0.7:
                removed, merged = waiting
                new.append(replace(merged, added=epoch))
                waiting = None
            expected[epoch] = state
            version = version.seal(epoch, new, removed).forget(epoch - history)
            if chance.random() < 0.2:
                version = Version.from_json(json.loads(json.dumps(version.to_json())))
            found = choose("t", version.runs("t"), Policy(most, 1 << 60))
            if waiting is None and found:
                (chosen,) = found
                made += 1
                contents[f"f{made}"] = total(contents, chosen.runs)
                low, high = chosen.runs[0].epoch_low, chosen.runs[-1].epoch_high
                size = sum(r.bytes for r in chosen.runs)
                waiting = chosen.runs, run(f"f{made}", high, low=low, size=size)
            for old in range(version.horizon, epoch + 1):
                assert nonzero(total(contents, version.runs("t", old))) == nonzero(expected[old]), (case, epoch, old)
                if old > version.horizon:
                    change = Counter(expected[old])
                    change.subtract(expected[old - 1])
                    assert nonzero(total(contents, version.changes("t", old))) == nonzero(change), (case, epoch, old)
            if waiting is None:
                generations = {r.epoch_high for r in version.runs("t")}
                assert len(generations) <= most, "the policy keeps the number of generations small"


def total(contents: dict[str, Counter[int]], runs: tuple[Run, ...]) -> Counter[int]:
    """The sum of the changes that runs hold."""
    result: Counter[int] = Counter()
    for each in runs:
        for key, weight in contents[each.file].items():
            result[key] += weight
    return result


def nonzero(counts: Counter[int]) -> dict[int, int]:
    return {k: v for k, v in counts.items() if v}
