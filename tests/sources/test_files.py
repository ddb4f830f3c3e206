"""Files of a directory or glob: what is listed, and reading exactly what was listed."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from tidemill.errors import TidemillError
from tidemill.sources.files import BUFFER_BYTES, FileReader, local_pattern
from tidemill.sources.locations.location import Location, location_of
from tidemill.sources.split import Split


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A directory with visible, hidden, nested and empty files."""
    root = tmp_path / "data"
    for name in ("b.csv", "a.csv", "c.txt", ".hidden.csv", "_SUCCESS", "sub/d.csv", "_temporary/e.csv", ".git/f.csv"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(name)
    (root / "empty.csv").touch()
    return root


def names(root: Path, pattern: str) -> list[str]:
    return [str(Path(f.path).relative_to(root)) for f in Location(pattern).listing()]


def split_of(path: Path, start: int = 0, end: int | None = None) -> Split:
    """A split over the file as it is now."""
    status = path.stat()
    return Split("t", str(path), start, status.st_size if end is None else end, status.st_size, status.st_mtime_ns)


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("", ["a.csv", "b.csv", "c.txt", "empty.csv"]),
        ("/", ["a.csv", "b.csv", "c.txt", "empty.csv"]),
        ("/*.csv", ["a.csv", "b.csv", "empty.csv"]),
        ("/[ab].csv", ["a.csv", "b.csv"]),
        ("/?.csv", ["a.csv", "b.csv"]),
        ("/*/*.csv", ["sub/d.csv"]),
        ("/**/*.csv", ["a.csv", "b.csv", "empty.csv", "sub/d.csv"]),
        ("/a.csv", ["a.csv"]),
        ("/_temporary/*", ["_temporary/e.csv"]),
        ("/none*.csv", []),
    ],
)
def test_listing(data: Path, pattern: str, expected: list[str]) -> None:
    assert names(data, f"{data}{pattern}") == expected


def test_listing_tells_size_and_time(data: Path) -> None:
    os.utime(data / "a.csv", ns=(1, 1_700_000_000_123_456_789))
    (found,) = Location(str(data / "a.csv")).listing()
    assert (found.size, found.modified) == (5, 1_700_000_000_123_456_789)


def test_directory_whose_name_has_wildcards(tmp_path: Path) -> None:
    (tmp_path / "x[1]").mkdir()
    (tmp_path / "x[1]" / "a.csv").write_text("1")
    (tmp_path / "x1").mkdir()
    assert names(tmp_path, str(tmp_path / "x[1]")) == ["x[1]/a.csv"]


def test_data_below_a_hidden_directory_of_the_machine(tmp_path: Path) -> None:
    """Only what a wildcard matched can be hidden: ``/home/me/.data/*.csv`` was asked for by name."""
    (tmp_path / ".data").mkdir()
    (tmp_path / ".data" / "a.csv").write_text("1")
    assert names(tmp_path, str(tmp_path / ".data")) == [".data/a.csv"]
    assert names(tmp_path, str(tmp_path / ".data" / "*.csv")) == [".data/a.csv"]


def test_links_to_files_are_followed(data: Path, tmp_path: Path) -> None:
    (tmp_path / "links").mkdir()
    (tmp_path / "links" / "l.csv").symlink_to(data / "a.csv")
    (tmp_path / "links" / "broken.csv").symlink_to(data / "gone.csv")
    assert [(Path(f.path).name, f.size) for f in Location(str(tmp_path / "links")).listing()] == [("l.csv", 5)]


def test_missing_path(tmp_path: Path) -> None:
    with pytest.raises(TidemillError, match="TM5001") as caught:
        list(Location(str(tmp_path / "none.csv")).listing())
    assert caught.value.got == str(tmp_path / "none.csv")


