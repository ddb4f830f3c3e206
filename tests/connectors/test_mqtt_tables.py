"""Tables USING mqtt, over a real broker: views are what Python says of the messages that were published."""

from __future__ import annotations

import io
import json
import random
import re
import struct
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import fastavro
import pytest
from paho.mqtt.client import Client, MQTTv5
from paho.mqtt.enums import CallbackAPIVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties
from tests.kafka_broker import free_port
from tests.local_jobs import all_local
from tests.mill_factory import MillFactory
from tests.mosquitto_broker import MqttBroker

from tidemill.connectors.mqtt.session import Session
from tidemill.errors import TidemillError
from tidemill.mill import Mill
from tidemill.sources.sockets.spool import Spool

TEXTS = ("", "a,b", 'say "so"', "two\nlines", "naïve ↯", None)
JSON = {"value__format": "json"}


@pytest.fixture(scope="module")
def broker() -> Iterator[MqttBroker]:
    started = MqttBroker()
    yield started
    started.close()


@pytest.fixture
def base(request: pytest.FixtureRequest) -> str:
    """A level of topics that no other test has."""
    return "".join(c if c.isalnum() else "-" for c in request.node.name)


def opened(mill_factory: MillFactory, **settings: Any) -> Mill:
    return all_local(mill_factory(**settings))


def drain(mill: Mill) -> list[str]:
    """Read all that the broker has; the warnings."""
    return [*(warning for report in mill.drain() for warning in report.warnings), *mill.warnings()]


def drained(mill: Mill, number: str = "TM5120") -> list[str]:
    """Also when the broker was away for a moment, or there was another error."""
    until = time.monotonic() + 60
    while True:
        try:
            return drain(mill)
        except TidemillError as error:
            assert error.number == number, error
            assert time.monotonic() < until, error


def rows(mill: Mill, view: str = "rows") -> Counter[tuple[Any, ...]]:
    return Counter(tuple(r.values()) for r in mill.read(view).to_pylist())


def create(mill: Mill, columns: str, options: str, name: str = "t") -> None:
    mill.sql(f"CREATE TABLE {name} {columns} USING mqtt OPTIONS ({options})")
    mill.sql(f"CREATE MATERIALIZED VIEW {'rows' if name == 't' else name + '_rows'} AS SELECT * FROM {name}")


def refused(mill: Mill, statement: str) -> TidemillError:
    with pytest.raises(TidemillError) as raised:
        mill.sql(statement)
    return raised.value


def test_messages_are_those_published(broker: MqttBroker, base: str, mill_factory: MillFactory, seed: int) -> None:
    """Random messages with every QoS, both versions of the protocol, restarts of mill and broker, a view of later."""
    chance = random.Random(seed)
    mill = opened(mill_factory)
    parts = {"topicColumn": "topic", "qosColumn": "q"}
    create(mill, "(n INT, s STRING, topic STRING, q INT)", broker.options(f"{base}/+/x", **JSON, **parts))
    create(mill, "(payload STRING, TOPIC STRING)", broker.options(f"{base}/#", protocolVersion="3.1.1"), "u")
    values: Counter[tuple[Any, ...]] = Counter()
    payloads: Counter[tuple[Any, ...]] = Counter()
    numbers = iter(range(10**6))

    def publish(least: int) -> None:
        """Some messages; those with QoS 0 arrive only while somebody listens."""
        sent = []
        for _ in range(chance.randrange(1, 60)):
            row = {"n": next(numbers), "s": chance.choice(TEXTS)}
            topic, qos = f"{base}/{chance.randrange(3)}/{chance.choice('xxy')}", chance.randrange(least, 3)
            text = json.dumps(row, indent=chance.choice((None, 1)), ensure_ascii=chance.choice((True, False)))
            sent.append((topic, text.encode(), qos))
            payloads[text, topic] += 1
            if topic.endswith("/x"):
                values[row["n"], row["s"], topic, min(qos, 1)] += 1
        broker.publish(sent)

    for turn in range(7):
        publish(0)
        if turn == 1:
            mill.sql("CREATE MATERIALIZED VIEW later AS SELECT topic, COUNT(*) AS c, MAX(n) AS m FROM t GROUP BY topic")
        if turn in (2, 4):
            assert drain(mill) == []
            mill.close()
            publish(1)
            if turn == 4:
                broker.stop()
                broker.start()
            publish(1)
            mill = opened(mill_factory)
        if turn == 5:
            assert drain(mill) == []
            broker.stop()
            broker.start()
        assert all("TM5120" in warning for warning in drained(mill))
        assert rows(mill) == values, f"turn {turn}"
        assert rows(mill, "u_rows") == payloads, f"turn {turn}"
    expected = {topic: (0, -1) for _, _, topic, _ in values}
    for n, _, topic, _ in values:
        expected[topic] = (expected[topic][0] + 1, max(expected[topic][1], n))
    assert rows(mill, "later") == Counter((topic, *found) for topic, found in expected.items())
    mill.close()


