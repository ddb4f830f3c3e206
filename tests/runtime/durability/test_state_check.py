"""``verify`` finds all that is not as it was written; ``collect`` removes what nobody needs, and nothing else."""

from __future__ import annotations

import hashlib
import os
import random
import subprocess
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from unittest import mock

import pytest

from state_root import CATALOG, PLACES, contents, flip, make_root, place, seal
from tidemill.errors import TidemillError
from tidemill.runtime.read.state_check import collect, verify
from tidemill.state.runs import sst
from tidemill.state.store.durable_runs import make_durable
from tidemill.state.store.file_names import epoch_of
from tidemill.state.store.garbage import Listing, garbage
from tidemill.state.store.store import OBJECTS, RunStore, default_buffer
from tidemill.state.versions.manifest import KEEP, ManifestLog
from tidemill.state.versions.objects import Objects
from tidemill.state.versions.version import Version

Made = tuple[ManifestLog, RunStore, Version]


@pytest.fixture(params=PLACES)
def made(request: pytest.FixtureRequest, tmp_path: Path) -> Made:
    if request.param == "s3":
        request.getfixturevalue("endpoint")
    return make_root(place(request.param, tmp_path))


@pytest.fixture
def local(tmp_path: Path) -> Made:
    return make_root(place("directory", tmp_path))


def directory_of(made: Made) -> Path:
    assert made[0].objects.directory is not None
    return made[0].objects.directory


def test_all_intact(made: Made) -> None:
    log, store, _ = made
    buffer = contents(store.buffer)
    found = verify(log.objects.url)
    assert found.intact
    assert found.complete == [3, 2, 1]
    sizes = {s.name: s.bytes for p in ("manifest/", OBJECTS) for s in log.objects.list(p)}
    assert {c.name: c.bytes for c in (*found.manifests, *found.files)} == sizes
    total = f"3 manifests and 3 files, {sum(sizes.values()):,} bytes checked: all intact"
    assert found.summary() == f"{log.objects.url}: {total}"
    assert contents(store.buffer) == buffer, "no copies are left behind"


def test_missing_and_damaged_objects(made: Made) -> None:
    log, _, version = made
    second, third = (OBJECTS + version.runs("a")[i].file for i in (1, 2))
    torn = log.objects.get(third)[:-9]
    log.objects.remove([second, third])
    log.objects.put(third, torn)
    found = verify(log.objects.url)
    assert not found.intact
    assert {c.name: (c.state, c.detail[:6], c.manifests) for c in found.files if not c.intact} == {
        second: ("missing", "TM1010", (2, 3)),
        third: ("damaged", "TM1011", (3,)),
    }
    assert found.complete == [1]
    assert "2 not intact" in found.summary()
    assert "go back to manifest 1," in found.summary()
    assert found.table(damaged_only=True)["name"].to_pylist() == [second, third]


def test_every_flipped_bit_of_a_root_is_found(local: Made, seed: int) -> None:
    chance = random.Random(seed)
    root = directory_of(local)
    for path in sorted([*root.glob("manifest/*"), *root.glob("sst/*")]):
        size = path.stat().st_size
        for at in {0, size - 1, *(chance.randrange(size) for _ in range(40))}:
            before = path.read_bytes()
            flip(path, at)
            found = verify(str(root))
            bad = [c.name for c in (*found.manifests, *found.files) if not c.intact]
            if bad != [str(path.relative_to(root))]:
                assert not bad and harmless(path, before, at), f"{path.name}, byte {at}"
            flip(path, at)
    assert verify(str(root)).intact


def harmless(path: Path, before: bytes, at: int) -> bool:
    """Padding between sections, the magic at the beginning, and the line feed of a manifest carry nothing."""
    if path.suffix == ".json":
        return at == 64
    return at < 8 or before[at] == 0


