"""How a command ends when something fails."""

from __future__ import annotations

import errno
import gc
import os
import sys
import traceback
from collections.abc import Callable
from pathlib import Path

from tidemill.errors import TidemillError

_COLLECT_EVERY = 10_000
"""Objects made between two looks for garbage; Python's 700 cost a sixth of the time of imports."""


def with_errors_told(command: Callable[[], object]) -> None:
    """Carry out a command.

    An error goes to standard error with its number, never with a traceback, and the exit code is 1.
    TM7013 is any error that has no number of its own. The environment variable TIDEMILL_TRACEBACK shows where it was
    raised. If standard output was closed before the command began, what is written there is discarded.
    """
    gc.set_threshold(_COLLECT_EVERY)
    if sys.stdout is None:
        sys.stdout = Path(os.devnull).open("w")  # noqa: SIM115
    try:
        command()
    except TidemillError as error:
        _fail(error)
    except BrokenPipeError:
        _close_output()  # the reader has closed the pipe
    except Exception as error:
        if os.environ.get("TIDEMILL_TRACEBACK"):
            raise
        _fail(_without_number(error))


def _without_number(error: Exception) -> TidemillError:
    if isinstance(error, OSError) and error.errno == errno.ENOSPC:
        return TidemillError("TM7013", "the command failed", got=str(error), hint="make room on the disk")
    place = traceback.extract_tb(error.__traceback__)[-1]
    return TidemillError(
        "TM7013",
        "the command failed",
        got=f"{type(error).__name__}: {str(error).strip().splitlines()[0] if str(error).strip() else ''} "
        f"({Path(place.filename).name}, line {place.lineno})",
        hint="this should have a better message: please report it with what TIDEMILL_TRACEBACK=1 shows",
    )


def _fail(error: TidemillError) -> None:
    sys.stderr.write(error.message() + "\n")
    sys.stderr.flush()
    _close_output()
    sys.exit(1)


def _close_output() -> None:
    """Redirect standard output to ``/dev/null`` if it cannot be written to, so that no flush fails at exit."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