def matching(pattern: str, topic: str) -> bool:
    """By the words of the standard: + is a level, # all that follow, also none; neither begins with $."""
    if topic.startswith("$") and pattern[0] in "+#":
        return False
    parts = [{"+": "[^/]*", "#": ".*"}.get(part, re.escape(part)) for part in pattern.split("/")]
    return re.fullmatch("/".join(parts).replace("/.*", "(/.*)?"), topic) is not None


def test_topics(broker: MqttBroker, base: str, mill_factory: MillFactory, seed: int) -> None:
    """Wildcards, empty levels and several filters that do not overlap."""
    chance = random.Random(seed)
    mill = opened(mill_factory)
    filters = [f"{base}/+/b", f"{base}/c/#", f"/{base}/+", f"{base}"]
    create(mill, "(topic STRING)", broker.options(" , ".join(filters)))
    levels = ["a", "b", "c", "", "ü x", "$d"]
    topics = [f"{base}/{'/'.join(chance.choices(levels, k=chance.randrange(1, 4)))}" for _ in range(60)]
    topics += [base, f"/{base}/", f"/{base}/a", f"/{base}/a/b", f"x/{base}"]
    topics = [t for t in topics if not (matching(filters[0], t) and matching(filters[1], t))]
    broker.publish([(topic, b"", 1) for topic in topics])
    drain(mill)
    assert rows(mill) == Counter((t,) for t in topics if any(matching(f, t) for f in filters))


@pytest.mark.parametrize("mode", ["PERMISSIVE", "DROPMALFORMED"])
def test_bad_payloads(broker: MqttBroker, base: str, mill_factory: MillFactory, mode: str) -> None:
    """They are counted, and cost no other message."""
    mill = opened(mill_factory)
    create(mill, "(n INT, topic STRING)", broker.options(f"{base}/+", topicColumn="topic", mode=mode, **JSON))
    create(mill, "(payload STRING, topic STRING NOT NULL)", broker.options(f"{base}/+", mode=mode), "u")
    payloads = [b'{"n": 1}', b"", b"  ", b'{"n":\n 2}', b'{"n": "x"}', b"nope", b'{"n": 3', b"}", b"\xff", b'{"n":4}\n']
    broker.publish([(f"{base}/{i}", payload, 1) for i, payload in enumerate(payloads)])
    warned = drain(mill)
    assert len(warned) == 2 and all(w.startswith("TM4026") for w in warned), warned
    bad = {4: "bad_int32", 5: "bad_json", 6: "bad_json", 7: "bad_json", 8: "bad_json"}
    good = {(1, f"{base}/0"), (2, f"{base}/3"), (4, f"{base}/9")}
    kept = {(None, f"{base}/{i}") for i in bad} if mode == "PERMISSIVE" else set()
    assert rows(mill) == Counter([*good, *kept])
    found = mill.sql("SELECT reason, raw FROM t__errors").collect()  # type: ignore[union-attr]
    assert Counter((r[0], bytes(r[1])) for r in found) == Counter((why, payloads[i]) for i, why in bad.items())
    texts = [(p.decode(), f"{base}/{i}") for i, p in enumerate(payloads) if i != 8]
    assert rows(mill, "u_rows") == Counter([*texts, *([(None, f"{base}/8")] if mode == "PERMISSIVE" else [])])
    found = mill.sql("SELECT reason, raw, `column` FROM u__errors").collect()  # type: ignore[union-attr]
    assert [(r[0], bytes(r[1]), r[2]) for r in found] == [("bad_utf8", b"\xff", "payload")]


