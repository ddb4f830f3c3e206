"""Names and files that are held packed: the same answers as Python's own sets and sorting."""

from __future__ import annotations

import random

import numpy as np
import pytest

from tidemill.sources import packed_names
from tidemill.sources.file_info import FileInfo
from tidemill.sources.packed_names import PackedNames, PackedTexts
from tidemill.spark_source.stream_files import StreamFiles


@pytest.fixture(params=["own hashes", "many names of one hash"])
def _hashing(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Names are packed soon; no name is taken for another of the same hash."""
    monkeypatch.setattr(packed_names, "_LOOSE", 7)
    if request.param != "own hashes":
        monkeypatch.setattr(packed_names, "_hashes", lambda names: np.array([len(n) % 3 for n in names], np.int64))


def name(chance: random.Random) -> str:
    return chance.choice(["a", "/data/é/", "s3://b/k ", ""]) + str(chance.randrange(300)) * chance.randrange(1, 4)


@pytest.mark.usefixtures("_hashing")
def test_names_are_known_as_by_a_dict(seed: int) -> None:
    chance = random.Random(seed)
    names, plain = PackedNames(), dict[str, int]()
    for _ in range(60):
        some = [name(chance) for _ in range(chance.randrange(12))]
        new = names.add(some)
        assert [some[i] for i in new] == [n for n in dict.fromkeys(some) if n not in plain]
        for i in new:
            plain[some[i]] = len(plain)
        if chance.random() < 0.1:
            names.pack()
        asked = [name(chance) for _ in range(20)]
        assert names.find(asked).tolist() == [plain.get(n, -1) for n in asked]
        assert len(names) == len(plain)
    names.pack()
    numbers = np.array([chance.randrange(len(plain)) for _ in range(50)], np.int64)
    ordered = list(plain)
    assert names.texts.take(numbers).to_pylist() == [ordered[i] for i in numbers]
    assert names.texts.all.to_pylist() == ordered
    assert PackedTexts().take(np.empty(0, np.int64)).to_pylist() == []


@pytest.mark.usefixtures("_hashing")
def test_files_come_in_their_order_without_those_that_are_read(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    chance = random.Random(seed)
    assert not StreamFiles()
    assert list(StreamFiles([[]])) == []
    pages = [
        [FileInfo(name(chance), chance.randrange(9), chance.randrange(5), chance.choice(["", "e"])) for _ in range(20)]
        for _ in range(20)
    ]
    plain: dict[str, FileInfo] = {}
    for page in pages:
        for file in page:
            plain.setdefault(file.path, file)
    files = StreamFiles(pages)
    left = sorted(plain.values(), key=lambda f: (f.modified, f.path))
    monkeypatch.setattr("tidemill.spark_source.stream_files._BLOCK", 16)
    while left:
        assert list(files) == left
        gone = [f.path for f in left[: chance.randrange(20)]] + chance.sample(
            [f.path for f in left], len(left) // 3 or 1
        )
        files.mark_read([*gone, "another"])
        left = [f for f in left if f.path not in gone]
        assert bool(files) == bool(left)
    files.mark_unread()
    assert len(list(files)) == len(plain)