def test_damaged_newer_and_older_manifests(local: Made) -> None:
    log, root = local[0], directory_of(local)
    newest = root / log.name(3)
    whole = newest.read_bytes()
    newest.write_bytes(whole[:100])
    found = verify(str(root))
    assert [(m.state, m.manifests) for m in found.manifests] == [
        ("damaged", (3,)),
        ("intact", (2,)),
        ("intact", (1,)),
    ]
    assert "go back to manifest 2," in found.summary()
    newest.write_bytes(whole)
    (root / log.name(1)).write_bytes(b"")
    found = verify(str(root))
    assert "manifest 3, the newest, is intact with all its files" in found.summary()
    assert not found.intact


def test_what_a_newer_version_wrote_needs_an_upgrade(local: Made) -> None:
    """Not a manifest of before: all is well with it."""
    root = directory_of(local)
    newer_manifest(root, 99)
    found = verify(str(root))
    assert [(m.state, m.detail[:6]) for m in found.manifests[:2]] == [("newer format", "TM1002"), ("intact", "")]
    assert "TM1002: " in found.summary() and "upgrade Tidemill" in found.summary()
    assert "go back" not in found.summary() and "copy of the root" not in found.summary()
    (root / local[0].name(4)).unlink()
    file = root / OBJECTS / local[2].runs("a")[2].file
    parts = [(s.table, sst.RunFile(file).rows(i), s.ops) for i, s in enumerate(local[1].sections(file.name))]
    file.unlink()
    with mock.patch.object(sst, "FORMAT_VERSION", sst.FORMAT_VERSION + 1):
        sst.write(file, parts)
    found = verify(str(root))
    assert [(f.state, f.manifests) for f in found.files if not f.intact] == [("newer format", (3,))]
    assert "upgrade Tidemill" in found.summary() and "go back" not in found.summary()


def test_what_an_older_version_wrote_does_not(local: Made) -> None:
    root = directory_of(local)
    newer_manifest(root, 1)
    found = verify(str(root))
    assert found.manifests[0].state == "older format"
    assert "upgrade" not in found.summary() and "go back to manifest 3," in found.summary()


@pytest.mark.parametrize("beside", [True, False])
def test_nothing_is_durable_yet(tmp_path: Path, beside: bool) -> None:
    """Of a root that has just been begun nothing is removed, whether or not the mill that did so still runs."""
    log = ManifestLog(Objects(tmp_path / "root"), create=True)
    log.lock()
    store = RunStore(log.objects, default_buffer(log.objects))
    seal(store, 1)
    if not beside:
        log.unlock()
    before = contents(tmp_path)
    found = collect(str(tmp_path / "root"), grace=0)
    assert (found.files, contents(tmp_path)) == ((), before)
    assert found.summary(True) == "a mill has begun this root and nothing is durable yet: nothing was removed"
    with pytest.raises(TidemillError, match="TM1001") as caught:
        verify(str(tmp_path / "root"))
    assert "nothing durable yet" in caught.value.hint
    log.unlock()


@pytest.mark.parametrize("other", ["no lock", "a stranger's file", "state files", "nowhere"])
def test_other_places_are_no_roots_that_have_begun(tmp_path: Path, other: str) -> None:
    root = tmp_path / "root"
    if other != "nowhere":
        (root / "buffer").mkdir(parents=True)
        (root / "LOCK").touch()
    if other == "no lock":
        (root / "LOCK").unlink()
    elif other == "a stranger's file":
        (root / "CURRENT").write_text("of a database with a LOCK of its own")
    elif other == "state files":
        (root / "sst").mkdir()
        (root / "sst" / "c0000000001-x.sst").touch()
    with pytest.raises(TidemillError, match="TM1006" if other == "state files" else "TM1001") as caught:
        collect(str(root), grace=0)
    assert "nothing durable yet" not in caught.value.hint


def test_verify_changes_nothing(local: Made) -> None:
    root = directory_of(local)
    before = contents(root)
    verify(str(root))
    collect(str(root), grace=0, remove=False)
    assert contents(root) == before


