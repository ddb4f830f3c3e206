"""Files that cannot be read: errors that concern one file, so that the others are still read."""

from __future__ import annotations

from collections.abc import Sequence

from tidemill.errors import TidemillError
from tidemill.sources.split import Split

OF_ONE_FILE = frozenset(
    {
        *("TM4010", "TM4011", "TM4021", "TM4040", "TM4041", "TM4042", "TM4043", "TM4044", "TM4045", "TM4063"),
        *("TM5001", "TM5003", "TM5004", "TM5030", "TM5031", "TM5032", "TM5033", "TM5036", "TM5052"),
        *("TM5090", "TM5091", "TM5092", "TM5093", "TM5096", "TM5097"),
        "TM8345",
    }
)
"""Numbers of errors that say nothing about other files of the table."""


OF_A_PLACE = frozenset(
    {
        *("TM8345", "TM5004", "TM5030", "TM5031", "TM5032", "TM5033"),
        *("TM5090", "TM5091", "TM5092", "TM5093", "TM5096", "TM5097"),
    }
)
"""Errors that may go away without a change of the file: reading is retried for as long as they last."""


class UnreadableFilesError(TidemillError):
    """Some files of an epoch could not be read, all others could.

    Attributes
    ----------
    failures : tuple
        Splits, each with its error; at least one.
    """

    def __init__(self, failures: Sequence[tuple[Split, TidemillError]]) -> None:
        self.failures = tuple(failures)
        first = self.failures[0][1]
        super().__init__(first.number, first.what, first.got, first.hint)

    def __reduce__(self) -> tuple[type, tuple[Sequence[tuple[Split, TidemillError]]]]:  # type: ignore[override]
        return UnreadableFilesError, (self.failures,)


def joined(errors: Sequence[UnreadableFilesError]) -> UnreadableFilesError:
    """The failures of several tasks as one error."""
    return UnreadableFilesError([failure for error in errors for failure in error.failures])
