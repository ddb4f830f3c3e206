"""What garbage collection takes, and what it must not."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pyarrow as pa
import pytest

from tidemill.state.keys.keys import KeyColumn, encode
from tidemill.state.merge.merge import MergeOp, consolidate
from tidemill.state.runs.sst import Part
from tidemill.state.store.garbage import Garbage, Listing, garbage
from tidemill.state.store.store import RunStore
from tidemill.state.versions.manifest import ManifestLog
from tidemill.state.versions.objects import Objects

SUM = (MergeOp.SUM,)
NOTHING: frozenset[str] = frozenset()


def buffer_name(epoch: int, label: str = "0-0") -> str:
    return f"e{epoch:010d}-0123abcd-{label}-{epoch:032x}.run"


def test_only_what_is_old_unneeded_and_not_being_written_goes() -> None:
    listing = Listing(
        (("kept.sst", 0.0), ("pinned.sst", 0.0), ("young.sst", 95.0), ("m1-m-job-a.sst", 0.0), ("orphan.sst", 0.0)),
        (*((buffer_name(e), 0.0) for e in (1, 2, 9)), (buffer_name(3, "m-job"), 0.0)),
        (("kept.sst", 0.0), ("gone.sst", 0.0)),
        (("/buffer/a.staged", 0.0), ("/buffer/b.staged", 950.0)),
    )
    found = garbage(listing, [{"kept.sst"}, {buffer_name(1)}], [{"pinned.sst"}], {"m-job"}, 5, 100.0, 10.0)
    assert found == Garbage(("orphan.sst",), (buffer_name(2),), ("gone.sst",), ())
    later = garbage(listing, [], [], NOTHING, 5, 1000.0, 10.0)
    assert later.staged == ("/buffer/a.staged",)
    assert buffer_name(9) not in later.buffered, "it may belong to an attempt in flight"
    assert len(later) == 5 + 3 + 2 + 1
    nobody = garbage(listing, [], [], NOTHING, None, 1000.0, 10.0)
    assert buffer_name(9) in nobody.buffered, "no mill runs, so there is no attempt"


def test_random_listings_against_the_rule_in_words(seed: int) -> None:
    chance = random.Random(seed)
    for _ in range(300):
        names = [f"{chance.choice(('c', 'm-a', 'm-b'))}{i}.sst" for i in range(12)]
        durable = tuple((n, float(chance.randrange(100))) for n in names)
        buffered = tuple((buffer_name(i, chance.choice(("0", "m-a"))), float(chance.randrange(100))) for i in range(12))
        every = [*names, *(n for n, _ in buffered)]
        kept = [set(chance.sample(every, 3)) for _ in range(chance.randrange(3))]
        pinned = [set(chance.sample(every, 3)) for _ in range(chance.randrange(2))]
        labels = set(chance.sample(["m-a", "m-b"], chance.randrange(3)))
        epoch, now, grace = chance.randrange(12), 100.0, float(chance.randrange(100))
        found = garbage(Listing(durable, buffered), kept, pinned, labels, epoch, now, grace)
        for name, at in (*durable, *buffered):
            needed = any(name in files for files in (*kept, *pinned)) or any(label in name for label in labels)
            in_flight = name.endswith(".run") and int(name[1:11]) > epoch
            goes = not needed and not in_flight and now - at >= grace
            assert (name in found.durable or name in found.buffered) == goes, name


@pytest.mark.parametrize("kind", ["directory", "memory"])
def test_a_listing_is_removed_from_the_place_it_was_made_of(kind: str, tmp_path: Path) -> None:
    root = str(tmp_path / "root") if kind == "directory" else f"memory://{tmp_path}"
    store = RunStore(Objects(root), tmp_path / "buffer")
    log = ManifestLog(store.objects, create=True)
    keys = encode([pa.array([1], pa.int64())], (KeyColumn(pa.int64()),), 1)
    rows = consolidate(keys, [pa.array([1], pa.int64())], SUM, drop_zero=True)
    (buffered,) = store.write(1, [("t", rows, SUM)], "0-0")
    stays, goes = (store.write_object(1, Part("t", rows, SUM, (1, 1)), "m-x") for _ in range(2))
    staged = tmp_path / "buffer" / "half.staged"
    staged.write_bytes(b"half")
    foreign = tmp_path / "buffer" / "notes.txt"
    foreign.write_text("not ours")
    for path in (tmp_path / "buffer").iterdir():
        os.utime(path, (0, 0))
    listing = Listing.of(store, log)
    assert {n for n, _ in listing.durable} == {stays.file, goes.file}
    assert [n for n, _ in listing.buffered] == [buffered.file]
    assert {n for n, _ in listing.copies} == ({stays.file, goes.file} if kind == "memory" else set())
    found = garbage(listing, [{stays.file}], [], NOTHING, 1, 1e12, 0.0)
    found.remove(store)
    assert [n for n, _ in store.durable()] == [stays.file]
    assert store.buffered() == []
    assert not staged.exists()
    assert foreign.exists()
    assert len(store.open(stays)) == 1
    assert len(garbage(Listing.of(store, log), [{stays.file}], [], NOTHING, 1, 1e12, 0.0)) == 0


def test_a_buffer_that_is_not_there_yet_is_empty(tmp_path: Path) -> None:
    objects = Objects(tmp_path / "root")
    listing = Listing.of(RunStore(objects, tmp_path / "buffer"), ManifestLog(objects, create=True))
    assert listing == Listing((), ())
