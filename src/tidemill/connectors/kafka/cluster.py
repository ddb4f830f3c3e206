"""What brokers say of topics: which partitions there are, and at which offsets these begin and end."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Mapping
from threading import Lock
from typing import Any

from confluent_kafka import Consumer, IsolationLevel, KafkaError, KafkaException, TopicCollection, TopicPartition
from confluent_kafka import admin as admin_client
from confluent_kafka.admin import AdminClient

from tidemill.connectors.kafka.client_errors import numbered, refused
from tidemill.connectors.kafka.options import REQUEST_TIMEOUT, client_properties
from tidemill.connectors.kafka.partitions import Partition
from tidemill.errors import TidemillError
from tidemill.options.option import bad_option

_Spec: Any = admin_client.OffsetSpec

_LOOKED_AT = 10_000
"""The most messages that are looked at to find the end of partitions."""

_QUIET = {"log_level": "0", "socket.keepalive.enable": "true"}
FETCHING = {
    "group.id": "tidemill",
    "enable.auto.commit": "false",
    "enable.auto.offset.store": "false",
    "enable.partition.eof": "true",
    "auto.offset.reset": "error",
    "fetch.wait.max.ms": "50",
    "fetch.error.backoff.ms": "50",
    "topic.metadata.refresh.interval.ms": "-1",
    "queued.min.messages": "20000",
    "queued.max.messages.kbytes": "16384",
    **_QUIET,
}
"""How messages are fetched: the group is never joined, and nothing is committed to it."""

_MOST_CLUSTERS = 32
_clusters: dict[tuple[tuple[str, str], ...], Cluster] = {}
_lock = Lock()


def cluster_of(options: Mapping[str, str]) -> Cluster:
    """The cluster that options name, which a process connects to once.

    Raises
    ------
    TidemillError
        TM4003 for properties that are refused.
    """
    properties = client_properties(options)
    key = tuple(sorted(properties.items()))
    with _lock:
        if key not in _clusters:
            while len(_clusters) >= _MOST_CLUSTERS:
                del _clusters[next(iter(_clusters))]
            _clusters[key] = Cluster(properties)
        return _clusters[key]


def made(make: Callable[[dict[str, Any]], Any], properties: Mapping[str, Any]) -> Any:
    """A client. TM4003 for a property that librdkafka does not know, or a value that it refuses."""
    try:
        return make(dict(properties))
    except (KafkaException, ValueError, TypeError) as error:
        cause = error.args[0] if isinstance(error, KafkaException) and error.args else error
        said = cause.str() if isinstance(cause, KafkaError) else str(cause)
        raise bad_option("kafka.*", said, "the properties of librdkafka, each with kafka. before its name") from error


class Cluster:
    """Brokers. Several threads may ask.

    Parameters
    ----------
    properties : mapping
        Of the client.
    """

    def __init__(self, properties: Mapping[str, str]) -> None:
        self.servers = properties["bootstrap.servers"]
        self._properties = dict(properties)
        self._said: list[KafkaError] = []
        self._admin = made(AdminClient, {**properties, **_QUIET, "error_cb": self._said.append})
        self._lock = Lock()
        self._tells_ids = True
        self._ids: dict[str, str] = {}
        self._ends: dict[Partition, tuple[int, int, bool]] = {}
        """By partition, the end that was said, the one that was found behind it, and whether that is where it ends."""

    def topics(self, options: Mapping[str, str]) -> dict[str, tuple[int, ...]]:
        """All topics with their partitions.

        Raises
        ------
        TidemillError
            TM5091 and TM5092 as the brokers answer.
        """
        with self._lock:
            try:
                found = self._admin.list_topics(timeout=_seconds(options))
            except KafkaException as error:
                raise self._failed(error, "the list of topics") from error
        return {name: tuple(sorted(topic.partitions)) for name, topic in found.topics.items() if topic.error is None}

    def topic_ids(self, topics: Collection[str], options: Mapping[str, str], told: bool = False) -> dict[str, str]:
        """What brokers call these topics: otherwise when one is created anew. Empty where they do not tell.

        Errors as :meth:`topics` where they have been told before, by this process or, if ``told``, another one.
        """
        with self._lock:
            if not topics or not (self._tells_ids or told):
                return {}
            try:
                asked = self._admin.describe_topics(TopicCollection(list(topics)), request_timeout=_seconds(options))
                found = {name: str(of.result(_seconds(options) + 1).topic_id) for name, of in asked.items()}
            except KafkaException as error:
                if self._ids or told:
                    raise self._failed(error, "the ids of topics") from error
                self._tells_ids = False  # those of old brokers; other requests say what else is wrong
                return {}
            anew = {name for name, id_ in found.items() if self._ids.get(name, id_) != id_}
            self._ends = {place: end for place, end in self._ends.items() if place[0] not in anew}
            self._ids |= found
            return found

    def first_offsets(self, partitions: Iterable[Partition], options: Mapping[str, str]) -> dict[Partition, int]:
        """The first offset of each partition that there is. Errors as :meth:`topics`; TM5090."""
        with self._lock:
            return self._listed(partitions, _Spec.earliest(), options)

    def offsets_at(
        self, partitions: Iterable[Partition], milliseconds: int, options: Mapping[str, str]
    ) -> dict[Partition, int]:
        """The first offset of each partition whose message is not older, -1 where all are. Errors as above."""
        with self._lock:
            return self._listed(partitions, _Spec.for_timestamp(milliseconds), options)

    def next_offsets(self, partitions: Iterable[Partition], options: Mapping[str, str]) -> dict[Partition, int]:
        """The offset behind the last message of each partition that can be read. Errors as above.

        Some brokers (Tansu with its storage in memory) say that a partition ends within its last batch. So the end of
        one that has changed is found by fetching from what they say on, which is where it really ends elsewhere.
        """
        with self._lock:
            said = self._listed(partitions, _Spec.latest(), options)
            begins: dict[Partition, int] = {}
            for place, end in said.items():
                known, found, sure = self._ends.get(place, (-1, -1, False))
                if known != end or not sure:
                    begins[place] = max(end, found) if known == end else end
            if begins:
                self._ends |= {p: (said[p], *found) for p, found in self._found(begins, options).items()}
            return {p: max(end, self._ends[p][1]) for p, end in said.items()}

    def _listed(self, partitions: Iterable[Partition], spec: Any, options: Mapping[str, str]) -> dict[Partition, int]:
        asked = {TopicPartition(*p): spec for p in partitions}
        if not asked:
            return {}
        level = self._properties.get("isolation.level", "read_committed")
        isolation = IsolationLevel.READ_COMMITTED if level == "read_committed" else IsolationLevel.READ_UNCOMMITTED
        found: dict[Partition, int] = {}
        seconds = _seconds(options)
        try:
            answers = self._admin.list_offsets(asked, isolation_level=isolation, request_timeout=seconds)
            for place, answer in answers.items():
                found[place.topic, place.partition] = answer.result(seconds + 1).offset
        except KafkaException as error:
            names = sorted({f"{p.topic}" for p in asked})
            raise self._failed(error, f"offsets of {', '.join(names)}") from error
        return found

    def _found(self, begins: Mapping[Partition, int], options: Mapping[str, str]) -> dict[Partition, tuple[int, bool]]:
        """Where partitions really end, of which so much is known; and whether all of that was looked at.

        The consumer is not kept: librdkafka 2.16 crashes in one that has known a topic which was created anew.
        """
        few = {"fetch.message.max.bytes": "65536", "queued.max.messages.kbytes": "1024", "fetch.wait.max.ms": "5"}
        watcher = made(Consumer, {**self._properties, **FETCHING, **few})
        ends, left = dict(begins), set(begins)
        try:
            watcher.assign([TopicPartition(*p, offset) for p, offset in begins.items()])
            deadline, looked = time.monotonic() + min(1.0, _seconds(options)), 0
            while left and looked < _LOOKED_AT and time.monotonic() < deadline:
                message = watcher.poll(0.1)
                if message is None:
                    continue
                place, error = (message.topic(), message.partition()), message.error()
                if error is None:
                    looked += 1
                    ends[place] = max(ends[place], message.offset() + 1)
                elif error.code() == KafkaError._PARTITION_EOF:
                    left.discard(place)
                    ends[place] = max(ends[place], message.offset())
        finally:
            watcher.close()
        return {place: (end, place not in left) for place, end in ends.items()}

    def times_of(
        self, offsets: Mapping[Partition, int], options: Mapping[str, str], seconds: float
    ) -> dict[Partition, int] | None:
        """When the first messages from these offsets on were written, in ms since 1970, of partitions that have any.

        None where that is not known: a message has no time or is gone, or brokers do not say so within some seconds.
        Errors as :meth:`topics`.
        """
        few = {"fetch.message.max.bytes": "65536", "queued.min.messages": "1", "fetch.wait.max.ms": "5"}
        watcher = made(Consumer, {**self._properties, **FETCHING, **few})
        times: dict[Partition, int] = {}
        left, deadline = set(offsets), time.monotonic() + seconds
        try:
            watcher.assign([TopicPartition(*p, offset) for p, offset in offsets.items()])
            while left:
                message = watcher.poll(max(0.0, min(0.1, deadline - time.monotonic())))
                if message is None:
                    if time.monotonic() >= deadline:
                        return None
                    continue
                place, error = (message.topic(), message.partition()), message.error()
                if error is not None and error.code() != KafkaError._PARTITION_EOF:
                    if not error.retriable():
                        return None
                elif place in left:
                    left.discard(place)
                    watcher.pause([TopicPartition(*place)])
                    if error is None:
                        times[place] = message.timestamp()[1]
        except KafkaException as error:
            raise self._failed(error, "the times of messages") from error
        finally:
            watcher.close()
        return None if any(at < 0 for at in times.values()) else times

    def commit(self, group: str, offsets: Mapping[Partition, int], options: Mapping[str, str]) -> None:
        """Commit positions to a consumer group that nobody reads with. Errors as :meth:`topics`."""
        consumer = made(Consumer, {**self._properties, **FETCHING, "group.id": group})
        try:
            consumer.commit(
                offsets=[TopicPartition(*p, offset) for p, offset in sorted(offsets.items())], asynchronous=False
            )
        except KafkaException as error:
            raise self._failed(error, f"offsets of the group {group}") from error
        finally:
            consumer.close()

    def _failed(self, error: KafkaException, what: str) -> TidemillError:
        """The error, or what the brokers said before, if that says why."""
        self._admin.poll(0)
        said = [e for e in self._said if refused(e)] or self._said[-1:]
        self._said.clear()
        timed_out = error.args and error.args[0].code() in (KafkaError._TRANSPORT, KafkaError._TIMED_OUT)
        return numbered(said[0] if said and timed_out else error, self.servers, what)


def _seconds(options: Mapping[str, str]) -> float:
    return REQUEST_TIMEOUT.of(options) / 1000
