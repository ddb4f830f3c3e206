"""Formats, codecs and modes of reading through a whole mill, several splits a file."""

from __future__ import annotations

import gzip
import random
import struct
from pathlib import Path

import pytest
from backports import zstd

from mill_factory import MillFactory
from tidemill.errors import TidemillError
from tidemill.mill import Mill


def rows_of(mill: Mill, view: str) -> list[tuple[object, ...]]:
    return sorted(tuple(row.values()) for row in mill.read(view).to_pylist())


def advance_to_end(mill: Mill) -> int:
    epochs = 0
    while mill.advance() is not None:
        epochs += 1
    return epochs


def test_both_modes_of_reading_give_the_same(mill_factory: MillFactory, tmp_path: Path, seed: int) -> None:
    """Quotes over splits and buffers: guesses are wrong, and the barrier has them redone."""
    rng = random.Random(seed)
    (tmp_path / "in").mkdir()
    wanted: dict[str, int] = {}
    malformed = 0
    for number in range(2):
        lines = []
        for i in range(400):
            text = rng.choice(["a", "b,c", "x\n1,2\n3,4", '"", ', 'q",1\n"q'])
            bad = rng.random() < 0.02
            value = "x" if bad else str(i)
            malformed += bad
            quoted = text.replace('"', '""')
            lines.append(f'"{quoted}",{value}\n')
            wanted[text] = wanted.get(text, 0) + (0 if bad else i)
        (tmp_path / "in" / f"{number}.csv").write_text("".join(lines))
    mill = mill_factory(split_bytes=1500)
    for name, options in (("one", ""), ("more", ", readMode 'async', bufferSize '100', maxConcurrentReads '5'")):
        mill.sql(f"CREATE TABLE {name} (s STRING, v INT) USING csv OPTIONS (path '{tmp_path}/in'{options})")
        mill.sql(f"CREATE MATERIALIZED VIEW {name}_sums AS SELECT s, SUM(v) AS v FROM {name} GROUP BY s")
    advance_to_end(mill)
    expected = sorted(wanted.items())
    assert rows_of(mill, "one_sums") == expected
    assert rows_of(mill, "more_sums") == expected
    # But for the name of the table, which comes first.
    assert [row[1:] for row in rows_of(mill, "one__errors")] == [row[1:] for row in rows_of(mill, "more__errors")]
    assert len(rows_of(mill, "more__errors")) == malformed > 0


@pytest.mark.parametrize(
    ("options", "number"),
    [("readMode 'sometimes'", "TM4003"), ("maxConcurrentReads '3'", "TM4003"), ("readModes 'async'", "TM4005")],
)
def test_bad_options_are_found_when_the_table_is_created(
    mill_factory: MillFactory, tmp_path: Path, options: str, number: str
) -> None:
    (tmp_path / "in").mkdir()
    mill = mill_factory()
    for format_ in ("csv", "json", "native"):
        with pytest.raises(TidemillError, match=number):
            mill.sql(f"CREATE TABLE t (v INT) USING {format_} OPTIONS (path '{tmp_path}/in', {options})")
    with pytest.raises(TidemillError, match="TM4065" if "readMode '" in options else "TM40"):
        mill.sql(f"CREATE TABLE t (v INT) USING parquet OPTIONS (path '{tmp_path}/in', readMode 'async')")


