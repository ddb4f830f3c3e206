"""Spark's datetime patterns in plain Python, one text at a time: the oracle of the kernels in tests."""

from __future__ import annotations

import datetime as dt
import re
import zoneinfo
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from tidemill.formats.values.times.time_pattern import (
    CLOCK_HOUR,
    DAY,
    DAY_OF_YEAR,
    DIGITS,
    ERA,
    FRACTION,
    GMT_SHIFT,
    HALF_DAY,
    HALF_DAY_CLOCK_HOUR,
    HALF_DAY_HOUR,
    HOUR,
    LITERAL,
    MINUTE,
    MONTH,
    NUMBER,
    OF_CENTURY,
    OFFSET,
    OPEN,
    PLUS_WHEN_LONGER,
    SECOND,
    SHIFT,
    SIGNED,
    WORD,
    YEAR,
    YEAR_OF_ERA,
    ZONE_NAME,
    TimePattern,
)
from tidemill.formats.values.times.time_zones import spoken_zones

_SIGNS = {PLUS_WHEN_LONGER: rb"([+-]?)", SIGNED: rb"(-?)"}
_SIXTIETH = rb"([0-5][0-9])"
_MOST_OFFSET = 18 * 3600


class _MismatchError(Exception):
    """A step does not fit."""


@dataclass
class _Found:
    """What a text says so far, and the offset or the zone that stands for one."""

    fields: dict[int, int] = field(default_factory=dict)
    zone: dt.tzinfo | None = None

    def put(self, name: int, value: int) -> None:
        if self.fields.setdefault(name, value) != value:
            raise _MismatchError


def plain_pattern_time(text: bytes, pattern: TimePattern, *, date: bool, zoned: bool) -> dt.datetime:
    """The time that a text spells, in UTC or without a zone; of a date, midnight.

    Parameters
    ----------
    text : bytes
    pattern : TimePattern
        One that is not plain.
    date, zoned : bool
        Whether it is for a date, or for a timestamp with a zone.

    Raises
    ------
    ValueError
        The text does not fit the pattern.
    """
    reading = _Reading(text, pattern)
    try:
        end, found = reading.section(reading.tree, 0, _Found())
    except _MismatchError as error:
        raise ValueError(text) from error
    if end != len(text):
        raise ValueError(text)
    of_day, whole_time = _time(found.fields, date)
    day, whole_date = _date(found.fields)
    offset = found.fields.get(OFFSET)
    midnight = dt.datetime.combine(day, dt.time())
    if date:
        if offset is not None and abs(offset) > _MOST_OFFSET and whole_time and whole_date:
            raise ValueError(text)
        return midnight
    if not zoned:
        if found.zone is not None or offset is not None:
            raise ValueError(text)
        return midnight + of_day
    shift = dt.timedelta(seconds=offset or 0)
    if found.zone is not None:
        local = found.zone.utcoffset(midnight + of_day)
        assert local is not None
        shift = local
    elif abs(offset or 0) > _MOST_OFFSET:
        raise ValueError(text)
    try:
        return midnight + of_day - shift
    except OverflowError as error:
        raise ValueError(text) from error


