"""Topics with Avro values: Confluent's own serializer writes them, and says what they are."""

from __future__ import annotations

import io
import json
import random
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import fastavro
import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from tests.kafka_broker import Broker
from tests.mill_factory import MillFactory
from tests.schema_registry import SchemaRegistry

from tidemill.errors import TidemillError
from tidemill.mill import Mill
from tidemill.runtime.files import file_progress

FIRST = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "k", "type": "int"},
        {"name": "v", "type": ["null", "string"], "default": None},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
    ],
}
SECOND = {
    **FIRST,
    "fields": [
        {"name": "more", "type": {"type": "array", "items": "double"}},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-micros"}},
        {"name": "K", "type": "int"},
    ],
}
OTHER = {"type": "record", "name": "Order", "fields": [{"name": "k", "type": "string"}]}


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """What could not be read is tried again after a tenth of the usual pauses."""
    monkeypatch.setattr(file_progress, "FIRST_RETRY", 100)


@pytest.fixture
def registry() -> Iterator[SchemaRegistry]:
    started = SchemaRegistry()
    yield started
    started.close()


def serialized(registry: SchemaRegistry, topic: str, schema: Any, rows: list[dict[str, Any]]) -> list[bytes]:
    """The values of rows, by Confluent's serializer, which registers the schema."""
    client = SchemaRegistryClient({"url": registry.url})
    serializer = AvroSerializer(client, json.dumps(schema))
    context = SerializationContext(topic, MessageField.VALUE)
    return [serializer(row, context) for row in rows]


def create(mill: Mill, broker: Broker, topic: str, columns: str, **options: str) -> None:
    given = {"subscribe": topic, "startingOffsets": "earliest", "value.format": "avro", **options}
    mill.sql(f"CREATE TABLE t {columns} USING kafka OPTIONS ({broker.options(**given)})")
    mill.sql("CREATE MATERIALIZED VIEW rows AS SELECT * FROM t")


def drain(mill: Mill) -> None:
    list(mill.drain())


def rows(mill: Mill) -> list[tuple[Any, ...]]:
    return sorted((tuple(r.values()) for r in mill.read("rows").to_pylist()), key=repr)


def errors(mill: Mill) -> list[tuple[int, str]]:
    return sorted((r["position"], r["reason"]) for r in mill.read("t__errors").to_pylist())


def test_schemas_that_change(
    broker: Broker, topic: str, registry: SchemaRegistry, mill_factory: MillFactory, seed: int
) -> None:
    """Messages of two schemas in turn, each read by its own; columns are by name."""
    chance = random.Random(seed)
    broker.create(topic)
    expected: list[tuple[Any, ...]] = []
    mill = mill_factory()
    create(mill, broker, topic, "(k BIGINT, v STRING, at TIMESTAMP, o BIGINT)", offsetColumn="o",
           **{"schema.registry.url": registry.url})  # fmt: skip
    for _ in range(3):
        messages = []
        for _ in range(chance.randrange(1, 40)):
            at = datetime.fromtimestamp(chance.randrange(10**9), UTC)
            k, v = chance.randrange(-9, 9), chance.choice((None, "é", ""))
            first = chance.randrange(2)
            row = {"k": k, "v": v, "at": at} if first else {"more": [0.5] * chance.randrange(3), "at": at, "K": k}
            messages += serialized(registry, topic, FIRST if first else SECOND, [row])
            expected.append((k, v if first else None, at, len(expected)))
        broker.send(topic, messages)
        drain(mill)
        assert rows(mill) == sorted(expected, key=repr)
    assert errors(mill) == []
    asked = [path for path in registry.asked if path.startswith("/schemas/ids/")]
    assert len(asked) <= 2 * 3, "tasks of two workers, and the driver, remember"


