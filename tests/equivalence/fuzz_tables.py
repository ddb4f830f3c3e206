"""Random schemas, and tables as files of inserts, deletes or upserts of which it is known what every byte does."""

from __future__ import annotations

import datetime
import decimal
import math
import random
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
from random_tables import NO_TEXT, Column, record_starts, to_field

from tidemill.schema import TIMESTAMP

Row = tuple[Any, ...]
Event = tuple[str, Row]
"""``I`` or ``D`` and the row; in a keyed table ``I`` is an upsert and only the key of ``D`` counts."""

_TEXTS = (
    "", "a", "b", "Ab", "a,b", 'say "x"', '"', "two\nlines", "'", "é", "日本", "😀", " padded ", "a%b_c", "NULL",
    "x y z", "x;y", "-", "0", "12", "-7", "apple pie", "Apple", "\n", ",", "ab" * 9, "tab\there", "(", "2020-01-05",
    "1.50",
)  # fmt: skip
_START = datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC)


@dataclass(frozen=True)
class Kind:
    """What queries need to know of a value.

    Attributes
    ----------
    name : str
        ``int``, ``decimal``, ``double``, ``string``, ``date``, ``timestamp``, ``boolean`` or ``list``.
    bound : int
        No integer is beyond it; of decimals the digits before the point, of doubles what bounds finite values.
    scale : int
        Of decimals.
    exact : bool
        Doubles that are multiples of 1/8, so that their sums do not depend on the order.
    """

    name: str
    bound: int = 0
    scale: int = 0
    exact: bool = True


def _integers(rng: random.Random, bound: int) -> Callable[[random.Random], int]:
    few = rng.choice((2, 5, 12))
    style = rng.random()
    if style < 0.5:
        return lambda r: min(int(r.expovariate(2 / few)), few)
    if style < 0.8:
        return lambda r: r.randrange(-few, few)
    return lambda r: r.randrange(-bound, bound + 1)


def _doubles(rng: random.Random) -> Callable[[random.Random], float]:
    special = rng.choice(((0.0, -0.0), (0.0, -0.0, math.inf), (math.nan, math.inf, -math.inf, -0.0, 0.0)))
    wide, often = rng.choice((8, 100, 4000)), rng.choice((0.0, 0.05, 0.3))
    return lambda r: r.choice(special) if r.random() < often else r.randrange(-wide, wide) / 8


def _texts(rng: random.Random) -> Callable[[random.Random], str]:
    some = rng.sample(_TEXTS, rng.choice((3, 6, len(_TEXTS))))
    return lambda r: r.choice(some)


def _decimals(rng: random.Random, digits: int, scale: int) -> Callable[[random.Random], decimal.Decimal]:
    most = rng.choice((20, 10**digits - 1))
    return lambda r: decimal.Decimal(r.randrange(-most, most + 1)).scaleb(-scale)


def _dates(rng: random.Random) -> Callable[[random.Random], datetime.date]:
    span = rng.choice((5, 60, 3000))
    return lambda r: _START.date() + datetime.timedelta(days=r.randrange(-span, span))


def _timestamps(rng: random.Random) -> Callable[[random.Random], datetime.datetime]:
    span = rng.choice((30, 3000, 10**6))
    return lambda r: (
        _START + datetime.timedelta(minutes=r.randrange(-span, span), microseconds=r.choice((0, 0, 123456)))
    )


def random_column(rng: random.Random, name: str, family: str | None = None) -> tuple[Column, Kind]:
    """A column of a random type, or of a family, with its own distribution of values."""
    nulls = rng.choice((0.0, 0.1, 0.1, 0.4))
    family = family or rng.choice(
        ("int", "int", "bigint", "small", "double", "double", "decimal", "string", "string", "date", "ts", "bool")
    )
    match family:
        case "int":
            return Column(name, "int", pa.int32(), _integers(rng, 1000), nulls), Kind("int", 1000)
        case "bigint":
            return Column(name, "bigint", pa.int64(), _integers(rng, 2**36), nulls), Kind("int", 2**36)
        case "small":
            ddl, type_ = rng.choice((("tinyint", pa.int8()), ("smallint", pa.int16())))
            return Column(name, ddl, type_, _integers(rng, 100), nulls), Kind("int", 100)
        case "double":
            ddl, type_ = rng.choice((("double", pa.float64()), ("double", pa.float64()), ("float", pa.float32())))
            return Column(name, ddl, type_, _doubles(rng), nulls), Kind("double", 500)
        case "decimal":
            digits, scale = rng.choice(((5, 0), (7, 2), (10, 2), (15, 4), (18, 6), (21, 3)))
            column = Column(
                name, f"decimal({digits},{scale})", pa.decimal128(digits, scale), _decimals(rng, digits, scale), nulls
            )
            return column, Kind("decimal", digits - scale, scale)
        case "string":
            return Column(name, "string", pa.string(), _texts(rng), nulls), Kind("string")
        case "date":
            return Column(name, "date", pa.date32(), _dates(rng), nulls), Kind("date")
        case "ts":
            return Column(name, "timestamp", TIMESTAMP, _timestamps(rng), nulls), Kind("timestamp")
    return Column(name, "boolean", pa.bool_(), lambda r: r.random() < 0.6, nulls), Kind("boolean")


