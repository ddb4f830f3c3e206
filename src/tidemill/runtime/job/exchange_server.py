"""Records on their way from a task to those of other hosts: Arrow Flight, out of the files that its own host maps.

A ticket names a file and parts of it, and shows a secret that all tasks of a stage have. Its stream has a column of
bytes, a batch for each part. Connections are not encrypted, as those of Spark's own exchanges are not by default.
"""

from __future__ import annotations

import hmac
import json
import threading
from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa
import pyarrow.flight as flight

from tidemill.runtime.job.exchange_file import ExchangeFile, Slices, read, records_of
from tidemill.runtime.job.superstep import Record

_SCHEMA = pa.schema([pa.field("bytes", pa.uint8(), nullable=False)])
_SECONDS = 60.0
"""For a stream; a host that cannot be reached any more is found out by this, and the epoch runs as a job."""


class ExchangeServer(flight.FlightServerBase):  # type: ignore[misc]
    """Serves files of this process until it is shut down.

    Parameters
    ----------
    host : str
        The address of this host that others reach.
    secret : str
    """

    def __init__(self, host: str, secret: str) -> None:
        shown = f"[{host}]" if ":" in host else host
        super().__init__(f"grpc+tcp://{shown}:0")
        self._secret = secret.encode()
        self._files: dict[int, ExchangeFile] = {}
        self._lock = threading.Lock()
        self.address = f"grpc+tcp://{shown}:{self.port}"

    def add(self, file: ExchangeFile) -> None:
        """Serve a file until it is :meth:`removed`."""
        with self._lock:
            self._files[file.inode] = file

    def remove(self, file: ExchangeFile) -> None:
        """Serve it no longer; whoever reads it goes on."""
        with self._lock:
            self._files.pop(file.inode, None)

    def do_get(self, context: Any, ticket: Any) -> Any:
        """The parts of a file."""
        try:
            secret, inode, parts = json.loads(ticket.ticket)
            known = hmac.compare_digest(str(secret).encode(), self._secret)
            parts = [(int(offset), int(length)) for offset, length in parts]
        except (TypeError, ValueError, RecursionError):
            known = False
        if not known:
            raise flight.FlightUnauthenticatedError("this is not one of the tasks")
        with self._lock:
            file = self._files.get(inode)
            if file is None:
                raise flight.FlightServerError("there is no such file any more")
            data = pa.py_buffer(memoryview(file.mapped()))
        return flight.GeneratorStream(_SCHEMA, _batches(data, parts))


def _batches(data: pa.Buffer, parts: Iterable[tuple[int, int]]) -> Iterator[pa.RecordBatch]:
    for offset, length in parts:
        column = pa.Array.from_buffers(pa.uint8(), length, [None, data.slice(offset, length)])
        yield pa.record_batch([column], schema=_SCHEMA)


class Exchange:
    """Reads what tasks of this and of other hosts have written.

    Parameters
    ----------
    host : str
        That of this process.
    secret : str
    """

    def __init__(self, host: str, secret: str) -> None:
        self._host, self._secret = host, secret
        self._clients: dict[str, flight.FlightClient] = {}

    def read(self, slices: Iterable[Slices]) -> Iterator[Record]:
        """The records of slices, in their order. OSError when a writer has ended or cannot be reached.

        All other hosts are asked at once, and what they have is fetched before the first record: what is done with
        records may take longer than a stream may.
        """
        found = list(slices)
        streams = {some: self._asked(some) for some in found if some.host != self._host}
        fetched = {some: _fetched(stream) for some, stream in streams.items()}
        for some in found:
            if some not in fetched:
                yield from read([some])
                continue
            for data, length in fetched[some]:
                yield from records_of(memoryview(data), 0, length)

    def _asked(self, some: Slices) -> Any:
        client = self._clients.get(some.address)
        if client is None:
            client = self._clients[some.address] = flight.connect(some.address)
        ticket = json.dumps([self._secret, some.inode, some.parts]).encode()
        try:
            return client.do_get(flight.Ticket(ticket), flight.FlightCallOptions(timeout=_SECONDS))
        except (pa.ArrowException, flight.FlightError) as error:
            raise _unreachable(error) from error

    def close(self) -> None:
        """End all connections."""
        while self._clients:
            self._clients.popitem()[1].close()


def _fetched(stream: Any) -> list[tuple[pa.Buffer, int]]:
    """Bytes, and how many of them are records."""
    try:
        return [(chunk.data.column(0).buffers()[1], len(chunk.data)) for chunk in stream]
    except (pa.ArrowException, flight.FlightError) as error:
        raise _unreachable(error) from error


def _unreachable(error: Exception) -> OSError:
    return OSError(f"records of another host cannot be fetched: {str(error).splitlines()[0][:200]}")