def test_failfast(broker: MqttBroker, base: str, mill_factory: MillFactory) -> None:
    mill = opened(mill_factory)
    create(mill, "(n INT)", broker.options(base, mode="FAILFAST", **JSON))
    broker.publish([(base, b'{"n": 1}', 1), (base, b"{", 1)])
    with pytest.raises(TidemillError) as raised:
        drain(mill)
    assert raised.value.number == "TM4020"


def test_formats_of_payloads(broker: MqttBroker, base: str, mill_factory: MillFactory, seed: int) -> None:
    """CSV with several rows a message, native rows, and the columns that every message has."""
    chance = random.Random(seed)
    mill = opened(mill_factory, time_zone="Europe/Berlin")
    create(mill, "(a INT, b STRING)", broker.options(f"{base}/csv", value__format="csv"))
    create(mill, "(a INT, b DOUBLE)", broker.options(f"{base}/native", value__format="native", nullBitmap="false"), "u")
    create(mill, "", broker.options(f"{base}/#", protocolVersion="3.1.1"), "w")
    numbers = [[(chance.randrange(99), f"x{i}") for _ in range(chance.randrange(1, 4))] for i in range(20)]
    doubles = [(chance.randrange(99), chance.random()) for _ in range(20)]
    sent = [(f"{base}/csv", "\n".join(f"{a},{b}" for a, b in part).encode(), 1) for part in numbers]
    sent += [(f"{base}/native", struct.pack("<id", *pair), 2) for pair in doubles]
    before = time.time()
    broker.publish(sent)
    assert drain(mill) == []
    assert rows(mill) == Counter(pair for part in numbers for pair in part)
    assert rows(mill, "u_rows") == Counter(doubles)
    table = mill.read("w_rows")
    assert {f.name: str(f.type) for f in table.schema} == {
        "topic": "string",
        "payload": "binary",
        "qos": "int32",
        "retain": "bool",
        "received": "timestamp[us, tz=UTC]",
    }
    found = [tuple(r.values()) for r in table.to_pylist()]
    assert Counter(r[:4] for r in found) == Counter((topic, payload, 1, False) for topic, payload, _ in sent)
    assert all(before - 1 <= r[4].timestamp() <= time.time() + 1 for r in found)


@pytest.mark.parametrize("version", ["5", "3.1.1"])
def test_retained_messages(broker: MqttBroker, base: str, mill_factory: MillFactory, version: str) -> None:
    """One that is there comes at the beginning; with MQTT 3.1.1 with each connection."""
    broker.publish([(f"{base}/a", b"first", 1)], retain=True)
    mill = opened(mill_factory)
    create(mill, "(payload STRING, retain BOOLEAN)", broker.options(f"{base}/+", protocolVersion=version))
    drain(mill)
    broker.publish([(f"{base}/b", b"second", 1)], retain=True)
    drain(mill)
    assert rows(mill) == Counter([("first", True), ("second", False)])
    mill.close()
    mill = opened(mill_factory)
    drain(mill)
    again = Counter() if version == "5" else Counter([("first", True), ("second", True)])
    assert rows(mill) == Counter([("first", True), ("second", False)]) + again


