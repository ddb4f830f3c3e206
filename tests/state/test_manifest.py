"""Manifests: numbered, checksummed, written once; one writer at a time."""

from __future__ import annotations

import hashlib
import json
import os
import random
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tidemill.errors import TidemillError
from tidemill.state.versions.manifest import FORMAT_VERSION, ManifestLog
from tidemill.state.versions.objects import Objects, local_directory
from tidemill.state.versions.version import Run, Version

VERSION = Version.empty().seal(1, [Run("t", "a", 0, 3, 100, 1, 1, 1)])


@pytest.fixture
def log(tmp_path: Path) -> ManifestLog:
    return ManifestLog(Objects(tmp_path / "root"), create=True)


@contextmanager
def no_space() -> Iterator[None]:
    """No file can be longer than 10 bytes. The test's own output too, so be brief."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def directory_of(log: ManifestLog) -> Path:
    assert log.objects.directory is not None
    return log.objects.directory


def path_of(log: ManifestLog, number: int) -> Path:
    return directory_of(log) / "manifest" / f"{number:020d}.json"


def test_published_is_read_back(log: ManifestLog) -> None:
    assert log.latest() is None
    log.publish(1, Version.empty(), {})
    written = log.publish(2, VERSION, {"catalog": {"x": [1, "ü"]}})
    assert log.latest() == written
    assert log.read(1).version == Version.empty()
    assert log.numbers() == [1, 2]


def test_a_number_is_given_once(log: ManifestLog) -> None:
    log.publish(1, VERSION, {"by": "first"})
    other = ManifestLog(log.objects, create=False)
    with pytest.raises(TidemillError, match="TM1003") as caught:
        other.publish(1, Version.empty(), {"by": "second"})
    assert log.writer in caught.value.got
    assert log.read(1).catalog == {"by": "first"}


def test_a_writer_that_fell_behind_is_fenced(log: ManifestLog) -> None:
    for number in (1, 2, 3):
        log.publish(number, VERSION, {})
    with pytest.raises(TidemillError, match="TM1003"):
        ManifestLog(log.objects, create=False).publish(2, VERSION, {})


def test_two_writers_at_the_same_moment(log: ManifestLog, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both looked before either wrote: the name decides."""
    rival = ManifestLog(log.objects, create=True)
    looks = iter([[]])
    monkeypatch.setattr(rival, "numbers", lambda: next(looks, log.numbers()))
    log.publish(1, VERSION, {"by": "first"})
    with pytest.raises(TidemillError, match="TM1003"):
        rival.publish(1, VERSION, {"by": "second"})
    assert log.read(1).catalog == {"by": "first"}
    assert [p.name for p in (directory_of(log) / "manifest").iterdir()] == [path_of(log, 1).name]


@pytest.mark.parametrize("lag", [0, 2])
def test_a_list_that_lags_for_ever(log: ManifestLog, monkeypatch: pytest.MonkeyPatch, lag: int) -> None:
    """Another writer's manifest that no list shows is found by its name; so are this writer's own."""
    rival = ManifestLog(log.objects, create=True)
    for number in (1, 2, 3):
        log.publish(number, VERSION, {"by": "first"})
    monkeypatch.setattr(rival, "numbers", lambda: log.numbers()[:lag])
    with pytest.raises(TidemillError, match="TM1003") as caught:
        rival.publish(3, VERSION, {"by": "second"})
    assert caught.value.got == f"manifest 3 was written by {log.writer}"
    monkeypatch.setattr(log, "numbers", lambda: ManifestLog(log.objects, create=False).numbers()[:lag])
    published = log.publish(2, VERSION, {"by": "first, again"})
    assert (published.number, log.read(4).catalog) == (4, {"by": "first, again"})
    assert log.read(2).catalog == log.read(3).catalog == {"by": "first"}


def test_a_manifest_that_is_there_and_is_not(log: ManifestLog, monkeypatch: pytest.MonkeyPatch) -> None:
    """A store that refuses a name and then has nothing under it: an error, after which it can be tried again."""

    def refuse(name: str, _: bytes) -> None:
        raise FileExistsError(name)

    with monkeypatch.context() as patch:
        patch.setattr(log.objects, "put", refuse)
        with pytest.raises(TidemillError, match="TM1014"):
            log.publish(1, VERSION, {})
    assert log.publish(1, VERSION, {}).number == 1


def test_bytes_reach_the_disk_before_the_name_does(log: ManifestLog, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[str, bool]] = []

    def fsync(descriptor: int) -> None:
        seen.append((Path(f"/proc/self/fd/{descriptor}").readlink().name, path_of(log, 1).exists()))

    monkeypatch.setattr(os, "fsync", fsync)
    log.publish(1, VERSION, {})
    assert [(name.endswith(".staged"), there) for name, there in seen] == [(True, False), (False, True)]
    assert seen[1][0] == "manifest"


