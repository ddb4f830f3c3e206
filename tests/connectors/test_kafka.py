"""Tables USING kafka, over a real broker: what they hold is what was sent, by the test's own count."""

from __future__ import annotations

import json
import random
import time
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from tests.kafka_broker import Broker, MockCluster, free_port
from tests.local_jobs import local
from tests.mill_factory import MillFactory

from tidemill.errors import TidemillError
from tidemill.mill import Mill
from tidemill.testing import assert_same_rows

HEADERS = "ARRAY<STRUCT<key: STRING, value: BINARY>>"


def create(mill: Mill, broker: Broker, topic: str, columns: str = "(k INT, v BIGINT)", **options: str) -> None:
    """A table ``t`` over a topic from its first message on, and a view ``rows`` with how often each row is there."""
    given = {"subscribe": topic, "startingOffsets": "earliest", "value.format": "json", **options}
    given = {name: value for name, value in given.items() if value}
    mill.sql(f"CREATE TABLE t {columns} USING kafka OPTIONS ({broker.options(**given)})")
    mill.sql("CREATE MATERIALIZED VIEW rows AS SELECT * FROM t")


def drain(mill: Mill) -> list[str]:
    """Read all that there is; the warnings of the epochs."""
    return [warning for report in mill.drain() for warning in report.warnings]


def rows(mill: Mill, view: str = "rows") -> list[tuple[Any, ...]]:
    """The rows of a view, sorted by their texts."""
    return sorted((tuple(r.values()) for r in mill.read(view).to_pylist()), key=repr)


def refused(mill: Mill, statement: str) -> TidemillError:
    with pytest.raises(TidemillError) as raised:
        mill.sql(statement)
    return raised.value