def test_columns_of_the_newest_schema(
    broker: Broker, topic: str, registry: SchemaRegistry, mill_factory: MillFactory
) -> None:
    """A table that declares none has those; and after a restart, with the password given again."""
    registry.user_info = "me:secret"
    broker.create(topic)
    registry.register(f"{topic}-value", FIRST)
    number = registry.register(f"{topic}-value", SECOND)
    out = io.BytesIO(bytes([0]) + number.to_bytes(4, "big"))
    out.seek(5)
    fastavro.schemaless_writer(
        out, fastavro.parse_schema(SECOND), {"more": [1.5], "at": datetime(2024, 1, 1, tzinfo=UTC), "K": 7}
    )
    broker.send(topic, [out.getvalue()], key=b"a")
    mill = mill_factory()
    known = {"schema.registry.url": registry.url, "schema.registry.basic.auth.user.info": "me:secret"}
    create(mill, broker, topic, "", keyColumn="id", **known)
    drain(mill)
    expected = [([1.5], datetime(2024, 1, 1, tzinfo=UTC), 7, b"a")]
    assert rows(mill) == expected
    assert "secret" not in str(mill.sql("SHOW TABLES").collect())
    mill.close()
    mill = mill_factory()
    assert rows(mill) == expected
    with pytest.raises(TidemillError) as raised:
        wrong = broker.options(**{"subscribe": topic, "value.format": "avro", **known,
                                  "schema.registry.basic.auth.user.info": "me:other"})  # fmt: skip
        mill.sql(f"CREATE TABLE u USING kafka OPTIONS ({wrong})")
    assert raised.value.number == "TM5096"
    assert "other" not in str(raised.value)


