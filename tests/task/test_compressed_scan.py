"""Scans of compressed files: one split, positions in decoded bytes, damage as an error of the file."""

from __future__ import annotations

import bz2
import gzip
import re
from pathlib import Path

import lz4.frame
import pytest
from operator_runs import INT, changes
from test_scan import ERRORS, FIELDS, scan

from tidemill.errors import FormatError
from tidemill.schema import Schema
from tidemill.sources.split import Split
from tidemill.sources.unreadable import UnreadableFilesError
from tidemill.task.program import ScanStep, TableSource
from tidemill.testing import MemoryContext, keyed_rows

TEXT = b"".join(b'%d,"text\n of %d"\n' % (i, i) for i in range(20_000))
ROWS = {(i, f"text\n of {i}"): 1 for i in range(20_000)}


def step(**options: str) -> ScanStep:
    source = TableSource("t", "t#1", "csv", Schema(FIELDS[:2]), tuple(options.items()), None, ("I", "D"), ERRORS)
    return ScanStep(source, ("k", "s"))


def whole(path: Path) -> Split:
    status = path.stat()
    return Split("t", str(path), 0, status.st_size, status.st_size, status.st_mtime_ns, False)


def errors(context: MemoryContext) -> list[tuple[object, ...]]:
    return list(keyed_rows(ERRORS, context.tables["errors"][0])) if "errors" in context.tables else []


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("a.csv.gz", gzip.compress(TEXT[:9999]) + gzip.compress(TEXT[9999:])),
        ("a.csv.bz2", bz2.compress(TEXT)),
        ("a.csv.lz4", lz4.frame.compress(TEXT)),
    ],
)
def test_rows_of_a_compressed_file(tmp_path: Path, name: str, data: bytes) -> None:
    path = tmp_path / name
    path.write_bytes(data)
    context = MemoryContext()
    assert changes(scan(step(), context, [whole(path)])) == ROWS
    (result,) = context.splits
    assert (result.rows, result.bytes, result.quote_parity, result.malformed) == (20_000, len(data), 0, 0)


def test_option_instead_of_suffix(tmp_path: Path) -> None:
    path = tmp_path / "a.data"
    path.write_bytes(gzip.compress(TEXT))
    assert changes(scan(step(compression="gzip"), MemoryContext(), [whole(path)])) == ROWS


def unreadable(path: Path, **options: str) -> FormatError:
    """What a scan of a file that cannot be read tells of it, at the barrier; its malformed rows are not written."""
    context = MemoryContext()
    with pytest.raises(UnreadableFilesError) as caught:
        scan(step(**options), context, [whole(path)])
    assert errors(context) == []
    ((split, error),) = caught.value.failures
    assert split == whole(path)
    assert isinstance(error, FormatError) and error.number == "TM4045"
    assert str(path) in error.got
    return error


@pytest.mark.parametrize("cut", [0.3, 0.9, -8])
def test_a_cut_archive(tmp_path: Path, cut: float) -> None:
    path = tmp_path / "a.csv.gz"
    text = b"".join(b"%d,abc\n" % (i * 7919) for i in range(5000))
    data = gzip.compress(text)
    path.write_bytes(data[: int(len(data) * cut) if cut > 0 else int(cut)])
    found = re.fullmatch(f"{path} of table t: truncated_archive behind (\\d+) decoded bytes", unreadable(path).got)
    assert found is not None and 0 < int(found[1]) <= len(text)


def test_a_wrong_check_sum(tmp_path: Path) -> None:
    path = tmp_path / "a.csv.gz"
    data = bytearray(gzip.compress(TEXT))
    data[-6] ^= 1
    path.write_bytes(data)
    assert "corrupt_archive behind 4" in unreadable(path).got


def test_damage_in_mode_failfast(tmp_path: Path) -> None:
    path = tmp_path / "a.csv.gz"
    path.write_bytes(gzip.compress(TEXT)[:-3])
    with pytest.raises(FormatError, match="TM4045") as caught:
        scan(step(mode="FAILFAST"), MemoryContext(), [whole(path)])
    assert str(path) in caught.value.got
    assert "truncated_archive" in caught.value.got


@pytest.mark.parametrize("kept", [3, 15, 24, 28])
def test_a_cut_within_the_header(tmp_path: Path, kept: int) -> None:
    path = tmp_path / "a.csv.gz"
    compressed = gzip.compress(b"k,s,more,columns,and,more\n1,a,,,,\n", compresslevel=0)
    path.write_bytes(compressed[:kept])
    assert "truncated_archive" in unreadable(path, header="true").got


def test_header_and_empty_archives(tmp_path: Path) -> None:
    path = tmp_path / "a.csv.gz"
    for text, expected in (
        (b"s,k\nx,1\n", {(1, "x"): 1}),
        (b"s,k\n", {}),
        (b"", {}),
        (b"s,k\n" + b"x,1\n" * 30_000, {(1, "x"): 30_000}),
    ):
        path.write_bytes(gzip.compress(text))
        context = MemoryContext()
        assert changes(scan(step(header="true"), context, [whole(path)])) == expected
        assert errors(context) == []


def test_positions_count_decoded_bytes(tmp_path: Path) -> None:
    path = tmp_path / "a.csv.gz"
    path.write_bytes(gzip.compress(b"1,a\n" * 1000 + b"x,b\n"))
    context = MemoryContext()
    scan(step(), context, [whole(path)])
    (error,) = errors(context)
    assert error == (str(path), 4000, 1001, 4000, "k", f"bad_{INT}", b"x,b", 1)


def test_a_bomb(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tidemill.formats.reading.codecs.SMALL", 1000)
    path = tmp_path / "a.csv.gz"
    path.write_bytes(gzip.compress(b"1,a\n" * 100_000))
    limit = path.stat().st_size * 10
    assert f"decompression_limit behind {limit} decoded bytes" in unreadable(path, maxDecompressedRatio="10").got
    assert changes(scan(step(maxDecompressedRatio="100000"), MemoryContext(), [whole(path)])) == {(1, "a"): 100_000}


def test_a_malformed_row_in_mode_failfast_tells_its_line(tmp_path: Path) -> None:
    for name, encode in (("a.csv", bytes), ("a.csv.gz", gzip.compress)):
        path = tmp_path / name
        path.write_bytes(encode(b"1,a\n" * 1000 + b"x,b\n"))
        with pytest.raises(FormatError, match="TM4020") as caught:
            changes(scan(step(mode="FAILFAST"), MemoryContext(), [whole(path)]))
        assert caught.value.got.startswith(f"{path} of table t: line 1001, byte 4000, column 'k'")
