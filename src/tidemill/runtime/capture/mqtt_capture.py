"""Receives the messages of one table from an MQTT broker, into a spool of the root.

Messages are acknowledged when the spool has been synced. What is not acknowledged the broker sends again, so that each
message of QoS 1 is there; one that was in the spool when the mill or the connection ended, and not acknowledged, comes
twice.
"""

from __future__ import annotations

import time

from paho.mqtt.client import MQTTMessage

from tidemill.connectors.mqtt.errors import forgotten, left_over, no_answer
from tidemill.connectors.mqtt.options import CLIENT_ID, SPOOL_BYTES, broker_of
from tidemill.connectors.mqtt.records import record_of
from tidemill.connectors.mqtt.session import Session, end_session
from tidemill.errors import TidemillError
from tidemill.runtime.capture.capture import Capture, StoppedError, unwritable
from tidemill.runtime.tables.table import Table
from tidemill.sources.sockets.spool import Spool

_CLAIM = "session.id"
_BATCH_BYTES, _BATCH_SECONDS = 1 << 20, 0.1
"""When messages are appended: by their bytes, or by how long the first one has waited; or when no other is there."""

_RECEIVE_SECONDS, _MORE_SECONDS = 0.05, 0.002
_QUIET_SECONDS, _MOST_SECONDS = 0.2, 30.0
"""All has come when nothing has come for so long; or so long after somebody asked, where more comes all the time."""


class MqttCapture(Capture):
    """One thread that receives the messages of a table.

    Parameters
    ----------
    table : Table
    spool : Spool
    default_client : str
        The client's name, unless an option gives it.
    """

    def __init__(self, table: Table, spool: Spool, default_client: str) -> None:
        super().__init__(table, spool)
        self._default = default_client
        self._records: list[bytes] = []
        self._numbers: list[tuple[int, int]] = []
        self._bytes = self._received = 0
        self._connected = False
        self._answered = 0
        self._question: tuple[int, int, float, float] | None = None

    # -- for other threads --------------------------------------------------------------------------

    def begun(self, seconds: float) -> None:
        """Wait until the table is subscribed. TM5120 to TM5122 when that fails."""
        until = time.monotonic() + seconds
        with self._state:
            while not self._connected:
                self._check(until)

    def wait(self, seconds: float) -> bool:
        """Wait until the broker has sent nothing for a moment, of what it has for the session.

        Returns
        -------
        bool
            False when too much waits to be read, so that not all was received.

        Raises
        ------
        TidemillError
            TM5120 to TM5122, TM5116: why nothing is received now.
        """
        until = time.monotonic() + seconds
        with self._state:
            self._asked += 1
            asked, self._error = self._asked, None
            self._woken.set()
            while self._answered < asked:
                if self._waits():
                    return False
                self._check(until)
            return True

    def _check(self, until: float) -> None:
        """Wait for news; raises the error that they are."""
        if self._error is not None:
            raise self._error
        if time.monotonic() >= until:
            raise no_answer(self._where, "it took too long")
        self._state.wait(0.1)

    def drop(self) -> None:
        """Let the broker forget the session; after :meth:`close`. TM5124 when that failed."""
        client = self._claimed
        if not client:
            return
        try:
            end_session(self.table.options, client)
        except TidemillError as error:
            raise left_over(self._where, client, error.got) from error

    # -- the thread ---------------------------------------------------------------------------------

    @property
    def _most_unread(self) -> int:
        return SPOOL_BYTES.of(self.table.options)

    @property
    def _where(self) -> str:
        return broker_of(self.table.options)

    def _unexpected(self, what: str) -> TidemillError:
        return no_answer(self._where, what)

    @property
    def _claimed(self) -> str:
        """The client whose session is that of this spool; empty before there was one."""
        claim = self._spool.directory / _CLAIM
        return claim.read_text() if claim.exists() else ""

    def _claim(self, client: str) -> None:
        """Note the client before it has a session, so that one that was there before is not taken for it."""
        end_session(self.table.options, client)
        staged = self._spool.directory / f".{_CLAIM}"
        try:
            staged.write_text(client)
            staged.replace(self._spool.directory / _CLAIM)
        except OSError as error:
            raise unwritable(self._spool, error) from error

    def _follow(self) -> None:
        """Receive until the thread is to end, there is no room, or something goes wrong."""
        options, known = self.table.options, self._claimed
        client = known or CLIENT_ID.of(options) or self._default
        if not known:
            self._claim(client)
        session = Session(options, client, self._take)
        try:
            if not session.open() and known:
                with self._state:
                    self._warnings.append(forgotten(self._where, client).message())
            session.subscribe()
            self._question = None
            with self._state:
                self._error, self._warned, self._pause, self._connected = None, "", 0.0, True
                self._state.notify_all()
            while not self._ended.is_set() and not self._waits():
                self._receive(session)
                self._settle(session)
            session.finish()
        finally:
            self._forget()
            session.close()
        if self._ended.is_set():
            raise StoppedError

    def _take(self, message: MQTTMessage) -> None:
        now = time.time_ns() // 1000
        record = record_of(message.topic, bytes(message.payload), message.qos, message.retain, now)
        self._records.append(record)
        self._bytes += len(record)
        self._received += 1
        if message.qos:
            self._numbers.append((message.mid, message.qos))

    def _receive(self, session: Session) -> None:
        """Take over what there is now, or comes within some milliseconds."""
        session.proceed(_RECEIVE_SECONDS)
        until = time.monotonic() + _BATCH_SECONDS
        before = -1
        while before < self._received and self._bytes < _BATCH_BYTES and time.monotonic() < until:
            before = self._received
            session.proceed(_MORE_SECONDS)
        if not self._records:
            return
        try:
            self._spool.append(b"".join(self._records))
            if self._numbers:
                self._spool.sync()
        except OSError as error:
            raise unwritable(self._spool, error) from error
        numbers = self._numbers
        self._forget()
        session.acknowledge(numbers)

    def _forget(self) -> None:
        """Forget messages that were collected."""
        self._records, self._numbers, self._bytes = [], [], 0

    def _settle(self, session: Session) -> None:
        """Say that all has come, once the broker has answered a question behind which nothing came."""
        now = time.monotonic()
        if session.asked and self._question is not None and now - self._question[2] > _MOST_SECONDS:
            raise no_answer(self._where, f"nothing was answered within {_MOST_SECONDS:g} s")
        if self._answered == self._asked or session.asked:
            return
        if self._question is None:
            self._question = (self._asked, self._received, now, now)
            session.ask()
            return
        asked, received, since, begun = self._question
        if (received == self._received and now - since >= _QUIET_SECONDS) or now - begun >= _MOST_SECONDS:
            with self._state:
                self._answered, self._question = asked, None
                self._state.notify_all()
        elif received != self._received:
            self._question = (asked, self._received, now, begun)
            session.ask()
