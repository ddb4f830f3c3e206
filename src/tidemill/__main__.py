"""``python -m tidemill`` is the command ``tidemill``."""

from __future__ import annotations

import atexit
import os
import signal
import sys
import threading
from collections.abc import Callable
from functools import partial

_THREADS = "OPENBLAS_NUM_THREADS"
_INTERRUPTED = 128 + signal.SIGINT
_UNWRITTEN = 120


def command_of(arguments: list[str]) -> Callable[[], None]:
    """What is to be done, with all that it needs imported."""
    from tidemill.cli.query.plain_query import plain_arguments

    plain = plain_arguments(arguments)
    if plain is None:
        from tidemill.cli import commands

        return commands.main
    _import_numpy()
    from tidemill.cli.ending import with_errors_told
    from tidemill.cli.query import local  # noqa: F401
    from tidemill.cli.query.command import query

    return partial(with_errors_told, partial(query, **plain))


def _import_numpy() -> None:
    """Without a thread for each core: its BLAS starts them when it is imported, and a query multiplies no matrices."""
    if _THREADS in os.environ:
        return
    os.environ[_THREADS] = "1"
    import numpy  # noqa: F401

    del os.environ[_THREADS]


def main() -> None:
    """Entry point. SIGINT ends the command with status 130 and no traceback, also while its modules are imported."""
    chosen = signal.getsignal(signal.SIGINT) is signal.default_int_handler  # not what nohup and & ignore
    if chosen:
        signal.signal(signal.SIGINT, lambda *_: os._exit(_INTERRUPTED))
    command = command_of(sys.argv[1:])
    try:
        if chosen:
            signal.signal(signal.SIGINT, signal.default_int_handler)
        command()
    except KeyboardInterrupt:
        end(_INTERRUPTED)
    except SystemExit as exit_:
        if not isinstance(exit_.code, int | None):
            raise
        end(exit_.code or 0)
    end(0)


def end(status: int) -> None:
    """End this process without freeing what it has in memory, object by object: that takes a sixth of a short query."""
    if any(not thread.daemon for thread in threading.enumerate() if thread is not threading.main_thread()):
        sys.exit(status)
    atexit._run_exitfuncs()
    for stream in filter(None, (sys.stdout, sys.stderr)):  # None where it was closed before the command began
        try:
            stream.flush()
        except (OSError, ValueError):  # as at any end of Python, with its status: the reader has gone
            status = status or _UNWRITTEN
    os._exit(status)


if __name__ == "__main__":
    main()
