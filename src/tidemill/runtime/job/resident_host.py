"""What a resident task does for epochs, and the messages that it is asked with.

Messages (:mod:`~tidemill.runtime.spark.messages`) by their letter:

    to the task     E and a request for a whole epoch of one partition; S and one for a superstep of one partition of
                    an epoch; P and a program, after which the request is repeated; C when an epoch is over, without
                    an answer
    to the mill     R and records, which are the reports of all supersteps; O and what other tasks have to read of the
                    records of a superstep (:class:`~tidemill.runtime.job.exchange_file.Slices`); N for a program that
                    the task does not know; X and the text of an error that has no number
"""

from __future__ import annotations

import pickle
import select
import socket
import traceback
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from pyspark.serializers import CPickleSerializer

from tidemill.runtime.job.exchange_file import ExchangeFile, Slices
from tidemill.runtime.job.exchange_server import Exchange, ExchangeServer
from tidemill.runtime.job.sent_tables import TableChanges
from tidemill.runtime.job.superstep import (
    EpochPlan,
    Record,
    Work,
    all_supersteps,
    first_superstep,
    later_superstep,
)
from tidemill.runtime.spark.messages import receive, send
from tidemill.runtime.spark.task_place import this_place
from tidemill.state.store.store import RunStore
from tidemill.state.versions.version import Run
from tidemill.task.program import Program

EPOCH, SUPERSTEP, PROGRAM, OVER = b"E", b"S", b"P", b"C"
REPORTS, OUTPUT, UNKNOWN, FAILED = b"R", b"O", b"N", b"X"

_PROGRAMS_KEPT = 16
_IDLE_SECONDS = 1.0
"""Without a request for so long, a task unmaps deleted files: the disk has their space until then."""
_FILES_KEPT = 2
"""Supersteps whose output is kept: that of the one before is read while the next is made."""


@dataclass(frozen=True)
class Named:
    """Stands for a broadcast program in a request: the task has it, or asks for it."""

    fingerprint: str

    @property
    def value(self) -> Program:
        """Only the task can tell."""
        raise NotImplementedError


@dataclass(frozen=True)
class _Known:
    """Stands for a broadcast program in the task."""

    value: Program


@dataclass(frozen=True)
class EpochRequest:
    """All supersteps of an epoch of one partition. It is sent with ``changes`` instead of the tables of the plan."""

    plan: EpochPlan
    supersteps: int
    work: Work
    changes: TableChanges = field(default_factory=TableChanges)


@dataclass(frozen=True)
class SuperstepRequest:
    """One partition of one superstep. The last one gives reports, the others output for the next one.

    It is sent as :class:`EpochRequest`.
    """

    plan: EpochPlan
    depth: int
    last: bool
    partition: int
    work: Work | None
    slices: tuple[Slices, ...]
    changes: TableChanges = field(default_factory=TableChanges)


class EpochHost:
    """Runs epochs, or partitions of them, in a task of Spark.

    Parameters
    ----------
    secret : str
        What tasks show one another when they fetch records; empty where all of them are on one host.
    """

    def __init__(self, secret: str = "") -> None:
        self._secret = secret
        self._programs: dict[str, Program] = {}
        self._files: dict[tuple[int, int], ExchangeFile] = {}
        """By depth and partition."""
        self._tables: dict[str, tuple[Run, ...]] = {}
        """Those of the last request of this connection."""
        self._here = ""
        """The address of this host, as the mill sees it."""
        self._exchange: Exchange | None = None
        self._server: ExchangeServer | None = None
        self._store: RunStore | None = None
        """That of the last epoch; deleted files of it may still be mapped."""

    def serve(self, connection: socket.socket) -> None:
        """Answer requests until the connection ends."""
        if self._secret:
            self._here = connection.getsockname()[0]
        self._tables = {}
        try:
            while True:
                if self._store is not None and not select.select([connection], [], [], _IDLE_SECONDS)[0]:
                    self._store.let_go()
                    self._store = None
                self._carry_out(connection, *receive(connection))
        finally:
            self._drop_files()

    def _carry_out(self, connection: socket.socket, kind: bytes, body: bytearray) -> None:
        if kind == OVER:
            self._drop_files()
            return
        try:
            if kind == PROGRAM:
                self._keep(CPickleSerializer().loads(body))
                return
            answer = self._answer(pickle.loads(body))
        except Exception as error:
            said = traceback.format_exception_only(error)[-1].strip()
            answer = FAILED, said.encode(errors="replace")
            self._drop_files()
        send(connection, *answer)

    def _answer(self, request: EpochRequest | SuperstepRequest) -> tuple[bytes, bytes]:
        named = request.plan.program
        assert isinstance(named, Named)
        program = self._programs.pop(named.fingerprint, None)
        if program is None:
            return UNKNOWN, b""
        self._programs[named.fingerprint] = program  # the last one to be forgotten
        self._tables = request.changes.made(self._tables)
        plan = replace(request.plan, program=_Known(program), tables=self._tables)
        self._store = plan.store
        if isinstance(request, EpochRequest):
            return REPORTS, _pickled(list(all_supersteps(plan, request.supersteps, request.work)))
        depth, partition = request.depth, request.partition
        for made in [key for key in self._files if key == (depth, partition) or key[0] <= depth - _FILES_KEPT]:
            self._drop_file(made)
        if request.work is not None:
            records = first_superstep(plan, partition, request.work)
        else:
            records = later_superstep(plan, depth, partition, self._read(request.slices))
        if request.last:
            return REPORTS, _pickled(list(records))
        file = self._files[depth, partition] = ExchangeFile()
        file.write(records)
        return OUTPUT, pickle.dumps(self._offered(file), protocol=5)

    def _read(self, slices: tuple[Slices, ...]) -> Iterator[Record]:
        """Records of other tasks, and of this one."""
        if self._exchange is None:
            self._exchange = Exchange(this_place().host, self._secret)
        return self._exchange.read(slices)

    def _offered(self, file: ExchangeFile) -> dict[int, Slices]:
        """What each partition has to read of a file."""
        host = this_place().host
        if not self._secret:
            return file.slices(host)
        if self._server is None:
            self._server = ExchangeServer(self._here, self._secret)
        self._server.add(file)
        return file.slices(host, self._server.address)

    def _keep(self, program: Program) -> None:
        while len(self._programs) >= _PROGRAMS_KEPT:
            self._programs.pop(next(iter(self._programs)))
        self._programs[program.fingerprint] = program

    def _drop_files(self) -> None:
        for made in list(self._files):
            self._drop_file(made)

    def _drop_file(self, made: tuple[int, int]) -> None:
        file = self._files.pop(made)
        if self._server is not None:
            self._server.remove(file)
        file.close()

    def close(self) -> None:
        """The task ends."""
        self._drop_files()
        if self._exchange is not None:
            self._exchange.close()
        if self._server is not None:
            self._server.shutdown()


def _pickled(records: list[Record]) -> bytes:
    return pickle.dumps([data for _, data in records], protocol=5)
