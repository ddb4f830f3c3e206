"""A malformed row harms no other, and which rows are kept does not depend on the columns that are asked for."""

from __future__ import annotations

import json
import random
import struct
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet
import pytest

import tidemill.formats
from tidemill.formats.base import RowError

SCHEMA = "k INT, s STRING, d DOUBLE"
Values = tuple[int | None, str | None, float | None]


@dataclass(frozen=True)
class Kind:
    """A format in these tests: how a good row is written, what malformed ones look like, and its options.

    ``ends`` is what stands behind each row. Malformed rows end where a row of the format ends: a quote that is never
    closed makes the rest of the file one row by definition, so it is not among them.
    """

    format: str
    row: Callable[[Values], bytes]
    malformed: tuple[bytes, ...]
    options: dict[str, str]
    ends: tuple[bytes, ...] = (b"\n", b"\r\n")


def _csv(values: Values) -> bytes:
    k, s, d = values
    text = "" if s is None else '"' + s.replace('"', '""') + '"'
    return f"{'' if k is None else k},{text},{'' if d is None else d}".encode()


def _tsv(values: Values) -> bytes:
    k, _, d = values
    return f"{'' if k is None else k}\ta{'' if d is None else d}\t{'' if d is None else d}".encode()


def _native_row(values: Values) -> bytes:
    return _framed(b"\0" + struct.pack("<i3sd", values[0] or 0, b"abc", values[2] or 0.0))


def _json(values: Values) -> bytes:
    return json.dumps(dict(zip("ksd", values, strict=True)), ensure_ascii=False).encode()


def _framed(payload: bytes) -> bytes:
    return struct.pack("<I", len(payload)) + payload


CSV_MALFORMED = (
    b"x,y,z", b"1", b",,,,,", b"1,a,1.5,more", b'1,"a"b,2', b'1,a"b,x', b"1,\xff\xfe,2", b'9,"\xff\n",2', b"\x00,\x00",
    b"99999999999,,1e", b'"x\n,",b,2', b',"",1x', b"-,-,-", b'1,"""",1.2.3',
)  # fmt: skip
JSON_MALFORMED = (
    b"{", b"}", b"[1,2", b'{"k":', b'{"k":1,}', b'{"k":"x"}', b'{"s":"\xff"}', b'{"s":"open}', b'{"s":"\\', b"]",
    b"nul", b'{"k":1}{"k":2}', b"[[[[", b'"', b'{"d":1.}', b"\xef\xbb", b'{"k":{"k":[', b'{"s":"\\ud800"}', b"\x00",
    b",",
)  # fmt: skip
OPEN_CSV = (b'1,"a', b'"', b'1,"a\n', b'"""')

KINDS = {
    "csv": Kind("csv", _csv, CSV_MALFORMED, {}),
    "csv without quotes": Kind(
        "csv", _tsv, (*OPEN_CSV[:2], b"x\t", b'"\t"\tx'), {"quote": "", "sep": "\t"}
    ),
    "csv trimmed": Kind(
        "csv", lambda v: b" " + _csv(v), CSV_MALFORMED, {"ignoreLeadingWhiteSpace": "true", "comment": "#"}
    ),
    "json": Kind("json", _json, JSON_MALFORMED, {"multiLine": "false"}),
    "frames of csv": Kind(
        "frames", lambda v: _framed(_csv(v)), tuple(map(_framed, CSV_MALFORMED + OPEN_CSV)), {"payload": "csv"}, (b"",)
    ),
    "frames of json": Kind(
        "frames", lambda v: _framed(_json(v)), tuple(map(_framed, JSON_MALFORMED)), {"payload": "json"}, (b"",)
    ),
    "frames of native": Kind(
        "frames",
        _native_row,
        tuple(map(_framed, (b"", b"\0", b"\0" * 15, b"\0" * 17, b"\0abcd\xff\xff\xff" + b"\0" * 8))),
        {"payload": "native", "widths": "s:3"},
        (b"",),
    ),
}  # fmt: skip


def _values(rng: random.Random) -> Values:
    texts = ("a", "", "ä", 'q"q', "comma,", "line\nend", "\r", "#", "\\", "{", "x" * 70, None)
    return rng.choice((None, 0, -5, 2**31 - 1)), rng.choice(texts), rng.choice((None, 0.5, -1e300, 7.0))


def _read(kind: Kind, data: bytes, mode: str, size: int = 1 << 20) -> tuple[list[tuple[object, ...]], list[RowError]]:
    """Rows with their positions in front, and what is malformed."""
    format_ = tidemill.formats.open(kind.format, SCHEMA, mode=mode, **kind.options)
    rows: list[tuple[object, ...]] = []
    errors: list[RowError] = []
    for part in format_.rows(data, buffer_bytes=size):
        rows += zip(part.positions.tolist(), *(c.to_pylist() for c in part.batch.columns), strict=True)
        errors += part.errors
    return rows, errors


