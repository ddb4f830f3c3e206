"""Connectors that packages offer: how they are found, listed and read, and what is said of those that are wrong."""

from __future__ import annotations

import csv
import io
import json
import random
import struct
import subprocess
import sys
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tidemill.formats
from offered_connectors import DripConnector, installed
from tidemill.connectors import GROWING, Connector, FileInfo, registry
from tidemill.connectors.connected_file import ConnectedFile, pages
from tidemill.connectors.registry import SOCKET_SCHEMES, is_offered, lookup
from tidemill.errors import TidemillError, without_secrets
from tidemill.formats.reading.feeding import feed, file_bytes, open_split
from tidemill.formats.rows.malformed import Mode
from tidemill.formats.standalone.standalone import OpenFormat
from tidemill.sources.locations.location import location_of, reader_of
from tidemill.sources.split import Split

COLUMNS = "id BIGINT, name STRING, price DOUBLE"
Row = tuple[int, str, float]


class Broken(Connector):
    """Does what its URL says, wrongly."""

    option_names = secret_names = ("brokenKey",)

    def files(self, url: str, options: Mapping[str, str], after: str) -> list[list[FileInfo]]:
        if url == "broken://tells":
            raise OSError(f"who is {options['brokenkey']}?")
        if url == "broken://raises":
            raise PermissionError("no entry")
        if url == "broken://gone":
            raise FileNotFoundError(url)
        listed = {"broken://other": FileInfo("zip://x", 1, 1), "broken://size": FileInfo(url, -1, 1)}
        return [[listed.get(url, FileInfo(url, 10, 1))]]

    def open(self, file: FileInfo, options: Mapping[str, str], position: int) -> Any:
        if file.path == "broken://closed":
            raise OSError("no line")
        return self

    def fill(self, buffer: memoryview) -> int:
        return len(buffer) + 1

    def close(self) -> None:
        pass


class Without:
    """Lacks a part."""

    option_names = secret_names = ()