def test_patterns(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    assert local_pattern("data/*.csv") == str(tmp_path / "data/*.csv")
    assert local_pattern("/data/a b.csv") == "/data/a b.csv"
    assert local_pattern("file:///data/a%20b.csv") == "/data/a b.csv"


@pytest.mark.parametrize("path", ["s4://bucket/x", "http://host/x.csv", "kafka://broker/topic"])
def test_unknown_scheme(path: str) -> None:
    with pytest.raises(TidemillError, match="TM5002") as caught:
        local_pattern(path)
    assert caught.value.got == path


def test_reading_from_a_position(data: Path) -> None:
    big = data / "big.csv"
    content = os.urandom(BUFFER_BYTES + 1000)
    big.write_bytes(content)
    reader = FileReader(split_of(big))
    reader.open(500)
    parts = []
    while part := reader.fill():
        parts.append(part)
    assert b"".join(parts) == content[500:]
    assert max(map(len, parts)) <= BUFFER_BYTES
    assert reader.fill() == b"", "the end stays the end"
    assert reader.first_bytes(10) == content[:10]
    reader.close()
    reader.close()


def test_little_is_read_behind_a_split(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tidemill.sources.files.ROW_BYTES", 300)
    big = data / "big.csv"
    content = os.urandom(5000)
    big.write_bytes(content)
    for start, end, sizes in (
        (0, 5000, [1000] * 5),
        (0, 1500, [1000, 800, 300, 300]),
        (500, 4900, [1000] * 4 + [500]),
        (4000, 4000, [300, 300, 300, 100]),
    ):
        reader = FileReader(replace(split_of(big), start=start, end=end), 1000)
        reader.open(start)
        parts = [reader.fill() for _ in sizes]
        assert list(map(len, parts)) == sizes
        assert b"".join(parts) == content[start : start + sum(sizes)]
        reader.close()


def test_missing_file(data: Path) -> None:
    split = split_of(data / "a.csv")
    (data / "a.csv").unlink()
    with pytest.raises(TidemillError, match="TM5001"):
        FileReader(split).open(0)


def test_directory_in_place_of_a_file(data: Path) -> None:
    split = split_of(data / "a.csv")
    (data / "a.csv").unlink()
    (data / "a.csv").mkdir()
    with pytest.raises(TidemillError, match="TM5004"):
        FileReader(split).open(0)


@pytest.mark.parametrize("content", ["longer than before", "", "A.csv"])
def test_replaced_file(data: Path, content: str) -> None:
    """Also with the same size: the time tells."""
    split = split_of(data / "a.csv")
    (data / "a.csv").write_text(content)
    os.utime(data / "a.csv", ns=(2, 2))
    with pytest.raises(TidemillError, match="TM5003") as caught:
        FileReader(split).open(0)
    assert str(data / "a.csv") in caught.value.got


def test_file_cut_while_it_is_read(data: Path) -> None:
    big = data / "big.csv"
    big.write_bytes(bytes(BUFFER_BYTES * 2))
    reader = FileReader(split_of(big))
    reader.open(0)
    assert len(reader.fill()) == BUFFER_BYTES
    os.truncate(big, BUFFER_BYTES)
    with pytest.raises(TidemillError, match="TM5003") as caught:
        reader.fill()
    assert f"{BUFFER_BYTES} bytes, {2 * BUFFER_BYTES} when listed" in caught.value.got


@pytest.mark.parametrize("name", ["z.csv.xz", "z.ZIP", "z.csv.snappy"])
def test_archives_that_no_codec_reads_are_refused(data: Path, name: str) -> None:
    (data / name).write_bytes(b"\x1f\x8b")
    with pytest.raises(TidemillError, match="TM5006") as caught:
        list(Location(str(data)).listing())
    assert caught.value.got == str(data / name)
    assert names(data, f"{data}/*.csv") == ["a.csv", "b.csv", "empty.csv"]


@pytest.mark.parametrize("name", ["z.csv.gz", "z.ZST", "z.csv.bz2", "z.lz4"])
def test_compressed_files_are_listed(data: Path, name: str) -> None:
    (data / name).write_bytes(b"\x1f\x8b")
    assert name in names(data, str(data))


def test_file_that_vanishes_while_it_is_listed(data: Path) -> None:
    found = Location(str(data)).listing()
    assert Path(next(found).path).name == "a.csv"
    (data / "b.csv").unlink()
    assert [Path(f.path).name for f in found] == ["c.txt", "empty.csv"]


@pytest.mark.parametrize(
    ("pattern", "missing"),
    [
        ("none/*.csv", "none"),
        ("none/below/**/*.csv", "none/below"),
        ("{none,neither}/*.csv", "none"),
        ("{none,data}/x*.csv", ""),
        ("data/*/none/*.csv", ""),
        ("data/x*.csv", ""),
        ("data", ""),
    ],
)
def test_the_directory_of_a_glob(data: Path, pattern: str, missing: str) -> None:
    path = f"{data.parent}/{pattern}"
    found = location_of(path, {}).missing()
    assert (found.number, found.got) == ("TM5047", f"{data.parent}/{missing}, of {path}") if found else not missing
    place = location_of(path, {"failonmissing": "true"})
    if missing:
        with pytest.raises(TidemillError, match=f"TM5001(?s:.*){missing}"):
            list(place.listing())
        with pytest.raises(TidemillError, match="TM5001"):
            list(place.unread(lambda names: names))
        (data.parent / missing).mkdir(parents=True)
    assert isinstance(list(place.listing()), list) and place.missing() is None
    with pytest.raises(TidemillError, match="TM4003"):
        location_of(path, {"failonmissing": "perhaps"})