@pytest.mark.parametrize("mode", ["PERMISSIVE", "DROPMALFORMED"])
@pytest.mark.parametrize("name", KINDS)
def test_a_malformed_row_harms_no_other(name: str, mode: str, seed: int) -> None:
    """Between good rows, at any place, in buffers from one byte on: the good rows are as they are without it."""
    kind, rng = KINDS[name], random.Random(seed)
    met: set[bytes] = set()
    for number in range(2 * len(kind.malformed) + 10):
        end = rng.choice(kind.ends)
        good = [kind.row(_values(rng)) + end for _ in range(rng.randrange(1, 9))]
        alone, flaws = _read(kind, b"".join(good), mode)
        assert not flaws
        bad = kind.malformed[number % len(kind.malformed)]
        at = rng.choice((0, len(good), rng.randrange(len(good) + 1)))
        first = sum(map(len, good[:at]))
        length = len(bad + end)
        data = b"".join([*good[:at], bad + end, *good[at:]])
        for size in (1, rng.randrange(2, 40), rng.randrange(40, 300), 1 << 20):
            rows, errors = _read(kind, data, mode, size)
            others = [r for r in rows if not first <= int(str(r[0])) < first + length]
            expected = [(int(str(p)) + (length if int(str(p)) >= first else 0), *values) for p, *values in alone]
            assert others == expected, (data, size)
            assert all(first <= e.position < first + length for e in errors), (data, size)
            if errors:
                met.add(bad)
    assert len(met) >= 0.7 * len(set(kind.malformed)), "most of them are malformed"


def _native(rng: random.Random) -> bytes:
    return bytes([rng.randrange(8)]) + struct.pack("<i3sd", 5, rng.choice((b"abc", b"\xff\xff\xff")), 1.5)


def _file(name: str, rng: random.Random) -> tuple[str, bytes, dict[str, str]]:
    """Format, bytes and options of a file with good rows and malformed ones."""
    if name == "native":
        return "native", b"".join(_native(rng) for _ in range(40)) + rng.choice((b"", b"\0\1")), {"widths": "s:3"}
    if name == "parquet":
        columns = {
            "k": pa.array([rng.choice((None, 1)) for _ in range(40)], pa.int32()),
            "s": pa.array([rng.choice((None, "a")) for _ in range(40)]),
            "d": pa.array([rng.choice((None, 0.5)) for _ in range(40)]),
        }
        sink = pa.BufferOutputStream()
        pa.parquet.write_table(pa.table(columns), sink, row_group_size=rng.choice((3, 50)))
        return "parquet", sink.getvalue().to_pybytes(), {}
    kind = KINDS[name]
    end = rng.choice(kind.ends)
    rows = [rng.choice((kind.row(_values(rng)), rng.choice(kind.malformed))) + end for _ in range(40)]
    tail = rng.choice((b"", b'1,"open' if kind.format == "csv" else b"{"))
    return kind.format, b"".join(rows) + tail, kind.options


@pytest.mark.parametrize("name", [*KINDS, "native", "parquet"])
def test_which_rows_are_kept_does_not_depend_on_the_columns(name: str, seed: int) -> None:
    """A random projection against all columns: the same rows at the same places with the same values."""
    rng = random.Random(seed)
    malformed = dropped = 0
    for _ in range(25):
        format_name, data, options = _file(name, rng)
        nulls = [rng.choice(("", " NOT NULL")) for _ in range(3)]
        schema = ", ".join(f"{c} {t}{n}" for c, t, n in zip("ksd", ("INT", "STRING", "DOUBLE"), nulls, strict=True))
        given = dict(options) if name == "parquet" else {**options, "mode": rng.choice(("PERMISSIVE", "DROPMALFORMED"))}
        format_ = tidemill.formats.open(format_name, schema, **given)
        wanted = rng.sample("ksd", rng.randrange(3))
        size = rng.choice((1, 10, 200, 1 << 20))
        all_rows, all_errors, rows, errors = [], [], [], []
        for part in format_.rows(data, buffer_bytes=size):
            chosen = [part.batch.column(c).to_pylist() for c in wanted]
            all_rows += list(zip(part.positions.tolist(), *chosen, strict=True))
            all_errors += part.errors
        for part in format_.rows(data, wanted, buffer_bytes=size):
            assert part.count == part.batch.num_rows
            chosen = [c.to_pylist() for c in part.batch.columns]
            rows += list(zip(part.positions.tolist(), *chosen, strict=True))
            errors += part.errors
        assert rows == all_rows, (data, wanted, given, schema)
        assert {e.position for e in errors if e.dropped} == {e.position for e in all_errors if e.dropped}
        assert set(errors) <= set(all_errors), "what is malformed in other columns may go unseen, and nothing else"
        if given.get("mode") == "DROPMALFORMED":
            assert errors == all_errors
        malformed += len(all_errors)
        dropped += sum(e.dropped for e in all_errors)
    assert malformed and dropped


def test_a_parquet_file_on_disk_too(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    pa.parquet.write_table(pa.table({"k": pa.array([1, None], pa.int32()), "s": ["a", "b"]}), path)
    format_ = tidemill.formats.open("parquet", "k INT NOT NULL, s STRING")
    assert format_.read(path, ["s"]).to_pydict() == {"s": ["a"]}
