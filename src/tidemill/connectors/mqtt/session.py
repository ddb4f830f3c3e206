"""A connection to a broker that keeps a session: what is not acknowledged is sent again, to whoever connects next."""

from __future__ import annotations

import select
import ssl
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn

from paho.mqtt.client import MQTT_CLEAN_START_FIRST_ONLY, Client, MQTTMessage, MQTTv5, MQTTv311, error_string
from paho.mqtt.enums import CallbackAPIVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties
from paho.mqtt.subscribeoptions import SubscribeOptions

from tidemill.connectors.mqtt.errors import bad_file, no_answer, refused
from tidemill.connectors.mqtt.options import (
    CA_FILE,
    CERT_FILE,
    KEEP_ALIVE,
    KEY_FILE,
    KEY_PASSWORD,
    QOS,
    TLS,
    USERNAME,
    VERSION,
    broker_of,
    host_of,
    port_of,
    topics_of,
)
from tidemill.connectors.shared_options import PASSWORD

_ANSWER_SECONDS = 10.0
_FOR_EVER = 0xFFFFFFFF
_MOST_UNACKNOWLEDGED = 1000
_ONLY_NEW = 1
"""Retained messages are sent when the subscription is new."""

_UNAVAILABLE = frozenset({"Server unavailable", "Server busy", "Connection rate exceeded"})


