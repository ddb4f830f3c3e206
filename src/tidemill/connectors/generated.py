"""How many rows a table USING generator has at a time, and its location."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

from tidemill.connectors.registry import GENERATOR_SCHEME
from tidemill.options.kinds import number
from tidemill.options.option import Kind, Option, bad_option

DEFAULT_RATE = Fraction(10_000)

_MICROSECONDS = 10**6
MOST_ROWS = 10**15
_SEQUENCE_BOUND = re.compile(r"fields\.(.+)\.end")


def _rate(text: str) -> Fraction:
    if not re.fullmatch(r"\d{1,10}(\.\d{1,9})?", text.strip()) or Fraction(text) == 0:
        raise ValueError
    return Fraction(text)


ROWS_PER_SECOND = Option(
    "rowsPerSecond",
    Kind("a positive number, such as 1000 or 0.5", _rate),
    None,
    "how many rows come, from the creation of the table on",
    shown="all at once where they have an end, else 10000",
)
NUMBER_OF_ROWS = Option("numberOfRows", number(1, MOST_ROWS), None, "how many rows there will ever be", shown="no end")


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
    total = NUMBER_OF_ROWS.of(options)
    rows = [] if total is None else [total]
    for name, text in options.items():
        if match := _SEQUENCE_BOUND.fullmatch(name):
            first = _whole(f"fields.{match[1]}.start", options.get(f"fields.{match[1]}.start", "0"))
            last = _whole(name, text)
            if last < first:
                raise bad_option(name, text, f"not less than the start, {first}")
            rows.append(last - first + 1)
    bound = min(rows, default=None)
    rate = ROWS_PER_SECOND.of(options)
    return Pace(DEFAULT_RATE if rate is None and bound is None else rate, bound)


def _whole(name: str, text: str) -> int:
    if not re.fullmatch(r"[+-]?\d{1,18}", text.strip()):
        raise bad_option(name, text, "a whole number")
    return int(text)


@dataclass(frozen=True)
class GeneratedLocation:
    """The location of generated rows: when the table was created, and how many bytes each row counts as.

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


def parse_generated_place(path: str) -> GeneratedLocation:
    """The location that :attr:`GeneratedLocation.path` writes."""
    created, row_bytes = path.partition("://")[2].split("/")
    return GeneratedLocation(int(created), int(row_bytes))
