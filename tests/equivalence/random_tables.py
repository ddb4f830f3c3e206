"""Random tables as CSV files of inserts and deletes, and which of their rows lie in which bytes."""

from __future__ import annotations

import csv
import datetime
import decimal
import io
import math
import random
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

from tidemill.schema import TIMESTAMP

Values = Callable[[random.Random], Any]
_NULLS = 0.15
_TEXTS = (
    "", "a", "b", "Ab", "a,b", 'say "x"', '"', "two\nlines", "'", "é", "日本", "😀", " padded ", "a%b_c", "NULL", "\\N",
    "x;y", "-", "0", "12", "apple pie", "Apple", "\n", ",", "ab" * 20, "tab\there",
)  # fmt: skip
NO_TEXT = "<null>"
"""``nullValue`` of the tables, so that ``""`` is the empty text and not NULL. No text is this."""
_SPECIAL = (math.nan, math.inf, -math.inf, -0.0, 0.0)


@dataclass(frozen=True)
class Column:
    """One column: name, type in SQL, Arrow type, and a generator of values that are not NULL."""

    name: str
    ddl: str
    type: pa.DataType
    values: Values
    nulls: float = _NULLS

    def draw(self, rng: random.Random) -> Any:
        """A value, often NULL."""
        return None if rng.random() < self.nulls else self.values(rng)


def skewed(rng: random.Random) -> int:
    """Small numbers, 0 the most frequent."""
    return min(int(rng.expovariate(0.5)), 12)


def _double(rng: random.Random) -> float:
    """Multiples of 1/8, whose sums are exact, and now and then what is special about doubles."""
    return rng.choice(_SPECIAL) if rng.random() < 0.05 else rng.randrange(-4000, 4000) / 8


def finite(rng: random.Random) -> float:
    """Multiples of 1/8."""
    return rng.randrange(-4000, 4000) / 8


def _date(rng: random.Random) -> datetime.date:
    return datetime.date(2020, 1, 1) + datetime.timedelta(days=rng.randrange(-40, 400))


def _timestamp(rng: random.Random) -> datetime.datetime:
    micros = rng.choice((0, 500_000, 123_456))
    start = datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC)
    return start + datetime.timedelta(minutes=rng.randrange(-(10**6), 10**6), microseconds=micros)


def key(name: str, nulls: float = _NULLS) -> Column:
    """An int column with few values."""
    return Column(name, "int", pa.int32(), skewed, nulls)


COLUMNS = (
    key("k"),
    Column("g", "string", pa.string(), lambda rng: rng.choice(("x", "y", "z", "", "é", 'q"q'))),
    Column("i", "int", pa.int32(), lambda rng: rng.randrange(-50, 50)),
    Column("l", "bigint", pa.int64(), lambda rng: rng.choice((rng.randrange(-9, 9), rng.randrange(-(2**58), 2**58)))),
    Column("d", "double", pa.float64(), _double),
    Column("m", "decimal(10,2)", pa.decimal128(10, 2), lambda rng: decimal.Decimal(rng.randrange(-9999, 9999)) / 100),
    Column("s", "string", pa.string(), lambda rng: rng.choice(_TEXTS)),
    Column("day", "date", pa.date32(), _date),
    Column("at", "timestamp", TIMESTAMP, _timestamp),
    Column("b", "boolean", pa.bool_(), lambda rng: rng.random() < 0.5),
)
DIMENSION = (
    key("k", 0.1),
    Column("g", "string", pa.string(), lambda rng: rng.choice(("x", "y", "z", "é"))),
    Column("name", "string", pa.string(), lambda rng: rng.choice(_TEXTS)),
    Column("w", "double", pa.float64(), finite),
    Column("l", "bigint", pa.int64(), lambda rng: rng.randrange(-9, 9)),
)