@dataclass
class FuzzTable:
    """A table and the events of its files, none of which is there before :meth:`release`.

    Attributes
    ----------
    key : tuple of int
        Positions of PRIMARY KEY; empty for a table of rows.
    deletes : bool
        Whether there is an opColumn.
    files : list of lists of events
    static : bool
        Whether all files are there from the beginning and none is ever added.
    """

    name: str
    columns: tuple[Column, ...]
    kinds: tuple[Kind, ...]
    key: tuple[int, ...]
    deletes: bool
    header: bool
    files: list[list[Event]]
    directory: Path = Path()
    starts: dict[str, list[tuple[int, Event]]] = field(default_factory=dict)
    static: bool = False

    @property
    def schema(self) -> pa.Schema:
        """Columns as Arrow has them."""
        return pa.schema([pa.field(c.name, c.type) for c in self.columns])

    def placed(self, directory: Path) -> FuzzTable:
        """The same table with its files still to come, in a directory of its own."""
        (directory / self.name).mkdir(parents=True)
        return replace(self, directory=directory / self.name, starts={})

    def create_statement(self) -> str:
        """The CREATE TABLE of the table."""
        columns = ", ".join(f"{c.name} {c.ddl}" for c in self.columns)
        if self.key:
            columns += f", PRIMARY KEY ({', '.join(self.columns[k].name for k in self.key)})"
        operation = ", opColumn 'op'" if self.deletes else ""
        header = str(self.header).lower()
        options = f"path '{self.directory}', header {header}, nullValue '{NO_TEXT}'{operation}"
        word = "STATIC TABLE" if self.static else "TABLE"
        return f"CREATE {word} {self.name} ({columns}) USING csv OPTIONS ({options})"

    def release(self, number: int) -> None:
        """Let a file appear."""
        rng = random.Random(f"{self.name} {number}")
        names = [c.name for c in self.columns] + ["op"] * self.deletes
        lines = [",".join(names)] if self.header else []
        for operation, row in self.files[number]:
            fields = [to_field(v, rng) for v in row] + [operation] * self.deletes
            lines.append(",".join(fields))
        text = "\n".join(lines) + rng.choice(("", "\n"))
        starts = record_starts(text)[int(self.header) :]
        assert len(starts) == len(self.files[number])
        path = self.directory / f"part-{number:03}.csv"
        self.starts[str(path)] = list(zip(starts, self.files[number], strict=True))
        hidden = self.directory / f".{path.name}"
        hidden.write_bytes(text.encode())
        hidden.rename(path)

    def admitted(self, ranges: Iterable[tuple[str, int, int]]) -> list[Event]:
        """Events of the records that begin in byte ranges (path, start, end), in their order."""
        return [e for path, low, high in sorted(ranges) for at, e in self.starts[path] if low <= at < high]

    def rows(self, events: Iterable[Event]) -> pa.Table:
        """The rows that events leave."""
        rows = list(self._keyed(events).values()) if self.key else list(self._counted(events))
        columns = list(zip(*rows, strict=True)) or [()] * len(self.columns)
        return pa.table([pa.array(c, f.type) for c, f in zip(columns, self.schema, strict=True)], schema=self.schema)

    def _keyed(self, events: Iterable[Event]) -> dict[Row, Row]:
        rows: dict[Row, Row] = {}
        for operation, row in events:
            name = tuple(row[k] for k in self.key)
            rows.pop(name, None)
            if operation == "I":
                rows[name] = row
        return rows

    def _counted(self, events: Iterable[Event]) -> Iterator[Row]:
        weights: Counter[str] = Counter()
        values = {}
        for operation, row in events:
            weights[repr(row)] += 1 if operation == "I" else -1
            values[repr(row)] = row
        assert all(w >= 0 for w in weights.values()), f"{self.name}: a row was deleted before it was inserted"
        for text, weight in weights.items():
            for _ in range(weight):
                yield values[text]

    def final_rows(self) -> pa.Table:
        """The rows once everything is admitted."""
        return self.rows(e for file in self.files for e in file)

    def without(self, dropped: set[str]) -> FuzzTable:
        """The table without some rows (by ``repr``), whatever happens to them."""
        return replace(self, files=[[e for e in file if repr(e[1]) not in dropped] for file in self.files])

    def literal(self) -> str:
        """Statement and files as text, for a regression test."""
        lines = [replace(self, directory=Path("DIR") / self.name).create_statement() + ";"]
        for number, file in enumerate(self.files):
            lines += [f"-- {self.name}, file {number}:"] if file else []
            for operation, row in file:
                fields = [to_field(v, random.Random(0)) for v in row] + [operation] * self.deletes
                lines.append("--   " + ",".join(fields).replace("\n", "\\n"))
        return "\n".join(lines)


