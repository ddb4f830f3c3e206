"""What the crash matrix reads: every format in every codec, written and read by programs other than Tidemill."""

from __future__ import annotations

import bz2
import csv
import gzip
import io
import json
import random
import struct
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import lz4.frame
import pyarrow as pa
import pyarrow.parquet as pq
from backports import zstd

Row = tuple[Any, ...]


def _lz4_frames(data: bytes) -> bytes:
    with lz4.frame.open(io.BytesIO(data)) as frames:
        found: bytes = frames.read()
    return found


CODECS: dict[str, tuple[str, Callable[[bytes], bytes], Callable[[bytes], bytes]]] = {
    "plain": ("", bytes, bytes),
    "gzip": (".gz", gzip.compress, gzip.decompress),
    "bzip2": (".bz2", bz2.compress, bz2.decompress),
    "zstd": (".zst", zstd.compress, zstd.decompress),
    "lz4": (".lz4", lz4.frame.compress, _lz4_frames),
}
"""Suffix, and the two directions. Files have two members or frames, cut at any byte."""

COLUMNS = "k BIGINT, x DOUBLE, s STRING"
KEYED_COLUMNS = "k BIGINT PRIMARY KEY, x DOUBLE, s STRING"
_ARROW = pa.schema([("k", pa.int64()), ("x", pa.float64()), ("s", pa.string())])


@dataclass(frozen=True)
class FormatUnderTest:
    """A format with options.

    ``write`` makes the bytes of a file of so many rows, ``rows`` the rows of a table of the bytes of all its files, in
    their order; ``most`` is how many bytes of a table are admitted to an epoch, half as many decoded ones of a file
    that is compressed; None when its files are never cut.
    """

    using: str
    columns: str
    options: str
    write: Callable[[random.Random, int], bytes]
    rows: Callable[[Sequence[bytes]], Iterable[Row]]
    codecs: tuple[str, ...] = tuple(CODECS)
    most: int | None = 1500


@dataclass(frozen=True)
class TableUnderTest:
    """A format in a codec, under a name that tells which."""

    name: str
    format: FormatUnderTest
    codec: str

    @property
    def view(self) -> str:
        """The view that shows the multiset of its rows."""
        return f"{self.name}_rows"

    def statements(self, path: str, more: str = "") -> list[str]:
        """What creates the table and its view."""
        limits = ["maxFilesPerTrigger '1'"] if self.codec != "plain" or self.format.most is None else []
        if self.format.most is not None:
            limits.append(f"maxBytesPerTrigger '{self.format.most // (1 if self.codec == 'plain' else 2)}'")
        options = f"path '{path}', {', '.join(limits)}{self.format.options}{more}"
        table = f"CREATE TABLE {self.name} ({self.format.columns}) USING {self.format.using} OPTIONS ({options})"
        return [
            table,
            f"CREATE MATERIALIZED VIEW {self.view} AS SELECT *, COUNT(*) AS n FROM {self.name} GROUP BY ALL",
        ]

    def file(self, chance: random.Random, rows: int) -> bytes:
        """A file of so many rows."""
        data, (_, compress, _) = self.format.write(chance, rows), CODECS[self.codec]
        cut = chance.randrange(len(data))
        return data if self.codec == "plain" else compress(data[:cut]) + compress(data[cut:])

    def file_name(self, number: int) -> str:
        """Names are in the order of numbers."""
        return f"{number:04d}.data{CODECS[self.codec][0]}"

    def expected(self, files: Sequence[bytes]) -> Counter[Row]:
        """What the view of a table of these files holds, one count a row."""
        return Counter(self.format.rows([CODECS[self.codec][2](data) for data in files]))


def tables_under_test(formats: Iterable[str] = (), codecs: Iterable[str] = CODECS) -> list[TableUnderTest]:
    """Every format, or those named, in every codec of it, or those named."""
    wanted = set(formats) or FORMATS.keys()
    return [
        TableUnderTest(f"{name}_{codec}", format_, codec)
        for name, format_ in FORMATS.items()
        if name in wanted
        for codec in format_.codecs
        if codec in set(codecs)
    ]


