"""Looking into a root: tables, runs, sections, rows and files, and who needs them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from state_root import PLACES, contents, flip, make_root, place, seal
from tidemill.errors import TidemillError
from tidemill.runtime.read.state_report import StateReport
from tidemill.state.store.durable_runs import make_durable
from tidemill.state.store.store import OBJECTS, RunStore
from tidemill.state.versions.manifest import ManifestLog
from tidemill.state.versions.objects import Objects
from tidemill.state.versions.version import Version

Made = tuple[ManifestLog, RunStore, Version]


@pytest.fixture(params=PLACES)
def made(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Made]:
    """A root with three durable epochs and one that is sealed only, held by the mill that writes it."""
    if request.param == "s3":
        request.getfixturevalue("endpoint")
    log, store, version = make_root(place(request.param, tmp_path))
    log.lock()
    store.note_sealed(log.writer, version.seal(4, seal(store, 4)))
    yield log, store, version
    log.unlock()


def by(table: pa.Table, column: str) -> dict[Any, dict[str, Any]]:
    return {row[column]: row for row in table.to_pylist()}


def test_tables(made: Made) -> None:
    log, _, version = made
    report = StateReport.open(log.objects.url)
    found = by(report.tables(), "table")
    assert set(found) == {"a", "b"}
    sizes = {t: sum(r.bytes for r in version.runs(t)) for t in "ab"}
    for name, rows in (("a", 10), ("b", 1)):
        table = found[name]
        assert (table["runs"], table["rows"], table["bytes"]) == (3, 3 * rows, sizes[name])
        assert (table["first_epoch"], table["last_epoch"]) == (1, 3)
        assert table["buffered_rows"] == rows, "epoch 4 is not durable; the files of 1 to 3 are"
        assert (table["history_bytes"], table["buffered_bytes"] > 0) == (0, True)
    assert "epochs 0 to 3 are durable, in manifest 3" in report.title()
    assert report.title().endswith("; epoch 4 is sealed")
    whole = sum(s.bytes for s in log.objects.list(OBJECTS))
    assert report.sizes() == (
        f"{sum(sizes.values()):,} bytes are needed for epoch 3, 0 more for the history back to epoch 0; "
        f"all 3 durable files have {whole:,}"
    )
    assert (report.missing(), [t["missing_files"] for t in found.values()]) == ("", [0, 0])


def test_what_is_missing(made: Made) -> None:
    log, _, version = made
    first, second = sorted(version.runs("a")[i].file for i in (0, 2))
    log.publish(4, version.seal(4, [], version.runs("a")[:1]).drop(["b"]), log.read(3).catalog)
    assert StateReport.open(log.objects.url).missing() == ""
    log.objects.remove([OBJECTS + first, OBJECTS + second])
    report = StateReport.open(log.objects.url)
    assert by(report.tables(), "table")["a"]["missing_files"] == 2, "also the one that only history needs"
    assert report.missing() == (
        f"missing: sst/{first} and 1 more, which manifest 4 names; `tidemill state verify` says what is intact"
    )


def test_only_what_is_sealed_counts_as_buffered(made: Made) -> None:
    """Another attempt at a sealed epoch, and one at the next, do not; nor what an earlier mill has left."""
    log, store, version = made
    for epoch in (4, 5):
        seal(store, epoch)
    report = StateReport.open(log.objects.url)
    counted = {n: t["buffered_rows"] for n, t in by(report.tables(), "table").items()}
    assert counted == {"a": 10, "b": 1}
    used = sorted((f["last_epoch"], f["used_by"]) for f in report.files().to_pylist() if f["place"] == "buffer")
    assert used[3:] == [(4, "next checkpoint"), (4, "nothing"), (5, "unsealed")]
    log.publish(4, version.seal(4, version.runs("a")[:1]), log.read(3).catalog)
    assert by(StateReport.open(log.objects.url).tables(), "table")["a"]["buffered_rows"] == 0, "it is durable"
    used = [f["used_by"] for f in StateReport.open(log.objects.url).files().to_pylist() if f["place"] == "buffer"]
    assert used.count("mill") == 1, "the mill reads what it has sealed until it is told of the object"
    other = ManifestLog(Objects(log.objects.url), create=True)
    log.unlock()
    other.publish(5, version, log.read(3).catalog)
    left = StateReport.open(log.objects.url)
    assert {t["buffered_rows"] for t in left.tables().to_pylist()} == {0}
    assert "is sealed" not in left.title()


@pytest.mark.parametrize("harm", ["no mill", "torn note", "files gone"])
def test_notes_that_say_nothing(tmp_path: Path, harm: str) -> None:
    log, store, version = make_root(place("directory", tmp_path))
    fresh = seal(store, 4)
    log.lock()
    store.note_sealed(log.writer, version.seal(4, fresh))
    assert by(StateReport.open(log.objects.url).tables(), "table")["a"]["buffered_rows"] == 10
    if harm == "no mill":
        log.unlock()
    elif harm == "torn note":
        (store.buffer / "sealed.json").write_text('{"writer": "')
    else:
        store.path(fresh[0].file).unlink()
    assert by(StateReport.open(log.objects.url).tables(), "table")["a"]["buffered_rows"] == 0
    log.unlock()


def test_a_note_that_cannot_be_written_leaves_nothing(tmp_path: Path) -> None:
    log, store, version = make_root(place("directory", tmp_path))
    (store.buffer / "sealed.json").mkdir()
    before = contents(tmp_path)
    store.note_sealed(log.writer, version)
    assert contents(tmp_path) == before


def test_files(made: Made) -> None:
    log, store, version = made
    merged = seal(store, 5)[0]
    newer = version.seal(4, [merged], version.runs("a")[:1]).forget(4).drop(["b"])
    swapped = newer.swapped(make_durable(store, [[merged]], 4, 1 << 20))
    log.publish(4, swapped, log.read(3).catalog)
    log.objects.put(f"{OBJECTS}orphan.sst", b"never finished")
    report = StateReport.open(log.objects.url)
    found = by(report.files(), "file")
    durable = {n: f for n, f in found.items() if f["place"] == "durable"}
    assert sorted((f["used_by"], f["rows"]) for f in durable.values()) == [
        ("manifest 3", 11),
        ("newest", 10),
        ("newest", 10),
        ("newest", 10),
        ("nothing", 0),
    ]
    listed = {s.name.removeprefix(OBJECTS): s.bytes for s in log.objects.list(OBJECTS)}
    assert {n: f["bytes"] for n, f in durable.items()} == listed
    buffered = [(f["first_epoch"], f["used_by"], f["tables"]) for f in found.values() if f["place"] == "buffer"]
    used = {4: "mill", 5: "unsealed"}  # the mill noted epoch 4, and would read it from there until it is told otherwise
    assert buffered == [(e, used.get(e, "nothing"), 2) for e in (1, 2, 3, 4, 5)]
    gone = version.runs("a")[1].file
    log.objects.remove([OBJECTS + gone])
    assert by(StateReport.open(log.objects.url).files(), "file")[gone]["place"] == "missing"


def test_runs_and_history(made: Made) -> None:
    log, _, version = made
    log.publish(4, version.seal(4, [], version.runs("a")[:1]), log.read(3).catalog)
    report = StateReport.open(log.objects.url)
    runs = report.runs(report.find("a")).to_pylist()
    assert [(r["first_epoch"], r["last_epoch"], r["added"], r["removed"]) for r in runs] == [
        (1, 1, 1, 4),
        (2, 2, 2, None),
        (3, 3, 3, None),
    ]
    assert all(0 <= r["first_vnode"] <= r["last_vnode"] < 256 for r in runs)
    assert by(report.tables(), "table")["a"]["history_bytes"] == runs[0]["bytes"]
    newest = sum(r.bytes for t in "ab" for r in version.runs(t)) - runs[0]["bytes"]
    said = f"{newest:,} bytes are needed for epoch 4, {runs[0]['bytes']:,} more for the history back to epoch 0; "
    assert report.sizes().startswith(said)


def test_sections_and_rows_of_a_file(made: Made) -> None:
    log, store, version = made
    report = StateReport.open(log.objects.url)
    run = version.runs("a")[0]
    assert report.find(run.file) == report.find(run.file[:20]) == report.find(f"sst/{run.file[:30]}…") == run.file
    sections = by(report.sections(run.file), "table")
    assert {t: (s["rows"], s["first_epoch"], s["state"]) for t, s in sections.items()} == {
        "a": (10, 1, "intact"),
        "b": (1, 1, "intact"),
    }
    assert sections["b"]["first_key"] == sections["b"]["last_key"] == store.open(version.runs("b")[0]).keys[0].hex()
    assert [(t, r.num_rows) for t, r in report.rows(run.file, 4)] == [("section 0, a", 4), ("section 1, b", 1)]
    assert [r.num_rows for _, r in report.rows("a", 4)] == [4, 4, 4], "not merged: nobody knows its key"
    [buffered] = [n for n, _ in store.buffered() if n.startswith("e0000000004")]
    assert by(report.sections(buffered), "table")["a"]["last_epoch"] == 4


def test_damaged_section_is_told_and_the_others_shown(tmp_path: Path) -> None:
    log, store, version = make_root(place("directory", tmp_path))
    run = version.runs("a")[0]
    flip(store.path(run.file), store.sections(run.file)[run.section].offset + run.bytes // 2)
    report = StateReport.open(log.objects.url)
    states = [s["state"] for s in report.sections(run.file).to_pylist()]
    assert states == ["TM1011", "intact"]


def test_names_that_mean_nothing(made: Made) -> None:
    report = StateReport.open(made[0].objects.url)
    for name, words in (("aa", "did you mean 'a'?"), ("nothing", "valid names: a, b"), ("c00000000", "3 files begin")):
        with pytest.raises(TidemillError, match="TM1037") as caught:
            report.find(name)
        assert words in caught.value.message()


def test_buffer_elsewhere(tmp_path: Path) -> None:
    objects = Objects(tmp_path / "root")
    log, _, version = make_root(objects)
    store = RunStore(objects, tmp_path / "other")
    log.lock()
    store.note_sealed(log.writer, version.seal(4, seal(store, 4)))
    assert by(StateReport.open(objects.url).tables(), "table")["a"]["buffered_rows"] == 0
    report = StateReport.open(objects.url, str(tmp_path / "other"))
    assert by(report.tables(), "table")["a"]["buffered_rows"] == 10
    log.unlock()