def to_field(value: Any, rng: random.Random) -> str:
    """A value as a CSV field."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return rng.choice((str(value), str(value).lower()))
    if isinstance(value, float):
        return {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}.get(str(value), repr(value))
    if isinstance(value, datetime.datetime):
        return value.replace(tzinfo=None).isoformat(rng.choice(" T"))
    text = str(value)
    if isinstance(value, str) and (not text or set(text) & set(',"\n') or text != text.strip() or rng.random() < 0.2):
        return '"' + text.replace('"', '""') + '"'
    return text


@dataclass(frozen=True)
class _File:
    """A file: where each record begins (bytes), and which event of the table it is."""

    starts: tuple[int, ...]
    events: tuple[int, ...]


@dataclass
class RandomTable:
    """A table that is a sequence of inserts and deletes, cut into files.

    ``events`` are (line without operation, weight, row). Files appear when :meth:`release` is called.
    """

    name: str
    columns: tuple[Column, ...]
    directory: Path
    deletes: bool
    header: bool
    events: list[tuple[str, int, tuple[Any, ...]]] = field(default_factory=list)
    files: dict[str, _File] = field(default_factory=dict)
    waiting: list[tuple[str, bytes, _File]] = field(default_factory=list)

    @property
    def schema(self) -> pa.Schema:
        """Columns as Arrow has them."""
        return pa.schema([pa.field(c.name, c.type) for c in self.columns])

    def create_statement(self) -> str:
        """The CREATE TABLE of the table."""
        columns = ", ".join(f"{c.name} {c.ddl}" for c in self.columns)
        operation = ", opColumn 'op'" if self.deletes else ""
        header = "true" if self.header else "false"
        options = f"path '{self.directory}', header {header}, nullValue '{NO_TEXT}'{operation}"
        return f"CREATE TABLE {self.name} ({columns}) USING csv OPTIONS ({options})"

    def release(self, count: int) -> None:
        """Let the next files appear."""
        for name, content, file in self.waiting[:count]:
            hidden = self.directory / f".{name}"
            hidden.write_bytes(content)
            hidden.rename(self.directory / name)
            self.files[str(self.directory / name)] = file
        del self.waiting[:count]

    def admitted(self, ranges: Iterable[tuple[str, int, int]]) -> Iterator[int]:
        """Events of the records that begin in byte ranges (path, start, end)."""
        for path, start, end in ranges:
            file = self.files[path]
            yield from (e for s, e in zip(file.starts, file.events, strict=True) if start <= s < end)

    def rows(self, events: Iterable[int]) -> pa.Table:
        """The rows that some events leave, in no particular order."""
        weights: Counter[str] = Counter()
        values = {}
        for number in events:
            line, weight, row = self.events[number]
            weights[line] += weight
            values[line] = row
        assert all(w >= 0 for w in weights.values()), f"{self.name}: a row was deleted before it was inserted"
        rows = [values[line] for line, weight in weights.items() for _ in range(weight)]
        columns = zip(*rows, strict=True) if rows else [()] * len(self.columns)
        return pa.table([pa.array(c, f.type) for c, f in zip(columns, self.schema, strict=True)], schema=self.schema)


def random_table(
    rng: random.Random,
    name: str,
    columns: tuple[Column, ...],
    directory: Path,
    *,
    rows: int,
    deletes: bool,
    files: int,
) -> RandomTable:
    """A table of about ``rows`` events in ``files`` files, none of which has appeared yet."""
    directory.mkdir(parents=True)
    table = RandomTable(name, columns, directory, deletes, header=rng.random() < 0.5)
    table.events = list(_events(rng, columns, rows, deletes))
    cuts = sorted(rng.sample(range(1, len(table.events)), files - 1))
    for number, (start, end) in enumerate(zip([0, *cuts], [*cuts, len(table.events)], strict=True)):
        table.waiting.append(written(table, f"part-{number:03}.csv", range(start, end), rng))
    return table


def _events(
    rng: random.Random, columns: tuple[Column, ...], count: int, deletes: bool
) -> Iterator[tuple[str, int, tuple[Any, ...]]]:
    live: list[tuple[str, tuple[Any, ...]]] = []
    made = 0
    while made < count:
        made += 1
        if deletes and live and rng.random() < 0.25:
            line, row = live.pop(rng.randrange(len(live)))
            yield line, -1, row
            if rng.random() < 0.25:
                live.append((line, row))
                yield line, 1, row
            elif sum(e[1][0] == row[0] for e in live) < 4:  # all of a small group goes
                gone, live = [e for e in live if e[1][0] == row[0]], [e for e in live if e[1][0] != row[0]]
                yield from ((line, -1, row) for line, row in gone)
            continue
        if live and rng.random() < 0.1:
            line, row = rng.choice(live)
        else:
            row = tuple(c.draw(rng) for c in columns)
            line = ",".join(to_field(v, rng) for v in row)
        live.append((line, row))
        yield line, 1, row
    if deletes:
        for key_ in {e[1][0] for e in live if e[1][0] is not None and e[1][0] > 3}:
            yield from ((line, -1, row) for line, row in live if row[0] == key_)
        live = [e for e in live if e[1][0] is None or e[1][0] <= 3]
    while len(live) < min(count, count // 16 + 4):  # a table that ends empty would tell little
        row = tuple(c.draw(rng) for c in columns)
        live.append((",".join(to_field(v, rng) for v in row), row))
        yield live[-1][0], 1, row


def written(table: RandomTable, name: str, events: Sequence[int], rng: random.Random) -> tuple[str, bytes, _File]:
    """A file's content; Python's csv module says where its records begin."""
    names = [c.name for c in table.columns]
    lines = [",".join([*names, "op"] if table.deletes else names)] if table.header else []
    for number in events:
        line, weight, _ = table.events[number]
        lines.append(f"{line},{'I' if weight > 0 else 'D'}" if table.deletes else line)
    text = "\n".join(lines) + rng.choice(("", "\n"))
    starts = record_starts(text)[int(table.header) :]
    assert len(starts) == len(events)
    return name, text.encode(), _File(tuple(starts), tuple(events))


def record_starts(text: str) -> list[int]:
    """Byte offsets of the records of a CSV text, empty lines left out."""
    consumed = 0

    def lines() -> Iterator[str]:
        nonlocal consumed
        for line in io.StringIO(text, newline=""):
            consumed += len(line.encode())
            yield line

    starts, before = [], 0
    for record in csv.reader(lines(), strict=True):
        if record:
            starts.append(before)
        before = consumed
    return starts
