"""Messages of pgoutput as lines of CSV: what a decoder in plain Python says of the same bytes."""

from __future__ import annotations

import csv
import io
import random
import struct

import numpy as np
import pytest

from tidemill.connectors.postgres.pgoutput import (
    BOOLEAN,
    NO_OLD_ROW,
    PLAIN,
    TRUNCATED,
    ZONED,
    commit_end,
    lines_of,
    parse_relation,
)

TEXTS = ("", "a", 'say "so"', ",", "\n", "\\", "naïve ↯", "t", "x" * 300, '"')
Row = list[str | None]


def tuple_data(row: list[str | bool | None]) -> bytes:
    """A row as messages have it; False stands for a value that did not change."""
    parts = [struct.pack(">H", len(row))]
    for value in row:
        if value is None or isinstance(value, bool):
            parts.append(b"n" if value is None else b"u")
        else:
            parts.append(b"t" + struct.pack(">I", len(value.encode())) + value.encode())
    return b"".join(parts)


def shown(row: Row, kinds: list[int]) -> list[str]:
    """The row as lines have it; NULL cannot be told from an empty text by this reader."""
    values = []
    for value, kind in zip(row, kinds, strict=True):
        text = value or ""
        if kind == BOOLEAN and text in ("t", "f"):
            text = {"t": "true", "f": "false"}[text]
        values.append(f"{text}:00" if kind == ZONED and value is not None else text)
    return values


def test_random_messages(seed: int) -> None:
    chance = random.Random(seed)
    for _ in range(50):
        width = chance.randrange(1, 9)
        wanted = [chance.randrange(width) for _ in range(chance.randrange(1, 6))]
        kinds = [chance.choice((PLAIN, PLAIN, BOOLEAN, ZONED)) for _ in wanted]
        messages, expected = [], []
        for _ in range(chance.randrange(0, 40)):
            relation = chance.choice((7, 7, 7, 2**32 - 8))
            head = struct.pack(">I", relation)
            old: Row = [chance.choice((None, *TEXTS)) for _ in range(width)]
            new: Row = [chance.choice((None, *TEXTS)) for _ in range(width)]
            if chance.randrange(3) == 0:
                messages.append(b"I" + head + b"N" + tuple_data([*new]))
                lines = [(new, "I")]
            elif chance.randrange(2):
                same = [chance.randrange(4) == 0 for _ in range(width)]
                given = [False if s else v for s, v in zip(same, new, strict=True)]
                messages.append(b"U" + head + b"O" + tuple_data([*old]) + b"N" + tuple_data([*given]))
                lines = [(old, "D"), ([o if s else n for o, n, s in zip(old, new, same, strict=True)], "I")]
            else:
                messages.append(b"D" + head + b"O" + tuple_data([*old]))
                lines = [(old, "D")]
            if relation == 7:
                expected += [[*shown([row[i] for i in wanted], kinds), sign] for row, sign in lines]
        found = lines_of(messages, 7, np.array(wanted, np.int64), np.array(kinds, np.uint8))
        assert list(csv.reader(io.StringIO(found.text.decode(), newline=""))) == expected
        assert (found.count, found.ended) == (len(expected), 0)


@pytest.mark.parametrize(
    ("message", "ended"),
    [
        (b"U" + struct.pack(">I", 7) + b"N" + tuple_data(["a"]), NO_OLD_ROW),
        (b"D" + struct.pack(">I", 7) + b"K" + tuple_data(["a"]), NO_OLD_ROW),
        (b"T" + struct.pack(">IB", 2, 0) + struct.pack(">II", 8, 7), TRUNCATED),
        (b"T" + struct.pack(">IB", 1, 0) + struct.pack(">I", 8), 0),
        (b"D" + struct.pack(">I", 8) + b"K" + tuple_data(["a"]), 0),
    ],
)
def test_what_ends_it(message: bytes, ended: int) -> None:
    """Changes of other tables do not."""
    before = b"I" + struct.pack(">I", 7) + b"N" + tuple_data(["a"])
    found = lines_of([before, message, before], 7, np.zeros(1, np.int64), np.zeros(1, np.uint8))
    assert (found.ended, found.count) == (ended, 1 if ended else 2)


def test_relations_and_commits() -> None:
    columns = b"".join(b"\0" + name.encode() + b"\0" + struct.pack(">Ii", 25, -1) for name in ("id", "Ünd so"))
    message = b"R" + struct.pack(">I", 9) + b"public\0the table\0f" + struct.pack(">H", 2) + columns
    found = parse_relation(message)
    assert (found.oid, found.schema, found.name, found.columns) == (9, "public", "the table", ("id", "Ünd so"))
    assert commit_end(b"C" + struct.pack(">BQQQ", 0, 1, 2**40, 3)) == 2**40