def test_values_and_what_else_a_message_has(broker: Broker, topic: str, mill_factory: MillFactory) -> None:
    broker.create(topic, 2)
    at = 1_700_000_000_123
    broker.send(topic, [{"k": 1, "v": 10}, {"k": 2, "v": None}], 0, key=b"a", timestamp=at)
    broker.send(topic, [{"v": 2**62, "other": [1]}], 1, headers=[("h", b"\x00\xff"), ("h", None)], timestamp=at + 1)
    mill = mill_factory()
    columns = f"(k INT, v BIGINT, id STRING, at TIMESTAMP, p INT, o BIGINT, name STRING, h {HEADERS})"
    names = {"keyColumn": "id", "timestampColumn": "at", "partitionColumn": "p", "offsetColumn": "o"}
    create(mill, broker, topic, columns, **names, topicColumn="NAME", headersColumn="h")
    drain(mill)
    times = [datetime.fromtimestamp(ms // 1000, UTC).replace(microsecond=ms % 1000 * 1000) for ms in (at, at + 1)]
    headers = [{"key": "h", "value": b"\x00\xff"}, {"key": "h", "value": None}]
    expected = [
        (1, 10, "a", times[0], 0, 0, topic, None),
        (2, None, "a", times[0], 0, 1, topic, None),
        (None, 2**62, None, times[1], 1, 0, topic, headers),
    ]
    assert rows(mill) == sorted(expected, key=repr)


def test_the_columns_of_messages(broker: Broker, topic: str, mill_factory: MillFactory) -> None:
    """As of Spark's source; a key or value that is no text is NULL and counted, where text was asked for."""
    broker.create(topic)
    broker.send(topic, [b"one", None, b"\xff\xfe"], key=b"\xfa", timestamp=1_000)
    mill = mill_factory()
    create(mill, broker, topic, "", **{"value.format": "", "includeHeaders": "true"})
    options = broker.options(subscribe=topic, startingOffsets="earliest")
    mill.sql(f"CREATE TABLE texts (offset BIGINT, value STRING, key STRING) USING kafka OPTIONS ({options})")
    mill.sql("CREATE MATERIALIZED VIEW read AS SELECT * FROM texts")
    mill.sql("CREATE MATERIALIZED VIEW counted AS SELECT COUNT(*) AS n FROM texts")
    drain(mill)
    at = datetime.fromtimestamp(1, UTC)
    values = (b"one", None, b"\xff\xfe")
    expected = [(b"\xfa", value, topic, 0, offset, at, 0, None) for offset, value in enumerate(values)]
    assert rows(mill) == sorted(expected, key=repr)
    spark_names = ["key", "value", "topic", "partition", "offset", "timestamp", "timestampType", "headers"]
    assert mill.read("rows").schema.names == spark_names
    assert rows(mill, "read") == [(0, "one", None), (1, None, None), (2, None, None)]
    assert rows(mill, "counted") == [(3,)]
    found = {(e["position"], e["column"], e["reason"]) for e in mill.read("texts__errors").to_pylist()}
    assert found == {(2, "value", "bad_utf8"), *((offset, "key", "bad_utf8") for offset in range(3))}


def test_how_long_messages_have_waited(broker: Broker, topic: str, mill_factory: MillFactory) -> None:
    """SHOW QUEUES says it by the oldest message that waits of any partition, and not where brokers do not say it."""

    def lag() -> float | None:
        (row,) = mill.sql("SHOW QUEUES").collect()
        return None if row.lag_seconds is None else float(row.lag_seconds)

    def sent(ago: float, partition: int) -> None:
        broker.send(topic, [{"k": 1}], partition, timestamp=int((now - ago) * 1000))

    now = time.time()
    broker.create(topic, 3)
    sent(5000, 0), sent(4000, 1)
    mill = mill_factory()
    create(mill, broker, topic)
    drain(mill)
    assert lag() is None
    mill.sql("ALTER TABLE t PAUSE")
    for ago in (300, 900, 100):  # the first message counts, as in the order in which they are read
        sent(ago, 0)
    drain(mill)
    assert 300 <= (lag() or 0) < 300 + time.time() - now
    sent(600, 1)
    drain(mill)
    broker.pause()
    assert lag() is None
    assert lag() is None
    broker.resume()
    sent(500, 2)
    drain(mill)
    deadline = time.monotonic() + 60
    while lag() is None:  # the broker answers first what it was asked meanwhile
        assert time.monotonic() < deadline
    assert 600 <= (lag() or 0) < 600 + time.time() - now
    mill.sql("ALTER TABLE t RESUME")
    drain(mill)
    assert lag() is None
    assert rows(mill) == [(1, None)] * 7


def test_epochs_equal_spark(
    broker: Broker, topic: str, mill_factory: MillFactory, spark: SparkSession, seed: int
) -> None:
    """Random messages in three partitions, epochs of limited size, restarts and views that come later."""
    chance = random.Random(seed)
    broker.create(topic, 3)
    sent: list[tuple[int, int, str]] = []
    query = "SELECT k, COUNT(*) AS n, SUM(v) AS s, MIN(id) AS least FROM t GROUP BY k"
    mill = mill_factory(split_bytes=256 * 17)
    create(mill, broker, topic, "(k INT, v BIGINT, id STRING)", keyColumn="id", maxOffsetsPerTrigger="100")
    mill.sql(f"CREATE MATERIALIZED VIEW before AS {query}")
    for turn in range(6):
        for partition in range(3):
            new = [(chance.randrange(5), chance.randrange(-99, 99), f"{i}") for i in range(chance.choice((0, 1, 90)))]
            for k, v, key in new:
                broker.send(topic, [{"k": k, "v": v}], partition, key=key.encode())
            sent += new
        if turn == 3:
            mill.sql(f"CREATE MATERIALIZED VIEW later AS {query}")
        if turn == 4:
            mill.close()
            mill = mill_factory()
        reports = list(mill.drain())
        assert all(r.rows_in <= 2 * 100 for r in reports if turn < 3)
        frame = spark.createDataFrame([*sent, (0, 0, "")], "k INT, v BIGINT, id STRING").limit(len(sent))
        frame.createOrReplaceTempView("sent_t")
        expected = spark.sql(query.replace(" t ", " sent_t ")).toArrow()
        for view in ["before", "later"] if turn >= 3 else ["before"]:
            assert_same_rows(mill.read(view), expected)


@pytest.mark.parametrize("format_", ["csv", "debezium", "native"])
def test_values_in_other_formats(broker: Broker, topic: str, mill_factory: MillFactory, format_: str) -> None:
    broker.create(topic)
    mill = mill_factory()
    if format_ == "csv":
        values: Sequence[Any] = [b"1,10", b'2,"20"\n3,30\n', b"", b"x,40", b"4,50"]
        expected = [(1, 10), (2, 20), (3, 30), (None, 40), (4, 50)]
        create(mill, broker, topic, **{"value.format": "csv"})
    elif format_ == "native":
        values = [b"".join(n.to_bytes(4, "little") + (10 * n).to_bytes(8, "little") for n in (1, 2)), b"short"]
        expected = [(1, 10), (2, 20)]
        create(
            mill,
            broker,
            topic,
            "(k INT NOT NULL, v BIGINT NOT NULL)",
            **{"value.format": "native", "nullBitmap": "false"},
        )
    else:
        change = lambda op, before, after: {"payload": {"op": op, "before": before, "after": after}}  # noqa: E731
        values = [
            change("c", None, {"k": 1, "v": 1}),
            change("c", None, {"k": 2, "v": 2}),
            change("u", {"k": 1, "v": 1}, {"k": 1, "v": 10}),
            change("d", {"k": 2, "v": 2}, None),
            None,
            change("r", None, {"k": 3, "v": 30}),
        ]
        expected = [(1, 10), (3, 30)]
        create(mill, broker, topic, "(k INT, v BIGINT, PRIMARY KEY (k))", **{"value.format": "debezium"})
    broker.send(topic, values)
    drain(mill)
    assert rows(mill) == sorted(expected, key=repr)
    found = {(e["position"], e["reason"]) for e in mill.read("t__errors").to_pylist()}
    wrong = {"csv": {(3, "bad_int32")}, "debezium": set()}
    assert found == wrong.get(format_, {(1, "truncated_row")})


def test_malformed_values_have_their_offsets(broker: Broker, topic: str, mill_factory: MillFactory) -> None:
    broker.create(topic, 2)
    broker.send(topic, [{"k": 1, "v": 1}, b"{no", {"k": "x", "v": 2}], 1)
    mill = mill_factory()
    create(mill, broker, topic, mode="DROPMALFORMED")
    drain(mill)
    assert rows(mill) == [(1, 1)]
    found = [(e["file"], e["position"], e["raw"]) for e in mill.read("t__errors").to_pylist()]
    assert sorted(found) == [(f"kafka://{topic}/1", 1, b"{no"), (f"kafka://{topic}/1", 2, b'{"k": "x", "v": 2}')]
    mill.sql(f"CREATE TABLE f (k INT) USING kafka OPTIONS ({broker.options(subscribe=topic, mode='FAILFAST')}, "
             "startingOffsets 'earliest', 'value.format' 'json')")  # fmt: skip
    mill.sql("CREATE MATERIALIZED VIEW strict AS SELECT * FROM f")
    with pytest.raises(TidemillError, match="TM4020") as raised:
        drain(mill)
    assert topic in raised.value.got


def test_where_tables_begin_and_end(broker: Broker, topic: str, mill_factory: MillFactory) -> None:
    """The newest offsets are those of the creation, also when nothing was read before the mill was closed."""
    broker.create(topic, 2)
    for partition in (0, 1):
        broker.send(topic, [{"k": partition, "v": v} for v in range(5)], partition)
    mill = mill_factory()
    starts = {
        "newest": f"subscribePattern '{topic}.*'",
        "given": f"startingOffsets '{json.dumps({topic: {'0': 3, '1': -2}})}'",
        "bounded": "startingOffsets 'earliest', endingOffsets 'latest'",
        "between": f"startingOffsets '{json.dumps({topic: {'0': 1, '1': -1}})}', "
        f"endingOffsets '{json.dumps({topic: {'0': 2, '1': -1}})}'",
        "one": f"assign '{json.dumps({topic: [1]})}', startingOffsets 'earliest'",
    }
    for name, start in starts.items():
        subscribe = "" if name in ("one", "newest") else f", subscribe '{topic}'"
        more = f"{subscribe}, {start}"
        options = f"{broker.options()}{more}, 'value.format' 'json'"
        mill.sql(f"CREATE TABLE {name}_t (k INT, v BIGINT) USING kafka OPTIONS ({options})")
        mill.sql(f"CREATE MATERIALIZED VIEW {name} AS SELECT * FROM {name}_t")
    mill.close()
    broker.send(topic, [{"k": 0, "v": 5}], 0)
    broker.create(f"{topic}2")
    broker.send(f"{topic}2", [{"k": 2, "v": 0}])
    mill = mill_factory()
    drain(mill)
    old = {p: [(p, v) for v in range(5)] for p in (0, 1)}
    assert rows(mill, "newest") == [(0, 5), (2, 0)]
    assert rows(mill, "given") == sorted([(0, 3), (0, 4), (0, 5), *old[1]], key=repr)
    assert rows(mill, "bounded") == sorted([*old[0], *old[1]], key=repr)
    assert rows(mill, "between") == [(0, 1)]
    assert rows(mill, "one") == old[1]


def test_topics_that_appear(broker: Broker, topic: str, mill_factory: MillFactory) -> None:
    broker.create(f"{topic}-1")
    broker.send(f"{topic}-1", [{"k": 1, "v": 1}])
    mill = mill_factory()
    create(mill, broker, "", subscribePattern=f"{topic}-[0-9]+")
    drain(mill)
    for name in (f"{topic}-22", f"{topic}-x", f"x{topic}-3"):
        broker.create(name)
        broker.send(name, [{"k": 2, "v": len(name) - len(topic)}])
    drain(mill)
    assert rows(mill) == [(1, 1), (2, 3)]


def test_statements_that_are_refused(broker: Broker, topic: str, mill_factory: MillFactory) -> None:
    broker.create(topic)
    mill = mill_factory()
    on = f"{broker.options(subscribe=topic)}"
    json_ = f"{on}, 'value.format' 'json'"
    for options, columns, number, said in (
        (f"{json_}, subscribePattern 'x'", "(k INT)", "TM4003", "exactly one"),
        ("subscribe 'x'", "(k INT)", "TM4003", "kafka.bootstrap.servers"),
        (f"{broker.options(subscribe='no-such')}, 'value.format' 'json'", "(k INT)", "TM5090", "no-such"),
        (f"{broker.options(assign=json.dumps({topic: [0, 7]}))}", "", "TM5090", "partition 7"),
        (f"{json_}, startingOffsets 'first'", "(k INT)", "TM4003", "startingOffsets"),
        (f"{json_}, startingOffsets '{json.dumps({topic: {}})}'", "(k INT)", "TM4003", "partition 0"),
        (f"{json_}, startingOffsets '{json.dumps({topic: {'0': 0, '1': 0}})}'", "(k INT)", "TM5090", "partition 1"),
        (f"{json_}, endingOffsets 'earliest'", "(k INT)", "TM4003", "endingOffsets"),
        (f"{json_}, startingTimestamp '1', startingOffsets 'latest'", "(k INT)", "TM4003", "startingTimestamp"),
        (f"{json_}, path '/tmp'", "(k INT)", "TM4003", "path"),
        (f"{json_}, static 'true'", "(k INT)", "TM4003", "static"),
        (f"{json_}, header 'true'", "(k INT)", "TM4005", "header"),
        (f"{json_}, 'kafka.no.such.thing' '1'", "(k INT)", "TM4003", "no.such.thing"),
        (f"{json_}, 'kafka.enable.auto.commit' 'true'", "(k INT)", "TM4003", "enable.auto.commit"),
        (f"{json_}, 'kafka.sasl.jaas.config' 'secret words'", "(k INT)", "TM4003", "kafka.sasl.username"),
        (f"{json_}, keyColumn 'missing'", "(k INT)", "TM4003", "keyColumn"),
        (f"{json_}, keyColumn 'k', topicColumn 'k'", "(k STRING)", "TM4003", "topicColumn"),
        (f"{json_}, offsetColumn 'k'", "(k INT)", "TM4004", "bigint"),
        (f"{on}, 'value.format' 'parquet'", "(k INT)", "TM4003", "value.format"),
        (f"{on}, 'value.format' 'csv', header 'true'", "(k INT)", "TM4003", "value.format"),
        (f"{on}, 'value.format' 'debezium'", "(k INT)", "TM2031", "PRIMARY KEY"),
        (on, "(k INT)", "TM4006", "value.format"),
        (f"{on}, keyColumn 'key'", "(key STRING)", "TM4003", "keyColumn"),
        (f"'kafka.bootstrap.servers' '127.0.0.1:{free_port()}', subscribe 'x', kafkaRequestTimeoutMs '2000'", "",
         "TM5091", "127.0.0.1"),
    ):  # fmt: skip
        error = refused(mill, f"CREATE TABLE t {columns} USING kafka OPTIONS ({options})")
        assert error.number == number and said in error.message(), (options, error.message())
        assert "secret words" not in error.message()
    assert mill.sql("SHOW TABLES").count() == 0  # type: ignore[union-attr]


def test_a_topic_that_goes_and_a_broker_that_hangs(topic: str, mill_factory: MillFactory) -> None:
    """Warnings; what was read stays, other tables go on, and reading goes on when the broker does."""
    broker = Broker()
    try:
        for name in (f"{topic}-1", f"{topic}-2"):
            broker.create(name)
            broker.send(name, [{"k": 1, "v": 1}])
        mill = mill_factory()
        create(mill, broker, f"{topic}-1", kafkaRequestTimeoutMs="500")
        options = broker.options(subscribe=f"{topic}-2", startingOffsets="earliest", kafkaRequestTimeoutMs="501")
        mill.sql(f"CREATE TABLE o (value STRING) USING kafka OPTIONS ({options})")
        mill.sql("CREATE MATERIALIZED VIEW other AS SELECT * FROM o")
        drain(mill)
        broker.delete(f"{topic}-2")
        broker.send(f"{topic}-1", [{"k": 2, "v": 2}])
        warnings: list[str] = []
        while len(rows(mill)) < 2:
            report = mill.advance()
            warnings += report.warnings if report is not None else ()
        assert any("TM5090" in warning for warning in warnings)
        assert rows(mill) == [(1, 1), (2, 2)] and len(rows(mill, "other")) == 1
        broker.send(f"{topic}-1", [{"k": 3, "v": 3}])
        broker.pause()
        mill.advance()
        broker.resume()
        while len(rows(mill)) < 3:
            mill.advance()
        assert rows(mill) == [(1, 1), (2, 2), (3, 3)]
    finally:
        broker.resume()
        broker.close()


def test_passwords_are_nowhere(broker: Broker, topic: str, mill_factory: MillFactory, tmp_path: Any) -> None:
    """Not in what statements show, nor in the root."""
    broker.create(topic)
    mill = mill_factory()
    create(mill, broker, topic, **{"kafka.sasl.password": "pass-word-1"})
    broker.send(topic, [{"k": 1, "v": 1}])
    drain(mill)
    mill.checkpoint()
    for statement in ("SHOW TABLES", "DESCRIBE t"):
        assert "pass-word-1" not in str(mill.sql(statement).collect())  # type: ignore[union-attr]
    mill.close()
    assert not [p for p in tmp_path.rglob("*") if p.is_file() and b"pass-word-1" in p.read_bytes()]
    mill = mill_factory()
    broker.send(topic, [{"k": 2, "v": 2}])
    drain(mill)
    assert rows(mill) == [(1, 1), (2, 2)]


def test_allowed_brokers(broker: Broker, topic: str, mill_factory: MillFactory) -> None:
    broker.create(topic)
    mill = mill_factory(allowed_paths=f"/tmp/elsewhere,kafka://{broker.servers}")
    create(mill, broker, topic)
    options = f"'kafka.bootstrap.servers' '{broker.servers},127.0.0.2:9', subscribe '{topic}'"
    assert refused(mill, f"CREATE TABLE u USING kafka OPTIONS ({options})").number == "TM5045"


def test_a_busy_topic_is_read_evenly(broker: Broker, topic: str, mill_factory: MillFactory) -> None:
    """A partition with much is not read to its end before the others have begun."""
    broker.create(topic, 3)
    for partition, count in enumerate((300, 30, 3)):
        broker.send(topic, [{"k": partition, "v": v} for v in range(count)], partition)
    mill = local(mill_factory())
    create(mill, broker, topic, maxOffsetsPerTrigger="111", minPartitions="7")
    report = mill.advance()
    assert report is not None
    counts = Counter(k for k, _ in rows(mill))
    assert counts[0] in range(95, 103) and counts[1] in range(8, 12) and counts[2] in (0, 1, 2)
    drain(mill)
    assert Counter(k for k, _ in rows(mill)) == {0: 300, 1: 30, 2: 3}


def test_large_and_many_messages(broker: Broker, topic: str, mill_factory: MillFactory, seed: int) -> None:
    chance = random.Random(seed)
    broker.create(topic, 2)
    texts = [chance.choice("abcdef") * chance.choice((0, 1, 50, 30_000)) for _ in range(400)]
    for partition in (0, 1):
        broker.send(topic, [{"k": i, "s": text} for i, text in enumerate(texts)], partition)
        broker.send(topic, [b'{"k": -1}'] * 20_000, partition)
    mill = mill_factory()
    create(mill, broker, topic, "(k INT, s STRING)")
    mill.sql("CREATE MATERIALIZED VIEW sums AS SELECT COUNT(*) AS n, SUM(k) AS k, SUM(LENGTH(s)) AS l FROM t")
    drain(mill)
    numbers = sum(range(len(texts))) - 20_000
    assert rows(mill, "sums") == [(2 * 20_400, 2 * numbers, 2 * sum(map(len, texts)))]
    assert mill.read("rows").schema.field("s").type == pa.string()


def test_offsets_are_committed_for_tools(broker: Broker, topic: str, mill_factory: MillFactory) -> None:
    """Once they are durable, and not before; reading does not depend on them."""
    broker.create(topic, 2)
    broker.send(topic, [{"k": 1, "v": v} for v in range(5)], 1)
    mill = mill_factory(checkpoint_seconds=1e9)
    create(mill, broker, topic, **{"kafka.group.id": f"lag-{topic}"})
    drain(mill)
    mill.advance()
    assert broker.committed(f"lag-{topic}", topic, 2) == {}
    mill.checkpoint()
    mill.close()
    assert broker.committed(f"lag-{topic}", topic, 2) == {1: 5}
    broker.send(topic, [{"k": 2, "v": 0}], 0)
    mill = mill_factory()
    drain(mill)
    assert len(rows(mill)) == 6
    mill.close()
    assert broker.committed(f"lag-{topic}", topic, 2) == {0: 1, 1: 5}


def test_messages_that_are_not_retained(mill_factory: MillFactory) -> None:
    """By brokers that keep few. They hold their partition up, or count as one malformed row; later views begin behind
    them, with a warning, or not at all.
    """
    cluster = MockCluster()
    large = "x" * 100_000
    mill = mill_factory()
    for name, more in (("strict", ""), ("lax", ", failOnDataLoss 'false'")):
        cluster.send(name, [json.dumps({"v": v}) for v in range(5)])
        options = f"'kafka.bootstrap.servers' '{cluster.servers}', assign '{json.dumps({name: [0]})}'"
        # these brokers do not answer when they are asked for the ids of topics
        options += ", startingOffsets 'earliest', 'value.format' 'json', offsetColumn 'o', kafkaRequestTimeoutMs '3000'"
        options += more
        mill.sql(f"CREATE TABLE {name} (v INT, o BIGINT) USING kafka OPTIONS ({options})")
        mill.sql(f"CREATE MATERIALIZED VIEW of_{name} AS SELECT v, o FROM {name}")
    drain(mill)
    for name in ("strict", "lax"):
        cluster.send(name, [json.dumps({"v": v, "s": large}) for v in range(5, 125)])
    while len(rows(mill, "of_lax")) == 5 or not any("TM5093" in str(f["error"]) for f in files(mill, "strict")):
        mill.advance()

    def check_gap(name: str) -> int:
        """All rows but those of one gap, which is an error; gives its last offset."""
        (error,) = mill.read(f"{name}__errors").to_pylist()
        first, last = map(int, error["raw"].split()[1::2])
        kept = [(v, v) for v in range(125) if not first <= v <= last]
        assert error["reason"] == "lost_messages" and first == 5 and 5 < last < 124
        assert rows(mill, f"of_{name}") == sorted(kept, key=repr)
        return last

    last = check_gap("lax")
    assert rows(mill, "of_strict") == [(v, v) for v in range(5)]
    with pytest.raises(TidemillError, match="TM2061") as raised:
        mill.sql("CREATE MATERIALIZED VIEW whole TBLPROPERTIES ('position' = 'backfill') AS SELECT o FROM lax")
    assert "TM5095" in raised.value.got
    mill.sql("CREATE MATERIALIZED VIEW later AS SELECT v, o FROM lax")
    warnings = drain_others(mill)
    assert any("TM5095" in warning for warning in warnings)
    assert rows(mill, "later") == sorted([(v, v) for v in range(last + 1, 125)], key=repr)
    mill.sql("ALTER TABLE strict SET OPTIONS (failOnDataLoss 'false')")
    drain_others(mill)
    check_gap("strict")
    mill.close()  # its clients end before the brokers do


def drain_others(mill: Mill) -> list[str]:
    """Epochs until there is nothing left; a partition that cannot be read does not end it."""
    warnings: list[str] = []
    while (report := mill.advance()) is not None:
        warnings += report.warnings
    return [*warnings, *mill.warnings()]


def files(mill: Mill, table: str) -> list[dict[str, Any]]:
    return mill.read(f"{table}__files").to_pylist()


def test_a_topic_that_is_created_anew(topic: str, mill_factory: MillFactory) -> None:
    """Its offsets begin anew. It is another topic, which is read if messages may be lost."""
    broker = Broker()
    try:
        broker.create(topic)
        broker.send(topic, [{"k": 1, "v": v} for v in range(3)])
        mill = mill_factory()
        create(mill, broker, topic)
        drain(mill)
        broker.delete(topic)
        broker.create(topic)
        broker.send(topic, [{"k": 2, "v": v} for v in range(5)])
        with pytest.raises(TidemillError, match="TM5093"):
            drain(mill)
        assert len(rows(mill)) == 3
        mill.sql("ALTER TABLE t SET OPTIONS (failOnDataLoss 'false')")
        drain(mill)
        expected = sorted([(1, v) for v in range(3)] + [(2, v) for v in range(5)], key=repr)
        assert rows(mill) == expected
        mill.close()
        broker.send(topic, [{"k": 3, "v": 0}])
        mill = mill_factory()
        drain(mill)
        assert rows(mill) == sorted([*expected, (3, 0)], key=repr)
        mill.sql("CREATE MATERIALIZED VIEW later AS SELECT * FROM t WHERE k > 1")
        drain(mill)
        assert rows(mill, "later") == sorted([*expected[3:], (3, 0)], key=repr)
    finally:
        broker.close()


def test_documents_of_several_lines(broker: Broker, topic: str, mill_factory: MillFactory) -> None:
    """Beside others in one batch; a value of several documents has several rows."""
    broker.create(topic)
    documents = [{"k": k, "v": 10 * k} for k in range(4)]
    pretty = [json.dumps(d, indent=2) for d in documents[:2]]
    broker.send(topic, [*pretty, json.dumps(documents[2]), "\n".join(json.dumps(d) for d in documents[2:]), "{\n}"])
    mill = mill_factory()
    create(mill, broker, topic)
    drain(mill)
    assert rows(mill) == sorted([(0, 0), (1, 10), (2, 20), (2, 20), (3, 30), (None, None)], key=repr)
    assert mill.read("t__errors").num_rows == 0


def test_values_of_options(broker: Broker, topic: str, mill_factory: MillFactory) -> None:
    """Bad ones are refused by the statement, and change nothing."""
    broker.create(topic)
    broker.send(topic, [{"k": 1, "v": 1}])
    mill = mill_factory(allowed_paths=f"kafka://{broker.servers}")
    create(mill, broker, topic)
    given = broker.options(subscribe=topic, **{"value.format": "json"})
    limits = [("maxOffsetsPerTrigger", "0"), ("maxOffsetsPerTrigger", "x"), ("minPartitions", "0")]
    limits += [("failOnDataLoss", "yes"), ("kafkaConsumer.pollTimeoutMs", "99"), ("kafkaRequestTimeoutMs", "5")]
    others = [("startingTimestamp", "99999999999999999999"), ("startingOffsets", json.dumps({topic: {"0": 2**63}})),
              ("startingOffsets", json.dumps({topic: {"0": 100}})), ("startingOffsets", json.dumps({topic: {"00": 1}})),
              ("kafka.plugin.library.paths", "/tmp/x.so"), ("kafka.metadata.broker.list", "127.0.0.1:1"),
              ("kafka.test.mock.num.brokers", "1"), ("kafka.debug", "all")]  # fmt: skip
    for name, value in (*limits, *others):
        error = refused(mill, f"CREATE TABLE u (k INT) USING kafka OPTIONS ({given}, '{name}' '{value}')")
        assert error.number == "TM4003" and error.hint, (name, value, error.message())
    for name, value in (*limits, ("kafka.bootstrap.servers", "")):
        error = refused(mill, f"ALTER TABLE t SET OPTIONS ('{name}' '{value}')")
        assert error.number == "TM4003", (name, value, error.message())
    for name, value in (("kafka.ssl.ca.location", "/etc/passwd"),
                        ("kafka.sasl.oauthbearer.token.endpoint.url", "http://127.0.0.1:1/")):  # fmt: skip
        error = refused(mill, f"CREATE TABLE u (k INT) USING kafka OPTIONS ({given}, '{name}' '{value}')")
        assert error.number == "TM5045", error.message()
    drain(mill)
    assert rows(mill) == [(1, 1)]
