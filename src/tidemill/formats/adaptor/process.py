"""The other side of an adaptor's process: starts it, sends messages, and takes columns; nothing it sends is trusted."""

from __future__ import annotations

import json
import os
import select
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from tidemill.errors import FormatError, TidemillError, as_utf8

_CHILD = Path(__file__).with_name("child.py")
_START_SECONDS = 10.0
"""Within which a process has to start, and its source to be loaded."""
_MOST_ANSWER = 64 << 20
_PIECE = 1 << 16
_MOST_TEXT = 300
"""Characters of a text."""

Ending = Literal["adaptor_timeout", "adaptor_ended", "adaptor_bad_answer"]
"""Why a process was given up: it took too long, it ended (a crash, too much memory), or sent what it must not."""


class EndedError(Exception):
    """The process was given up; it runs no more."""

    def __init__(self, reason: Ending) -> None:
        super().__init__(reason)
        self.reason: Ending = reason


@dataclass(frozen=True)
class Task:
    """What a process is to decode.

    Attributes
    ----------
    source : str
        Python, with a function ``decode(size, bytes)``.
    columns : tuple of (str, list)
        Name and kind of every column of the table; see ``child.py`` for kinds.
    wanted : tuple of int
        Which of them are given back.
    rows : int
        Most rows of one message.
    memory : int
        Bytes of address space.
    seconds : float
        How long a batch may take.
    """

    source: str
    columns: tuple[tuple[str, tuple[Any, ...]], ...]
    wanted: tuple[int, ...]
    rows: int
    memory: int
    seconds: float

    def shown(self) -> bytes:
        """As the process reads it; its limit of computing time is above that of the clock."""
        known = {"source": self.source, "columns": self.columns, "wanted": self.wanted, "rows": self.rows}
        return json.dumps({**known, "memory": self.memory, "seconds": int(self.seconds) + 2}).encode()


