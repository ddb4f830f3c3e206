"""How large a computed column may be: ``repeat`` and ``sequence``, for one, make large ones of small arguments."""

from __future__ import annotations

from tidemill.errors import EvaluationError

MOST_BYTES = 128 << 20
"""Most bytes of a column of a batch, where memory is not scarce."""
LIST_COPIES = 2
"""Copies of a group's list in memory: it is stored, compared with the one before, and sent on."""
_LEAST_BYTES = 1 << 20
_most = MOST_BYTES


class TooLargeError(EvaluationError):
    """A column would be larger than what a task may hold; fewer rows at a time may do."""


def allow(memory_bytes: int) -> None:
    """Set the most bytes of a column in this process from the memory of a task; 0 sets the default."""
    global _most
    _most = max(_LEAST_BYTES, min(MOST_BYTES, memory_bytes // 4)) if memory_bytes else MOST_BYTES


def check_size(size: float, copies: int = 1) -> None:
    """Fail before a column is computed that a task may not hold.

    Parameters
    ----------
    copies : int
        How often the bytes will be in memory at once, beside those of other columns.

    Raises
    ------
    TooLargeError
        TM3020 when it is more than :func:`allow` says.
    """
    if size * copies > _most:
        raise TooLargeError(
            "TM3020",
            "a step needs more memory than it may use",
            got=f"a value of {size:,.0f} bytes, at most {_most // copies:,}",
            hint="raise memory_bytes, or limit how long texts and arrays become",
        )


def list_too_large() -> EvaluationError:
    """The error of a group whose list, in an aggregate, a task may not hold."""
    return EvaluationError(
        "TM3020",
        "a step needs more memory than it may use",
        got=f"the list of a group's values, at most {_most // LIST_COPIES:,} bytes",
        hint="raise memory_bytes, or make groups smaller; the view is right again once the group is",
    )


def partition_too_large(rows: int, size: int) -> TooLargeError:
    """The error of a window's partition whose rows a task may not hold."""
    return TooLargeError(
        "TM3020",
        "a step needs more memory than it may use",
        got=f"a window over at least {rows:,} rows, about {size:,} bytes",
        hint="raise memory_bytes, or make partitions smaller; the view is right again once the partition is",
    )


def out_of_memory(what: str) -> EvaluationError:
    """The error of a step that could not get the memory that it asked for."""
    return EvaluationError(
        "TM3020",
        "a step needs more memory than it may use",
        got=what,
        hint="give the machine more memory, lower memory_bytes or epoch_bytes, or make groups and partitions smaller",
    )