class _Reading:
    """One text and one pattern."""

    def __init__(self, text: bytes, pattern: TimePattern) -> None:
        self.text = text
        self._pattern = pattern
        rows: Iterator[list[int]] = iter(pattern.steps.tolist())

        def section() -> list[Any]:
            steps: list[Any] = []
            for row in rows:
                if row[0] > OPEN:
                    break
                steps.append(section() if row[0] == OPEN else tuple(row))
            return steps

        self.tree = section()

    def section(self, steps: list[Any], place: int, found: _Found) -> tuple[int, _Found]:
        """Read what a section of the pattern says; of one within it, all or nothing."""
        for step in steps:
            if isinstance(step, list):
                try:
                    place, found = self.section(step, place, _Found(dict(found.fields), found.zone))
                except _MismatchError:
                    continue
            else:
                place = self._step(step, place, found)
        return place, found

    def _match(self, layout: bytes, place: int) -> re.Match[bytes]:
        match = re.compile(layout, re.IGNORECASE).match(self.text, place)
        if match is None:
            raise _MismatchError
        return match

    def _words(self, first: int, count: int) -> Iterator[tuple[bytes, int]]:
        for length, value, *letters in self._pattern.words[first : first + count].tolist():
            yield bytes(letters[:length]), value

    def _step(self, step: tuple[int, ...], place: int, found: _Found) -> int:
        kind, name, *arguments = step
        if kind == LITERAL:
            return self._match(re.escape(bytes([name])), place).end()
        if kind == ZONE_NAME:
            return self._zone(place, found)
        if kind == NUMBER:
            value, place = self._number(place, *arguments)
        elif kind == DIGITS:
            match = self._match(rb"[0-9]{1,%d}" % arguments[1], place)
            value, place = int(match[0].ljust(9, b"0")), match.end()
        elif kind == WORD:
            known = {word.lower(): value for word, value in self._words(*arguments[:2])}
            longest = sorted(known, key=lambda word: len(word), reverse=True)
            match = self._match(b"|".join(re.escape(word) for word in longest), place)
            value, place = known[match[0].lower()], match.end()
        elif kind == SHIFT:
            value, place = self._shift(place, *arguments)
        else:
            assert kind == GMT_SHIFT
            value, place = self._gmt_shift(place, bool(arguments[0]))
        found.put(name, value)
        return place

    def _number(self, place: int, least: int, most: int, subsequent: int, style: int) -> tuple[int, int]:
        match = self._match(_SIGNS.get(style, b"()") + rb"([0-9]{%d,%d})" % (least, most + subsequent), place)
        sign, digits = match.groups()
        if subsequent:
            digits = digits[: max(least, len(digits) - subsequent)]
        if sign == b"-" and not int(digits):
            raise _MismatchError
        if style == PLUS_WHEN_LONGER and sign != b"-" and (sign == b"+") != (len(digits) > least):
            raise _MismatchError
        value = int(digits) + (2000 if style == OF_CENTURY else 0)
        return (-value if sign == b"-" else value), place + len(sign) + len(digits)

    def _shift(self, place: int, first: int, colon: int, minutes: int, seconds: int) -> tuple[int, int]:
        ((none, _),) = self._words(first, 1)
        if self.text[place : place + len(none)].lower() == none.lower():
            return 0, place + len(none)
        part = (b":" if colon else b"") + _SIXTIETH
        tail = rb"(?:%s)?" % part if seconds else b"()"
        match = self._match(rb"([+-])%s(?:%s%s)%s" % (_SIXTIETH, part, tail, b"" if minutes else b"?"), place)
        return self._seconds(match), match.end()

    def _seconds(self, match: re.Match[bytes]) -> int:
        sign, hours, minutes, seconds = match.groups()
        if int(hours) > 23:
            raise ValueError(self.text)
        total = int(hours) * 3600 + int(minutes or 0) * 60 + int(seconds or 0)
        return -total if sign == b"-" else total

    def _gmt_shift(self, place: int, full: bool) -> tuple[int, int]:
        place = self._match(b"GMT", place).end()
        if self.text[place : place + 1] not in (b"+", b"-"):
            return 0, place
        if len(self.text) < place + (6 if full else 2):
            raise ValueError(self.text)
        two = b"([0-9]{2})"
        layout = rb"%s:%s(?::%s)?" % (two, two, two) if full else rb"([0-9]{1,2})(?::%s(?::%s)?)?" % (two, two)
        match = self._match(rb"([+-])" + layout, place)
        sign, hours, minutes, seconds = match.groups()
        total = int(hours) * 3600 + int(minutes or 0) * 60 + int(seconds or 0)
        return (-total if sign == b"-" else total), match.end()

    def _zone(self, place: int, found: _Found) -> int:
        rest = self.text[place:].lower()
        if rest.startswith(b"gmt0"):
            found.zone = dt.UTC
            return place + 4
        prefix = next((p for p in (b"utc", b"ut", b"gmt") if rest.startswith(p)), b"")
        if prefix or rest[:1] in (b"+", b"-"):
            return self._fixed_zone(place, len(prefix), found)
        names = {name.lower().encode(): zone for name, zone in spoken_zones(self._pattern.zones).items()}
        fitting = [name for name in names if rest.startswith(name)]
        if fitting:
            longest = max(fitting, key=len)
            found.zone = zoneinfo.ZoneInfo(names[longest])
            return place + len(longest)
        if not rest.startswith(b"z"):
            raise _MismatchError
        found.zone = dt.UTC
        return place + 1

    def _fixed_zone(self, place: int, prefix: int, found: _Found) -> int:
        shift, behind = 0, place + prefix
        try:
            match = self._match(rb"([+-])%s:%s(?::%s)?" % (_SIXTIETH, _SIXTIETH, _SIXTIETH), behind)
        except _MismatchError:
            if not prefix:
                raise
        else:
            shift, behind = self._seconds(match), match.end()
        if abs(shift) > _MOST_OFFSET:
            raise _MismatchError
        found.zone = dt.timezone(dt.timedelta(seconds=shift))
        return behind


