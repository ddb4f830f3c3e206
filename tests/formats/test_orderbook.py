"""Order books: the compiled replay against the plain one, and how messages are read."""

from __future__ import annotations

import random
from collections import Counter

import numpy as np
import pytest
from tests.formats.orderbook_reference import Book, Message, Order

from tidemill.errors import FormatError, TidemillError
from tidemill.formats.base import RowError
from tidemill.formats.orderbook.format import OrderBookFormat, row_order
from tidemill.formats.orderbook.replay import EXECUTE, INSERT, OTHER, REMOVE, replay
from tidemill.formats.orderbook.rules import MESSAGES, ROWS, ROWS_OF_BOTH, BookRules
from tidemill.schema import Field, Schema

CODES = {"B": INSERT, "E": EXECUTE, "F": REMOVE, "D": REMOVE, "S": OTHER, "X": OTHER, "C": OTHER, "T": OTHER}
VOLUMES = (0.0, 1.0, 2.5, 5.0, 10.0, -1.0, float("nan"), float("inf"))


def random_message(rng: random.Random, t: int, ids: int) -> Message:
    action = rng.choice("BBEEEDFSXCT")
    return Message(float(t), rng.randrange(-2, ids), action, rng.choice(VOLUMES), float(rng.randrange(5)))


@pytest.mark.parametrize("insert_only", [False, True])
def test_replay_in_epochs_equals_message_by_message(insert_only: bool, seed: int) -> None:
    rng = random.Random(seed)
    rules = BookRules("B", 3, True, insert_only)
    for _ in range(60):
        plain, compiled = Book(rules), dict[int, Order]()
        rows: Counter[str] = Counter()
        for _ in range(rng.randrange(1, 6)):
            messages = [random_message(rng, i, 4) for i in range(rng.randrange(0, 25))]
            expected: Counter[str] = Counter()
            for message in messages:
                for weight, order in plain.apply(message):
                    expected[repr(order)] += weight
            got = one_epoch(compiled, messages, rules)
            assert {k: w for k, w in got.items() if w} == {k: w for k, w in expected.items() if w}
            rows.update(got)
            assert all(w >= 0 for w in rows.values())
        assert {k: repr(o) for k, o in compiled.items()} == {k: repr(o) for k, o in plain.orders.items()}


def one_epoch(live: dict[int, Order], messages: list[Message], rules: BookRules) -> Counter[str]:
    """Apply messages to live orders with :func:`replay`; returns the changes of rows."""
    ids = sorted({m.id for m in messages})
    by_id = [[m for m in messages if m.id == i] for i in ids]
    flat = [m for group in by_id for m in group]
    starts = np.cumsum([0, *(len(g) for g in by_id)])
    result = replay(
        starts,
        np.array([CODES[m.action] for m in flat], np.int8),
        np.array([m.volume for m in flat], np.float64),
        np.array([i in live for i in ids], np.bool_),
        np.array([live[i].volume if i in live else 0.0 for i in ids], np.float64),
        rules.insert_only,
    )

    def order(k: int, source: int, volume: float) -> Order:
        of = live[ids[k]] if source < 0 else flat[source]
        broker = int(rules.broker_ids(np.array([ids[k]]))[0])
        side = of.side if isinstance(of, Order) else of.action
        return Order(of.t, ids[k], broker, float(volume), of.price, side)

    found: Counter[str] = Counter()
    for k, source, volume, weight in zip(result.order, result.source, result.volume, result.weight, strict=True):
        found[repr(order(int(k), int(source), volume))] += int(weight)
    after = {ids[k]: order(k, int(result.sources[k]), result.volumes[k]) for k in range(len(ids)) if result.live[k]}
    for k, number in enumerate(ids):
        if not result.changed[k]:
            assert live.get(number) == after.get(number) or repr(live[number]) == repr(after[number])
        live.pop(number, None)
    live.update(after)
    return found


@pytest.mark.parametrize("deterministic", [True, False])
def test_brokers(deterministic: bool) -> None:
    rules = BookRules("B", 10, deterministic, False)
    ids = [0, 1, 9, 10, 123456789, -1, -13, 2**62, -(2**63)]
    book = Book(rules)
    for number in ids:
        book.apply(Message(0.0, number, "B", 1.0, 1.0))
    assert rules.broker_ids(np.array(ids, np.int64)).tolist() == [book.orders[i].broker_id for i in ids]
    spread = Counter(rules.broker_ids(np.arange(10_000)).tolist())
    assert sorted(spread) == list(range(10))
    assert min(spread.values()) > 800


