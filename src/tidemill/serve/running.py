"""Runs a server until a signal stops it."""

from __future__ import annotations

import contextlib
import importlib.util
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from functools import partial
from types import FrameType
from typing import TYPE_CHECKING

import pyarrow as pa
import uvicorn

import tidemill
from tidemill.errors import TidemillError
from tidemill.mill import Mill
from tidemill.runtime.spark.session import java_ended, java_process_has_ended
from tidemill.serve.access.certificate_watch import CertificateWatch
from tidemill.serve.access.settings import ServerSettings
from tidemill.serve.http.app import application
from tidemill.serve.http.inspection.routers import ROUTERS
from tidemill.serve.http.middleware.patience import PatientProtocol
from tidemill.serve.logs.events import JAVA_ENDED, SERVER_STARTED, SERVER_STOPPING
from tidemill.serve.service.service import Service
from tidemill.serve.stored.addresses import remove_addresses, write_addresses
from tidemill.serve.traces.exporting import start_traces

if TYPE_CHECKING:
    from tidemill.serve.flight.server import FlightServer
    from tidemill.serve.postgres.listener import PostgresListener

_JAVA_SECONDS = 1.0
"""Between two looks at whether Java still runs."""
_KEEP_ALIVE_SECONDS = 75
"""Seconds after which a connection without requests is ended. Clients keep theirs for less, the Python client for 5
seconds: one that sends a request while the server ends its connection cannot know whether it was executed."""
_SWITCH_SECONDS = 0.0005
"""Python's switch interval while a server runs.

A call into Arrow gives up Python's lock, and a thread that wants it back waits this long for one that computes: with
the usual 5 ms, hundreds of subscribers fell seconds behind the epochs."""


class Server:
    """The listeners of one service. Enter it to listen, and leave it to end all connections.

    Attributes
    ----------
    addresses : dict
        Protocol to URL.
    """

    def __init__(self, service: Service) -> None:
        self.service = service
        self.addresses: dict[str, str] = {}
        self._app = application(service, ROUTERS)
        settings = service.settings
        self._socket = _listening(settings.host, settings.port)
        config = uvicorn.Config(
            self._app,
            log_config=None,  # it would enable loggers that are disabled
            log_level=service.server_log.library_level,
            http=partial(PatientProtocol, settings.max_connections),  # type: ignore[arg-type]
            access_log=False,
            server_header=False,
            timeout_graceful_shutdown=5,
            timeout_keep_alive=_KEEP_ALIVE_SECONDS,
            ssl_certfile=settings.tls_certificate or None,
            ssl_keyfile=settings.tls_key or None,
            h11_max_incomplete_event_size=64 << 10,
            ws_max_size=settings.max_body_bytes,
        )
        self._http = _Uvicorn(config)
        self._thread: threading.Thread | None = None
        self._flight: FlightServer | None = None
        self._postgres = None if settings.pg_port is None else _postgres_listener(service, settings.pg_port)

    def __enter__(self) -> Server:
        settings = self.service.settings
        scheme = "https" if settings.tls_certificate else "http"
        host, port = self._socket.getsockname()[:2]
        shown = f"[{host}]" if ":" in host else host
        self.addresses["http"] = f"{scheme}://{shown}:{port}"
        self._thread = threading.Thread(target=self._http.run, args=([self._socket],), name="serve-http", daemon=True)
        self._thread.start()
        while not self._http.begun.wait(0.1):
            if not self._thread.is_alive():  # it has told its log why
                raise RuntimeError("HTTP could not be started")
        if settings.flight_port is not None:
            self._flight = _flight_server(self.service)
            scheme = "grpc+tls" if settings.tls_certificate else "grpc"
            self.addresses["flight"] = f"{scheme}://{shown}:{self._flight.port}"
        if self._postgres is not None:
            self._postgres.start()
            port = self._postgres.port
            self.addresses["postgresql"] = f"postgresql://{shown}:{port}/tidemill"
        write_addresses(self.service.mill.root, self.addresses)
        return self

    def __exit__(self, *_: object) -> None:
        remove_addresses(self.service.mill.root)
        self._app.state.signal.stop()
        if self._flight is not None:
            self._flight.shutdown()
        if self._postgres is not None:
            self._postgres.close()
        self._http.should_exit = True
        if self._thread is not None:
            self._thread.join()
        self._socket.close()


