"""A Kafka topic. An epoch is one transaction, which also notes its number, so that none is written twice."""

from __future__ import annotations

import json
import zlib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa

from tidemill.connectors.kafka.options import BOOTSTRAP, CLIENT, REQUEST_TIMEOUT, SECRETS, client_properties
from tidemill.errors import TidemillError
from tidemill.options.kinds import FLAG, TEXT, choice
from tidemill.options.option import Option, OptionGroup
from tidemill.schema import WEIGHT, Schema
from tidemill.sinks import json_lines
from tidemill.sinks.keyed_rows import KEY_COLUMNS, key_columns, names_of, two_rows
from tidemill.sinks.messages import messages
from tidemill.sinks.options import CHANGES, SNAPSHOT
from tidemill.sinks.target import (
    AT_LEAST_ONCE,
    EPOCH,
    EXACTLY_ONCE,
    Changes,
    Identity,
    TargetKind,
    bad_location,
    gone,
)

TOPIC = Option("topic", TEXT, None, "the topic, which must be there")
DEBEZIUM, UPSERT, WEIGHTS = "debezium", "upsert", "weights"
ENVELOPE = Option(
    "envelope",
    choice(DEBEZIUM, UPSERT, WEIGHTS),
    DEBEZIUM,
    "`debezium`: `before`, `after` and `op`; `upsert`: the row of a key, no value when it has gone; `weights`: the row "
    "with `__weight` and `__epoch`",
)
TRANSACTIONAL = Option(
    "transactional", FLAG, True, "an epoch is a transaction; without, epochs may come again after a failure"
)

_SCHEME = "kafka://"
_ROWS = 1 << 16


