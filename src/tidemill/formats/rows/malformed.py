"""Malformed rows: what is wrong with them, and what each mode does with them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from enum import Enum

import numpy as np
import numpy.typing as npt

from tidemill.errors import FormatError
from tidemill.formats.base import RowError
from tidemill.options.kinds import member
from tidemill.options.option import Option

_MOST_BYTES = 2**31 - 1


class Mode(Enum):
    """What happens to a malformed row."""

    PERMISSIVE = "PERMISSIVE"
    DROPMALFORMED = "DROPMALFORMED"
    FAILFAST = "FAILFAST"


@dataclass(frozen=True)
class Flaw:
    """Something wrong with the row at ``row``; ``ordinal`` is -1 for the row as a whole."""

    row: int
    ordinal: int
    column: str | None
    reason: str
    drops: bool


@dataclass(frozen=True, eq=False)
class Flaws:
    """One thing that is wrong with many rows; ``rows`` ascend."""

    rows: npt.NDArray[np.int64]
    ordinal: int
    column: str | None
    reason: str
    drops: bool = False

    def each(self) -> Iterator[Flaw]:
        """The same, row by row."""
        return (Flaw(row, self.ordinal, self.column, self.reason, self.drops) for row in self.rows.tolist())

    def only(self, chosen: npt.NDArray[np.bool_]) -> Flaws:
        """Those of some rows, by a mask over all rows."""
        return replace(self, rows=self.rows[chosen[self.rows]])


class MalformedRowError(FormatError):
    """A malformed row in mode FAILFAST (TM4020).

    Attributes
    ----------
    position : int
        Absolute byte offset of the row's first byte.
    """

    def __init__(self, position: int, got: str, hint: str) -> None:
        self.position = position
        super().__init__("TM4020", "malformed row in mode FAILFAST", got=got, hint=hint)

    def on_line(self, line: int) -> MalformedRowError:
        """The same error, telling the line."""
        return MalformedRowError(self.position, f"line {line}, {self.got}", self.hint)

    def __reduce__(self) -> tuple[type, tuple[int, str, str]]:  # type: ignore[override]
        return MalformedRowError, (self.position, self.got, self.hint)


MODE = Option(
    "mode",
    member(Mode),
    Mode.PERMISSIVE,
    "what becomes of malformed rows: fields are NULL, rows are left out, or the epoch fails",
    shown="PERMISSIVE",
)


def check_size(size: int, position: int) -> None:
    """TM4021 when so many bytes from a position on, one row or buffer, are more than 32-bit offsets can address."""
    if size >= _MOST_BYTES:
        raise FormatError(
            "TM4021",
            "a row or buffer has 2 GiB or more",
            got=f"{size} bytes from byte {position} on",
            hint="feed smaller buffers; a row this long points to a quote or bracket that is never closed",
        )


def first_bad_byte(text: bytes) -> int:
    """Offset of the first byte that is not UTF-8; 0 when all are."""
    try:
        text.decode()
    except UnicodeDecodeError as error:
        return error.start
    return 0


def fail_fast(mode: Mode, errors: Sequence[RowError], hint: str = "mend the file") -> None:
    """Raise TM4020 for the first of some errors in mode FAILFAST."""
    if mode is not Mode.FAILFAST or not errors:
        return
    first = min(errors, key=lambda error: error.position)
    where = f"byte {first.position}" + (f", column {first.column!r}" if first.column else "")
    if first.at is not None:
        where += f", at byte {first.at}"
    raise MalformedRowError(
        first.position,
        got=f"{where}: {first.described}: {first.raw.decode('utf-8', 'replace')}",
        hint=f"{hint}, or use mode PERMISSIVE or DROPMALFORMED",
    )