# -- rows ---------------------------------------------------------------------------------------------


def _rows(chance: random.Random, count: int) -> list[tuple[int, float | None, str]]:
    """Rows, many of them twice, whose texts have whatever CSV and JSON must escape."""
    texts = ["plain", "a,b", 'say "so"', "two\nlines", 'x\n1,2,"3\n', "naïve ↯", "tab\tand \\ slash", "1,2.5,no"]
    found = []
    for _ in range(count):
        x = None if chance.random() < 0.1 else chance.randrange(100) / 4
        found.append((chance.randrange(40), x, chance.choice(texts)))
    return found


def _changes(chance: random.Random, count: int) -> Iterator[tuple[Row, str]]:
    """Rows inserted, and now and then one deleted that is there."""
    present: list[Row] = []
    for row in _rows(chance, count):
        if present and chance.random() < 0.3:
            yield present.pop(chance.randrange(len(present))), "D"
        else:
            present.append(row)
            yield row, "I"


# -- CSV ----------------------------------------------------------------------------------------------


def _csv_text(header: str, lines: Iterable[Sequence[Any]]) -> bytes:
    sink = io.StringIO()
    sink.write(header)
    csv.writer(sink, lineterminator="\n").writerows(lines)
    return sink.getvalue().encode()


def _read_csv(data: bytes, skip: int) -> list[list[str]]:
    return list(csv.reader(io.StringIO(data.decode(), newline="")))[skip:]


def _typed(k: str, x: str, s: str) -> Row:
    return int(k), float(x) if x else None, s


def _write_csv(chance: random.Random, count: int) -> bytes:
    return _csv_text("k,x,s\n", [(k, "" if x is None else x, s) for k, x, s in _rows(chance, count)])


def _write_csv_bare(chance: random.Random, count: int) -> bytes:
    return _csv_text("", [(k, "" if x is None else x, s) for k, x, s in _rows(chance, count)])


def _csv_rows(files: Sequence[bytes]) -> list[Row]:
    return [_typed(*fields) for data in files for fields in _read_csv(data, 1)]


def _csv_bare_rows(files: Sequence[bytes]) -> list[Row]:
    return [_typed(*fields) for data in files for fields in _read_csv(data, 0)]


def _write_csv_changes(chance: random.Random, count: int) -> bytes:
    lines = [(k, "" if x is None else x, s, op) for (k, x, s), op in _changes(chance, count)]
    return _csv_text("k,x,s,op\n", lines)


def _csv_changes_rows(files: Sequence[bytes]) -> Iterable[Row]:
    found: Counter[Row] = Counter()
    for data in files:
        for *fields, op in _read_csv(data, 1):
            found[_typed(*fields)] += 1 if op == "I" else -1
    return found.elements()


def _csv_keyed_rows(files: Sequence[bytes]) -> Iterable[Row]:
    found: dict[int, Row] = {}
    for data in files:
        for *fields, op in _read_csv(data, 1):
            row = _typed(*fields)
            found.pop(row[0], None)
            if op == "I":
                found[row[0]] = row
    return found.values()


# -- JSON ---------------------------------------------------------------------------------------------


def _records(chance: random.Random, count: int) -> list[str]:
    return [json.dumps({"s": s, "k": k, "extra": [1, {"k": 2}], "x": x}) for k, x, s in _rows(chance, count)]


def _write_json(chance: random.Random, count: int) -> bytes:
    return "".join(f"{record}\n" for record in _records(chance, count)).encode()


def _write_json_array(chance: random.Random, count: int) -> bytes:
    return ("[\n" + " ,\n ".join(_records(chance, count)) + "\n]\n").encode()


def _json_rows(files: Sequence[bytes]) -> list[Row]:
    records = [json.loads(line) for data in files for line in data.decode().split("\n") if line]
    return [(r["k"], r["x"], r["s"]) for r in records]


def _json_array_rows(files: Sequence[bytes]) -> list[Row]:
    return [(r["k"], r["x"], r["s"]) for data in files for r in json.loads(data)]