class _Uvicorn(uvicorn.Server):
    """Leaves signals to whoever runs the mill."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.begun = threading.Event()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Do nothing: the process has other things to end, too."""
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin, and say so."""
        await super().startup(sockets)
        self.begun.set()


def _listening(host: str, port: int) -> socket.socket:
    """A socket that listens. TM8006 when the address cannot be had."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        found = socket.socket(family, kind, protocol)
        found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        found.bind(address)
        found.listen(1024)
    except OSError as error:
        raise _cannot_listen(f"{host}:{port}: {error.strerror or error}") from error
    found.set_inheritable(False)
    return found


def _cannot_listen(got: str) -> TidemillError:
    return TidemillError(
        "TM8006",
        "the server cannot listen on this address",
        got=got,
        hint="another port (0 takes a free one), or end what listens there",
    )


def _flight_server(service: Service) -> FlightServer:
    """A Flight server that listens. TM8006 when the address cannot be had."""
    from tidemill.serve.flight.server import FlightServer

    try:
        return FlightServer(service)
    except (OSError, pa.ArrowException) as error:
        got = f"{service.settings.host}:{service.settings.flight_port}: {error}"
        raise _cannot_listen(got) from error


def _postgres_listener(service: Service, port: int) -> PostgresListener:
    """What listens for PostgreSQL's protocol. TM8006 when the address cannot be had, TM8100 without DuckDB."""
    if importlib.util.find_spec("duckdb") is None:
        raise TidemillError(
            "TM8100",
            "PostgreSQL's protocol needs a package that is not installed",
            got="duckdb",
            hint="pip install 'tidemill[postgres]'",
        )
    from tidemill.serve.postgres.listener import PostgresListener

    return PostgresListener(service, _listening(service.settings.host, port))


@contextlib.contextmanager
def serving(service: Service) -> Iterator[Server]:
    """Listen, and run the epochs of the service's mill, until the block ends; then the service is closed.

    Raises
    ------
    TidemillError
        TM8006 when an address cannot be had, TM8100 without DuckDB.
    """
    interval = sys.getswitchinterval()
    sys.setswitchinterval(_SWITCH_SECONDS)
    try:
        with Server(service) as server:
            service.mill.start(service.settings.idle_seconds)
            yield server
    finally:
        try:
            service.close()
        finally:
            sys.setswitchinterval(interval)


def serve(mill: Mill, settings: ServerSettings, say: Callable[[str], None]) -> None:
    """Serve a mill until SIGINT or SIGTERM comes; then the newest epoch is sealed, and made durable by whoever closes
    the mill.

    Parameters
    ----------
    say : callable
        Is given the banner, a line at a time.

    Raises
    ------
    TidemillError
        TM8001 to TM8003, TM8006, TM8022, TM8320, TM8330, TM8331 for settings that cannot be; TM8020 when the
        root's directory cannot be written; TM6003 when Java has ended: who has started the process can start it again.
    """
    traces = start_traces(mill.observers) if settings.traces else None
    service = Service(mill, settings)
    log = service.server_log
    log.write_to(sys.stderr, settings.log_format)
    ended = threading.Event()

    def stop(_signal: int, _frame: FrameType | None) -> None:
        ended.set()

    before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        with serving(service) as server:
            say(f"serving {mill.root} at epoch {mill.epoch}")
            for protocol, address in server.addresses.items():
                say(f"  {protocol:12}{address}")
            known = {"root": mill.root, "epoch": mill.epoch, "version": tidemill.__version__}
            log.note(SERVER_STARTED, addresses=server.addresses, **known)
            certificate = CertificateWatch(settings, log)
            while not ended.wait(_JAVA_SECONDS):
                certificate.look()
                if java_process_has_ended(mill.spark.sparkContext):
                    log.note(JAVA_ENDED)
                    raise java_ended("the server stops")
            log.note(SERVER_STOPPING)
            say("stopping")
    finally:
        if traces is not None:
            traces.close()
        for number, handler in before.items():
            signal.signal(number, handler)
