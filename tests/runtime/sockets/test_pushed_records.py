"""Binary rows over sockets: views equal what was packed, and the same bytes read as a file."""

from __future__ import annotations

import json
import random
import socket
import struct
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

import pytest
from test_sockets import LISTEN, connect, messages, rows, until

import tidemill.formats
from mill_factory import MillFactory
from tidemill.errors import TidemillError
from tidemill.mill import Mill
from tidemill.runtime.spools import spools
from tidemill.sources.sockets.spool import Spool

Row = tuple[int, str | None]

COLUMNS = "n BIGINT, s STRING"
TABLES = {
    "fixed": ("native", "widths 's:12', nullBitmap 'true'"),
    "sized": ("native", "endianness 'big'"),
    "csv": ("frames", "payload 'csv', sizeBytes '2', endianness 'big'"),
    "json": ("frames", "payload 'json', multiLine 'true', sizeBytes '8'"),
    "rows": ("frames", "payload 'native', sizeBytes '1'"),
}
"""Name, format and options of tables; a frame has up to three rows, of JSON an array."""


def native(row: Row, order: str, width: int | None) -> bytes:
    """A row, with a string of a fixed width, or with its size."""
    number, text = row[0], (row[1] or "").encode()
    null = 2 if row[1] is None else 0
    if width is not None:
        return struct.pack("<Bq", null, number) + text.ljust(width, b"\0")
    body = struct.pack(order + "BqII", null, number, 17, len(text)) + text
    return struct.pack(order + "I", len(body)) + body


def packed(table: str, given: list[Row]) -> list[bytes]:
    """Messages of a table, each with some of the rows."""
    if table == "fixed":
        return [native(row, "<", 12) for row in given]
    if table == "sized":
        return [native(row, ">", None) for row in given]
    groups = [given[at : at + 3] for at in range(0, len(given), 3)]
    if table == "csv":
        texts = [b"".join(b'%d,"%s"\n' % (n, s.encode()) if s else b"%d,\n" % n for n, s in g) for g in groups]
        return [struct.pack(">H", len(t)) + t for t in texts]
    if table == "json":
        texts = [json.dumps([{"s": s, "n": n} for n, s in g], indent=1).encode() for g in groups]
        return [struct.pack("<Q", len(t)) + t for t in texts]
    texts = [b"".join(native(row, "<", None) for row in g) for g in groups]
    return [struct.pack("B", len(t)) + t for t in texts]


def random_rows(chance: random.Random, first: int, count: int) -> list[Row]:
    """With texts of up to 12 bytes, newlines among them; NULL, and none that is empty."""
    texts = ("x", "a,b", "two\nlines", "é" * 6, "#tm", None)
    return [(n, chance.choice(texts)) for n in range(first, first + count)]


def came(mill: Mill, **counts: int) -> None:
    """Wait until tables have so many messages."""
    until(lambda: all(messages(mill, table) == count for table, count in counts.items()))


def failed(mill: Mill, table: str, count: int) -> None:
    """Wait until so many connections to a table have gone wrong."""
    until(lambda: len(failures(mill, table)) == count)


def create(mill: Mill, table: str, more: str = "") -> None:
    format_, options = TABLES[table]
    mill.sql(f"CREATE TABLE {table} ({COLUMNS}) USING {format_} OPTIONS ({LISTEN}, {options}{more})")


def sent_in_pieces(
    chance: random.Random, waiting: dict[socket.socket, bytes], sizes: tuple[int, ...]
) -> Iterator[None]:
    """Send what waits for each connection, in any order, cut anywhere."""
    while waiting:
        connection = chance.choice(list(waiting))
        size = chance.choice(sizes)
        connection.sendall(waiting[connection][:size])
        waiting[connection] = waiting[connection][size:]
        if not waiting[connection]:
            del waiting[connection]
        yield