def _write_debezium(chance: random.Random, count: int) -> bytes:
    lines = []
    for (k, x, s), op in _changes(chance, count):
        row = {"k": k, "x": x, "s": s}
        event = {"before": row, "after": None, "op": "d"} if op == "D" else {"before": None, "after": row, "op": "c"}
        lines.append(json.dumps({"payload": event} if chance.random() < 0.2 else event))
    return "".join(f"{line}\n" for line in lines).encode()


def _debezium_rows(files: Sequence[bytes]) -> Iterable[Row]:
    found: dict[int, Row] = {}
    for data in files:
        for line in data.decode().splitlines():
            event = json.loads(line)
            event = event.get("payload", event)
            row = event["after"] or event["before"]
            found.pop(row["k"], None)
            if event["after"]:
                found[row["k"]] = (row["k"], row["x"], row["s"])
    return found.values()


# -- order books --------------------------------------------------------------------------------------


def _write_orderbook(chance: random.Random, count: int) -> bytes:
    lines, live = [], []
    first = chance.randrange(1, 1 << 30) * 1000
    for number in range(count):
        action = chance.choice("BBBSEFDX") if live and number < count - 1 else "B"
        id_ = chance.choice(live) if action in "EFD" else first + number
        if action == "B":
            live.append(id_)
        elif action in "FD":
            live.remove(id_)
        lines.append((number / 2, id_, action, chance.randrange(1, 50), chance.randrange(1000, 1100)))
    return _csv_text("", lines)


def _orderbook_rows(files: Sequence[bytes]) -> Iterable[Row]:
    """Bids: B books, E takes some of an order, F and D all of it."""
    book: dict[int, Row] = {}
    for data in files:
        for t, id_text, action, volume, price in _read_csv(data, 0):
            id_ = int(id_text)
            if action == "B":
                book[id_] = (float(t), id_, id_ % 10, float(volume), float(price))
            elif action in "EFD" and id_ in book:
                at, _, broker, left, at_price = book.pop(id_)
                if action == "E" and left > float(volume):
                    book[id_] = (at, id_, broker, left - float(volume), at_price)
    return book.values()


# -- binary -------------------------------------------------------------------------------------------


def _write_frames(chance: random.Random, count: int) -> bytes:
    frames = [_csv_text("", [(k, "" if x is None else x, s)]) for k, x, s in _rows(chance, count)]
    return b"".join(struct.pack("<I", len(frame)) + frame for frame in frames)


def _frames_rows(files: Sequence[bytes]) -> Iterator[Row]:
    for data in files:
        at = 0
        while at < len(data):
            (size,) = struct.unpack_from("<I", data, at)
            yield _csv_bare_rows([data[at + 4 : at + 4 + size]])[0]
            at += 4 + size


def _write_native(chance: random.Random, count: int) -> bytes:
    rows = [(k, x, s.encode()[:12]) for k, x, s in _rows(chance, count) if s.isascii()]
    return b"".join(struct.pack("<Bqd12s", (x is None) << 1, k, x or 0.0, s) for k, x, s in rows)


def _native_rows(files: Sequence[bytes]) -> Iterator[Row]:
    for data in files:
        for nulls, k, x, s in struct.iter_unpack("<Bqd12s", data):
            yield k, None if nulls else x, s.rstrip(b"\0").decode()


def _write_native_sized(chance: random.Random, count: int) -> bytes:
    found = []
    for k, x, text in _rows(chance, count):
        s = text.encode()
        row = struct.pack("<BqdII", (x is None) << 1, k, x or 0.0, 25, len(s)) + s
        found.append(struct.pack("<I", len(row)) + row)
    return b"".join(found)


def _native_sized_rows(files: Sequence[bytes]) -> Iterator[Row]:
    for data in files:
        at = 0
        while at < len(data):
            size, nulls, k, x, offset, length = struct.unpack_from("<IBqdII", data, at)
            text = data[at + 4 + offset : at + 4 + offset + length].decode()
            yield k, None if nulls else x, text
            at += 4 + size