def test_a_key_counts_what_comes_twice_once(broker: MqttBroker, base: str, mill_factory: MillFactory) -> None:
    """Messages whose acknowledgement is lost come again; those that could not be written come again, too."""
    mill = opened(mill_factory)
    key = "(n INT, s STRING, op STRING, PRIMARY KEY (n))"
    create(mill, key, broker.options(base, opColumn="op", **JSON))
    create(mill, "(n INT, op STRING)", broker.options(base, **JSON), "u")

    def sent(operation: str, *keys: int) -> list[tuple[str, bytes, int]]:
        return [(base, json.dumps({"n": n, "s": f"{operation}{n}", "op": operation}).encode(), 1) for n in keys]

    with mock.patch.object(Session, "acknowledge"):
        broker.publish([*sent("I", 1, 2, 3), *sent("D", 2)])
        drain(mill)
        assert rows(mill) == Counter([(1, "I1"), (3, "I3")])
        mill.close()
    mill = opened(mill_factory)
    drain(mill)
    assert rows(mill) == Counter([(1, "I1"), (3, "I3")])
    assert rows(mill, "u_rows") == Counter({(1, "I"): 2, (2, "I"): 2, (3, "I"): 2, (2, "D"): 2})
    with mock.patch.object(Spool, "sync", side_effect=OSError(28, "No space left on device")):
        broker.publish(sent("I", 4))
        with pytest.raises(TidemillError) as raised:
            mill.backlog()
            mill.check_listed()
        assert raised.value.number == "TM5116"
    drained(mill, "TM5116")
    assert rows(mill) == Counter([(1, "I1"), (3, "I3"), (4, "I4")])
    assert rows(mill, "u_rows")[4, "I"] >= 1


def test_a_broker_that_goes_away(base: str, mill_factory: MillFactory) -> None:
    """A warning, while other tables go on; then all is there. A session that is gone is a warning, too."""
    broker = MqttBroker()
    mill = opened(mill_factory)
    create(mill, "(payload STRING)", broker.options(f"{base}/#"))
    mill.sql("CREATE TABLE g (a INT) USING generator OPTIONS (numberOfRows '3')")
    mill.sql("CREATE MATERIALIZED VIEW n AS SELECT COUNT(*) AS n FROM g")
    broker.publish([(base, b"one", 1)])
    mill.backlog()
    broker.stop()
    with pytest.raises(TidemillError) as raised:
        drain(mill)
    assert raised.value.number == "TM5120"
    assert rows(mill, "n") == Counter([(3,)])
    assert rows(mill) == Counter([("one",)])
    broker.start()
    drained(mill)
    broker.publish([(base, b"two", 1)])
    drained(mill)
    assert rows(mill) == Counter([("one",), ("two",)])
    broker.stop(forget=True)
    broker.start()
    assert any(warning.startswith("TM5123") for warning in drained(mill))
    broker.publish([(base, b"three", 1)])
    assert drained(mill) == []
    assert rows(mill) == Counter([("one",), ("two",), ("three",)])
    broker.stop()
    mill.sql("DROP MATERIALIZED VIEW rows")
    mill.sql("DROP TABLE t")
    assert any(warning.startswith("TM5124") for warning in mill.warnings())
    broker.close()


def has_session(broker: MqttBroker, client_id: str) -> bool:
    """Whether the broker has the session of a client; it goes on having it, or not."""
    answers: list[bool] = []
    client = Client(CallbackAPIVersion.VERSION2, client_id, protocol=MQTTv5)
    client.on_connect = lambda _, __, flags, ___, ____: answers.append(flags.session_present)
    properties = Properties(PacketTypes.CONNECT)
    properties.SessionExpiryInterval = 1000
    client.connect("127.0.0.1", broker.port, clean_start=False, properties=properties)
    while not answers:
        client.loop(0.1)
    client.disconnect()
    return answers[0]


def test_sessions_come_and_go(broker: MqttBroker, base: str, mill_factory: MillFactory) -> None:
    """What came for an earlier client of the name is not for the table, which begins when it is created."""
    assert not has_session(broker, base)
    assert has_session(broker, base)
    mill = opened(mill_factory)
    create(mill, "(payload STRING)", broker.options(base, clientId=base))
    broker.publish([(base, b"a", 1)])
    drain(mill)
    mill.close()
    assert has_session(broker, base)
    broker.publish([(base, b"b", 1)])
    mill = opened(mill_factory)
    drain(mill)
    assert rows(mill) == Counter([("a",), ("b",)])
    mill.sql("DROP MATERIALIZED VIEW rows")
    mill.sql("DROP TABLE t")
    assert not has_session(broker, base)
    broker.publish([(base, b"c", 1)])
    create(mill, "(payload STRING)", broker.options(base))
    broker.publish([(base, b"d", 1)])
    drain(mill)
    assert rows(mill) == Counter([("d",)])
    mill.close()


