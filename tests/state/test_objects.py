"""The places of a root keep one contract: a directory, memory, and S3 over HTTP."""

from __future__ import annotations

import errno
import os
import pickle
import random
import threading
from pathlib import Path

import pytest

from tidemill.errors import TidemillError
from tidemill.state.versions.objects import Objects, UncertainError, advice


def test_what_is_put_is_there(objects: Objects) -> None:
    objects.put("manifest/1", b"one")
    objects.put("manifest/2", b"")
    assert objects.get("manifest/1") == b"one"
    assert objects.get("manifest/2") == b""
    assert [(s.name, s.bytes) for s in objects.list("manifest/")] == [("manifest/1", 3), ("manifest/2", 0)]


def test_files_go_up_and_down(objects: Objects, tmp_path: Path, seed: int) -> None:
    for size in (0, 1, 20 << 20):
        data = random.Random(seed).randbytes(size)
        (tmp_path / "up").write_bytes(data)
        objects.put(f"sst/{size}", tmp_path / "up")
        objects.download(f"sst/{size}", tmp_path / "cache" / "down")
        assert (tmp_path / "cache" / "down").read_bytes() == data
        assert objects.get(f"sst/{size}") == data
        (tmp_path / "up").unlink()
    assert [p.name for p in (tmp_path / "cache").iterdir()] == ["down"], "nothing half-written is left"


def test_a_name_is_given_once(objects: Objects, tmp_path: Path) -> None:
    objects.put("a", b"first")
    (tmp_path / "second").write_bytes(b"second")
    for second in (b"second", tmp_path / "second"):
        with pytest.raises(FileExistsError):
            objects.put("a", second)
    assert objects.get("a") == b"first"


def test_large_bytes_too_are_given_once(objects: Objects) -> None:
    """A manifest of whatever size fences."""
    first, second = (bytes([i]) * (20 << 20) for i in (1, 2))
    objects.put("manifest/1", first)
    with pytest.raises(FileExistsError):
        objects.put("manifest/1", second)
    assert objects.get("manifest/1") == first


def test_of_many_writers_one_succeeds(objects: Objects) -> None:
    won: list[bytes] = []
    start = threading.Barrier(8)

    def write(data: bytes) -> None:
        mine = pickle.loads(pickle.dumps(objects)) if not objects.url.startswith("memory") else objects
        start.wait()
        try:
            mine.put("manifest/7", data)
        except FileExistsError:
            return
        won.append(data)

    writers = [threading.Thread(target=write, args=(f"writer {i}".encode(),)) for i in range(8)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    assert len(won) == 1
    assert objects.get("manifest/7") == won[0]


def test_missing(objects: Objects, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        objects.get("none")
    with pytest.raises(FileNotFoundError):
        objects.download("none", tmp_path / "down")
    assert not (tmp_path / "down").exists()
    assert objects.list("nothing/") == []
    objects.remove(["none"])


def test_removing_and_listing(objects: Objects) -> None:
    names = [f"sst/{i:05d}" for i in range(30)]
    for name in reversed(names):
        objects.put(name, name.encode())
    objects.put("manifest/1", b"")
    assert [s.name for s in objects.list("sst/")] == names
    objects.remove(names[::2])
    assert [s.name for s in objects.list("sst/")] == names[1::2]
    objects.put(names[0], b"again")
    assert objects.get(names[0]) == b"again"


def test_the_same_place_in_another_process(objects: Objects) -> None:
    objects.put("a", b"x")
    again = pickle.loads(pickle.dumps(objects))
    assert (again.url, again.directory) == (objects.url, objects.directory)
    assert again.get("a") == b"x"


def test_half_written_objects_are_never_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    objects = Objects(tmp_path)

    def fsync(_: int) -> None:
        raise OSError(5, "Input/output error")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", fsync)
        with pytest.raises(UncertainError):
            objects.put("manifest/1", b"x")
    assert objects.list("manifest/") == []
    (tmp_path / "manifest" / "left.staged").write_bytes(b"half")
    assert objects.list("manifest/") == []
    left = tmp_path / "manifest" / "left.staged"
    assert objects.staged("manifest/") == [(str(left), left.stat().st_mtime)]
    assert objects.staged("nothing/") == []
    objects.put("manifest/1", b"x")
    assert objects.get("manifest/1") == b"x"


@pytest.mark.parametrize("url", ["ftp://host/mill", "http://host/mill", "hdfs://host/mill"])
def test_elsewhere(url: str) -> None:
    with pytest.raises(TidemillError, match="TM1009"):
        Objects(url)


@pytest.mark.parametrize(
    ("error", "words", "intact"),
    [
        (FileNotFoundError("a: no such bucket"), "put it back", False),
        (OSError(errno.ENOENT, "No such file or directory"), "put it back", False),
        (OSError(errno.ENOSPC, "No space left on device"), "free space and run", True),
        (OSError(errno.EROFS, "Read-only file system"), "fix permissions", True),
        (PermissionError(errno.EACCES, "Permission denied"), "fix permissions", True),
        (OSError("s3 does not answer"), "can be written to", True),
    ],
)
def test_advice_fits_the_cause(error: OSError, words: str, intact: bool) -> None:
    said = advice(error, "all is well")
    assert words in said
    assert ("all is well" in said) == intact