class KafkaTarget:
    """Writes one topic, one epoch after the other.

    **Exactly once.** The offset 0 of the group ``tidemill-<id of the sink>`` is the newest epoch; the transaction of an
    epoch commits it. A new process has the same transactional id, which ends what an older one had begun.
    """

    combines = False

    def __init__(self, sink: Identity, options: Mapping[str, str]) -> None:
        self._sink, self._options = sink, options
        self._topic = options[TOPIC.key].removeprefix(_SCHEME)
        self._place = f"{options[TOPIC.key]} at {options[BOOTSTRAP.key]}"
        self._keys = names_of(KEY_COLUMNS.of(options))
        self._envelope = ENVELOPE.of(options)
        self._transactional = TRANSACTIONAL.of(options)
        self._seconds = REQUEST_TIMEOUT.of(options) / 1000
        self._name = f"tidemill-{sink.id}"
        self._client = _library()
        self._said: list[Any] = []
        self._properties = {**client_properties(options), "log_level": "0", "error_cb": self._said.append}
        self._producer: Any = None
        self._consumer: Any = None
        self._partitions = 1
        self._failed: list[str] = []
        self._aborted = False

    def position(self, begun: bool) -> int | None:
        """The epoch of the newest transaction. TM8218 when the topic is not there, though something was delivered."""
        with self._numbered():
            there = self._opened().list_topics(timeout=self._seconds).topics.get(self._topic)
            if there is None or not there.partitions:
                if begun:
                    raise gone(f"{_SCHEME}{self._topic}")
                raise _not_taken(self._place, "the topic does not exist: create it")
            self._partitions = len(there.partitions)
            if not self._transactional:
                return None
            place = self._client.TopicPartition(self._topic, 0)
            found = self._consumer.committed([place], timeout=self._seconds)[0]
        if found.error is not None:
            raise _not_taken(self._place, str(found.error))
        return int(found.offset) if found.offset >= 0 else None

    def snapshot(self, epoch: int, parts: Iterable[pa.Table]) -> None:
        """Write all rows."""
        self._write(epoch, parts, snapshot=True)

    def changes(self, changes: Sequence[Changes]) -> None:
        """Write what each epoch changed."""
        for change in changes:
            self._write(change.epoch, (change.table,), snapshot=False)

    def close(self) -> None:
        """Leave the brokers; what was not committed is not there."""
        producer, consumer = self._producer, self._consumer
        self._producer = self._consumer = None
        if producer is not None:
            producer.purge()
            producer.flush(0)
        if consumer is not None:
            consumer.close()

    def abort(self) -> None:
        """A call that waits for brokers ends with its time-out; between messages it ends at once."""
        self._aborted = True

    def _opened(self) -> Any:
        """The producer, which fences those that came before it."""
        if self._producer is None:
            more = {"enable.idempotence": "true", "linger.ms": "5", "partitioner": "murmur2_random"}
            if self._transactional:
                more["transactional.id"] = self._name
            producer = self._client.Producer({**self._properties, **more})
            if self._transactional:
                producer.init_transactions(self._seconds)
            given = {"group.id": self._name, "enable.auto.commit": "false"}
            self._consumer = self._client.Consumer({**self._properties, **given})
            self._producer = producer
        return self._producer

    def _write(self, epoch: int, parts: Iterable[pa.Table], snapshot: bool) -> None:
        with self._numbered():
            producer = self._opened()
            self._failed.clear()
            if self._transactional:
                producer.begin_transaction()
            try:
                for number, (key, place, value) in enumerate(self._messages(epoch, parts, snapshot)):
                    self._send(key, place, value, [(EPOCH, str(epoch).encode()), ("__sequence", str(number).encode())])
                left = producer.flush(self._seconds)
                if self._failed or left:
                    raise _not_taken(self._place, self._failed[0] if self._failed else f"{left} messages wait")
            except BaseException:
                if self._transactional:
                    producer.abort_transaction(self._seconds)
                raise
            if self._transactional:
                noted = [self._client.TopicPartition(self._topic, 0, epoch)]
                group = self._consumer.consumer_group_metadata()
                producer.send_offsets_to_transaction(noted, group, self._seconds)
                producer.commit_transaction(self._seconds)

    def _send(self, key: bytes | None, place: bytes, value: bytes | None, headers: list[tuple[str, bytes]]) -> None:
        """Hand over a message; rows without a key that are equal go to one partition, so that they stay in order."""
        where = {} if key is not None else {"partition": zlib.crc32(place) % self._partitions}
        while True:
            if self._aborted:
                raise _not_taken(self._place, "the sink was stopped")
            try:
                self._producer.produce(self._topic, value, key, headers=headers, on_delivery=self._noted, **where)
                self._producer.poll(0)
                return
            except BufferError:
                self._producer.poll(0.1)

    def _noted(self, error: Any, _: Any) -> None:
        if error is not None:
            self._failed.append(str(error.str()))

    def _messages(
        self, epoch: int, parts: Iterable[pa.Table], snapshot: bool
    ) -> Iterator[tuple[bytes | None, bytes, bytes | None]]:
        """Key, row and value of each message. An epoch's changes of a key are together, deletions first."""
        if snapshot:
            for message in messages(epoch, parts, _ROWS, snapshot):
                for key, row, weight in self._rows(message.rows):
                    yield key, row, self._value(epoch, row, weight, snapshot)
            return
        changed = [found for m in messages(epoch, parts, _ROWS, snapshot) for found in self._rows(m.rows)]
        by_key: dict[bytes, list[tuple[bytes | None, bytes, int]]] = defaultdict(list)
        for key, row, weight in changed:
            by_key[row if key is None else key].append((key, row, weight))
        for found in by_key.values():
            if self._envelope == WEIGHTS:
                yield from ((key, row, self._value(epoch, row, weight, False)) for key, row, weight in found)
                continue
            gone_ = [row for _, row, weight in found if weight < 0 for _ in range(-weight)]
            come = [row for _, row, weight in found if weight > 0 for _ in range(weight)]
            key = found[0][0]
            if self._envelope == UPSERT:
                if len(come) > 1:
                    raise two_rows((key or b"").decode())
                yield key, come[0] if come else gone_[0], come[0] if come else None
                continue
            paired = min(len(gone_), len(come)) if key is not None else 0
            both = zip(gone_[:paired], come[:paired], strict=True)
            yield from ((key, new, self._change(epoch, "u", old, new)) for old, new in both)
            yield from ((key, old, self._change(epoch, "d", old, None)) for old in gone_[paired:])
            yield from ((key, new, self._change(epoch, "c", None, new)) for new in come[paired:])

    def _rows(self, rows: pa.RecordBatch) -> Iterator[tuple[bytes | None, bytes, int]]:
        """Key, row and weight of each row, as JSON."""
        if not rows.num_rows:
            return
        weights = rows.column(0).to_pylist()
        plain = rows.select(rows.schema.names[1:])
        texts = json_lines.objects(plain, self._sink.time_zone, "\n").split(b"\n")
        keys: Iterable[bytes | None] = [None] * len(texts)
        if self._keys:
            keys = json_lines.objects(plain.select(self._keys), self._sink.time_zone, "\n").split(b"\n")
        yield from zip(keys, texts, weights, strict=True)

    def _value(self, epoch: int, row: bytes, weight: int, snapshot: bool) -> bytes:
        """The value of a message of a snapshot, or of a change by its weight."""
        if snapshot and self._envelope == UPSERT:
            return row
        if snapshot and self._envelope == DEBEZIUM:
            return self._change(epoch, "r", None, row)
        head = f'{{"{EPOCH}": {epoch}, "{WEIGHT}": {weight}'.encode()
        return head + (b"}" if row == b"{}" else b", " + row[1:])

    def _change(self, epoch: int, operation: str, before: bytes | None, after: bytes | None) -> bytes:
        about = {"connector": "tidemill", "name": self._sink.name, "table": self._sink.view, "epoch": epoch}
        rows = [b"null" if row is None else row for row in (before, after)]
        return b'{"before": %b, "after": %b, "source": %b, "op": "%b"}' % (
            *rows,
            json.dumps(about, ensure_ascii=False).encode(),
            operation.encode(),
        )

    def _numbered(self) -> _Numbered:
        self._said.clear()
        return _Numbered(self._place, self._client.KafkaException, self._said)