def test_a_full_spool(broker: MqttBroker, base: str, mill_factory: MillFactory) -> None:
    """The broker keeps what there is no room for; one drain reads all."""
    mill = opened(mill_factory)
    mill.sql(f"CREATE TABLE t (topic STRING) USING mqtt OPTIONS ({broker.options(f'{base}/+', maxSpoolBytes='1m')})")
    broker.publish([(f"{base}/{i}", bytes(20_000), 1) for i in range(200)])
    folder = Path(str(mill.root)) / "spool"
    until = time.monotonic() + 60
    while sum(f.stat().st_size for f in folder.glob("*/*.segment")) < 1 << 20:
        assert time.monotonic() < until
        time.sleep(0.05)
    time.sleep(0.5)
    assert sum(f.stat().st_size for f in folder.glob("*/*.segment")) < 3 << 20
    mill.sql("CREATE MATERIALIZED VIEW rows AS SELECT topic FROM t")
    drain(mill)
    assert rows(mill) == Counter((f"{base}/{i}",) for i in range(200))


def test_access(base: str, mill_factory: MillFactory) -> None:
    """A wrong password at the beginning and later; the password is neither shown nor stored."""
    broker = MqttBroker({"reader": "hunter22"})
    mill = opened(mill_factory)
    for version in ("5", "3.1.1"):
        options = broker.options(base, username="reader", password="wrong", protocolVersion=version)
        error = refused(mill, f"CREATE TABLE t (topic STRING) USING mqtt OPTIONS ({options})")
        assert (error.number, "wrong" in error.message()) == ("TM5121", False), error
    topics = f"open/{base}"
    create(mill, "(payload STRING)", broker.options(topics, username="reader", password="hunter22"))
    broker.publish([(topics, b"a", 1)])
    assert drain(mill) == []
    mill.close()
    for file in (Path(str(mill.root))).rglob("*"):
        assert not file.is_file() or b"hunter22" not in file.read_bytes(), file
    broker.publish([(topics, b"b", 1)])
    mill = opened(mill_factory)
    with pytest.raises(TidemillError) as raised:
        drain(mill)
    assert raised.value.number == "TM5121"
    mill.sql("ALTER TABLE t SET OPTIONS (password 'hunter22')")
    drain(mill)
    assert rows(mill) == Counter([("a",), ("b",)])
    mill.close()
    broker.close()


def test_encrypted(base: str, mill_factory: MillFactory, tmp_path: Path) -> None:
    """The broker shows a certificate, and wants one."""
    certificate, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost"]
    command += ["-addext", "subjectAltName=IP:127.0.0.1", "-keyout", str(key), "-out", str(certificate)]
    subprocess.run(command, check=True, capture_output=True, timeout=60)
    port = free_port()
    files = [f"cafile {certificate}", f"certfile {certificate}", f"keyfile {key}", "require_certificate true"]
    broker = MqttBroker(settings=[f"listener {port} 127.0.0.1", *files])
    mill = opened(mill_factory)

    def options(**given: str) -> str:
        return broker.options(base, **{"port": str(port), "tls": "true", **given})

    for wrong, number in (
        (options(), "TM5120"),
        (options(caFile=str(certificate)), "TM5120"),
        (options(caFile=str(tmp_path / "none.pem")), "TM5122"),
    ):
        assert refused(mill, f"CREATE TABLE t (topic STRING) USING mqtt OPTIONS ({wrong})").number == number
    create(mill, "(payload STRING)", options(caFile=str(certificate), certFile=str(certificate), keyFile=str(key)))
    sent = [f"{i}" * 3000 for i in range(300)]
    broker.publish([(base, text.encode(), 1) for text in sent])
    drain(mill)
    assert rows(mill) == Counter((text,) for text in sent)
    mill.close()
    broker.close()


