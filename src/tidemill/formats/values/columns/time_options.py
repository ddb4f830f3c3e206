"""Options about dates and times in texts: their patterns, and the zone of those that name none."""

from __future__ import annotations

from collections.abc import Mapping

from tidemill.errors import TidemillError
from tidemill.formats.values.columns.columns import TimePatterns
from tidemill.formats.values.times.time_pattern import NO_PATTERN, TimePattern, compile_pattern
from tidemill.formats.values.times.time_zones import zone_names
from tidemill.options.option import Kind, Option
from tidemill.zones import UTC, is_utc

_WANTED = "a pattern of Spark's, such as dd/MM/yyyy HH:mm:ss[.SSS][XXX], with text in quotes"


def _pattern(text: str) -> TimePattern:
    try:
        pattern = compile_pattern(text)
        zone_names(pattern.zones)
    except ValueError as error:
        raise ValueError(f"{error}; {_WANTED}") from error
    return pattern


def _zone(text: str) -> str | None:
    try:
        return None if is_utc(text) else text
    except TidemillError as error:
        raise ValueError(error.hint) from error


PATTERN = Kind(_WANTED, _pattern)

DATE_FORMAT = Option("dateFormat", PATTERN, NO_PATTERN, "pattern of dates", shown="ISO 8601")
TIMESTAMP_FORMAT = Option("timestampFormat", PATTERN, NO_PATTERN, "pattern of timestamps", shown="ISO 8601")
TIMESTAMP_NTZ_FORMAT = Option(
    "timestampNTZFormat",
    PATTERN,
    None,
    "pattern of timestamps of type TIMESTAMP_NTZ",
    shown="that of `timestampFormat`",
)
TIME_ZONE = Option(
    "timeZone", Kind("a time zone, such as UTC or Europe/Berlin", _zone), None, "zone of times without one", shown=UTC
)

TIME_OPTIONS = (DATE_FORMAT, TIMESTAMP_FORMAT, TIMESTAMP_NTZ_FORMAT, TIME_ZONE)


def time_patterns(given: Mapping[str, str]) -> TimePatterns:
    """The patterns of a table; names of ``given`` are in lower case.

    Raises
    ------
    TidemillError
        TM4003 for a pattern that Spark refuses, or that is not understood here, and for an unknown zone.
    """
    dates, timestamps = DATE_FORMAT.of(given), TIMESTAMP_FORMAT.of(given)
    return TimePatterns(dates, timestamps, TIMESTAMP_NTZ_FORMAT.of(given), zone=TIME_ZONE.of(given))
