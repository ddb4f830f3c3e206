"""Random change messages in files, with a dictionary that says message by message what each table is."""

from __future__ import annotations

import copy
import datetime
import json
import math
import random
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
from oracle import Oracle
from random_tables import NO_TEXT, to_field

from tidemill.exchange.trace import generate
from tidemill.mill import Mill
from tidemill.testing import assert_same_rows

Row = tuple[Any, ...]


@dataclass
class ChangeFiles:
    """Lines cut into files, which appear when they are released. Tables may share them."""

    directory: Path
    lines: Sequence[str]
    waiting: list[tuple[str, range]]
    header: str = ""
    starts: dict[str, list[tuple[int, int]]] = field(default_factory=dict)

    @staticmethod
    def cut(rng: random.Random, directory: Path, lines: Sequence[str], files: int, header: str = "") -> ChangeFiles:
        """Files at random lines, named in their order."""
        directory.mkdir(parents=True)
        cuts = sorted(rng.sample(range(1, len(lines)), files - 1))
        parts = [range(a, b) for a, b in zip((0, *cuts), (*cuts, len(lines)), strict=True)]
        return ChangeFiles(directory, lines, [(f"part-{i:03}", p) for i, p in enumerate(parts)], header)

    def release(self, count: int = 1) -> None:
        """Let the next files appear."""
        for name, numbers in self.waiting[:count]:
            text, starts = (self.header + "\n" if self.header else "").encode(), []
            for number in numbers:
                starts.append((len(text), number))
                text += self.lines[number].encode() + b"\n"
            hidden = self.directory / f".{name}"
            hidden.write_bytes(text)
            hidden.rename(self.directory / name)
            self.starts[str(self.directory / name)] = starts
        del self.waiting[:count]

    def admitted(self, ranges: Iterable[tuple[str, int, int]]) -> list[int]:
        """Numbers of the lines that begin in byte ranges, in the order of files and bytes."""
        return [n for path, low, high in sorted(ranges) for at, n in self.starts[path] if low <= at < high]


@dataclass
class ChangeTable:
    """A keyed table: ``apply(rows, number)`` does what a line does to its rows."""

    name: str
    create: str
    schema: pa.Schema
    files: ChangeFiles
    apply: Callable[[Any, int], None]
    rows: Any
    as_rows: Callable[[Any], list[Row]]
    next: int = 0

    def admit(self, numbers: Sequence[int]) -> None:
        """Apply lines, which must be the next ones: nothing is skipped, repeated or out of order."""
        assert list(numbers) == list(range(self.next, self.next + len(numbers))), self.name
        for number in numbers:
            self.apply(self.rows, number)
        self.next += len(numbers)

    def table(self) -> pa.Table:
        """The rows."""
        columns = list(zip(*self.as_rows(self.rows), strict=True)) or [()] * len(self.schema)
        return pa.table([pa.array(c, f.type) for c, f in zip(columns, self.schema, strict=True)], schema=self.schema)


UPSERT_SCHEMA = pa.schema(
    [
        ("v", pa.float64()),
        ("k", pa.int32()),
        ("s", pa.string()),
        ("g", pa.string()),
        ("n", pa.int64()),
        ("day", pa.date32()),
    ]
)


def upserts(rng: random.Random, directory: Path, count: int, files: int = 4) -> ChangeTable:
    """``c``: CSV with opColumn and the key (g, k); deletions say anything beside their key, some keys are NULL."""
    lines: list[str] = []
    effects: list[tuple[Row, Row | None] | None] = []
    for _ in range(count):
        row = (
            rng.choice((None, 1.5, -0.0, 0.0, math.nan, math.inf, 0.1)),
            None if rng.random() < 0.04 else rng.randrange(4),
            rng.choice((None, "", "x", 'say "x"', "two\nlines", "é")),
            rng.choice(("", "a", "b,b")),
            rng.choice((None, rng.randrange(-9, 9))),
            rng.choice((None, datetime.date(2020, 1, 1) + datetime.timedelta(days=rng.randrange(400)))),
        )
        fields = ['""' if v == "" else to_field(v, rng) for v in row]
        delete = rng.random() < 0.35
        if delete:
            fields = [f if i in (1, 3) else rng.choice(("", "garbage", f)) for i, f in enumerate(fields)]
        lines.append(",".join([*fields, "remove" if delete else "put"]))
        effects.append(None if row[1] is None else ((row[3], row[1]), None if delete else row))

    def apply(rows: dict[Row, Row], number: int) -> None:
        effect = effects[number]
        if effect is not None:
            rows.pop(effect[0], None)
            if effect[1] is not None:
                rows[effect[0]] = effect[1]

    create = (
        "CREATE TABLE c (v DOUBLE, k INT, s STRING, g STRING, n BIGINT, day DATE, PRIMARY KEY (G, K)) USING csv "
        f"OPTIONS (path '{directory}', header true, nullValue '{NO_TEXT}', opColumn 'what', opInsert 'put', "
        "opDelete 'remove')"
    )
    # Lines with quoted line ends are one message of several lines: the file's header names the columns.
    made = ChangeFiles.cut(rng, directory, lines, files, "v,k,s,g,n,day,what")
    return ChangeTable("c", create, UPSERT_SCHEMA, made, apply, {}, lambda rows: list(rows.values()))


