"""One connection from its start to its end."""

from __future__ import annotations

import contextlib
import secrets
import socket
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from tidemill.errors import TidemillError
from tidemill.serve.logs.caller import CALLER, Caller
from tidemill.serve.logs.events import CONNECTION_REFUSED, REQUEST_FAILED
from tidemill.serve.logs.redaction import error_fields
from tidemill.serve.postgres.protocol import backend
from tidemill.serve.postgres.protocol.channel import Channel, ConnectionEndedError
from tidemill.serve.postgres.protocol.errors import failed
from tidemill.serve.postgres.query.answering import Answering
from tidemill.serve.postgres.session.cancellation import Cancellation
from tidemill.serve.postgres.session.commands import Client, Commands
from tidemill.serve.postgres.session.session import Session
from tidemill.serve.postgres.session.settings import ConnectionSettings, options_of
from tidemill.serve.postgres.session.transaction import Transaction
from tidemill.serve.postgres.start_up import START_SECONDS, CancelRequest, Started, authenticate, start_up
from tidemill.serve.service.service import Service

if TYPE_CHECKING:
    import ssl

_LINGER_SECONDS = 1.0
_NOT_SETTINGS = ("user", "database", "options", "replication")


class Connection:
    """A client, on a thread of its own.

    Attributes
    ----------
    process, secret : int
        What a client shows to cancel a statement of this connection.
    """

    def __init__(
        self, process: int, connection: socket.socket, address: str, service: Service, answering: Answering
    ) -> None:
        self.process, self.secret = process, secrets.randbits(32)
        self._address = address  # a socket whose client has gone again does not know it any more
        self.cancellation = Cancellation()
        self._socket = connection
        self._channel = Channel(connection, service.settings.max_body_bytes, service.settings.pg_stalled_seconds)
        self._service, self._answering = service, answering
        self._ending = False
        self._start_by: float | None = time.monotonic() + START_SECONDS

    def run(
        self, tls: ssl.SSLContext | None, cancel: Callable[[CancelRequest], None], refused: Callable[[], None]
    ) -> None:
        """Serve the client until it goes. Its mistakes are answered, and seen by nobody else.

        Parameters
        ----------
        cancel : callable
            Carries out a request to cancel.
        refused : callable
            Raises TM8105 when there are too many connections.
        """
        log = self._service.server_log
        caller = Caller("postgresql", self._address)
        CALLER.set(caller)  # of this thread
        try:
            started = start_up(self._socket, tls, self._service.settings, self._use)
            if isinstance(started, CancelRequest):
                cancel(started)
                return
            refused()
            self._serve(started, caller)
            if self._ending:
                raise _stopping()
        except ConnectionEndedError:
            if self._ending:
                self._tell(_stopping())
        except TidemillError as error:
            log.note(REQUEST_FAILED if caller.role else CONNECTION_REFUSED, **self._noted(caller, error))
            self._tell(_stopping() if self._ending else error)
        except Exception as error:
            log.broken("connection", error)
            self._tell(failed(error))
        finally:
            with contextlib.suppress(OSError):
                self._socket.close()

    @staticmethod
    def _noted(caller: Caller, error: TidemillError) -> dict[str, str]:
        return {**({"request": "connection"} if caller.role else {}), **error_fields(error)}

    def _use(self, connection: socket.socket) -> None:
        """Go on with this socket, which stands for the one before: encryption begins."""
        settings = self._service.settings
        self._socket = connection
        self._channel = Channel(connection, settings.max_body_bytes, settings.pg_stalled_seconds)

    def _serve(self, started: Started, caller: Caller) -> None:
        channel, parameters = self._channel, started.parameters
        if started.answer:
            channel.write(started.answer)
        role = authenticate(channel, self._service.tokens)
        caller.role = role.name.lower()
        self._start_by = None
        user = parameters["user"]
        client = Client(role, user, parameters.get("database") or user, self.process)
        settings = ConnectionSettings(self._service.time_zone, user)
        for name, value in options_of(parameters.get("options", "")):
            settings.start_value(name, value)
        for name, value in parameters.items():
            if name not in _NOT_SETTINGS and not name.startswith("_pq_."):
                settings.start_value(name, value)
        for name, value in settings.reported().items():
            channel.write(backend.parameter_status(name, value))
        channel.write(backend.key_data(self.process, self.secret))
        transaction = Transaction(self._service.mill.snapshot)
        commands = Commands(self._service, self._answering, client, settings, transaction, self.cancellation)
        limits = self._service.settings
        session = Session(channel, commands, limits.pg_stalled_seconds, limits.pg_statement_seconds)
        try:
            session.run()
        finally:
            session.close()

    def _tell(self, error: TidemillError) -> None:
        """Send a last error. The client may be gone already."""
        with contextlib.suppress(ConnectionEndedError):
            self._channel.write(backend.error(error, "FATAL"))
            self._channel.flush()
        end = time.monotonic() + _LINGER_SECONDS
        with contextlib.suppress(OSError):
            socket.socket.shutdown(self._socket, socket.SHUT_WR)
            while (seconds := end - time.monotonic()) > 0:
                self._socket.settimeout(seconds)
                if not self._socket.recv(1 << 16):  # unread bytes would make the system take back the error
                    return

    def tick(self) -> None:
        """End what takes too long: a statement, or the start. To be called several times a second."""
        self.cancellation.tick()
        start_by = self._start_by
        if start_by is not None and time.monotonic() > start_by:
            self._shut(socket.SHUT_RDWR)

    def end(self, at_once: bool = False) -> None:
        """Have it end soon, from another thread: its statement is cancelled; ``at_once`` also what it sends."""
        self._ending = True
        self.cancellation.cancel("the server is stopping")
        self._shut(socket.SHUT_RDWR if at_once else socket.SHUT_RD)

    def _shut(self, how: int) -> None:
        with contextlib.suppress(OSError):  # it is closed already
            socket.socket.shutdown(self._socket, how)  # that of ssl.SSLSocket would end encryption first


def _stopping() -> TidemillError:
    return TidemillError("TM8107", "the server is stopping", got="", hint="connect again when it has been started")