@pytest.mark.parametrize(
    ("columns", "given", "number", "said"),
    [
        ("(n INT)", {"qos": "2", **JSON}, "TM4003", "qos"),
        ("(n INT)", {"topics": "a#", **JSON}, "TM4003", "topics"),
        ("(n INT)", {"topics": "a/#/b", **JSON}, "TM4003", "topics"),
        ("(n INT)", {"topics": "a+/b", **JSON}, "TM4003", "topics"),
        ("(n INT)", {"host": "mqtt://x", **JSON}, "TM4003", "host"),
        ("(n INT)", {"path": "/tmp", **JSON}, "TM4003", "path"),
        ("(n INT)", {"static": "true", **JSON}, "TM4003", "static"),
        ("(n INT)", {"caFile": "x", **JSON}, "TM4003", "tls"),
        ("(n INT)", {"password": "x", **JSON}, "TM4003", "username"),
        ("(n INT)", {"value__format": "parquet"}, "TM4003", "csv, json, native"),
        ("(n INT)", {"value__format": "csv", "header": "true"}, "TM4003", "header"),
        ("(n INT)", {"value__format": "native", "sep": ";"}, "TM4005", "sep"),
        ("(n INT)", {"topicColumn": "topic", **JSON}, "TM4003", "topicColumn"),
        ("(n INT)", {"retainColumn": "n", **JSON}, "TM4004", "boolean"),
        ("(n INT)", {"opColumn": "n"}, "TM4003", "opColumn"),
        ("(n INT)", {}, "TM4006", "payload"),
        ("(n INT)", {"keepAlive": "1 day", **JSON}, "TM4003", "keepAlive"),
        ("(n INT)", {"subscribe": "x", **JSON}, "TM4005", "subscribe"),
    ],
)
def test_what_is_refused(
    mill_factory: MillFactory, columns: str, given: dict[str, str], number: str, said: str
) -> None:
    options = {"host": "127.0.0.1", "topics": "a", **given}
    text = ", ".join(f"'{name.replace('__', '.')}' '{value}'" for name, value in options.items())
    error = refused(mill_factory(), f"CREATE TABLE t {columns} USING mqtt OPTIONS ({text})")
    assert (error.number, said in error.message()) == (number, True), error


def test_a_missing_broker(broker: MqttBroker, mill_factory: MillFactory, tmp_path: Path) -> None:
    """An error, and no table; neither one outside of the allowed paths."""
    mill = mill_factory()
    statement = "CREATE TABLE t (topic STRING) USING mqtt OPTIONS ({})"
    options = broker.options("a")
    error = refused(mill, statement.format(options.replace(str(broker.port), str(free_port()))))
    assert error.number == "TM5120", error
    assert "needs host and topics" in refused(mill, statement.format("host '127.0.0.1'")).message()
    assert mill.warnings() == ()
    mill.close()
    allowed = f"mqtt://127.0.0.1:{broker.port},{tmp_path}/in"
    mill = mill_factory(allowed_paths=allowed)
    assert refused(mill, statement.format(options.replace("127.0.0.1", "localhost"))).number == "TM5045"
    assert refused(mill, statement.format(f"{options}, tls 'true', caFile '{tmp_path}/ca.pem'")).number == "TM5045"
    mill.sql(statement.format(options))
    mill.sql("DROP TABLE t")


def test_avro_payloads(broker: MqttBroker, base: str, mill_factory: MillFactory) -> None:
    """With one schema for all; a payload that is none of it is counted."""
    fields = [{"name": "k", "type": "int"}, {"name": "s", "type": ["null", "string"]}]
    schema = {"type": "record", "name": "R", "fields": fields}
    expected: list[tuple[Any, ...]] = [(k, f"é{k}\n" if k % 2 else None) for k in range(5)]
    mill = opened(mill_factory)
    given = broker.options(base, value__format="avro", avroSchema=json.dumps(schema))
    create(mill, "(s STRING, k BIGINT)", given)
    messages = [(base, b"\x02\x07", 1)]
    for k, s in expected:
        out = io.BytesIO()
        fastavro.schemaless_writer(out, schema, {"k": k, "s": s})
        messages.append((base, out.getvalue(), 1))
    broker.publish(messages)
    drain(mill)
    assert rows(mill) == Counter((s, k) for k, s in expected)
    found = mill.read("t__errors").to_pylist()
    assert [(r["reason"], r["raw"]) for r in found] == [("bad_union", b"\x02\x07")]