class _Numbered:
    """Gives errors of the client a number, TM8220, with what it had said of the brokers."""

    def __init__(self, place: str, failed: type[Exception], said: Sequence[Any]) -> None:
        self._place, self._failed, self._said = place, failed, said

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if isinstance(error, self._failed):
            cause = error.args[0] if error.args else error
            texts = [str(cause.str() if hasattr(cause, "str") else cause), *(str(s.str()) for s in self._said[-1:])]
            raise _not_taken(self._place, "; ".join(texts)) from error


def _not_taken(place: str, got: str) -> TidemillError:
    return TidemillError(
        "TM8220",
        "Kafka did not take an epoch",
        got=f"{place}: {got}",
        hint="it is written again after a pause; see got",
    )


def _library() -> Any:
    try:
        import confluent_kafka
    except ImportError as error:
        raise TidemillError(
            "TM8208",
            "a package that this target needs is not installed",
            got="confluent-kafka",
            hint="pip install 'tidemill[kafka]'",
        ) from error
    return confluent_kafka


def _resolved(text: str) -> str:
    topic = text.removeprefix(_SCHEME)
    if not topic or any(not (c.isascii() and (c.isalnum() or c in "._-")) for c in topic):
        raise bad_location("kafka", TOPIC.name, text, "the name of a topic: letters, digits, '.', '_' and '-'")
    return f"{_SCHEME}{topic}"


def _check(options: Mapping[str, str], schema: Schema) -> None:
    _library()
    client_properties(options)
    keys = key_columns(KEY_COLUMNS.of(options), schema)
    if ENVELOPE.of(options) == UPSERT and not keys:
        raise ENVELOPE.bad(UPSERT, "keyColumns says which columns are the key of a row")


KAFKA = TargetKind(
    "kafka",
    OptionGroup(
        "Sinks into Kafka",
        "Sinks `INTO kafka`; they need `tidemill[kafka]`.",
        (BOOTSTRAP, TOPIC, ENVELOPE, KEY_COLUMNS, TRANSACTIONAL, REQUEST_TIMEOUT, *SECRETS, CLIENT),
    ),
    TOPIC,
    (CHANGES, SNAPSHOT),
    _check,
    _resolved,
    KafkaTarget,
    lambda options: EXACTLY_ONCE if TRANSACTIONAL.of(options) else AT_LEAST_ONCE,
    deletes="Debezium's d and u, tombstones, or rows with a negative __weight",
    library="confluent-kafka",
    extra="kafka",
    tried="the broker Tansu with its storage in memory",
)
