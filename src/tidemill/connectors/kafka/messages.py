"""Reads the messages of a partition between two offsets, in tasks."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from tidemill.connectors.kafka.client_errors import numbered
from tidemill.connectors.kafka.cluster import FETCHING, made
from tidemill.connectors.kafka.errors import gone
from tidemill.connectors.kafka.options import FAIL_ON_DATA_LOSS, POLL_TIMEOUT, client_properties
from tidemill.connectors.kafka.partitions import Partition, path_of

_MOST_MESSAGES, _BATCH_BYTES = 10_000, 8 << 20
_STALLED = 3.0
"""Seconds without a message after which it is looked whether the messages are still there."""

_FIXED = {name: FETCHING[name] for name in ("group.id", "enable.auto.commit", "enable.partition.eof")}

HEADERS: pa.DataType = pa.list_(pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())]))


@dataclass(frozen=True, eq=False)
class Messages:
    """Some messages of a partition, in its order.

    Attributes
    ----------
    offsets : ndarray of int64
        They ascend, perhaps with gaps.
    values : pyarrow.LargeBinaryArray
        NULL for a message without a value.
    found : list
        The messages, as the client gives them.
    lost : tuple of (int, int) or None
        Offsets of messages that were gone: from the first to the one before the second. Then there are no others here.
    """

    offsets: npt.NDArray[np.int64]
    values: pa.LargeBinaryArray
    found: Sequence[Any]
    lost: tuple[int, int] | None = None

    def keys(self) -> pa.BinaryArray:
        """Their keys, NULL where there is none."""
        return pa.array([m.key() for m in self.found], pa.binary())

    def times(self) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int32]]:
        """Milliseconds since 1970, -1 where there is none; and what they are: 0 of creation, 1 of the log."""
        kinds, times = zip(*(m.timestamp() for m in self.found), strict=True) if self.found else ((), ())
        return np.array(times, np.int64), np.maximum(np.array(kinds, np.int32) - 1, -1)

    def headers(self) -> pa.Array[Any]:
        """Their headers in order, NULL where there are none."""
        listed = (m.headers() for m in self.found)
        return pa.array([None if h is None else [{"key": k, "value": v} for k, v in h] for h in listed], HEADERS)


class PartitionFile:
    """Messages of one partition.

    Parameters
    ----------
    partition : tuple of (str, int)
        Topic and number.
    begin : int
        The offset at which the table began.
    options : mapping
        Of the table, with names in lower case.
    gone : bool
        The topic was created anew since: it has none of the messages any more.
    """

    def __init__(self, partition: Partition, begin: int, options: Mapping[str, str], gone: bool = False) -> None:
        self.topic, self.number = partition
        self.begin = begin
        self._gone = gone
        self._options = options
        self._path = path_of(partition)

    def messages(self, first: int, end: int) -> Iterator[Messages]:
        """All messages whose offsets are at least ``first`` and below ``end``.

        Raises
        ------
        TidemillError
            TM5090 to TM5093 as the brokers answer.
        """
        if first >= end or self._gone:
            return
        properties = client_properties(self._options)
        # A new one is there in 4 ms, one that is assigned anew in 50. And librdkafka 2.16 crashes in one that has known
        # a topic which was created anew.
        consumer = made(Consumer, {**FETCHING, **properties, **_FIXED})
        try:
            yield from self._messages(consumer, first, end, properties["bootstrap.servers"])
        except KafkaException as error:
            raise numbered(error, properties["bootstrap.servers"], self._path) from error
        finally:
            consumer.close()

    def _messages(self, consumer: Any, first: int, end: int, servers: str) -> Iterator[Messages]:
        place = (self.topic, self.number)
        consumer.assign([TopicPartition(*place, first)])
        heard, limit = time.monotonic(), POLL_TIMEOUT.of(self._options) / 1000
        looked, most, said = heard, 1000, ""
        while first < end:
            found = consumer.consume(min(most, end - first), timeout=0.0)
            if not found:
                message = consumer.poll(0.2)
                found = [] if message is None else [message]
            good = [m for m in found if m.error() is None and m.offset() < end]
            others = [m for m in found if m.error() is not None or m.offset() >= end]
            if good:
                heard = looked = time.monotonic()
                batch = _batch(good)
                yield batch
                first = int(batch.offsets[-1]) + 1
                size = max(int(batch.values.nbytes) // len(good), 1)
                most = max(16, min(_MOST_MESSAGES, _BATCH_BYTES // size))
            ended = any(m.error() is None or _ends(m, end) for m in others)
            if ended:
                return
            failed = [m.error() for m in others if m.error().code() != KafkaError._PARTITION_EOF]
            outside = any(e.code() in (KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE) for e in failed)
            fatal = [e for e in failed if not e.retriable() and not outside]
            said = str(failed[-1].str()) if failed else said
            now = time.monotonic()
            if fatal and fatal[0].code() not in (KafkaError._ALL_BROKERS_DOWN, KafkaError._TRANSPORT):
                raise numbered(fatal[0], servers, self._path)
            if outside or now - looked > _STALLED:
                looked = now
                lost = self._lost(consumer, first, end, outside)
                if lost is not None:
                    yield Messages(np.empty(0, np.int64), pa.array([], pa.large_binary()), (), lost)
                    heard, first = now, lost[1]
                    consumer.assign([TopicPartition(*place, first)])
            if now - heard > limit:
                what = f"no message at offset {first} within {limit:g} s"
                raise numbered(f"{what}{f' ({said})' if said else ''}", servers, self._path)

    def _lost(self, consumer: Any, first: int, end: int, outside: bool) -> tuple[int, int] | None:
        """Offsets that are gone: the partition begins behind the next one, or ends before it, which a broker must have
        said when it was asked for that (``outside``). TM5093 unless that may be.
        """
        try:
            low, high = consumer.get_watermark_offsets(TopicPartition(self.topic, self.number), timeout=5.0)
        except KafkaException:
            return None  # whoever asked goes on waiting for an answer
        if low > first:
            lost, there = (first, min(low, end)), f"the first that there is is {low}"
        elif outside and high < first:
            lost, there = (first, end), f"the partition ends before {high}"
        else:
            return None
        if FAIL_ON_DATA_LOSS.of(self._options):
            raise gone(self._path, lost[0], lost[1] - 1, there)
        return lost

    def open(self, position: int) -> PartitionFile:
        """Itself: it has messages instead of bytes."""
        return self

    def fill(self) -> bytes:
        """Nothing: it has messages instead of bytes."""
        return b""

    def read_at(self, position: int, length: int) -> bytes:
        """Nothing: it has messages instead of bytes."""
        return b""

    def first_bytes(self, count: int) -> bytes:
        """Nothing: it has messages instead of bytes."""
        return b""

    def close(self) -> None:
        """Nothing; may be called twice."""


def _ends(message: Any, end: int) -> bool:
    """Whether there is nothing behind, up to an offset: what is left there are no messages but marks."""
    return bool(message.error().code() == KafkaError._PARTITION_EOF and message.offset() >= end)


def _batch(found: Sequence[Any]) -> Messages:
    offsets = np.fromiter((m.offset() for m in found), np.int64, len(found))
    return Messages(offsets, pa.array([m.value() for m in found], pa.large_binary()), found)