def test_every_changed_byte_is_detected_or_harmless(log: ManifestLog, seed: int) -> None:
    expected = log.publish(1, VERSION, {"a": 1})
    raw, chance = path_of(log, 1).read_bytes(), random.Random(seed)
    for position in range(len(raw)):
        damaged = bytearray(raw)
        damaged[position] ^= chance.randrange(1, 256)
        path_of(log, 1).write_bytes(damaged)
        try:
            assert log.read(1) == expected, f"byte {position}"
            assert position == 64, "only the line feed after the checksum does not matter"
        except TidemillError as error:
            assert error.number == "TM1004", f"byte {position}: {error}"


@pytest.mark.parametrize("length", [0, 1, 63, 64, 65, 100])
def test_truncated(log: ManifestLog, length: int) -> None:
    log.publish(6, VERSION, {})
    log.publish(7, VERSION, {})
    path_of(log, 7).write_bytes(path_of(log, 7).read_bytes()[:length])
    with pytest.raises(TidemillError, match="TM1004") as caught:
        log.latest()
    assert "[6]" in caught.value.hint, "the hint names the manifests to go back to"


def test_newer_format(log: ManifestLog) -> None:
    log.publish(1, VERSION, {})
    body = json.dumps({"format": FORMAT_VERSION + 1}).encode()
    path_of(log, 1).write_bytes(hashlib.sha256(body).hexdigest().encode() + b"\n" + body)
    with pytest.raises(TidemillError, match="TM1002") as caught:
        log.latest()
    assert f"format {FORMAT_VERSION + 1}" in caught.value.got


def test_files_with_other_names_are_ignored(log: ManifestLog) -> None:
    log.publish(1, VERSION, {})
    for name in ("00000000000000000002 (copy).json", "notes.json", "00000000000000000003.bak"):
        (directory_of(log) / "manifest" / name).write_text("?")
    assert log.numbers() == [1]


def test_prune_keeps_the_newest(log: ManifestLog) -> None:
    for number in range(1, 21):
        log.publish(number, VERSION, {})
    assert log.old(coming=1) == [log.name(n) for n in range(1, 6)]
    assert log.prune() == list(range(5, 21))
    assert log.numbers() == list(range(5, 21))
    assert log.old() == []
    assert log.old(coming=1) == [log.name(5)]


def test_what_a_crash_left_is_staged(log: ManifestLog) -> None:
    log.publish(1, VERSION, {})
    left = directory_of(log) / "manifest" / "0123.staged"
    left.write_text("half a mani")
    os.utime(left, (5, 5))
    assert log.staged() == [(str(left), 5.0)]
    assert log.numbers() == [1]


def test_no_root(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    for root in (tmp_path / "none", tmp_path, tmp_path / "file"):
        with pytest.raises(TidemillError, match="TM1001"):
            ManifestLog(Objects(root), create=False)
    assert [p.name for p in tmp_path.iterdir()] == ["file"], "looking makes nothing"


def test_file_in_place_of_the_root(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(TidemillError, match="TM1013"):
        ManifestLog(Objects(tmp_path / "file"), create=True)
    with pytest.raises(TidemillError, match="TM1013"):
        ManifestLog(Objects(tmp_path / "file" / "below"), create=True)


def test_root_that_cannot_be_locked(log: ManifestLog) -> None:
    (directory_of(log) / "LOCK").mkdir()
    with pytest.raises(TidemillError, match="TM1013"):
        log.lock()


def test_full_disk(log: ManifestLog) -> None:
    with pytest.raises(TidemillError, match="TM1014"), no_space():
        log.publish(1, VERSION, {})
    assert log.numbers() == []
    assert log.publish(1, VERSION, {}).number == 1, "the same number can be written once there is space"


def test_one_lock_a_root(log: ManifestLog) -> None:
    log.lock()
    second = ManifestLog(log.objects, create=True)
    with pytest.raises(TidemillError, match="TM1003") as caught:
        second.lock()
    assert log.writer in caught.value.got
    log.unlock()
    second.lock()
    second.unlock()


@pytest.mark.parametrize(
    ("given", "path"),
    [
        ("/var/mill", "/var/mill"),
        ("file:///var/my%20mill", "/var/my mill"),
        ("file:/var/mill", "/var/mill"),
    ],
)
def test_local_directory(given: str, path: str) -> None:
    assert local_directory(given) == Path(path)


def test_root_directory_is_absolute(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    assert local_directory("mill") == tmp_path / "mill"
    assert local_directory(Path("mill")) == tmp_path / "mill"


def test_root_elsewhere() -> None:
    with pytest.raises(TidemillError, match="TM1009"):
        local_directory("ftp://host/mill")
