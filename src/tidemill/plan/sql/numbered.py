"""Gives errors of statements that have no number one."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from tidemill.errors import TidemillError

_OVERFLOW = re.compile(
    r"\A\s*\[FAILED_TO_PARSE_TOO_COMPLEX\]|^(Caused by: |: )?java\.lang\.StackOverflowError\b", re.MULTILINE
)
"""How errors of Spark begin when its stack overflows; the first one comes from its parser."""


def overflowed(error: Exception) -> bool:
    """Whether the stack of Spark or Python overflowed."""
    return isinstance(error, RecursionError) or _OVERFLOW.search(str(error)) is not None


def too_deep(error: Exception) -> TidemillError:
    """TM2901: a statement with which a stack overflowed."""
    return TidemillError(
        "TM2901",
        "a statement is too deeply nested",
        got=f"the stack of {'Python' if isinstance(error, RecursionError) else 'Spark'} overflowed",
        hint="divide it into several views, or write a chain of operators as a list or a function",
    )


@contextmanager
def deeply_nested() -> Iterator[None]:
    """Raise TM2901 when the stack of Spark or Python overflows; other errors are raised as they are."""
    try:
        yield
    except TidemillError:
        raise
    except Exception as error:
        if overflowed(error):
            raise too_deep(error) from error
        raise


@contextmanager
def numbered() -> Iterator[None]:
    """Give every error of a statement a number. An error that had none is a bug, and is kept as the cause.

    Raises
    ------
    TidemillError
        TM2901 when the stack of Spark or Python overflows, TM2900 for anything else.
    """
    try:
        with deeply_nested():
            yield
    except TidemillError:
        raise
    except Exception as error:
        text = " ".join(str(error).split())
        raise TidemillError(
            "TM2900",
            "a statement met a bug in Tidemill",
            got=f"{type(error).__name__}: {text[:500]}",
            hint="please report the statement",
        ) from error