def test_keyed_table_over_compressed_files(mill_factory: MillFactory, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    mill = mill_factory()
    mill.sql(
        f"CREATE TABLE t (k INT PRIMARY KEY, s STRING, op STRING) USING csv "
        f"OPTIONS (path '{tmp_path}/in', opColumn 'op', readMode 'async', bufferSize '64')"
    )
    mill.sql("CREATE MATERIALIZED VIEW v AS SELECT k, s FROM t")
    lines = [f"{k % 100},{k},I\n" for k in range(1000)]
    (tmp_path / "in" / "1.csv.gz").write_bytes(gzip.compress("".join(lines).encode()))
    mill.advance()
    assert rows_of(mill, "v") == [(k, str(900 + k)) for k in range(100)]
    changes = [f"{k},,D\n" for k in range(50)] + [f"{k},new,I\n" for k in range(25, 60)]
    (tmp_path / "in" / "2.csv.zst").write_bytes(zstd.compress("".join(changes).encode()))
    mill.advance()
    expected = [(k, "new" if k < 60 else str(900 + k)) for k in range(25, 100)]
    assert rows_of(mill, "v") == expected
    assert rows_of(mill, "t") == expected


@pytest.mark.parametrize("mode", ["", ", readMode 'async', bufferSize '50'"])
def test_zstd_native_and_frames(mill_factory: MillFactory, tmp_path: Path, seed: int, mode: str) -> None:
    rng = random.Random(seed)
    for folder in ("text", "native", "frames"):
        (tmp_path / folder).mkdir()
    mill = mill_factory(split_bytes=500)
    columns = "(k INT, x DOUBLE)"
    at = f"path '{tmp_path}"
    mill.sql(f"CREATE TABLE text {columns} USING json OPTIONS ({at}/text'{mode})")
    mill.sql(f"CREATE TABLE binary {columns} USING native OPTIONS ({at}/native'{mode})")
    mill.sql(f"CREATE TABLE framed {columns} USING frames OPTIONS ({at}/frames', payload 'csv'{mode})")
    for name in ("text", "binary", "framed"):
        mill.sql(f"CREATE MATERIALIZED VIEW {name}_sums AS SELECT k, SUM(x) AS x, COUNT(*) AS n FROM {name} GROUP BY k")
    sums: dict[int, list[float]] = {}
    for number in range(2):
        given = [(rng.randrange(20), float(rng.randrange(1000))) for _ in range(500)]
        for k, x in given:
            sums.setdefault(k, []).append(x)
        text = b"".join(b'{"k": %d, "x": %r}\n' % row for row in given)
        (tmp_path / "text" / f"{number}.json.zst").write_bytes(zstd.compress(text))
        (tmp_path / "native" / f"{number}.bin").write_bytes(b"".join(struct.pack("<Bid", 0, k, x) for k, x in given))
        frames = [b"%d,%r" % row for row in given]
        (tmp_path / "frames" / f"{number}.bin").write_bytes(b"".join(struct.pack("<I", len(f)) + f for f in frames))
        advance_to_end(mill)
        expected = sorted((k, sum(xs), len(xs)) for k, xs in sums.items())
        for name in ("text", "binary", "framed"):
            assert rows_of(mill, f"{name}_sums") == expected
            assert rows_of(mill, f"{name}__errors") == []


@pytest.mark.parametrize("widths", [", widths 'op:1'", ""])
def test_native_rows_with_a_column_of_operations(mill_factory: MillFactory, tmp_path: Path, widths: str) -> None:
    """It is not declared, but it is in the files: with a width rows have one, too, and else a size."""
    (tmp_path / "in").mkdir()
    rows = [(n, "D" if n % 10 == 9 else "I") for n in range(200)]
    fixed = [struct.pack("<i", n - n % 10 if op == "D" else n) + op.encode() for n, op in rows]
    sized = [struct.pack("<IiII", 13, n - n % 10 if op == "D" else n, 12, 1) + op.encode() for n, op in rows]
    (tmp_path / "in/a").write_bytes(b"".join(fixed if widths else sized))
    mill = mill_factory(small_epoch_bytes=1 << 20)
    options = f"path '{tmp_path}/in', opColumn 'op', nullBitmap 'false', maxBytesPerTrigger '300'{widths}"
    mill.sql(f"CREATE TABLE t (k INT) USING native OPTIONS ({options})")
    mill.sql("CREATE MATERIALIZED VIEW v AS SELECT k FROM t")
    advance_to_end(mill)
    assert rows_of(mill, "v") == [(n,) for n in range(200) if n % 10 not in (0, 9)]