class Session:
    """One connection, used by one thread. It is closed after any error.

    Parameters
    ----------
    options : mapping
        Of a table, with names in lower case.
    client_id : str
    receive : callable
        Given each message that comes; it is to be acknowledged with :meth:`acknowledge`, unless its QoS is 0.
    """

    def __init__(self, options: Mapping[str, str], client_id: str, receive: Callable[[MQTTMessage], None]) -> None:
        self._options = options
        self._where = broker_of(options)
        self._client_id = client_id
        self._newest = VERSION.of(options) == "5"
        self._questions = 0
        self._present: bool | None = None
        self._granted: Sequence[Any] | None = None
        self._refused = self._lost = ""
        self._receive = receive

    def open(self, clean: bool = False) -> bool:
        """Connect.

        Parameters
        ----------
        clean : bool
            The broker forgets the session that there was, and has none when this connection ends.

        Returns
        -------
        bool
            Whether the broker had the session.

        Raises
        ------
        TidemillError
            TM5120 to TM5122.
        """
        options = self._options
        self._client = client = Client(
            CallbackAPIVersion.VERSION2,
            self._client_id,
            clean_session=None if self._newest else clean,
            protocol=MQTTv5 if self._newest else MQTTv311,
            reconnect_on_failure=False,
            manual_ack=True,
        )
        client.on_connect, client.on_disconnect = self._connected, self._disconnected
        client.on_subscribe, client.on_unsubscribe = self._subscribed, self._unsubscribed
        client.on_message = self._came
        if USERNAME.of(options):
            client.username_pw_set(USERNAME.of(options), PASSWORD.of(options) or None)
        if TLS.of(options):
            client.tls_set_context(self._context())
        start = clean if self._newest else MQTT_CLEAN_START_FIRST_ONLY
        properties = self._properties(clean) if self._newest else None
        where = host_of(options), port_of(options), KEEP_ALIVE.of(options)
        try:
            client.connect(*where, clean_start=start, properties=properties)
        except (OSError, ValueError) as error:
            raise no_answer(self._where, str(error) or type(error).__name__) from error
        self._await(lambda: self._present is not None, "it did not accept the connection")
        return bool(self._present)

    def _properties(self, clean: bool) -> Properties:
        properties = Properties(PacketTypes.CONNECT)  # type: ignore[no-untyped-call]
        properties.SessionExpiryInterval = 0 if clean else _FOR_EVER
        properties.ReceiveMaximum = _MOST_UNACKNOWLEDGED
        return properties

    def _context(self) -> ssl.SSLContext:
        options = self._options
        try:
            context = ssl.create_default_context(cafile=CA_FILE.of(options) or None)
            if CERT_FILE.of(options):
                password = KEY_PASSWORD.of(options)
                context.load_cert_chain(CERT_FILE.of(options), KEY_FILE.of(options) or None, lambda: password)
        except OSError as error:
            raise bad_file(self._where, error) from error
        return context

    def subscribe(self) -> None:
        """Subscribe to the topics; with MQTT 3.1.1 their retained messages are sent again. TM5121 when it may not."""
        qos, topics = QOS.of(self._options), topics_of(self._options)
        given: Any = [(t, SubscribeOptions(qos, retainHandling=_ONLY_NEW) if self._newest else qos) for t in topics]
        self._client.subscribe(given)
        self._await(lambda: self._granted is not None, "it did not answer the subscription")
        for topic, code in zip(topics, self._granted or (), strict=True):
            if code.is_failure or code.value < qos:
                raise refused(self._where, f"topic {topic}: {code}")

    def ask(self) -> None:
        """Ask for something that the broker answers behind all that it has sent."""
        self._questions += 1
        self._client.unsubscribe("tidemill/nothing")  # the one request that has no effect

    @property
    def asked(self) -> bool:
        """Whether a question has not been answered yet."""
        return self._questions > 0

    def acknowledge(self, messages: Sequence[tuple[int, int]]) -> None:
        """The broker may forget messages, by number and QoS."""
        for number, qos in messages:
            self._client.ack(number, qos)

    def proceed(self, seconds: float) -> None:
        """Take what the broker sends: at most one packet, which may take some seconds to come.

        Raises
        ------
        TidemillError
            TM5120 when the connection has ended, TM5121 when it was refused.
        """
        client = self._client
        connection: Any = client.socket()
        if connection is None:
            self._fail("the connection was closed")
        poller = select.poll()  # paho's own loop cannot have more than 1,024 files open
        poller.register(connection, select.POLLIN | (select.POLLOUT if client.want_write() else 0))
        there = hasattr(connection, "pending") and connection.pending() > 0
        events = dict(poller.poll(0 if there else int(seconds * 1000)))
        happened = events.get(connection.fileno(), 0)
        code = client.loop_read() if there or happened & ~select.POLLOUT else 0
        if not code and client.want_write():
            code = client.loop_write()
        code = code or client.loop_misc()
        if code or self._refused:
            self._fail(error_string(code))

    def _await(self, condition: Callable[[], bool], what: str) -> None:
        until = time.monotonic() + _ANSWER_SECONDS
        while not condition():
            if time.monotonic() > until:
                raise no_answer(self._where, f"{what} within {_ANSWER_SECONDS:g} s")
            self.proceed(0.1)

    def _fail(self, said: str) -> NoReturn:
        if self._refused and self._refused not in _UNAVAILABLE:
            raise refused(self._where, self._refused)
        raise no_answer(self._where, self._refused or self._lost or said)

    def finish(self) -> None:
        """Wait until the broker has all acknowledgements: closing a connection with unread bytes can lose them.

        What it sends meanwhile is left out, and is sent again.
        """
        self._receive = lambda _: None
        self.ask()
        self._await(lambda: not self.asked, "it did not take all acknowledgements")

    def close(self) -> None:
        """Disconnect; the broker keeps the session, unless it was opened as a clean one. May be called twice."""
        self._client.disconnect()
        connection = self._client.socket()
        if connection is not None:  # it could not be written to
            connection.close()

    # -- what the client calls ----------------------------------------------------------------------

    def _connected(self, _: Client, __: Any, flags: Any, reason: Any, ___: Any) -> None:
        if reason.is_failure:
            self._refused = str(reason)
        else:
            self._present = bool(flags.session_present)

    def _disconnected(self, _: Client, __: Any, flags: Any, reason: Any, ___: Any) -> None:
        if flags.is_disconnect_packet_from_server:
            self._lost = str(reason)

    def _subscribed(self, _: Client, __: Any, ___: int, reasons: Sequence[Any], ____: Any) -> None:
        self._granted = reasons

    def _unsubscribed(self, _: Client, __: Any, ___: int, ____: Any, _____: Any) -> None:
        self._questions -= 1

    def _came(self, _: Client, __: Any, message: MQTTMessage) -> None:
        self._receive(message)


def end_session(options: Mapping[str, str], client_id: str) -> None:
    """Let the broker forget a session, if it has it. Errors as :meth:`Session.open`."""
    session = Session(options, client_id, lambda _: None)
    session.open(clean=True)
    session.close()
