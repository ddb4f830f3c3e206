"""The worker daemon, begun before Spark asks for it.

Spark starts it for the first task in Python, seconds after a command began, and that task then waits for its imports. A
command begins it while Java starts. What Spark starts later hands its arguments, environment and standard streams over
to that process by a Unix socket, and lasts as long as it does.

1. :func:`begin`, in the command: starts the process, which listens, imports, and waits.
2. :func:`hand_over`, in what Spark starts: connects to it.
3. :func:`take_over`, in the process begun: goes on as if Spark had started it. It ends if the command ends before.
4. :func:`end`, in a command that stops Spark before 3.: where kernels have to be compiled, imports take half a minute.
"""

from __future__ import annotations

import fcntl
import json
import os
import select
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

PLACE = "TIDEMILL_WORKER_DAEMON"
"""The environment variable of Java, and so of what it starts: the command's process, and the path of the socket."""

EARLY = "--early"
"""The first argument of a process that was begun; Spark gives the name of a module."""

_MODULE = "tidemill.runtime.workers.worker_daemon"
_STREAMS = 3
_LENGTH_BYTES = 4
_TAKEN = b"+"
_ENDING_SECONDS = 0.5
"""For so long a command may be there after it has deleted the directory of the socket."""
_OF_WORKERS = ("spark.python.daemon.module", "spark.python.use.daemon", "spark.pyspark.python", "spark.executorEnv.")
"""Beginnings of Spark's settings that decide which process it is, or what libraries find when they are imported."""
_PYTHON = "PYSPARK_PYTHON"


def is_usual(conf: Mapping[str, str]) -> bool:
    """Whether workers with these settings of Spark are those that a command can begin."""
    chosen = os.environ.get(_PYTHON, sys.executable) == sys.executable
    return chosen and hasattr(socket, "recv_fds") and not any(name.startswith(_OF_WORKERS) for name in conf)


def variables(place: Path) -> dict[str, str]:
    """What Java's environment has for a socket at this path that this process, the command, owns."""
    return {PLACE: f"{os.getpid()} {place}"}


def begin(place: Path, environment: Mapping[str, str]) -> subprocess.Popen[bytes]:
    """Start the process; it listens at a path in a directory that nobody else can write to.

    It is in a process group of its own, as Spark's is, has nothing of the command's output, and ends with its standard
    input until it is taken over.
    """
    command = [sys.executable, "-m", _MODULE, EARLY, str(place)]
    given = {**environment, "PYTHONUNBUFFERED": "YES"}  # Spark sets that for workers
    nothing = subprocess.DEVNULL
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=nothing, stderr=nothing, env=given, process_group=0)


def hand_over() -> bool:
    """Give arguments, environment and standard streams to the process that was begun, and wait for its end.

    Returns
    -------
    bool
        False where there is none that takes them: this process has to be the worker daemon itself. True also where
        the command is ending, so that nobody needs one.
    """
    variable = os.environ.pop(PLACE, None)
    if variable is None:
        return False
    command, _, place = variable.partition(" ")
    given = json.dumps([sys.argv, dict(os.environ)]).encode()
    with socket.socket(socket.AF_UNIX) as connection:
        try:
            connection.connect(place)
            socket.send_fds(connection, [len(given).to_bytes(_LENGTH_BYTES, "big")], range(_STREAMS))
            connection.sendall(given)
            taken = connection.recv(1) == _TAKEN
        except OSError:
            taken = False
        if not taken:
            return _is_ending(int(command), Path(place))
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        with suppress(OSError):
            connection.recv(1)
    return True


def _is_ending(command: int, place: Path) -> bool:
    """Whether a command has ended, or is about to."""
    if _mark(place).exists():
        return True
    time.sleep(_ENDING_SECONDS)
    try:
        os.kill(command, 0)
    except OSError as error:  # it may run, and be another user's
        return isinstance(error, ProcessLookupError)
    return False


def _mark(place: Path) -> Path:
    """A file that is there when a command has called :func:`end`."""
    return place.with_name("ended")


def end(process: subprocess.Popen[bytes], place: Path) -> None:
    """End what :func:`begin` started at this path, its forks, and what waits for it, unless it has been taken over."""
    if not place.exists() or process.poll() is not None:
        return
    with suppress(OSError):
        _mark(place).touch()
    with suppress(OSError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def needed_again(place: Path) -> None:
    """Undo :func:`end` for what Spark starts, in a process whose Java runs another session; it is not begun again."""
    _mark(place).unlink(missing_ok=True)


def listen(place: str) -> socket.socket:
    """A socket at a path. The process ends where it cannot be made: it is too long, or the command has ended."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # as in what Java starts
    listening = socket.socket(socket.AF_UNIX)
    try:
        listening.bind(place)
    except OSError:
        os._exit(0)
    listening.listen(1)
    _end_with_input(Path(place))
    return listening


def _end_with_input(place: Path) -> None:
    """From now on this process and its forks end when standard input ends, whatever they are doing."""

    def ended(*_: object) -> None:
        shutil.rmtree(place.parent, ignore_errors=True)
        os.killpg(0, signal.SIGKILL)

    signal.signal(signal.SIGIO, ended)
    fcntl.fcntl(0, fcntl.F_SETOWN, -os.getpgrp())
    fcntl.fcntl(0, fcntl.F_SETFL, fcntl.fcntl(0, fcntl.F_GETFL) | os.O_ASYNC)


def _outlive_input() -> None:
    """Undo :func:`_end_with_input`."""
    fcntl.fcntl(0, fcntl.F_SETFL, fcntl.fcntl(0, fcntl.F_GETFL) & ~os.O_ASYNC)
    signal.signal(signal.SIGIO, signal.SIG_DFL)


def take_over(listening: socket.socket) -> None:
    """Wait for what Spark starts, and take its arguments, environment and standard streams.

    The process ends when its standard input ends before. Beside what was Java's environment too, there are variables
    that PySpark's workers read for each task.
    """
    place = Path(listening.getsockname())
    poller = select.poll()
    poller.register(sys.stdin.fileno(), select.POLLIN)
    poller.register(listening, select.POLLIN)
    if any(ready != listening.fileno() for ready, _ in poller.poll()):
        shutil.rmtree(place.parent, ignore_errors=True)  # the command was killed, else it is gone
        os._exit(0)
    _outlive_input()
    connection, _ = listening.accept()
    place.unlink()
    with suppress(OSError):
        place.parent.rmdir()
    listening.close()
    length, streams, _, _ = socket.recv_fds(connection, _LENGTH_BYTES, _STREAMS)
    with connection.makefile("rb") as given:
        sys.argv, environment = json.loads(given.read(int.from_bytes(length, "big")))
    for stream, own in zip(streams, range(_STREAMS), strict=True):
        os.dup2(stream, own)
        os.close(stream)
    os.environ.clear()
    os.environ.update(environment)
    sys.path += [p for p in environment.get("PYTHONPATH", "").split(os.pathsep) if p and p not in sys.path]
    os.register_at_fork(after_in_child=connection.close)  # what Spark started ends with this process, not with workers
    connection.sendall(_TAKEN)
