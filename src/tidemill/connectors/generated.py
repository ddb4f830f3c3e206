"""How many rows a table USING generator has at a time, and where they are said to be."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

from tidemill.connectors.registry import GENERATOR_SCHEME
from tidemill.errors import TidemillError

DEFAULT_RATE = Fraction(10_000)

_MICROSECONDS = 10**6
MOST_ROWS = 10**15
_SEQUENCE_BOUND = re.compile(r"fields\.(.+)\.end")


@dataclass(frozen=True)
class Pace:
    """Rows over time.

    Parameters
    ----------
    rate : Fraction or None
        Rows a second; None when all are there at once.
    rows : int or None
        All rows there will ever be; None when they have no end.
    """

    rate: Fraction | None
    rows: int | None

    def available(self, seconds: Fraction) -> int:
        """How many rows there are so long after the table was created."""
        assert self.rate is not None or self.rows is not None
        most = MOST_ROWS if self.rows is None else self.rows
        return most if self.rate is None else min(max(int(seconds * self.rate), 0), most)


def parse_pace(options: Mapping[str, str]) -> Pace:
    """``rowsPerSecond``, ``numberOfRows`` and the ends of sequences; names in lower case.

    With a number of rows and no rate all are there at once; with neither the rate is 10,000.

    Raises
    ------
    TidemillError
        TM4003 for a bad value.
    """
    rows = [_count("numberOfRows", options["numberofrows"])] if "numberofrows" in options else []
    for name, text in options.items():
        if match := _SEQUENCE_BOUND.fullmatch(name):
            first = _whole(f"fields.{match[1]}.start", options.get(f"fields.{match[1]}.start", "0"))
            last = _whole(name, text)
            if last < first:
                raise _bad(name, text, f"not less than the start, {first}")
            rows.append(last - first + 1)
    bound = min(rows, default=None)
    if "rowspersecond" not in options:
        return Pace(DEFAULT_RATE if bound is None else None, bound)
    text = options["rowspersecond"].strip()
    if not re.fullmatch(r"\d{1,10}(\.\d{1,9})?", text) or Fraction(text) == 0:
        raise _bad("rowsPerSecond", text, "a positive number, such as 1000 or 0.5")
    return Pace(Fraction(text), bound)


def _count(name: str, text: str) -> int:
    if not (text.isascii() and text.isdigit() and 0 < int(text) <= MOST_ROWS):
        raise _bad(name, text, f"a number from 1 to {MOST_ROWS}")
    return int(text)


def _whole(name: str, text: str) -> int:
    if not re.fullmatch(r"[+-]?\d{1,18}", text.strip()):
        raise _bad(name, text, "a whole number")
    return int(text)


def _bad(name: str, value: str, hint: str) -> TidemillError:
    return TidemillError("TM4003", f"bad value of option {name}", got=repr(value), hint=hint)


@dataclass(frozen=True)
class GeneratedPlace:
    """Where the rows of a table are: since when there are any, and how many bytes each counts as.

    ``created`` are microseconds since 1970.
    """

    created: int
    row_bytes: int

    @property
    def path(self) -> str:
        """As the path of a table, and of the one file that it has."""
        return f"{GENERATOR_SCHEME}://{self.created}/{self.row_bytes}"

    def rows(self, pace: Pace, now: float) -> int:
        """How many rows there are at a time (seconds since 1970)."""
        return pace.available(Fraction(int(now * _MICROSECONDS) - self.created, _MICROSECONDS))


def parse_generated_place(path: str) -> GeneratedPlace:
    """What :attr:`GeneratedPlace.path` gave."""
    created, row_bytes = path.partition("://")[2].split("/")
    return GeneratedPlace(int(created), int(row_bytes))
