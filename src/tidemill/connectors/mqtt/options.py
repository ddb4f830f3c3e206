"""Options of tables USING mqtt."""

from __future__ import annotations

from collections.abc import Mapping

from tidemill.connectors.shared_options import PASSWORD, TIMESTAMP_COLUMN, TOPIC_COLUMN, VALUE_FORMAT, column_option
from tidemill.options.kinds import FLAG, TEXT, choice, number, read_interval, size
from tidemill.options.option import Kind, Option, OptionGroup
from tidemill.options.tables import RETAIN_BYTES

_MOST_TOPIC = 65535
_PORT, _PORT_TLS = 1883, 8883


def _host(text: str) -> str:
    if not text.strip() or any(c in text for c in "/ \t\n@"):
        raise ValueError
    return text.strip()


def _topics(text: str) -> tuple[str, ...]:
    found = tuple(dict.fromkeys(part.strip() for part in text.split(",")))
    for topic in found:
        *before, last = topic.split("/")
        if not topic or "\0" in topic or len(topic.encode()) > _MOST_TOPIC:
            raise ValueError
        if any("#" in part for part in before) or any("+" in part and part != "+" for part in (*before, last)):
            raise ValueError(f"{topic}: + stands for one whole level, # for all from the last level on")
        if "#" in last and last != "#":
            raise ValueError(f"{topic}: # is a whole level, the last one")
    return found


def _qos(text: str) -> int:
    if text == "2":
        raise ValueError("0 or 1: a message that is published with QoS 2 then comes with QoS 1; see docs/mqtt.md")
    if text not in ("0", "1"):
        raise ValueError
    return int(text)


def _seconds(text: str) -> int:
    seconds = read_interval(text) // 1_000_000
    if not 1 <= seconds <= 65535:
        raise ValueError("from 1 to 65535 seconds")
    return seconds


def _client_id(text: str) -> str:
    if not text or not text.isprintable() or len(text.encode()) > _MOST_TOPIC:
        raise ValueError
    return text


HOST: Option[str | None] = Option("host", Kind("the name or address of a host", _host), None, "the broker")
PORT: Option[int | None] = Option("port", number(1, 65535), None, "its port", "1883, with `tls` 8883")
TOPICS: Option[tuple[str, ...] | None] = Option(
    "topics",
    Kind("topic filters, separated by commas", _topics),
    None,
    "which messages: `+` stands for one level of a topic, `#` for all that follow",
)
QOS = Option("qos", Kind("0 or 1", _qos), 1, "of the subscription: with 0 messages are lost when anything stops")
CLIENT_ID: Option[str] = Option(
    "clientId",
    Kind("a text without control characters, not empty", _client_id),
    "",
    "the name of the session, which no other client may have",
    "`tidemill` and a digest of the root and the table",
)
USERNAME = Option("username", TEXT, "", "the name of the user", "none", alterable=True)
TLS = Option("tls", FLAG, False, "whether the connection is encrypted")
CA_FILE = Option("caFile", TEXT, "", "with `tls`: PEM file of the authorities that are trusted", "those of the system")
CERT_FILE = Option("certFile", TEXT, "", "with `tls`: PEM file of the client's certificate", "none")
KEY_FILE = Option("keyFile", TEXT, "", "with `certFile`: PEM file of its key", "`certFile` has it")
KEY_PASSWORD = Option("keyPassword", TEXT, "", "the password of the key", "none", alterable=True, secret=True)
KEEP_ALIVE = Option(
    "keepAlive", Kind("an interval such as '60s'", _seconds), 60, "how long nothing may be sent", shown="60s"
)
VERSION = Option("protocolVersion", choice("5", "3.1.1"), "5", "of MQTT")
SPOOL_BYTES = Option(
    "maxSpoolBytes", size(least="1m"), 1 << 30, "how much may wait to be read, before the mill disconnects", shown="1g"
)

COLUMNS: Mapping[str, Option[str | None]] = {
    "topic": TOPIC_COLUMN,
    "received": TIMESTAMP_COLUMN,
    "qos": column_option("qos", "QoS with which a message came, INT"),
    "retain": column_option("retain", "flag of retained messages, BOOLEAN"),
}
"""By part of a message, the option that names its column."""

_FILES = (CA_FILE, CERT_FILE, KEY_FILE)
_CONNECTION = (HOST, PORT, TOPICS, QOS, CLIENT_ID, USERNAME, PASSWORD, TLS, *_FILES, KEY_PASSWORD, KEEP_ALIVE, VERSION)
MQTT_OPTIONS = OptionGroup(
    "MQTT",
    "Tables `USING mqtt`. See [MQTT](mqtt.md).",
    (*_CONNECTION, SPOOL_BYTES, RETAIN_BYTES, VALUE_FORMAT, *COLUMNS.values()),
)
VALUE_KEYS = frozenset({VALUE_FORMAT.key, *(option.key for option in COLUMNS.values())})
"""Options that say what becomes of messages: tasks need no others of the group."""


def check_mqtt_options(options: Mapping[str, str]) -> None:
    """TM4003 for a bad value of any option of a table, and for those that are missing; names in lower case."""
    for option in MQTT_OPTIONS.options:
        option.of(options)
    for required in (HOST, TOPICS):
        if required.key not in options:
            raise required.bad("none", f"{required.kind.wanted}: a table USING mqtt needs host and topics")
    for needed, others in ((TLS, _FILES), (CERT_FILE, (KEY_FILE, KEY_PASSWORD)), (USERNAME, (PASSWORD,))):
        for option in others:
            if option.of(options) and not needed.of(options):
                raise option.bad(options[option.key], f"only with {needed.name}")


def port_of(options: Mapping[str, str]) -> int:
    """The port of the broker; names in lower case."""
    return PORT.of(options) or (_PORT_TLS if TLS.of(options) else _PORT)


def host_of(options: Mapping[str, str]) -> str:
    """The host of the broker; names in lower case."""
    return HOST.of(options) or ""


def topics_of(options: Mapping[str, str]) -> tuple[str, ...]:
    """The topic filters; names in lower case."""
    return TOPICS.of(options) or ()


def broker_of(options: Mapping[str, str]) -> str:
    """The broker, as a URL; names in lower case."""
    return f"mqtt://{host_of(options)}:{port_of(options)}"


def brokers_of(options: Mapping[str, str]) -> list[str]:
    """The broker that options name, as a URL, and the files; none for those of other tables. Names in lower case."""
    if HOST.key not in options or TOPICS.key not in options:
        return []
    return [broker_of(options), *(options[option.key] for option in _FILES if option.key in options)]