def _merge(fields: dict[int, int], name: int, value: int) -> None:
    if fields.setdefault(name, value) != value:
        raise ValueError(f"two values of one field: {fields[name]} and {value}")


def _check(fields: dict[int, int], name: int, low: int, high: int) -> None:
    if name in fields and not low <= fields[name] <= high:
        raise ValueError(f"{fields[name]} is not within {low} and {high}")


def _time(fields: dict[int, int], date: bool) -> tuple[dt.timedelta, bool]:
    """The time of day, and whether the text says it in full."""
    for clock, name, most in ((CLOCK_HOUR, HOUR, 24), (HALF_DAY_CLOCK_HOUR, HALF_DAY_HOUR, 12)):
        _check(fields, clock, 1, most)
        if clock in fields:
            _merge(fields, name, fields.pop(clock) % most)
    if HALF_DAY in fields and HALF_DAY_HOUR in fields:
        _check(fields, HALF_DAY_HOUR, 0, 11)
        _merge(fields, HOUR, fields.pop(HALF_DAY) * 12 + fields.pop(HALF_DAY_HOUR))
    given = [name in fields for name in (HOUR, MINUTE, SECOND, FRACTION)]
    full = given[0] and given == sorted(given, reverse=True)
    if given[0] and not full:
        if date:
            return dt.timedelta(), False
    else:
        _check(fields, HALF_DAY_HOUR, 0, 11)
    for name, most in ((HOUR, 23), (MINUTE, 59), (SECOND, 59)):
        _check(fields, name, 0, most)
    hour = fields.get(HOUR, fields.get(HALF_DAY_HOUR, 12 * fields.get(HALF_DAY, 0)))
    if full:
        _merge(fields, HALF_DAY, hour // 12)
        _merge(fields, HALF_DAY_HOUR, hour % 12)
    minute, second, nanos = (fields.get(name, 0) for name in (MINUTE, SECOND, FRACTION))
    return dt.timedelta(hours=hour, minutes=minute, seconds=second, microseconds=nanos // 1000), full


def _date(fields: dict[int, int]) -> tuple[dt.date, bool]:
    """The day, and whether the text says it in full."""
    _check(fields, YEAR_OF_ERA, 1, 10**9)
    if YEAR_OF_ERA in fields and (ERA in fields or YEAR in fields):
        after_christ = fields[ERA] == 1 if ERA in fields else fields[YEAR] > 0
        _merge(fields, YEAR, fields[YEAR_OF_ERA] if after_christ else 1 - fields[YEAR_OF_ERA])
    for name in (YEAR, MONTH, DAY, DAY_OF_YEAR):
        if DAY_OF_YEAR not in fields or name in (YEAR, DAY_OF_YEAR):
            _check(fields, name, 1, 9999)
    year, month, day, ordinal = (fields.get(name) for name in (YEAR, MONTH, DAY, DAY_OF_YEAR))
    if year is not None and month is not None and day is not None:
        found = dt.date(year, month, day)
        if ordinal not in (None, found.timetuple().tm_yday):
            raise ValueError("another day of the year")
        return found, True
    first = dt.date(1970 if year is None else year, 1, 1)
    if ordinal is None:
        return first.replace(month=1 if month is None else month, day=1 if day is None else day), False
    found = first
    if ordinal < 1 or (found + dt.timedelta(days=min(ordinal, 400) - 1)).year != found.year:
        raise ValueError("no such day of the year")
    found += dt.timedelta(days=ordinal - 1)
    if month not in (None, found.month) or day not in (None, found.day):
        raise ValueError("another day of the year")
    return found, year is not None