def read(text: bytes, cuts: tuple[int, ...] = (), **options: str) -> tuple[list[tuple[object, ...]], list[RowError]]:
    """Messages and errors of a file that is read in splits."""
    reader = OrderBookFormat().reader(MESSAGES, {"book": "bids", **options}, MESSAGES.names)
    rows, errors = [], []
    for start, end in zip((0, *cuts), (*cuts, len(text)), strict=True):
        split = reader.split(start=start, end=end, file_size=len(text), in_quotes=None, header=None)
        while not split.done:
            found = split.feed(text[split.read_from :], last=True)
            columns = [c.to_pylist() for c in found.batch.columns]
            rows += list(zip(found.positions.tolist(), *columns, strict=True))
            errors += found.errors
    return rows, errors


TEXT = (
    b"1,5,B,100,20\n2,6,S,1,1\n3,7,T,1,1\r\n4,5,E,1,0\n5,5,Q,1,1\n6,,B,1,1\n7,5,D,0,-0.0\n8,9,B,1\n"
    b"9,5,F,0,0,1\nx,1,C,1,0"
)


def test_messages_of_one_book() -> None:
    rows, errors = read(TEXT)
    assert [(r[1], r[2], r[3]) for r in rows] == [(1.0, 5, "B"), (4.0, 5, "E"), (7.0, 5, "D"), (9.0, 5, "F")]
    assert str(rows[2][5]) == "0.0"
    assert [TEXT[p : p + 1] for p, *_ in rows] == [b"1", b"4", b"7", b"9"]
    assert [(e.column, e.reason, e.dropped) for e in errors] == [
        ("action", "bad_action", True),
        ("id", "null_in_not_null", True),
        (None, "too_few_fields", True),
        ("price", "null_in_not_null", True),
        (None, "too_many_fields", False),
        ("t", "null_in_not_null", True),
    ]
    assert errors[0].raw == b"5,5,Q,1,1"
    asks, _ = read(TEXT, book="asks")
    assert [r[3] for r in asks] == ["S", "E", "D", "F"]


def test_messages_of_both_books_and_partial_cancels() -> None:
    text = b"1,5,B,100,20\n2,6,S,1,1\n3,7,T,1,1\n4,5,C,1,0\n5,7,X,1,1\n6,5,F,1,0\n"
    assert [r[3] for r in read(text, book="both")[0]] == ["B", "S", "F"]
    assert [r[3] for r in read(text, book="both", partialcancels="true")[0]] == ["B", "S", "C", "F"]
    assert [r[3] for r in read(text, book="asks", partialcancels="yes")[0]] == ["S", "C", "F"]
    assert not read(text, book="both", partialcancels="yes")[1]


def test_any_splits_give_the_same_messages() -> None:
    whole = read(TEXT)
    for cut in range(1, len(TEXT)):
        assert read(TEXT, (cut,)) == whole
    assert read(TEXT, tuple(range(1, len(TEXT)))) == whole


def test_modes() -> None:
    with pytest.raises(FormatError, match=r"TM4020[\s\S]*bad_action: 5,5,Q,1,1"):
        read(b"1,5,B,1,1\n5,5,Q,1,1\n", mode="FAILFAST")
    rows, errors = read(TEXT, mode="DROPMALFORMED")
    assert [r[1] for r in rows] == [1.0, 4.0, 7.0]
    assert all(e.dropped for e in errors)


@pytest.mark.parametrize(
    "options",
    [{}, {"book": "bid"}, {"brokers": "0"}, {"brokers": "x"}, {"deterministic": "maybe"}, {"mode": "x"}],
)
def test_bad_options(options: dict[str, str]) -> None:
    given = {"book": "bids", **options} if options else {}
    with pytest.raises(TidemillError, match="TM4003"):
        OrderBookFormat().validate(MESSAGES, given)


def test_columns_by_name_or_place() -> None:
    fields = {f.name: f for f in ROWS_OF_BOTH}
    assert row_order(ROWS, ROWS) == (0, 1, 2, 3, 4)
    other = Schema(tuple(fields[n] for n in ("price", "id", "t", "broker_id", "volume")))
    assert row_order(other, ROWS) == (4, 1, 0, 2, 3)
    both = Schema((fields["side"], *other))
    assert row_order(both, ROWS_OF_BOTH) == (5, 4, 1, 0, 2, 3)
    renamed = Schema(tuple(Field(n, f.type) for n, f in zip("abcde", ROWS, strict=True)))
    assert row_order(renamed, ROWS) == (0, 1, 2, 3, 4)
    for wrong in (Schema(ROWS.fields[:4]), both, Schema((*ROWS.fields[::-1][1:], Field("x", ROWS.types[0])))):
        with pytest.raises(TidemillError, match="TM4030"):
            row_order(wrong, ROWS)