# -- columnar -----------------------------------------------------------------------------------------


def _arrow_table(chance: random.Random, count: int) -> pa.Table:
    columns = zip(*_rows(chance, count), strict=True)
    return pa.table([pa.array(c, f.type) for c, f in zip(columns, _ARROW, strict=True)], schema=_ARROW)


def _parquet_writer(compression: str) -> Callable[[random.Random, int], bytes]:
    def write(chance: random.Random, count: int) -> bytes:
        sink = io.BytesIO()
        pq.write_table(_arrow_table(chance, count), sink, row_group_size=9, compression=compression, store_schema=False)
        return sink.getvalue()

    return write


def _arrow_writer(compression: str) -> Callable[[random.Random, int], bytes]:
    def write(chance: random.Random, count: int) -> bytes:
        sink = io.BytesIO()
        options = pa.ipc.IpcWriteOptions(compression=None if compression == "none" else compression)
        with pa.ipc.new_file(sink, _ARROW, options=options) as writer:
            writer.write_table(_arrow_table(chance, count), max_chunksize=9)
        return sink.getvalue()

    return write


def _of_table(table: pa.Table) -> Iterator[Row]:
    return zip(*(column.to_pylist() for column in table.columns), strict=True)


def _parquet_rows(files: Sequence[bytes]) -> Iterator[Row]:
    for data in files:
        yield from _of_table(pq.read_table(io.BytesIO(data)))


def _arrow_rows(files: Sequence[bytes]) -> Iterator[Row]:
    for data in files:
        yield from _of_table(pa.ipc.open_file(data).read_all())


_ASYNC = ", readMode 'async', bufferSize '300', maxConcurrentReads '3'"
_BOOK = "t DOUBLE, id BIGINT, broker_id INT, volume DOUBLE, price DOUBLE"
_OP = ", header 'true', opColumn 'op'"
_PLAIN = ("plain",)

FORMATS = {
    "csv": FormatUnderTest("csv", COLUMNS, ", header 'true'", _write_csv, _csv_rows),
    "csv_bare": FormatUnderTest("csv", COLUMNS, _ASYNC, _write_csv_bare, _csv_bare_rows),
    "csv_changes": FormatUnderTest("csv", f"{COLUMNS}, op STRING", _OP, _write_csv_changes, _csv_changes_rows),
    "csv_keyed": FormatUnderTest("csv", f"{KEYED_COLUMNS}, op STRING", _OP, _write_csv_changes, _csv_keyed_rows),
    "json": FormatUnderTest("json", COLUMNS, "", _write_json, _json_rows, most=2500),
    "json_async": FormatUnderTest("json", COLUMNS, _ASYNC, _write_json, _json_rows, _PLAIN, most=2500),
    "json_array": FormatUnderTest("json", COLUMNS, "", _write_json_array, _json_array_rows, most=None),
    "debezium": FormatUnderTest("debezium", KEYED_COLUMNS, "", _write_debezium, _debezium_rows, most=2500),
    "orderbook": FormatUnderTest("orderbook", _BOOK, ", book 'bids'", _write_orderbook, _orderbook_rows),
    "frames": FormatUnderTest("frames", COLUMNS, ", payload 'csv'", _write_frames, _frames_rows, most=None),
    "native": FormatUnderTest("native", COLUMNS, ", widths 's:12'", _write_native, _native_rows),
    "native_sized": FormatUnderTest("native", COLUMNS, "", _write_native_sized, _native_sized_rows, most=None),
    **{
        f"parquet_{c}": FormatUnderTest(
            "parquet", COLUMNS, "", _parquet_writer(c), _parquet_rows, codecs=_PLAIN, most=5000
        )
        for c in ("none", "snappy", "gzip", "zstd", "lz4", "brotli")
    },
    **{
        f"arrow_{c}": FormatUnderTest("arrow", COLUMNS, "", _arrow_writer(c), _arrow_rows, codecs=_PLAIN, most=None)
        for c in ("none", "zstd", "lz4")
    },
}
