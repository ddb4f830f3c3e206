"""The spool: what was appended is there after any crash, whole batches only, and nothing that was synced is lost."""

from __future__ import annotations

import errno
import os
import random
from pathlib import Path

import pytest

from tidemill.sources.sockets.spool import HEAD, Spool


def content(spool: Spool) -> bytes:
    return b"".join(s.path.read_bytes()[len(HEAD) : s.size] for s in spool.segments())


def test_segments_are_named_by_what_came_before(tmp_path: Path) -> None:
    spool = Spool(tmp_path, segment_bytes=20)
    for number in range(10):
        spool.append(f"message {number}\n".encode())
    assert [(s.base, s.size) for s in spool.segments()] == [(b, 24) for b in (0, 20, 40, 60, 80)]
    assert content(spool) == b"".join(f"message {n}\n".encode() for n in range(10))
    names = [f"{s.base:020d}-{2 * number}" for number, s in enumerate(spool.segments())]
    assert [s.path.stem for s in spool.segments()] == names
    assert all(s.path.stat().st_size == s.size for s in spool.segments())
    assert spool.lines == Spool(tmp_path).lines == 10


def test_a_new_process_goes_on_in_a_segment_of_its_own(tmp_path: Path) -> None:
    first = Spool(tmp_path)
    first.append(b"a\n")
    second = Spool(tmp_path)  # the first one was killed
    second.append(b"b\n")
    assert (content(second), len(second.segments()), second.end) == (b"a\nb\n", 2, 4)


def test_after_a_crash_there_are_whole_batches(tmp_path: Path, seed: int) -> None:
    """The files are cut, or bytes of them are lost, anywhere: what is left is a beginning of what was appended."""
    chance = random.Random(seed)
    for number in range(100):
        directory = tmp_path / str(number)
        spool = Spool(directory)
        ends = [0]
        for _ in range(chance.randrange(1, 6)):
            batch = b"".join(bytes(chance.choices(b"abc", k=chance.randrange(50))) + b"\n" for _ in range(3))
            spool.append(batch)
            ends.append(ends[-1] + len(batch))
        whole = content(spool)
        spool.close()
        (segment,) = directory.glob("*.segment")
        victim = chance.choice([segment, segment.with_suffix(".marks")])
        data = bytearray(victim.read_bytes())
        at = chance.randrange(len(data))
        if chance.random() < 0.5:
            data = data[:at]
        else:
            data[at] ^= 0x55
        victim.write_bytes(data)
        again = Spool(directory)
        found = content(again)
        assert whole.startswith(found) and len(found) in ends
        assert again.lines == found.count(b"\n")


def test_what_was_synced_is_not_looked_at_again(tmp_path: Path) -> None:
    spool = Spool(tmp_path, segment_bytes=10)
    spool.append(b"0123456789\n")
    spool.append(b"x\n")
    assert len(list(tmp_path.glob("*.marks"))) == 2
    spool.sync()
    assert [p.stem for p in tmp_path.glob("*.marks")] == [f"{11:020d}-1"]  # of the segment that grows
    spool.append(b"y\n")
    assert content(Spool(tmp_path)) == b"0123456789\nx\ny\n"


def test_a_segment_of_which_only_the_name_is_there(tmp_path: Path) -> None:
    spool = Spool(tmp_path)
    spool.append(b"a\n")
    for name in (f"{2:020d}-1", f"{2:020d}"):  # the second one as an earlier version had it
        for suffix in (".marks", ".segment"):
            (tmp_path / f"{name}{suffix}").touch()
        again = Spool(tmp_path)
        again.append(b"b\n")
        assert (content(again), [s.base for s in again.segments()]) == (b"a\nb\n", [0, 2])
        assert again.lines == Spool(tmp_path).lines == (2 if "-" in name else 1), "which an old one does not know"
        again.close()
        again.segments()[-1].path.unlink()


def test_deleted_segments_are_forgotten_and_positions_go_on(tmp_path: Path) -> None:
    spool = Spool(tmp_path, segment_bytes=1)
    for letter in (b"a\n", b"b\n", b"c\n"):
        spool.append(letter)
    spool.sync()
    spool.delete([str(s.path) for s in spool.segments()])
    assert (content(spool), spool.begin, spool.end) == (b"c\n", 4, 6)  # the newest one says how much came
    assert (Spool(tmp_path).end, Spool(tmp_path).lines) == (6, 3)


def test_a_full_disk_leaves_nothing_half_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spool = Spool(tmp_path)
    spool.append(b"a\n")
    write, calls = os.write, [0]

    def full(file: int, data: bytes) -> int:
        calls[0] += 1
        if calls[0] > 1:
            raise OSError(errno.ENOSPC, "No space left on device")
        return write(file, bytes(data)[:3])

    monkeypatch.setattr(os, "write", full)
    with pytest.raises(OSError, match="No space"):
        spool.append(b"a long batch\n")
    monkeypatch.undo()
    spool.append(b"b\n")
    assert content(spool) == b"a\nb\n" == content(Spool(tmp_path))
