"""Sinks into Kafka: what a consumer reads, added up, is what a dictionary says; epochs are there once."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, TopicPartition
from sinking import Counted, weighted
from tests.kafka_broker import Broker, free_port

from tidemill.errors import TidemillError
from tidemill.sinks import kafka
from waiting import wait_until

_PARTITIONS = 3


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    started = Broker()
    yield started
    started.close()


@pytest.fixture
def topic(broker: Broker, request: pytest.FixtureRequest) -> str:
    """A topic of its own for each test."""
    name = "".join(c if c.isalnum() else "-" for c in request.node.name)
    broker.create(name, _PARTITIONS)
    return name


def received(broker: Broker, topic: str) -> list[Any]:
    """All messages of a topic; those of a partition in order."""
    given = {"bootstrap.servers": broker.servers, "group.id": "test", "enable.partition.eof": True, "log_level": 0}
    consumer, ended, found = Consumer(given), set[int](), []
    consumer.assign([TopicPartition(topic, p, 0) for p in range(_PARTITIONS)])
    while len(ended) < _PARTITIONS:
        message = consumer.poll(1.0)
        if message is None:
            continue
        if message.error() is None:
            found.append(message)
        else:
            assert message.error().code() == KafkaError._PARTITION_EOF
            ended.add(message.partition())
    consumer.close()
    return found


def numbers(messages: list[Any]) -> list[tuple[int, int]]:
    """Epoch and sequence number of each message."""
    headers = [dict(m.headers()) for m in messages]
    return [(int(h["__epoch"]), int(h["__sequence"])) for h in headers]


def options(broker: Broker, topic: str, **more: str) -> str:
    return broker.options(topic=topic, **more)


def by_debezium(messages: list[Any]) -> Counter[tuple[Any, ...]]:
    """The rows after all changes; each removed row was there."""
    rows: Counter[tuple[Any, ...]] = Counter()
    for message in messages:
        change = json.loads(message.value())
        before, after = (None if r is None else tuple(r.values()) for r in (change["before"], change["after"]))
        assert (before is None, after is None) == {"c": (True, False), "r": (True, False), "u": (False, False),
                                                   "d": (False, True)}[change["op"]]  # fmt: skip
        if before is not None:
            assert rows[before] > 0
            rows[before] -= 1
        if after is not None:
            rows[after] += 1
    return +rows


def by_key(messages: list[Any]) -> dict[str, tuple[Any, ...]]:
    """The newest value of each key that has one."""
    found: dict[str, Mapping[str, Any] | None] = {}
    for message in messages:
        key = json.loads(message.key())["k"]
        found[key] = None if message.value() is None else json.loads(message.value())
        assert found[key] is None or found[key]["k"] == key  # type: ignore[index]
    return {key: tuple(row.values()) for key, row in found.items() if row is not None}


def test_envelopes(counted: Counted, broker: Broker, topic: str, seed: int) -> None:
    """Changes of rows that occur several times, of keys, and with weights; the mill is opened anew in between."""
    chance = random.Random(seed)
    names = {name: f"{topic}-{name}" for name in ("debezium", "keyed", "upsert", "weights")}
    for name in names.values():
        broker.create(name, _PARTITIONS)
    counted.write([("a", 1), ("a", 1)])
    counted.advance()
    counted.mill.script(f"""
        CREATE SINK d FROM v INTO kafka OPTIONS ({options(broker, names["debezium"])});
        CREATE SINK k FROM n INTO kafka OPTIONS ({options(broker, names["keyed"], keyColumns="k")});
        CREATE SINK u FROM n INTO kafka OPTIONS ({options(broker, names["upsert"], keyColumns="k", envelope="upsert")});
        CREATE SINK w FROM v INTO kafka OPTIONS ({options(broker, names["weights"], envelope="weights")});
    """)
    assert {s["guarantee"] for s in counted.sinks().values()} == {"exactly once"}
    for turn in range(4):
        if turn == 2:
            counted.mill.close()
            counted.open()
        counted.change(chance)
        counted.advance()
        found = {name: received(broker, topic_) for name, topic_ in names.items()}
        assert by_debezium(found["debezium"]) == counted.rows
        assert by_debezium(found["keyed"]) == counted.sums
        assert Counter(by_key(found["upsert"]).values()) == counted.sums
        assert weighted(json.loads(m.value()) for m in found["weights"]) == counted.rows
        for messages in found.values():
            assert len(set(numbers(messages))) == len(messages)
    changes = [json.loads(m.value()) for m in found["keyed"]]
    assert {c["source"]["table"] for c in changes} == {"n"} and all(m.key() is None for m in found["debezium"])
    assert {c["op"] for c in changes} >= {"r", "u"}
    keys = {m.key(): m.partition() for m in found["keyed"]}
    assert all(keys[m.key()] == m.partition() for m in found["keyed"])


def test_all_rows_each_time(counted: Counted, broker: Broker, topic: str) -> None:
    counted.write([("a", 1), ("b", 2)])
    counted.advance()
    more = options(broker, topic, mode="snapshot", keyColumns="k", envelope="upsert")
    counted.mill.sql(f"CREATE SINK s FROM n INTO kafka OPTIONS ({more})")
    first = counted.advance()
    counted.write([("c", 3)])
    second = counted.advance()
    epochs = Counter(epoch for epoch, _ in numbers(received(broker, topic)))
    assert epochs == {first: 2, second: 3}


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
@pytest.mark.parametrize("moment", ["before the commit", "after the commit"])
def test_killed_beside_a_transaction(
    counted: Counted, broker: Broker, topic: str, moment: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An epoch that was committed is not written again, one that was not is. This broker shows aborted messages, too,
    so that those of an epoch that was begun twice are told by what was committed.
    """
    counted.write([("a", 1)])
    counted.advance()
    counted.mill.sql(f"CREATE SINK d FROM v INTO kafka OPTIONS ({options(broker, topic)})")
    counted.advance()
    killed: list[str] = []
    opened = kafka.KafkaTarget._opened

    class Dying:
        """A producer whose process ends at a moment."""

        def __init__(self, producer: Any) -> None:
            self._producer = producer

        def __getattr__(self, name: str) -> Any:
            return getattr(self._producer, name)

        def commit_transaction(self, *given: Any) -> None:
            if moment == "after the commit":
                self._producer.commit_transaction(*given)
            killed.append(moment)
            raise SystemExit

    def dying(target: kafka.KafkaTarget) -> Any:
        producer = opened(target)
        return producer if killed else Dying(producer)

    monkeypatch.setattr(kafka.KafkaTarget, "_opened", dying)
    counted.write([("b", 2), ("c", 3)], [("a", 1)])
    while counted.mill.advance() is not None:
        pass
    counted.mill.checkpoint()
    wait_until(lambda: bool(killed))
    counted.kill()
    counted.open()
    counted.write([("d", 4)])
    counted.advance()
    messages = received(broker, topic)
    twice = [n for n, times in Counter(numbers(messages)).items() if times > 1]
    assert bool(twice) == (moment == "before the commit")
    once = dict(zip(numbers(messages), messages, strict=True))
    assert by_debezium([once[n] for n in sorted(once)]) == counted.rows