@pytest.fixture(autouse=True)
def offered(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    here = "test_connectors"
    others = {"broken": f"{here}:Broken", "without": f"{here}:Without", "nowhere": "no_such_module:X"}
    with installed(monkeypatch, **others, s3=f"{here}:Broken"):
        yield


def some_rows(rng: random.Random, count: int) -> list[Row]:
    names = ["plain", "a,b", 'say "hi"', "é", "two words"]
    return [(i, rng.choice(names), rng.randrange(10**6) / 64) for i in range(count)]


def as_csv(rows: list[Row]) -> bytes:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([("id", "name", "price"), *rows])
    return text.getvalue().encode()


def as_json(rows: list[Row]) -> bytes:
    return "".join(json.dumps(dict(zip(("id", "name", "price"), row, strict=True))) + "\n" for row in rows).encode()


def as_table(rows: list[Row]) -> pa.Table:
    return pa.table({name: list(found) for name, found in zip(("id", "name", "price"), zip(*rows), strict=True)})


def as_parquet(rows: list[Row]) -> bytes:
    sink = io.BytesIO()
    pq.write_table(as_table(rows), sink, row_group_size=37)
    return sink.getvalue()


def as_arrow(rows: list[Row]) -> bytes:
    sink = io.BytesIO()
    with pa.ipc.new_file(sink, as_table(rows).schema) as writer:
        writer.write_table(as_table(rows), max_chunksize=41)
    return sink.getvalue()


def as_native(rows: list[Row]) -> bytes:
    """Size, bitmap, id, place and length of the name, price; then the name."""
    fixed = struct.calcsize("<BqIId")
    packed = b""
    for number, name, price in rows:
        text = name.encode()
        packed += struct.pack("<IBqIId", fixed + len(text), 0, number, fixed, len(text), price) + text
    return packed


def as_frames(rows: list[Row]) -> bytes:
    frames = [as_json([row]) for row in rows]
    return b"".join(struct.pack("<I", len(frame)) + frame for frame in frames)


FORMATS: dict[str, tuple[Any, dict[str, str]]] = {
    "csv": (as_csv, {"header": "true", "escape": '"'}),
    "json": (as_json, {}),
    "native": (as_native, {}),
    "frames": (as_frames, {"payload": "json"}),
    "parquet": (as_parquet, {}),
    "arrow": (as_arrow, {}),
}


def rows_of(table: pa.Table) -> list[Row]:
    return [tuple(row.values()) for row in table.to_pylist()]


def opened(name: str, **more: str) -> OpenFormat:
    return tidemill.formats.open(name, COLUMNS, **FORMATS[name][1], **more)


@pytest.mark.parametrize("name", FORMATS)
def test_formats_read_members_of_archives(tmp_path: Path, seed: int, name: str) -> None:
    """The oracle is who wrote the rows; the archive is made by Python."""
    rows = some_rows(random.Random(seed), 300)
    with zipfile.ZipFile(tmp_path / "a.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("in/x.data", FORMATS[name][0](rows))
        archive.writestr("in/other", b"\0")
    url = f"zip://{tmp_path}/a.zip!/in/x*"
    assert rows_of(opened(name).read(url)) == rows
    if name in ("csv", "json", "frames", "native"):
        assert rows_of(opened(name, bufferSize="13").read(url)) == rows
        assert rows_of(opened(name, readMode="async", bufferSize="1001").read(url)) == rows
    assert opened(name).read(url, ["price"]).column(0).to_pylist() == [row[2] for row in rows]


@pytest.mark.parametrize("name", ["csv", "json", "native", "frames"])
def test_splits_with_buffers_of_any_size(tmp_path: Path, seed: int, name: str) -> None:
    rng = random.Random(seed)
    rows = some_rows(rng, 60)
    (tmp_path / "x").write_bytes(FORMATS[name][0](rows))
    options = {"dripbytes": str(rng.randrange(1, 30))}
    (info,) = location_of(f"drip://{tmp_path}", options).listing()
    whole = name in ("native", "frames")
    cuts = [0, info.size] if whole else sorted({0, info.size, *(rng.randrange(info.size) for _ in range(3))})
    found: list[Row] = []
    for start, end in pairwise(cuts):
        split = Split("t", info.path, start, end, info.size, info.modified, etag=info.etag)
        file = reader_of(split, options, rng.randrange(1, 100))
        source = file_bytes(file, split.path, split.size, split.end, {})
        place = {"start": start, "end": end, "size": info.size}
        part = open_split(opened(name).reader(), source, **place, in_quotes=False, part=False)  # type: ignore[arg-type]
        for part_rows in feed(part, source, Mode.PERMISSIVE):
            found += rows_of(pa.Table.from_batches([part_rows.batch]))
        source.close()
    assert found == rows


def test_inferred_columns_and_several_files(tmp_path: Path) -> None:
    for number in range(3):
        with zipfile.ZipFile(tmp_path / f"{number}.zip", "w") as archive:
            archive.writestr("a.csv", f"k,v\n{number},x\n")
            archive.writestr("b/c.csv", "k,v\n7,y\n")
    url = f"zip://{tmp_path}/*.zip!/*.csv"
    infos = list(location_of(url, {}).listing())
    assert [i.path.rpartition("/zip")[2][len(f"zip://{tmp_path}/") :] for i in infos] == [
        f"{n}.zip!/{m}" for n in range(3) for m in ("a.csv", "b/c.csv")
    ]
    assert tidemill.formats.infer_schema("csv", infos[0].path, header=True).to_ddl() == "`k` int, `v` string"
    with pytest.raises(TidemillError, match=r"TM4003(.|\n)*6 files"):
        tidemill.formats.open("csv", "k INT").read(url)
    named = location_of(url, {"pathglobfilter": "c*", "modifiedafter": "2020-01-01"})
    assert [i.path.endswith("c.csv") for i in named.listing()] == [True] * 3
    with pytest.raises(TidemillError, match="TM5001"):
        tidemill.formats.open("csv", "k INT").read(f"zip://{tmp_path}/9.zip!/a.csv")


def test_names_with_characters_of_globs(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "a [1].zip", "w") as archive:
        archive.writestr("x[1]*.csv", "1\n")
        archive.writestr("x1.csv", "2\n")
    url = f"zip://{tmp_path}/a [1].zip!/x[1]*.csv"
    assert [i.path for i in location_of(url, {}).listing()] == [url]
    assert location_of(url, {}).beginning(url, 9) == b"1\n"


def test_an_archive_that_changed_is_not_read(tmp_path: Path) -> None:
    def write(text: str) -> None:
        with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
            archive.writestr("a.csv", text)

    write("1\n2\n")
    (info,) = location_of(f"zip://{tmp_path}/a.zip!/a.csv", {}).listing()
    write("1\n3\n")
    with pytest.raises(TidemillError, match="TM5003"):
        ConnectedFile(info).fill()
    (tmp_path / "a.zip").unlink()
    with pytest.raises(TidemillError, match="TM5001"):
        ConnectedFile(info).fill()


def test_a_growing_file_is_read_as_far_as_it_was_listed(tmp_path: Path) -> None:
    (tmp_path / "0.log").write_bytes(b"one\ntwo\n")
    (info,) = location_of(f"drip://{tmp_path}", {"modifiedafter": "2020-01-01"}).listing()
    assert (info.size, info.modified) == (8, GROWING)
    with (tmp_path / "0.log").open("ab") as file:
        file.write(b"three\n")
    reader = ConnectedFile(info)
    reader.open(4)
    assert bytes(reader.fill()) == b"two\n" and not reader.fill()
    assert reader.first_bytes(100) == b"one\ntwo\n"
    (later,) = location_of(f"drip://{tmp_path}", {}).listing()
    assert later.size == 14
    (tmp_path / "0.log").write_bytes(b"one\n")
    with pytest.raises(TidemillError, match=r"TM5003(.|\n)*4 bytes, 8 when listed"):
        ConnectedFile(info).read_at(0, 8)
    assert list(pages(f"drip://{tmp_path}", lookup("drip://x"), after="e")) == [[]]


def test_readings_go_on_and_are_closed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    content = random.Random(3).randbytes(5000)
    (tmp_path / "x").write_bytes(content)
    (info,) = location_of(f"drip://{tmp_path}", {}).listing()
    made: list[Any] = []
    real = DripConnector.open
    monkeypatch.setattr(DripConnector, "open", lambda *a: made.append(real(*a)) or made[-1])
    file = ConnectedFile(info, lookup(info.path, {"dripbytes": "1000"}), 700)
    file.open(0)
    pieces = [bytes(file.fill()) for _ in range(9)]
    assert b"".join(pieces) == content and len(made) == 1
    rng = random.Random(4)
    for _ in range(50):
        begin = rng.randrange(5000)
        assert file.read_at(begin, min(100, 5000 - begin)) == content[begin : begin + 100]
    stream = file.seekable()
    stream.seek(-10, 2)
    assert stream.read() == content[-10:]
    file.close()
    file.close()
    assert all(reading._file.closed for reading in made)


def encrypted(data: bytes, password: bytes) -> bytes:
    """As PKWARE's APPNOTE 6.1 says, behind a head of 12 bytes whose last one is that of the checksum."""
    keys = [0x12345678, 0x23456789, 0x34567890]

    def step(crc: int, byte: int) -> int:
        return ~zlib.crc32(bytes([byte]), ~crc & 0xFFFFFFFF) & 0xFFFFFFFF

    def update(byte: int) -> None:
        keys[0] = step(keys[0], byte)
        keys[1] = ((keys[1] + (keys[0] & 255)) * 134775813 + 1) & 0xFFFFFFFF
        keys[2] = step(keys[2], keys[1] >> 24)

    def hidden(byte: int) -> int:
        mask = (keys[2] & 0xFFFF) | 2
        update(byte)
        return byte ^ ((mask * (mask ^ 1)) >> 8 & 255)

    for byte in password:
        update(byte)
    return bytes(hidden(byte) for byte in bytes(11) + bytes([zlib.crc32(data) >> 24]) + data)


def test_a_secret_option_reaches_the_connector(tmp_path: Path) -> None:
    data = as_csv(some_rows(random.Random(5), 20))
    body, path = encrypted(data, b"tide"), tmp_path / "a.zip"
    sizes = struct.pack("<HHHHHIIIHH", 20, 1, 0, 0, 33, zlib.crc32(data), len(body), len(data), 1, 0)
    local = b"PK\3\4" + sizes + b"x" + body
    central = b"PK\1\2" + struct.pack("<H", 20) + sizes + struct.pack("<HHHII", 0, 0, 0, 0, 0) + b"x"
    path.write_bytes(local + central + struct.pack("<IHHHHIIH", 0x06054B50, 0, 0, 1, 1, len(central), len(local), 0))
    url = f"zip://{path}!/x"
    assert rows_of(opened("csv", zipPassword="tide").read(url)) == some_rows(random.Random(5), 20)
    with pytest.raises(TidemillError, match=r"TM5052(.|\n)*[Pp]assword"):
        opened("csv").read(url)
    with pytest.raises(TidemillError, match="TM5052") as caught:
        opened("csv", zipPassword="wrong").read(url)
    assert "wrong" not in str(caught.value)


def test_a_process_that_knows_no_secrets_hides_nothing() -> None:
    shown = "from tidemill.errors import without_secrets; print(without_secrets(\"did you mean 'SELECT'?\"))"
    done = subprocess.run([sys.executable, "-c", shown], capture_output=True, text=True, check=True)
    assert done.stdout == "did you mean 'SELECT'?\n"


def test_secrets_are_not_shown() -> None:
    registry.know_secrets("CREATE TABLE t (a INT) USING csv OPTIONS (path 'drip://x', dripKey 'hush')")
    assert "hush" not in without_secrets("OPTIONS (path 'drip://x', dripKey 'hush')")
    with pytest.raises(TidemillError, match=r"TM5052(.|\n)*who is \*\*\*\?"):
        list(location_of("broken://tells", {"brokenkey": "hush"}).listing())
    place = location_of("drip:///x", {"dripkey": "hush"})
    assert "hush" not in repr(place) and hash(place) != hash(location_of("drip:///x", {"dripkey": "other"}))


@pytest.mark.parametrize(
    ("path", "number", "said"),
    [
        ("ftp://host/x", "TM5002", "drip://(.|\n)*s3://(.|\n)*stdin://(.|\n)*zip://"),
        ("nowhere://x", "TM5050", "no_such_module"),
        ("without://x", "TM5050", "check"),
        ("zip:///a.zip", "TM5051", "member.csv"),
        ("broken://raises", "TM5052", "PermissionError: no entry"),
        ("broken://gone", "TM5001", "broken://gone"),
        ("broken://other", "TM5053", "zip://x"),
        ("broken://size", "TM5053", "-1 bytes"),
        ("broken://closed", "TM5052", "OSError: no line"),
        ("broken://fill", "TM5053", "fill gave 11"),
    ],
)
def test_what_is_wrong_is_told(path: str, number: str, said: str) -> None:
    with pytest.raises(TidemillError, match=rf"{number}(.|\n)*{said}"):
        for info in location_of(path, {}).listing():
            ConnectedFile(info).fill()


def test_options_are_checked_by_name_and_value(tmp_path: Path) -> None:
    with pytest.raises(TidemillError, match=r"TM4003(.|\n)*leave it out"):
        location_of("drip:///x", {"recursivefilelookup": "true"})
    with pytest.raises(TidemillError, match=r"TM5051(.|\n)*dripBytes is a number"):
        list(location_of(f"drip://{tmp_path}", {"dripbytes": "x"}).listing())
    with pytest.raises(TidemillError, match=r"TM4005(.|\n)*did you mean 'zipPassword"):
        tidemill.formats.open("csv", COLUMNS, zipPasswort="x")
    assert tidemill.formats.open("csv", COLUMNS, zipPassword="x").options == {"zippassword": "x"}


def test_schemes_that_are_built_in_stay_so() -> None:
    for scheme in ("s3", "file", *SOCKET_SCHEMES):
        assert not is_offered(f"{scheme}://x")
    assert not is_offered("/data/zip") and is_offered("ZIP:///x.zip!/y")