def test_views_equal_what_was_packed(mill_factory: MillFactory, monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    """Several peers, epochs of few bytes meanwhile, a second life of the mill, views that come at any time."""
    monkeypatch.setattr(spools, "Spool", partial(Spool, segment_bytes=3000))
    chance = random.Random(seed)
    mill = mill_factory(small_epoch_bytes=1 << 20)
    for table in TABLES:
        create(mill, table, ", maxBytesPerTrigger '1100'")
        mill.sql(f"CREATE MATERIALIZED VIEW v_{table} AS SELECT * FROM {table}")
    given: dict[str, list[Row]] = {table: [] for table in TABLES}
    bytes_of: dict[str, bytes] = dict.fromkeys(TABLES, b"")
    for life in range(2):
        waiting, counts, opened = {}, dict.fromkeys(TABLES, 0), []
        for table in TABLES:
            for peer in range(3):
                some = random_rows(chance, 1000 * life + 100 * peer, chance.randrange(80, 100))
                sent = packed(table, some)
                given[table] += some
                counts[table] += len(sent)
                bytes_of[table] += b"".join(sent)
                opened.append(connect(mill, table))
                waiting[opened[-1]] = b"".join(sent)
        for step, _ in enumerate(sent_in_pieces(chance, waiting, (1, 9, 100, 700)), 1):
            if step % 100 == 0:
                mill.advance()
        mill.advance()
        mill.sql(f"CREATE MATERIALIZED VIEW within_{life} AS SELECT * FROM fixed UNION ALL SELECT * FROM sized")
        mill.advance()
        came(mill, **counts)
        shown = mill.read("fixed__status").to_pylist()
        assert sum(r["errors"] for r in shown) == 0
        if life == 0:
            mill.close()
            mill = mill_factory(small_epoch_bytes=1 << 20)
        for connection in opened:
            connection.close()
    list(mill.drain())
    for table in TABLES:
        mill.sql(f"CREATE MATERIALIZED VIEW later_{table} AS SELECT * FROM {table}")
    list(mill.drain())
    for table, (format_, options) in TABLES.items():
        assert rows(mill, f"v_{table}") == rows(mill, f"later_{table}") == Counter(given[table]), table
        assert mill.read(f"{table}__errors").num_rows == 0
        pairs = dict(option.strip().split(" ", 1) for option in options.split(","))
        alone = tidemill.formats.open(format_, COLUMNS, **{k: v.strip("'") for k, v in pairs.items()})
        assert Counter(map(tuple, (r.values() for r in alone.read(bytes_of[table]).to_pylist()))) == Counter(
            given[table]
        )
    for life in range(2):
        assert rows(mill, f"within_{life}") == Counter(given["fixed"] + given["sized"])


def test_what_is_malformed_has_its_place_in_the_spool(mill_factory: MillFactory) -> None:
    """Rows that are wrong, where the connection is not: also those of a later view's history are counted once."""
    mill = mill_factory(small_epoch_bytes=1 << 20)
    for table in ("fixed", "csv"):
        create(mill, table, ", maxBytesPerTrigger '50'")
        mill.sql(f"CREATE MATERIALIZED VIEW v_{table} AS SELECT n, s FROM {table}")
    bad = {"fixed": native((1, None), "<", 12)[:9] + b"\xff" * 12, "csv": b"\0\4x,b\n"}
    bad["fixed"] = b"\0" + bad["fixed"][1:]
    good = {table: packed(table, [(7, "good")])[0] for table in bad}
    for table in bad:
        with connect(mill, table) as connection:
            connection.sendall(good[table] * 5 + bad[table] + good[table] * 5)
            came(mill, **{table: 11})
    list(mill.drain())
    mill.sql("CREATE MATERIALIZED VIEW later AS SELECT n, s FROM fixed UNION ALL SELECT n, s FROM csv")
    list(mill.drain())
    assert rows(mill, "v_fixed") == Counter({(7, "good"): 10, (1, None): 1})
    assert rows(mill, "v_csv") == Counter({(7, "good"): 10, (None, "b"): 1})
    assert rows(mill, "later") == rows(mill, "v_fixed") + rows(mill, "v_csv")
    for table, reason, before in (("fixed", "bad_utf8", 0), ("csv", "bad_int64", 2)):
        (error,) = mill.read(f"{table}__errors").to_pylist()
        assert (error["reason"], error["line"]) == (reason, None)
        data = Path(error["file"]).read_bytes()
        assert data[error["position"] :].startswith(error["raw"])
        assert error["position"] == data.index(bad[table]) + before


def test_a_peer_that_goes_wrong_spoils_no_other(mill_factory: MillFactory) -> None:
    """Sizes that cannot be right, what is too long, and connections that end within a row."""
    mill = mill_factory(small_epoch_bytes=1 << 20)
    for table in ("fixed", "sized", "csv"):
        create(mill, table, ", maxMessageBytes '100'")
    mill.sql("CREATE MATERIALIZED VIEW v AS SELECT * FROM fixed UNION ALL SELECT * FROM sized UNION ALL TABLE csv")
    whole = {table: packed(table, [(1, "x")])[0] for table in ("fixed", "sized", "csv")}
    ends = {
        "fixed": [whole["fixed"][:-1]],
        "sized": [b"\0\0\0\x10" + b"x" * 16, b"\0\0\0\x65", b"\xff" * 9, whole["sized"][:-1]],
        "csv": [b"\0\x65", whole["csv"][:-1], b"\0"],
    }
    told: list[str] = []
    for table, wrong in ends.items():
        with connect(mill, table) as good:
            good.sendall(whole[table][:-3])
            for number, end in enumerate(wrong, 1):
                with connect(mill, table) as bad:
                    bad.sendall(whole[table] + end)
                failed(mill, table, number)
            good.sendall(whole[table][-3:] + whole[table])
            came(mill, **{table: len(wrong) + 2})
        told += failures(mill, table)
    assert sum("ended within" in t for t in told) == 4
    assert sum("a record of" in t for t in told) == 4
    assert any("a record of 16 bytes, where 17 to 100 may be" in t for t in told)
    list(mill.drain())
    assert rows(mill, "v") == Counter({(1, "x"): 8 + 6})


def failures(mill: Mill, table: str) -> list[str]:
    """Why connections to a table ended."""
    shown = mill.read(f"{table}__status").to_pylist()
    place = next(r for r in shown if r["state"] == "listening")
    found = [r["last_error"] for r in shown if r["state"] == "closed" and r["errors"]]
    assert place["errors"] == len(found)
    return found


def test_late_rows_are_late_for_later_views(mill_factory: MillFactory, seed: int) -> None:
    """Epochs end anywhere in a row, so the marks of a watermark lie there too."""
    chance = random.Random(seed)
    mill = mill_factory(small_epoch_bytes=1 << 20)
    limits = "watermark 'at', watermarkDelay '20 seconds', maxBytesPerTrigger '333'"
    for table, columns, more in (("f", "n BIGINT", ""), ("s", "n BIGINT, x BINARY", ", endianness 'big'")):
        mill.sql(f"CREATE TABLE {table} ({columns}, at TIMESTAMP) USING native OPTIONS ({LISTEN}, {limits}{more})")
        mill.sql(f"CREATE MATERIALIZED VIEW v_{table} AS SELECT n, at FROM {table}")
    start, count = datetime(2026, 1, 1, tzinfo=UTC), 120
    with connect(mill, "f") as fixed, connect(mill, "s") as sized:
        for block in range(4):
            for n in range(30 * block, 30 * block + 30):
                at = start + timedelta(seconds=n - (60 if chance.random() < 0.3 else 0))
                micros = int(at.timestamp()) * 1_000_000
                fixed.sendall(struct.pack("<Bqq", 0, n, micros))
                sized.sendall(struct.pack(">IBqIIq", 26, 0, n, 25, 1, micros) + b"x")
            came(mill, f=30 * block + 30, s=30 * block + 30)
            list(mill.drain())
        for table in "fs":
            mill.sql(f"CREATE MATERIALIZED VIEW later_{table} AS SELECT n, at FROM {table}")
        list(mill.drain())
    for table in "fs":
        late = [r for r in mill.read(f"{table}__errors").to_pylist() if r["reason"] == "late"]
        found = rows(mill, f"v_{table}")
        assert found == rows(mill, f"later_{table}") and found.total() + len(late) == count and late


def test_messages_of_a_keyed_table(mill_factory: MillFactory) -> None:
    """A column of operations that is not declared is a string, so the rows have sizes."""
    mill = mill_factory(small_epoch_bytes=1 << 20)
    mill.sql(
        f"CREATE TABLE t (k INT, v INT, PRIMARY KEY (k)) USING native OPTIONS ({LISTEN}, opColumn 'op', "
        "nullBitmap 'false')"
    )
    mill.sql(
        f"CREATE TABLE w (k INT, v INT, PRIMARY KEY (k)) USING native OPTIONS ({LISTEN}, opColumn 'op', "
        "nullBitmap 'false', widths 'op:1', maxBytesPerTrigger '100')"
    )
    kept: dict[int, int] = {}
    with connect(mill, "t") as sized, connect(mill, "w") as fixed:
        for n in range(300):
            key, op = n * 7 % 11, "D" if n % 5 == 4 else "I"
            if op == "I":
                kept[key] = n
            else:
                kept.pop(key, None)
            sized.sendall(struct.pack("<IiiII", 17, key, n, 16, 1) + op.encode())
            fixed.sendall(struct.pack("<ii", key, n) + op.encode())
        came(mill, t=300, w=300)
        list(mill.drain())
    assert rows(mill, "t") == rows(mill, "w") == Counter(kept.items())


@pytest.mark.parametrize(
    ("table", "number"),
    [
        ("(a INT) USING native OPTIONS ({at}, framing 'length')", "TM4003"),
        ("(a STRING) USING native OPTIONS ({at}, lengthBytes '4')", "TM4003"),
        ("(a INT) USING frames OPTIONS ({at}, payload 'csv', lengthByteOrder 'big')", "TM4003"),
        ("(a INT, b BIGINT) USING native OPTIONS ({at}, maxMessageBytes '12')", "TM4003"),
        ("(a STRING, b BIGINT) USING native OPTIONS ({at}, maxMessageBytes '16')", "TM4003"),
        ("(a INT) USING frames OPTIONS ({at}, payload 'csv', header 'true')", "TM4003"),
        ("(a INT) USING frames OPTIONS ({at}, payload 'parquet')", "TM4003"),
        ("(a ARRAY<INT>) USING native OPTIONS ({at})", "TM4004"),
        ("USING frames OPTIONS ({at}, payload 'csv')", "TM5024"),
        ("(a INT) USING native OPTIONS ({at}, compression 'gzip')", "TM5024"),
        ("(a INT) USING arrow OPTIONS ({at})", "TM5024"),
    ],
)
def test_refused(mill_factory: MillFactory, table: str, number: str) -> None:
    mill = mill_factory()
    with pytest.raises(TidemillError, match=number):
        mill.sql("CREATE TABLE t " + table.replace("{at}", "path 'tcp://127.0.0.1:1'"))
    assert mill.sql("SHOW TABLES").count() == 0  # type: ignore[union-attr]