def test_messages_that_are_malformed(
    broker: Broker, topic: str, registry: SchemaRegistry, mill_factory: MillFactory
) -> None:
    """Each is one row of errors with its offset; the others are read, also beside them in one batch."""
    broker.create(topic)
    at = datetime(2024, 1, 1, tzinfo=UTC)
    good = serialized(registry, topic, FIRST, [{"k": k, "v": "x", "at": at} for k in range(20)])
    other = serialized(registry, topic, OTHER, [{"k": "a"}])[0]
    number = registry.register("p", "syntax")
    registry.schemas[number]["schemaType"] = "PROTOBUF"
    bad = {
        "no_schema_id": b"\0\0",
        "unknown_schema": bytes([0, 0, 0, 99, 99]) + good[0][5:],
        "bad_schema": bytes([0]) + number.to_bytes(4, "big") + b"x",
        "other_type": other,
        "truncated_record": good[3][:-1],
        "trailing_bytes": good[3] + b"x",
        "bad_utf8": good[4].replace(b"x", b"\xff"),
    }
    mixed, wrong = [], []
    for i, message in enumerate(good):
        if i % 3 == 0 and i // 3 < len(bad):
            reason, damaged = list(bad.items())[i // 3]
            wrong.append((len(mixed), reason))
            mixed.append(damaged)
        mixed.append(message)
    mixed += [None, b"\x01" + good[5]]  # a tombstone, and another first byte
    wrong.append((len(mixed) - 1, "no_schema_id"))
    broker.send(topic, mixed)
    mill = mill_factory()
    create(mill, broker, topic, "(k INT, v STRING)", **{"schema.registry.url": registry.url})
    mill.sql("CREATE MATERIALIZED VIEW keys AS SELECT k FROM t")
    drain(mill)
    assert rows(mill) == sorted(((k, "x") for k in range(20)), key=repr)
    assert sorted(mill.read("keys").column("k").to_pylist()) == list(range(20)), "whatever columns a view needs"
    assert errors(mill) == sorted(wrong)


def test_the_registry_is_down(broker: Broker, topic: str, registry: SchemaRegistry, mill_factory: MillFactory) -> None:
    """Nothing is lost, and other tables go on; messages are read when it answers again."""
    broker.create(topic)
    broker.send(
        topic, serialized(registry, topic, FIRST, [{"k": 1, "v": None, "at": datetime(2024, 1, 1, tzinfo=UTC)}])
    )
    mill = mill_factory()
    create(mill, broker, topic, "(k INT)", **{"schema.registry.url": registry.url})
    registry.down = True
    said = [warning for report in mill.drain() for warning in report.warnings]
    assert any("TM5096" in warning for warning in said)
    assert rows(mill) == []
    registry.down = False
    deadline = time.monotonic() + 60  # it is tried again after a pause
    while not rows(mill) and time.monotonic() < deadline:
        drain(mill)
    assert rows(mill) == [(1,)]
    assert errors(mill) == []


def test_answers_that_are_no_schemas(
    broker: Broker, topic: str, registry: SchemaRegistry, mill_factory: MillFactory
) -> None:
    """Messages of such a number are counted; those around them, and later ones when there is a schema, are read."""
    broker.create(topic)
    at = datetime(2024, 1, 1, tzinfo=UTC)
    good = serialized(registry, topic, FIRST, [{"k": k, "v": None, "at": at} for k in range(2)])
    answers = [b"<html>", b"", b"\xff", b"[" * 100_000, b"[1]", b"7", b"null", b"{}"]
    answers += [b'{"schema": 5}', b'{"schema": {"type": "record"}}', b'{"schema": "x", "schemaType": []}']
    answers += [b'{"schema": "x", "references": 7}', b'{"schema": "x", "references": [{}]}', b'{"schema": "{"}']
    registry.garbage = {1000 + i: answer for i, answer in enumerate(answers)}
    bad = [bytes([0]) + number.to_bytes(4, "big") + good[0][5:] for number in registry.garbage]
    broker.send(topic, [good[0], *bad, good[1]])
    mill = mill_factory()
    create(mill, broker, topic, "(k INT)", **{"schema.registry.url": registry.url})
    drain(mill)
    assert rows(mill) == [(0,), (1,)]
    counted = [(1 + i, "bad_schema") for i in range(len(bad))]
    assert errors(mill) == counted
    for number in registry.garbage:
        registry.schemas[number] = registry.schemas[1]
    registry.garbage = {}
    broker.send(topic, bad[:-1])  # the last was a schema of sorts, and is remembered
    drain(mill)
    assert rows(mill) == [(0,)] * len(bad) + [(1,)]
    assert errors(mill) == counted


@pytest.mark.parametrize("page", [b"<html>sign in</html>", b'{"sign": "in"}'])
def test_a_page_of_a_proxy_is_no_answer(
    broker: Broker, topic: str, registry: SchemaRegistry, mill_factory: MillFactory, page: bytes
) -> None:
    """What answers all requests so is no registry, and messages wait."""
    broker.create(topic)
    at = datetime(2024, 1, 1, tzinfo=UTC)
    broker.send(topic, serialized(registry, topic, FIRST, [{"k": 1, "v": None, "at": at}]))
    mill = mill_factory()
    create(mill, broker, topic, "(k INT)", **{"schema.registry.url": registry.url})
    registry.proxied = page
    said = [warning for report in mill.drain() for warning in report.warnings]
    assert any("TM5096" in warning for warning in said)
    assert (rows(mill), errors(mill)) == ([], [])
    given = broker.options(**{"subscribe": topic, "value.format": "avro", "schema.registry.url": registry.url})
    with pytest.raises(TidemillError, match="TM5096"):
        mill.sql(f"CREATE TABLE u USING kafka OPTIONS ({given})")


def test_one_schema_without_a_registry(broker: Broker, topic: str, mill_factory: MillFactory) -> None:
    """Values have no header; types may come from other schemas."""
    broker.create(topic)
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(OTHER), {"k": "é"})
    broker.send(topic, [out.getvalue(), b""])
    mill = mill_factory()
    create(mill, broker, topic, "", avroSchema=json.dumps(OTHER))
    drain(mill)
    assert rows(mill) == [("é",)]
    for options, number in (
        ({"avroSchema": "x"}, "TM4003"),
        ({}, "TM4003"),
        ({"avroSchema": json.dumps(OTHER), "schema.registry.url": "http://127.0.0.1:1"}, "TM4003"),
        ({"schema.registry.url": "http://127.0.0.1:1"}, "TM5096"),
    ):
        columns = "" if number == "TM5096" else "(k STRING)"
        with pytest.raises(TidemillError) as raised:
            given = broker.options(**{"subscribe": topic, "value.format": "avro", **options})
            mill.sql(f"CREATE TABLE u {columns} USING kafka OPTIONS ({given})")
        assert raised.value.number == number, raised.value


def test_references_between_schemas(
    broker: Broker, topic: str, registry: SchemaRegistry, mill_factory: MillFactory
) -> None:
    """A schema that names a type of another subject."""
    broker.create(topic)
    inner = {"type": "record", "name": "n.In", "fields": [{"name": "x", "type": "int"}]}
    outer = {"type": "record", "name": "Out", "fields": [{"name": "a", "type": "n.In"}]}
    registry.register("in", inner)
    number = registry.register(f"{topic}-value", outer, [{"name": "n.In", "subject": "in", "version": 1}])
    broker.send(topic, [bytes([0]) + number.to_bytes(4, "big") + b"\x0e"])
    mill = mill_factory()
    create(mill, broker, topic, "(a STRUCT<x: INT>)", **{"schema.registry.url": registry.url})
    drain(mill)
    assert rows(mill) == [({"x": 7},)]
