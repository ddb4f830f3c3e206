"""Gives errors of statements that have no number one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from tidemill.errors import TidemillError


@contextmanager
def numbered() -> Iterator[None]:
    """Give every error of a statement a number. An error that had none is a bug, and is kept as the cause.

    Raises
    ------
    TidemillError
        TM2901 when the stack of Spark or Python overflows, TM2900 for anything else.
    """
    try:
        yield
    except TidemillError:
        raise
    except Exception as error:
        text = " ".join(str(error).split())
        if isinstance(error, RecursionError) or "StackOverflowError" in text:
            raise TidemillError(
                "TM2901",
                "a statement is too deeply nested",
                got=text[:200],
                hint="divide it into several views, or write a chain of operators as a list or a function",
            ) from error
        raise TidemillError(
            "TM2900",
            "a statement met a bug in Tidemill",
            got=f"{type(error).__name__}: {text[:500]}",
            hint="please report the statement",
        ) from error