def test_collect(made: Made) -> None:
    log, store, version = made
    late = version.seal(4, [], version.runs("a")[:1]).forget(4).drop(["b"])
    for number in range(4, KEEP + 4):
        log.publish(number, late, CATALOG)
    seal(store, 9)
    log.objects.put(f"{OBJECTS}c0000000099-orphan.sst", b"of a failed attempt")
    first = version.runs("a")[0].file
    dry = collect(log.objects.url, grace=0, remove=False)
    found = collect(log.objects.url, grace=0)
    over = 0 if log.objects.directory is not None else 1
    gone = {(f.place, f.name) for f in found.files}
    assert dry.files == found.files
    assert {n for p, n in gone if p == "durable"} == {OBJECTS + first, f"{OBJECTS}c0000000099-orphan.sst"}
    assert {n for p, n in gone if p == "manifest"} == {log.name(n) for n in range(1, 4 + over)}
    assert {epoch_of(n) for p, n in gone if p == "buffer" and n.endswith(".run")} == {1, 2, 3, 9}
    copies = {n for p, n in gone if p == "buffer" and n.endswith(".sst")}
    assert copies == ({first} if over else set())
    assert log.numbers() == list(range(4 + over, KEEP + 4 + over))
    assert sorted(n for n, _ in store.durable()) == sorted(late.files())
    assert store.buffered() == []
    checked = verify(log.objects.url)
    assert checked.intact and len(checked.files) == 2
    assert collect(log.objects.url, grace=0).files == ()
    assert f"removed {len(gone)} files" in found.summary(removed=True)


def test_grace_and_what_is_not_ours(local: Made) -> None:
    log, store, _ = local
    root = directory_of(local)
    half_a_manifest = root / "manifest" / "4567.staged"
    strangers = [root / "notes.txt", root / "sst" / "notes.txt", root / "buffer" / "other.run", root / "manifest" / "x"]
    for path in strangers:
        path.write_text("keep me")
    orphan, staged = root / "sst" / "c0000000009-x.sst", root / "sst" / "0123.staged"
    half = [staged, half_a_manifest, root / "buffer" / "89ab.staged"]
    for path in (orphan, *half):
        path.write_text("half")
    before = contents(root)
    young = collect(str(root))
    assert (young.files, young.young) == ((), 4 + len(store.buffered()))
    assert contents(root) == before
    hour_ago = time.time() - 3600
    for path in (orphan, *half, *strangers):
        os.utime(path, (hour_ago, hour_ago))
    found = collect(str(root))
    assert {(f.place, Path(f.name).name, f.bytes) for f in found.files} == {
        ("durable", orphan.name, 4),
        ("durable", staged.name, 4),
        ("manifest", half_a_manifest.name, 4),
        ("buffer", "89ab.staged", 4),
    }
    gone = {str(p.relative_to(root)) for p in (orphan, *half)}
    assert contents(root).keys() == before.keys() - gone
    assert log.numbers() == [1, 2, 3]


@pytest.mark.parametrize("harm", ["torn manifest", "missing file", "newer manifest"])
def test_nothing_is_removed_from_a_damaged_root(local: Made, harm: str) -> None:
    log, _, version = local
    root = directory_of(local)
    log.objects.put(f"{OBJECTS}c0000000099-orphan.sst", b"of a failed attempt")
    number = "TM1004"
    if harm == "torn manifest":
        (root / log.name(2)).write_bytes(b"torn")
    elif harm == "missing file":
        (root / OBJECTS / version.runs("a")[0].file).rename(root / "away")
        number = "TM1010"
    else:
        newer_manifest(root, 99)
        number = "TM1002"
    before = contents(root)
    with pytest.raises(TidemillError, match=number):
        collect(str(root), grace=0)
    assert contents(root) == before