ENVELOPE_SCHEMA = pa.schema(
    [("id", pa.int64()), ("name", pa.string()), ("w", pa.float64()), ("at", pa.timestamp("us", "UTC"))]
)


def envelopes(rng: random.Random, directory: Path, count: int, files: int = 3) -> ChangeTable:
    """``d``: Debezium, key id; some updates move a row to another key, and some lines are no messages."""
    lines: list[str] = []
    effects: list[tuple[int | None, Row | None]] = []
    epoch = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
    for _ in range(count):
        key, draw = rng.randrange(7), rng.random()
        micros = rng.choice((None, rng.randrange(10**15)))
        row = (
            key,
            rng.choice((None, "", "é", 'say "x"', "}{")),
            rng.choice((None, 0.1, -0.0, 3.0)),
            None if micros is None else epoch + datetime.timedelta(microseconds=micros),
        )
        image = {"w": row[2], "id": key, "name": row[1], "at": micros, "more": [1]}
        if draw < 0.1:
            lines.append(rng.choice(("null", "", "oops", '{"op":"x"}', '{"op":"c","after":{"name":"no key"}}')))
            effects.append((None, None))
        elif draw < 0.4:
            lines.append(json.dumps({"before": {"id": key}, "after": None, "op": "d"}, separators=(",", ":")))
            effects.append((key, None))
        else:
            operation = rng.choice("cru")
            old = rng.choice((key, key, rng.randrange(7))) if operation == "u" else None
            before = None if old is None else {"id": old}
            lines.append(json.dumps({"before": before, "after": image, "op": operation}, separators=(",", ":")))
            effects.append((old, row))
    made = ChangeFiles.cut(rng, directory, lines, files)

    def apply(rows: dict[int, Row], number: int) -> None:
        old, row = effects[number]
        if old is not None:
            rows.pop(old, None)
        if row is not None:
            rows[row[0]] = row

    columns = "id BIGINT PRIMARY KEY, name STRING, w DOUBLE, at TIMESTAMP"
    create = f"CREATE TABLE d ({columns}) USING debezium OPTIONS (path '{directory}')"
    return ChangeTable("d", create, ENVELOPE_SCHEMA, made, apply, {}, lambda rows: list(rows.values()))


BOOK_SCHEMA = pa.schema(
    [
        ("t", pa.float64()),
        ("id", pa.int64()),
        ("broker_id", pa.int32()),
        ("volume", pa.float64()),
        ("price", pa.float64()),
    ]
)


@dataclass
class BookRows:
    """Orders by id, and the rows of the table: those that were replaced without a deletion are in it too."""

    orders: dict[int, Row] = field(default_factory=dict)
    rows: Counter[Row] = field(default_factory=Counter)


