"""Options of tables ``USING kafka``: Spark's names, with librdkafka's properties behind ``kafka.``."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tidemill.connectors.shared_options import TIMESTAMP_COLUMN, TOPIC_COLUMN, VALUE_FORMAT, column_option
from tidemill.errors import nearest
from tidemill.options.kinds import FLAG, SIZE, TEXT, number
from tidemill.options.option import Kind, Option, OptionGroup, bad_option

PREFIX = "kafka."
"""Options that begin so are properties of the client."""

EARLIEST, LATEST = -2, -1
"""Stand for the first offset of a partition that there is, and for the next one that will be written."""

_TOPIC = re.compile(r"[A-Za-z0-9._-]{1,249}")
_WORDS = {"earliest": EARLIEST, "latest": LATEST}

Offsets = dict[str, dict[int, int]]
"""Offsets by topic and partition."""


_MOST_OFFSET = 1 << 54
"""So that a position, which counts each offset as some bytes, has 64 bits."""
_LAST_MILLISECOND = 253_402_300_799_999


def _topics(text: str) -> tuple[str, ...]:
    found = tuple(sorted({part.strip() for part in text.split(",")}))
    if not all(_TOPIC.fullmatch(name) for name in found):
        raise ValueError
    return found


def _pattern(text: str) -> re.Pattern[str]:
    if not text:
        raise ValueError
    try:
        return re.compile(text)
    except re.error as error:
        raise ValueError(f"a regular expression: {error}") from error


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError as error:
        raise ValueError(f"not JSON: {error}") from error


def _assigned(text: str) -> dict[str, tuple[int, ...]]:
    found = _json(text)
    if not isinstance(found, dict) or not found:
        raise ValueError
    for topic, partitions in found.items():
        whole = isinstance(partitions, list) and partitions and all(type(p) is int and p >= 0 for p in partitions)
        if not _TOPIC.fullmatch(topic) or not whole:
            raise ValueError
    return {topic: tuple(sorted(set(partitions))) for topic, partitions in found.items()}


def _offsets(text: str, words: tuple[str, ...]) -> int | Offsets:
    if text.strip().lower() in words:
        return _WORDS[text.strip().lower()]
    if not text.lstrip().startswith("{"):
        raise ValueError
    found = _json(text)
    offsets: Offsets = {}
    for topic, partitions in found.items():
        if not _TOPIC.fullmatch(topic) or not isinstance(partitions, dict):
            raise ValueError
        for partition, offset in partitions.items():
            number_ = int(partition) if partition.isascii() and partition.isdigit() else -1
            if partition != str(number_) or type(offset) is not int or not EARLIEST <= offset < _MOST_OFFSET:
                raise ValueError
            if offset == EARLIEST and "earliest" not in words:
                raise ValueError("-1 for the newest offset, or a number from 0 on")
            offsets.setdefault(topic, {})[number_] = offset
    return offsets


_BY_PARTITION = """JSON such as {"topic": {"0": 23, "1": -1}} (-1 is latest, -2 earliest)"""

BOOTSTRAP = Option(
    "kafka.bootstrap.servers", TEXT, None, "brokers to ask first: `host:port`, separated by commas", alterable=True
)
SUBSCRIBE = Option("subscribe", Kind("names of topics, separated by commas", _topics), None, "the topics that are read")
SUBSCRIBE_PATTERN = Option(
    "subscribePattern",
    Kind("a regular expression", _pattern),
    None,
    "all topics are read whose whole names match, also those that appear later",
)
ASSIGN = Option(
    "assign", Kind("""JSON such as {"topic": [0, 1]}""", _assigned), None, "the partitions that are read, no others"
)
STARTING_OFFSETS = Option(
    "startingOffsets",
    Kind(f"earliest, latest or {_BY_PARTITION}", lambda text: _offsets(text, ("earliest", "latest"))),
    LATEST,
    "where the partitions begin that are there when the table is created; later ones begin with their first message",
    shown="latest",
)
STARTING_TIMESTAMP = Option(
    "startingTimestamp",
    number(0, _LAST_MILLISECOND),
    None,
    "milliseconds since 1970: partitions begin with the first message that is not older; instead of `startingOffsets`",
)
ENDING_OFFSETS = Option(
    "endingOffsets",
    Kind("""latest or JSON such as {"topic": {"0": 99, "1": -1}}""", lambda text: _offsets(text, ("latest",))),
    None,
    "where the table ends: no message from there on is read, and no partition that appears later",
)
MAX_OFFSETS = Option(
    "maxOffsetsPerTrigger", SIZE, None, "at most so many offsets of the table in an epoch", alterable=True
)
MIN_PARTITIONS = Option(
    "minPartitions", number(1, 10_000), None, "into how many parts an epoch is cut at least", alterable=True
)
FAIL_ON_DATA_LOSS = Option(
    "failOnDataLoss",
    FLAG,
    True,
    "messages that are gone before they were read hold their partition up (TM5093); else they count as one malformed "
    "row, `lost_messages`",
    alterable=True,
)
INCLUDE_HEADERS = Option("includeHeaders", FLAG, False, "without declared columns: whether `headers` is one of them")
POLL_TIMEOUT = Option(
    "kafkaConsumer.pollTimeoutMs",
    number(100, 3_600_000),
    120_000,
    "milliseconds that a task waits for the next message that should be there",
    alterable=True,
)
REQUEST_TIMEOUT = Option(
    "kafkaRequestTimeoutMs", number(100, 3_600_000), 15_000, "milliseconds that listing may take", alterable=True
)
GROUP = Option(
    "kafka.group.id",
    TEXT,
    None,
    "a consumer group to which positions are committed once they cannot be lost, for tools that show lag; nothing is "
    "read from it",
)
SECRETS = tuple(
    Option(
        f"{PREFIX}{name}", TEXT, None, summary, f"`{PREFIX.upper()[:-1]}_{name.upper().replace('.', '_')}`", True, True
    )
    for name, summary in (
        ("sasl.password", "the password for SASL"),
        ("ssl.key.password", "the password of the private key"),
        ("ssl.key.pem", "the private key"),
        ("ssl.keystore.password", "the password of the PKCS#12 file"),
        ("sasl.oauthbearer.client.secret", "the secret for OAuth"),
    )
)
CLIENT = Option(
    "kafka.*",
    TEXT,
    None,
    "properties of librdkafka: `kafka.security.protocol`, `kafka.sasl.mechanism`, `kafka.sasl.username`, "
    "`kafka.ssl.ca.location`, `kafka.isolation.level`",
)

CONNECTION = (BOOTSTRAP, POLL_TIMEOUT, REQUEST_TIMEOUT, GROUP, *SECRETS, CLIENT)
SUBSCRIPTION = (SUBSCRIBE, SUBSCRIBE_PATTERN, ASSIGN, STARTING_OFFSETS, STARTING_TIMESTAMP, ENDING_OFFSETS)
LIMITS = (MAX_OFFSETS, MIN_PARTITIONS, FAIL_ON_DATA_LOSS, INCLUDE_HEADERS)

_OWN = {"bootstrap.servers", "group.id"}
_PROPERTIES = frozenset(
    [
        "broker.address.family",
        "client.dns.lookup",
        "client.id",
        "client.rack",
        "connections.max.idle.ms",
        "isolation.level",
        "security.protocol",
        "sasl.mechanism",
        "sasl.mechanisms",
        "sasl.username",
        "sasl.password",
        "sasl.kerberos.service.name",
        "sasl.kerberos.principal",
        "sasl.oauthbearer.method",
        "sasl.oauthbearer.client.id",
        "sasl.oauthbearer.client.secret",
        "sasl.oauthbearer.scope",
        "sasl.oauthbearer.extensions",
        "sasl.oauthbearer.token.endpoint.url",
        "ssl.ca.location",
        "ssl.ca.pem",
        "ssl.certificate.location",
        "ssl.certificate.pem",
        "ssl.key.location",
        "ssl.key.pem",
        "ssl.key.password",
        "ssl.keystore.location",
        "ssl.keystore.password",
        "ssl.crl.location",
        "ssl.cipher.suites",
        "ssl.endpoint.identification.algorithm",
        "enable.ssl.certificate.verification",
        "socket.timeout.ms",
        "socket.connection.setup.timeout.ms",
        "socket.nagle.disable",
        "socket.send.buffer.bytes",
        "socket.receive.buffer.bytes",
        "reconnect.backoff.ms",
        "reconnect.backoff.max.ms",
        "retry.backoff.ms",
        "fetch.message.max.bytes",
        "max.partition.fetch.bytes",
        "fetch.max.bytes",
        "receive.message.max.bytes",
        "message.max.bytes",
        "queued.min.messages",
        "queued.max.messages.kbytes",
        "check.crcs",
        "metadata.max.age.ms",
        "compression.type",
        "compression.codec",
        "linger.ms",
        "batch.size",
        "request.timeout.ms",
        "delivery.timeout.ms",
        "message.timeout.ms",
        "transaction.timeout.ms",
    ]
)
"""Properties that may be given. Others could load code, reach other brokers than those named, or change what counts."""

FILE_PROPERTIES = ("ssl.ca.location", "ssl.certificate.location", "ssl.key.location", "ssl.keystore.location",
                   "ssl.crl.location")  # fmt: skip
TOKEN_URL = "sasl.oauthbearer.token.endpoint.url"

_GIVEN_BY_TIDEMILL = {
    "group.instance.id",
    "enable.auto.commit",
    "enable.auto.offset.store",
    "auto.offset.reset",
    "enable.partition.eof",
    "transactional.id",
    "key.deserializer",
    "value.deserializer",
}


@dataclass(frozen=True)
class Subscription:
    """Which partitions a table reads. Exactly one of the three is given."""

    topics: tuple[str, ...] | None = None
    pattern: re.Pattern[str] | None = None
    assigned: tuple[tuple[str, tuple[int, ...]], ...] | None = None

    @property
    def path(self) -> str:
        """As the path of a table."""
        if self.pattern is not None:
            return f"kafka://{self.pattern.pattern}"
        return f"kafka://{','.join(self.topics or (t for t, _ in self.assigned or ()))}"


def parse_subscription(options: Mapping[str, str]) -> Subscription:
    """The subscription that options give; their names are in lower case.

    Raises
    ------
    TidemillError
        TM4003 when not exactly one of the three is given, or its value is bad.
    """
    given = [option for option in (SUBSCRIBE, SUBSCRIBE_PATTERN, ASSIGN) if option.key in options]
    if len(given) != 1:
        names = ", ".join(o.name for o in given) or "none"
        raise bad_option("subscribe", names, "exactly one of subscribe, subscribePattern and assign")
    assigned = ASSIGN.of(options)
    return Subscription(
        SUBSCRIBE.of(options),
        SUBSCRIBE_PATTERN.of(options),
        None if assigned is None else tuple(sorted(assigned.items())),
    )


def client_properties(options: Mapping[str, str]) -> dict[str, str]:
    """Properties of the client that options and the environment give.

    Raises
    ------
    TidemillError
        TM4003 for those that Tidemill decides, and those that only Java's client has.
    """
    servers = BOOTSTRAP.of(options)
    if not (servers or "").strip():
        raise bad_option(BOOTSTRAP.name, "", "host:port of a broker, more of them separated by commas")
    found = {"bootstrap.servers": str(servers)}
    for name, value in options.items():
        if not name.startswith(PREFIX) or name.removeprefix(PREFIX) in _OWN:
            continue
        inner = name.removeprefix(PREFIX)
        if inner in _GIVEN_BY_TIDEMILL:
            raise bad_option(name, value, "leave it out: positions are kept with the views, not in the group")
        if inner in ("sasl.jaas.config", "ssl.truststore.location", "ssl.truststore.password"):
            hint = "kafka.sasl.username and kafka.sasl.password" if "jaas" in inner else "kafka.ssl.ca.location"
            raise bad_option(name, "***", f"that is a property of Java's client; {hint}")
        if inner not in _PROPERTIES:
            hint = nearest(name, [f"{PREFIX}{known}" for known in sorted(_PROPERTIES)])
            raise bad_option(name, value, f"{hint}; docs/kafka.md has all that may be given")
        found[inner] = value
    for option in SECRETS:
        if option.key not in options and option.shown.strip("`") in os.environ:
            found[option.name.removeprefix(PREFIX)] = os.environ[option.shown.strip("`")]
    return found


COLUMNS: Mapping[str, Option[str | None]] = {
    "key": column_option("key", "key of a message, BINARY or STRING"),
    "topic": TOPIC_COLUMN,
    "partition": column_option("partition", "partition of a message, INT"),
    "offset": column_option("offset", "offset of a message, BIGINT"),
    "timestamp": TIMESTAMP_COLUMN,
    "headers": column_option("headers", "headers of a message, ARRAY<STRUCT<key: STRING, value: BINARY>>"),
}

KAFKA_OPTIONS = OptionGroup(
    "Kafka",
    "Tables `USING kafka`. See [Kafka](kafka.md).",
    (*CONNECTION, *SUBSCRIPTION, *LIMITS, VALUE_FORMAT, *COLUMNS.values()),
)


def of_kafka(options: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    """Those of a table's options that say which messages these are, and how they are reached; in one order."""
    chosen = (*CONNECTION, *SUBSCRIPTION, FAIL_ON_DATA_LOSS)
    names = {option.key for option in chosen}
    return tuple(sorted((n, v) for n, v in options.items() if n in names or n.startswith(PREFIX)))


def check_kafka_options(options: Mapping[str, str]) -> None:
    """TM4003 for a bad value of any option of a table; names in lower case."""
    for option in KAFKA_OPTIONS.options:
        option.of(options)
    client_properties(options)


def places_of(options: Mapping[str, str]) -> list[str]:
    """Files and servers that properties name, beside the brokers."""
    return [options[name] for n in (*FILE_PROPERTIES, TOKEN_URL) if (name := f"{PREFIX}{n}") in options]