def newer_manifest(root: Path, format_: int) -> None:
    body = b'{"format": %d}' % format_
    name = root / "manifest" / f"{4:020d}.json"
    name.write_bytes(hashlib.sha256(body).hexdigest().encode() + b"\n" + body)


def test_what_cannot_be_removed(local: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    root = directory_of(local)
    (root / "sst" / "c0000000009-x.sst").write_text("orphan")
    before = contents(root)

    def refuse(_: Objects, names: Iterable[str]) -> None:
        for name in names:
            raise OSError(f"{name}: read-only file system")

    with monkeypatch.context() as patch:
        patch.setattr(Objects, "remove", refuse)
        patch.setattr(Path, "unlink", lambda *_, **__: None)
        with pytest.raises(TidemillError, match="TM1038") as caught:
            collect(str(root), grace=0)
    assert "read-only" in caught.value.got
    assert contents(root) == before
    local[0].lock()  # it is free again
    local[0].unlock()


def test_the_rule_is_that_of_a_mill(made: Made, seed: int) -> None:
    """Of random rubbish a mill's collection and this one take the same, but what an attempt in flight may have."""
    chance = random.Random(seed)
    log, store, version = made
    for number in range(12):
        seal(store, chance.randrange(1, 7))
        log.objects.put(f"{OBJECTS}{chance.choice('cm')}{number:010d}-x.sst", b"orphan")
    late = version.seal(4, [], chance.sample(sorted(version.every(), key=str), 2)).forget(4)
    for number in range(4, 4 + chance.randrange(20)):
        log.publish(number, late, CATALOG)
    newest = log.latest()
    assert newest is not None
    mine = Listing.of(store, log)
    kept = [log.read(n).version.files() for n in log.numbers()[-KEEP:]]
    rule = garbage(mine, kept, (), (), newest.version.epoch, time.time(), 0.0)
    found = collect(log.objects.url, grace=0, remove=False)
    durable = {f.name.removeprefix(OBJECTS) for f in found.files if f.place == "durable"}
    buffered = {f.name for f in found.files if f.place == "buffer" and f.name.endswith(".run")}
    assert set(rule.durable) <= durable
    if log.objects.directory is not None:
        assert set(rule.durable) == durable
    assert set(rule.buffered) == {n for n in buffered if epoch_of(n) <= newest.version.epoch}
    assert buffered == {n for n, _ in store.buffered()}
    assert collect(log.objects.url, grace=0).files == found.files
    assert verify(log.objects.url).intact


def test_not_while_another_process_writes(local: Made) -> None:
    log, root = local[0], directory_of(local)
    (root / "sst" / "c0000000009-x.sst").write_text("being written")
    log.lock()
    before = contents(root)
    code = "import sys; from tidemill.runtime.read.state_check import collect; collect(sys.argv[1], grace=0)"
    done = subprocess.run([sys.executable, "-c", code, str(root)], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "TM1003: another process is writing to this root" in done.stderr
    assert contents(root) == before
    log.unlock()
    assert [f.name for f in collect(str(root), grace=0).files if f.place == "durable"] == [
        f"{OBJECTS}c0000000009-x.sst"
    ]


def test_a_root_that_cannot_be_locked_is_taken_over(endpoint: str, tmp_path: Path) -> None:
    """A mill that still runs loses the race for its next manifest, not a file."""
    log, store, version = make_root(place("s3", tmp_path))
    fresh = seal(store, 4)
    uploaded = version.seal(4, fresh).swapped(make_durable(store, [[r] for r in fresh], 4, 1 << 20))
    collect(log.objects.url, grace=0)
    with pytest.raises(TidemillError, match="TM1003"):
        log.publish(4, uploaded, CATALOG)
    again = ManifestLog(Objects(log.objects.url), create=False)
    newest = again.latest()
    assert newest is not None and (newest.number, newest.version) == (4, version)
    assert verify(log.objects.url).intact