def random_tables(rng: random.Random, rows: int = 70) -> list[FuzzTable]:
    """Two to four tables of all kinds; the first always has deletes."""
    found = []
    for number in range(rng.randrange(2, 5)):
        width = rng.randrange(3, 8)
        families: list[str | None] = ["int", rng.choice(("string", "int", "double")), *[None] * (width - 2)]
        made = [random_column(rng, f"{'kabcdefgh'[i]}{number}" if i else "k", f) for i, f in enumerate(families)]
        kind = "deletes" if number == 0 else rng.choice(("deletes", "deletes", "inserts", "keyed", "keyed", "static"))
        columns, kinds = zip(*made, strict=True)
        key: tuple[int, ...] = ()
        if kind == "keyed":
            key = rng.choice(((0,), (0, 1))) if kinds[1].name != "double" else (0,)
            columns = tuple(
                replace(c, nulls=0.0, values=lambda r: r.randrange(25))
                if i == 0
                else replace(c, nulls=0.0)
                if i in key
                else c
                for i, c in enumerate(columns)
            )
        events = list(
            _events(rng, columns, int(rows * rng.uniform(0.3, 1.2)), "inserts" if kind == "static" else kind, key)
        )
        cuts = sorted(rng.sample(range(1, len(events)), min(rng.randrange(1, 4), len(events) - 1)))
        files = [events[a:b] for a, b in zip((0, *cuts), (*cuts, len(events)), strict=True)]
        deletes = kind == "deletes" or (kind == "keyed" and rng.random() < 0.8)
        if not deletes:
            files = [[e for e in file if e[0] == "I"] for file in files]
        table = FuzzTable(f"t{number}", columns, kinds, key, deletes, rng.random() < 0.5, files)
        found.append(replace(table, static=kind == "static"))
    return found


def _events(
    rng: random.Random, columns: Sequence[Column], count: int, kind: str, key: tuple[int, ...]
) -> Iterator[Event]:
    """Inserts and deletes: single rows, whole groups, everything; some rows are there several times, some come back."""
    live: list[Row] = []
    gone: list[Row] = []
    wipe = rng.randrange(count // 3, count) if rng.random() < 0.4 else -1
    for number in range(count):
        taken: list[Row] = []
        if kind != "inserts" and live:
            draw = rng.random()
            if number == wipe:
                taken = list(live)
            elif draw < 0.2:
                taken = [rng.choice(live)]
            elif draw < 0.24:
                group = rng.choice(live)[0]
                taken = [r for r in live if r[0] == group]
        for row in taken:
            del live[next(i for i, r in enumerate(live) if r is row)]
            gone.append(row)
            yield "D", row
        if not taken:
            draw = rng.random()
            if draw < 0.08 and live and not key:
                row = rng.choice(live)
            elif draw < 0.16 and gone:
                row = gone.pop()
            else:
                row = tuple(c.draw(rng) for c in columns)
            if key:
                live = [r for r in live if any(r[k] != row[k] for k in key)]
            live.append(row)
            yield "I", row
    for _ in range(12):  # something is left, and in all groups
        row = tuple(c.draw(rng) for c in columns)
        yield "I", row