class Process:
    """A running adaptor.

    It has three pipes, an empty environment but for paths of libraries, and an empty directory of its own.

    Attributes
    ----------
    held : tuple of str
        What it is kept from; see :func:`tidemill.formats.adaptor.restrictions.restrict`.

    Raises
    ------
    FormatError
        TM8340 for a source that cannot be loaded, TM8345 when the process does not start.
    """

    def __init__(self, task: Task) -> None:
        self._seconds = task.seconds
        self._directory = tempfile.mkdtemp(prefix="tidemill-adaptor-")
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-B", str(_CHILD)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                cwd=self._directory,
                env={"LANG": "C.UTF-8", "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
                start_new_session=True,
            )
        except OSError as error:
            shutil.rmtree(self._directory, ignore_errors=True)
            hint = "make room for processes and memory; it is tried again"
            raise does_not_start(str(error), hint) from error
        assert self._process.stdin is not None and self._process.stdout is not None
        self._to, self._from = self._process.stdin.fileno(), self._process.stdout.fileno()
        os.set_blocking(self._to, False)
        os.set_blocking(self._from, False)
        try:
            answer = self._ask(task.shown(), _START_SECONDS)
        except EndedError as error:
            raise does_not_start(*_loading_ended(error.reason, self._process.returncode)) from error
        if "error" in answer:
            self.close()
            raise not_loaded(plain(answer["error"]), line_of(answer.get("line")))
        held = answer.get("held")
        self.held = tuple(map(plain, held)) if isinstance(held, list) else ()

    def decode(self, sizes: bytes, messages: bytes) -> dict[str, Any]:
        """Decode a batch of messages.

        Parameters
        ----------
        sizes : bytes
            Of each message, as uint32 in little-endian order.
        messages : bytes
            One behind the other.

        Raises
        ------
        EndedError
            When it has taken too long, or ended.
        """
        return self._ask(struct.pack("<I", len(sizes) // 4) + sizes + messages, self._seconds)

    def give_up(self, reason: Ending) -> EndedError:
        """End it; the error to raise."""
        self.close()
        return EndedError(reason)

    def close(self) -> None:
        """End it, and wait until it is gone."""
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with suppress(OSError):
                    pipe.close()
        shutil.rmtree(self._directory, ignore_errors=True)

    def _ask(self, request: bytes, seconds: float) -> dict[str, Any]:
        deadline = time.monotonic() + seconds
        self._send(struct.pack("<I", len(request)) + request, deadline)
        size = struct.unpack("<I", self._take(4, deadline))[0]
        if size > _MOST_ANSWER:
            raise self.give_up("adaptor_bad_answer")
        body = self._take(size, deadline)
        try:
            answer = json.loads(body)
        except (ValueError, RecursionError) as error:
            raise self.give_up("adaptor_bad_answer") from error
        if not isinstance(answer, dict):
            raise self.give_up("adaptor_bad_answer")
        return answer

    def _send(self, data: bytes, deadline: float) -> None:
        left = memoryview(data)
        while left:
            self._wait(self._to, select.POLLOUT, deadline)
            try:
                left = left[os.write(self._to, left[:_PIECE]) :]
            except BlockingIOError:
                continue
            except OSError as error:
                raise self.give_up("adaptor_ended") from error

    def _take(self, count: int, deadline: float) -> bytes:
        found = bytearray()
        while len(found) < count:
            self._wait(self._from, select.POLLIN, deadline)
            try:
                piece = os.read(self._from, min(count - len(found), 16 * _PIECE))
            except BlockingIOError:
                continue
            except OSError as error:
                raise self.give_up("adaptor_ended") from error
            if not piece:
                raise self.give_up("adaptor_ended")
            found += piece
        return bytes(found)

    def _wait(self, descriptor: int, event: int, deadline: float) -> None:
        left = deadline - time.monotonic()
        poll = select.poll()
        poll.register(descriptor, event)
        if left <= 0 or not poll.poll(left * 1e3):
            raise self.give_up("adaptor_timeout")


def plain(text: object) -> str:
    """A text that a process sent, cut to the length of errors; half of a surrogate pair is written as an escape.

    Such a half is no character: Arrow and UTF-8, and so the tables of errors and answers over HTTP, cannot hold it.
    """
    return as_utf8(text[:_MOST_TEXT]) if isinstance(text, str) else ""


def line_of(line: object) -> int | None:
    """A line of the source, if it is one that a process sent."""
    return line if isinstance(line, int) and not isinstance(line, bool) and 0 < line < 1 << 31 else None


def not_loaded(error: str, line: int | None) -> TidemillError:
    """TM8340."""
    where = f"line {line}: " if line is not None else ""
    return FormatError(
        "TM8340",
        "the source of this adaptor cannot be loaded",
        got=f"{where}{error}",
        hint="Python with a function decode(size, bytes) that gives rows: tuples, lists or dicts",
    )


def _loading_ended(reason: Ending, code: int) -> tuple[str, str]:
    """What happened while a source was loaded, and what to do about it.

    ``code`` is how the process has ended, as in ``subprocess``: that of its own, or a signal as a negative number.
    """
    if reason == "adaptor_bad_answer":
        return "the source wrote into the pipe of its process", "a source writes only into files that it opened"
    if reason == "adaptor_timeout" or code == -signal.SIGXCPU:
        return (
            f"a time-out: the source was not loaded within {_START_SECONDS:g} seconds, or used up its computing time",
            "whatever the source does outside of decode has to end soon; it is tried again",
        )
    if code < 0:
        return (
            f"the process was ended by signal {-code} while the source was loaded",
            "a crash of a module that it imports, or too little memory: raise adaptorMemory; it is tried again",
        )
    return (
        f"the process ended with code {code} while the source was loaded",
        "a source must not end its process; where it does not, raise adaptorMemory",
    )


def does_not_start(got: str, hint: str) -> FormatError:
    """TM8345."""
    return FormatError(
        "TM8345",
        "the process of an adaptor does not start",
        got=got,
        hint=hint,
    )