def test_a_broker_that_goes_and_comes(counted: Counted, topic: str) -> None:
    """Its topics are in memory: it hangs, and goes on."""
    broker = Broker()
    try:
        broker.create("o", _PARTITIONS)
        more = options(broker, "o", kafkaRequestTimeoutMs="1000", maxBackoff="1 second")
        counted.mill.sql(f"CREATE SINK d FROM v INTO kafka OPTIONS ({more})")
        counted.write([("a", 1)])
        counted.advance()
        broker.pause()
        counted.write([("b", 2)])
        while counted.mill.advance() is not None:
            pass
        counted.mill.checkpoint()
        wait_until(lambda: "TM8220" in counted.sink("d")["error"], 60)
        broker.resume()
        wait_until(lambda: counted.sink("d")["lag"] == 0, 60)
        messages = received(broker, "o")
        found = dict(zip(numbers(messages), messages, strict=True))
        assert by_debezium([found[n] for n in sorted(found)]) == counted.rows
    finally:
        broker.resume()
        broker.close()


def test_what_is_refused(counted: Counted, broker: Broker, topic: str) -> None:
    def refused(given: str, view: str = "n") -> TidemillError:
        with pytest.raises(TidemillError) as raised:
            counted.mill.sql(f"CREATE SINK s FROM {view} INTO kafka OPTIONS ({given})")
        return raised.value

    for more, number, said in (
        ({"topic": "a b"}, "TM8207", "topic"),
        ({"envelope": "upsert"}, "TM4003", "keyColumns"),
        ({"keyColumns": "k,missing"}, "TM4003", "keyColumns"),
        ({"envelope": "avro"}, "TM4003", "envelope"),
        ({"kafka.transactional.id": "x"}, "TM4003", "transactional.id"),
        ({"subscribe": "x"}, "TM8201", "subscribe"),
    ):
        error = refused(options(broker, **{"topic": topic, **more}))
        assert error.number == number and said in error.message(), error.message()
    assert refused(f"topic '{topic}'").number == "TM4003"
    counted.write([("a", 1), ("a", 2)])
    counted.mill.script(f"""
        CREATE SINK nowhere FROM n INTO kafka OPTIONS ({options(broker, "no-such-topic")});
        CREATE SINK twice FROM v INTO kafka OPTIONS ({options(broker, topic, keyColumns="k", envelope="upsert",
                                                              initialSnapshot="false")});
        CREATE SINK nobody FROM v INTO kafka OPTIONS ('kafka.bootstrap.servers' '127.0.0.1:{free_port()}', topic 'x',
                                                      kafkaRequestTimeoutMs '500');
    """)  # fmt: skip
    while counted.mill.advance() is not None:
        pass
    counted.mill.checkpoint()
    for name, said in (("nowhere", "does not exist"), ("twice", '{"k":"a"}'), ("nobody", "127.0.0.1")):
        wait_until(lambda name=name: bool(counted.sink(name)["error"]), 60)  # type: ignore[misc]
        error_ = counted.sink(name)["error"]
        assert error_.startswith("TM8221" if name == "twice" else "TM8220") and said in error_, error_