def books(
    rng: random.Random, directory: Path, count: int, files: int = 3, strange: float = 0.1, brokers: int | None = None
) -> list[ChangeTable]:
    """``bids``, ``asks`` and ``orders`` (both, with partial cancels) over one generated trace.

    Some messages have known ids, unknown ids or unknown letters.

    Unless nothing is to be strange, at least one has an unknown letter.
    """
    lines = generate(count, rng.randrange(10**6), resting=max(4, count // 12)).lines().splitlines()
    unknown = rng.randrange(len(lines)) if strange else None
    for number, line in enumerate(lines):
        if number == unknown or rng.random() < strange:
            t, _, action, volume, price = line.split(",")
            known = rng.choice(lines[: number + 1]).split(",")[1]
            letter = "Q" if number == unknown else rng.choice((action, "B", "S", "E", "C", "Q"))
            lines[number] = ",".join((t, known, letter, volume, price))
    made = ChangeFiles.cut(rng, directory, lines, files)
    brokers = brokers or rng.choice((1, 3, 10))

    def apply(book: BookRows, number: int, inserts: str) -> None:
        t, name, action, volume, price = lines[number].split(",")
        old, partly = book.orders.get(int(name)), "E" if len(inserts) == 1 else "EC"
        if action in inserts:
            side = () if len(inserts) == 1 else (action,)
            book.orders[int(name)] = (float(t), int(name), int(name) % brokers, float(volume), float(price), *side)
            book.rows[book.orders[int(name)]] += 1
        elif action in f"{partly}FD" and old is not None:
            book.rows[book.orders.pop(int(name))] -= 1
            if action in partly and old[3] - float(volume) > 0:
                book.orders[int(name)] = (*old[:3], old[3] - float(volume), *old[4:])
                book.rows[book.orders[int(name)]] += 1

    def table(name: str, inserts: str, more: str = "") -> ChangeTable:
        which = more or f"book '{name}'"
        columns = "" if more else "(t DOUBLE, id BIGINT, broker_id INT, volume DOUBLE, price DOUBLE)"
        create = (
            f"CREATE TABLE {name} {columns} USING orderbook "
            f"OPTIONS (path '{directory}', brokers '{brokers}', deterministic 'yes', {which})"
        )
        return ChangeTable(
            name,
            create,
            BOOK_SCHEMA if len(inserts) == 1 else BOOK_SCHEMA.append(pa.field("side", pa.string())),
            made,
            lambda b, n: apply(b, n, inserts),
            BookRows(),
            lambda b: list(b.rows.elements()),
        )

    both = table("orders", "BS", "book 'both', partialCancels 'true'")
    return [table("bids", "B"), table("asks", "S"), both]


class KeyedTrial:
    """A mill with keyed tables, compared after every epoch: tables with their dictionaries, views with Spark.

    Attributes
    ----------
    views : dict
        Name to query, in the order of creation.
    ever : set of str
        Tables and views that have had a row.
    """

    def __init__(self, mill: Mill, tables: Sequence[ChangeTable]) -> None:
        self.mill = mill
        self.tables = {t.name: t for t in tables}
        self.files = list({id(t.files): t.files for t in tables}.values())
        self.views: dict[str, str] = {}
        self.ever: set[str] = set()
        self._oracle = Oracle(mill.spark)
        for files in self.files:
            files.release()
        for table in tables:
            mill.sql(table.create)
        self._before: dict[int, dict[str, tuple[Any, int]]] = {}
        self._remember()

    def create(self, views: Mapping[str, str]) -> None:
        """Create views in the mill."""
        for name, query in views.items():
            self.mill.sql(f"CREATE MATERIALIZED VIEW {name} AS {query}")
            self.views[name] = query

    def advance(self) -> bool:
        """Run one epoch and compare; False when there was nothing to do."""
        report = self.mill.advance()
        if report is None:
            return False
        assert not report.failed, report.failed
        for table in self.tables.values():
            table.admit(table.files.admitted((p, a, b) for name, p, a, b in report.read if name == table.name))
        for files in self.files:
            assert len({t.next for t in self.tables.values() if t.files is files}) == 1, "both books at one message"
        self.compare()
        self._remember()
        return True

    def compare(self) -> None:
        """Tables, and the views that are not initialising."""
        epoch = self.mill.epoch
        rows = {t.name: t.table() for t in self.tables.values()}
        initialising = self.mill.snapshot().initialising
        expected = {**rows, **self._oracle.answers(rows, self.views)}
        for name, table in expected.items():
            if name not in initialising:
                assert_same_rows(self.mill.read(name), table, f"{name} at epoch {epoch}: {self.views.get(name, '')}")
                if table.num_rows:
                    self.ever.add(name)

    def run(self, rng: random.Random, most: int = 60) -> int:
        """Epochs until every file has appeared and is admitted; returns how many there were."""
        for count in range(most):
            waiting = [f for f in self.files if f.waiting]
            if waiting:
                rng.choice(waiting).release()
            if not self.advance() and not waiting:
                return count
        raise AssertionError(f"not finished after {most} epochs")

    def reopened(self, mill: Mill) -> None:
        """Go on with another mill on the same root, which stands at the newest durable epoch."""
        self.mill = mill
        for name, (rows, following) in self._before[mill.epoch].items():
            self.tables[name].rows, self.tables[name].next = copy.deepcopy(rows), following
        self.compare()

    def check_not_vacuous(self, by_chance: Collection[str] = ()) -> None:
        """Fail when some table or view was empty in every epoch, but for those that can be so by chance."""
        empty = {*self.tables, *self.views} - self.ever - {*by_chance}
        assert not empty, f"these never had a row: {sorted(empty)}"

    def _remember(self) -> None:
        self._before[self.mill.epoch] = {t.name: (copy.deepcopy(t.rows), t.next) for t in self.tables.values()}
