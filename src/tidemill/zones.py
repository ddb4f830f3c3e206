"""Time zones: their names, and what their clocks show. Rules are those of Python's time zone data.

As in Java, a local time that does not exist is later by the length of the gap, and one that exists twice is the first,
unless another offset is asked for.
"""

from __future__ import annotations

import datetime as dt
import re
import zoneinfo
from dataclasses import dataclass
from functools import cache

import numpy as np
import numpy.typing as npt

from tidemill.errors import EvaluationError, TidemillError

Ints = npt.NDArray[np.int64]

UTC = "UTC"

SHORT_IDS = {
    "EST": "-05:00", "HST": "-10:00", "MST": "-07:00", "ACT": "Australia/Darwin", "AET": "Australia/Sydney",
    "AGT": "America/Argentina/Buenos_Aires", "ART": "Africa/Cairo", "AST": "America/Anchorage",
    "BET": "America/Sao_Paulo", "BST": "Asia/Dhaka", "CAT": "Africa/Harare", "CNT": "America/St_Johns",
    "CST": "America/Chicago", "CTT": "Asia/Shanghai", "EAT": "Africa/Addis_Ababa", "ECT": "Europe/Paris",
    "IET": "America/Indiana/Indianapolis", "IST": "Asia/Kolkata", "JST": "Asia/Tokyo", "MIT": "Pacific/Apia",
    "NET": "Asia/Yerevan", "NST": "Pacific/Auckland", "PLT": "Asia/Karachi", "PNT": "America/Phoenix",
    "PRT": "America/Puerto_Rico", "PST": "America/Los_Angeles", "SST": "Pacific/Guadalcanal",
    "VST": "Asia/Ho_Chi_Minh",
}  # fmt: skip
"""Java's ``ZoneId.SHORT_IDS``."""

NOT_IN_JAVA = frozenset({"EST", "MST", "HST", "ROC", "Factory", "localtime", "GMT+0", "GMT-0"})
"""Names of Python's data that are none in Java, or mean something else there."""

_ALWAYS_UTC = frozenset(
    {"Etc/UTC", "Etc/UCT", "Etc/GMT", "Etc/Greenwich", "Etc/Universal", "Etc/Zulu", "UCT", "Universal", "Zulu"}
)
_OFFSET = re.compile(r"(?:UTC|GMT|UT)?([+-])(\d{1,2})(?::?(\d{1,2}))?(?::?(\d{2}))?")
_WRITTEN_OFFSET = re.compile(r"[+-]\d\d:\d\d")
_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_SECOND = 1_000_000
_DAY = 86_400
_WEEK = 7 * _DAY
_CYCLE = 146_097 * _DAY
_BEGIN = int((dt.datetime(1800, 1, 1, tzinfo=dt.UTC) - _EPOCH).total_seconds())
_REPEATS = int((dt.datetime(2100, 1, 1, tzinfo=dt.UTC) - _EPOCH).total_seconds())
"""From here on clocks change by a rule, which repeats with the calendar, every 400 years."""


def fixed_offset(zone: str) -> int | None:
    """The offset of a zone that is one, in seconds; None for a region.

    Raises
    ------
    EvaluationError
        TM3004 for a text that names no zone.
    """
    name = SHORT_IDS.get(zone, zone)
    if name in ("Z", UTC, "GMT", "UT"):
        return 0
    match = _OFFSET.fullmatch(name)
    if match:
        hours, minutes, seconds = (int(part or 0) for part in match.groups()[1:])
        if hours <= 18 and minutes < 60 and seconds < 60 and hours * 3600 + minutes * 60 + seconds <= 18 * 3600:
            return (hours * 3600 + minutes * 60 + seconds) * (-1 if match[1] == "-" else 1)
    elif name in zoneinfo.available_timezones():
        return None
    raise EvaluationError(
        "TM3004",
        "this is not a time zone",
        got=repr(zone),
        hint="name a region, such as Europe/Berlin, or an offset, such as +01:00",
    )


def is_utc(zone: str) -> bool:
    """Whether the clock of a zone always shows UTC. TM3004 for a text that names no zone."""
    return zone in _ALWAYS_UTC or fixed_offset(zone) == 0


def same_zone(left: str, right: str) -> bool:
    """Whether two names are of one zone."""
    return left == right or (is_utc(left) and is_utc(right))


def check_zone(text: str) -> None:
    """TM7006 unless a text can be the time zone of a mill: a region that Java and Python know, or ``+hh:mm``."""
    if _WRITTEN_OFFSET.fullmatch(text):
        hours, minutes = int(text[1:3]), int(text[4:6])
        if minutes < 60 and hours * 60 + minutes <= 18 * 60:
            return
    elif text in zoneinfo.available_timezones() - NOT_IN_JAVA:
        return
    raise TidemillError(
        "TM7006",
        "a setting cannot have this value",
        got=f"time_zone={text}",
        hint="a region, such as Europe/Berlin, or an offset, such as +05:30",
    )


@dataclass(frozen=True, eq=False)
class Clock:
    """The clock of a zone.

    Attributes
    ----------
    changes : ndarray of int64
        The instants (seconds since 1970) from which another offset counts.
    offsets : ndarray of int64
        The offsets (seconds) between them, one more.
    """

    changes: Ints
    offsets: Ints

    def offset(self, instants: Ints) -> Ints:
        """The offset in microseconds at some instants."""
        return self.offsets[self._places(instants, self.changes)] * _SECOND

    def local(self, instants: Ints) -> Ints:
        """What it shows at some instants; both are microseconds since 1970."""
        return instants + self.offset(instants)

    def instant(self, local: Ints, like: Ints | None = None) -> Ints:
        """When it shows some times; both are microseconds since 1970.

        Parameters
        ----------
        like : ndarray of int64, optional
            Offsets, as of :meth:`offset`, that count where they are among those that a local time has.
        """
        # A gap ends at its time by the offset behind, an overlap at that by the offset before: the later of the two.
        local_changes = self.changes + np.maximum(self.offsets[:-1], self.offsets[1:])
        found: Ints = local - self.offsets[self._places(local, local_changes)] * _SECOND
        if like is None:
            return found
        wanted = local - like
        return np.where(self.offset(wanted) == like, wanted, found)

    def start_of_day(self, days: Ints) -> Ints:
        """The first instants, in microseconds since 1970, of dates, in days since 1970."""
        midnight = days * (_DAY * _SECOND)
        found = self.instant(midnight)
        late = np.flatnonzero(self.local(found) != midnight)
        if len(late):  # in a gap, whose end is the first instant of the day
            late_found = found[late]
            places = self._places(late_found, self.changes)
            turn = self.changes[places - 1] + self._cycles(late_found) * _CYCLE
            found[late] = turn * _SECOND
        return found

    @staticmethod
    def _cycles(micros: Ints) -> Ints:
        cycles: Ints = np.maximum((micros // _SECOND - _REPEATS) // _CYCLE, 0)
        return cycles

    def _places(self, micros: Ints, changes: Ints) -> Ints:
        seconds = micros // _SECOND - self._cycles(micros) * _CYCLE
        places: Ints = np.searchsorted(changes, seconds, side="right")
        return places


@cache
def clock_of(zone: str) -> Clock:
    """The clock of a zone. TM3004 for a text that names none."""
    fixed = fixed_offset(zone)
    if fixed is not None:
        return Clock(np.zeros(0, np.int64), np.array([fixed], np.int64))
    rules = zoneinfo.ZoneInfo(SHORT_IDS.get(zone, zone))

    def offset(second: int) -> int:
        found = (_EPOCH + dt.timedelta(seconds=second)).astimezone(rules).utcoffset()
        assert found is not None
        return round(found.total_seconds())

    # Looked for a week at a time, up to where the rule has come round once.
    changes: list[int] = []
    offsets = [offset(_BEGIN)]
    low = _BEGIN
    while low < _REPEATS + _CYCLE:
        high = low + _WEEK
        if (new := offset(high)) != offsets[-1]:
            before, after = low, high
            while after - before > 1:
                middle = (before + after) // 2
                before, after = (middle, after) if offset(middle) == offsets[-1] else (before, middle)
            changes.append(after)
            offsets.append(offset(after))
            low = after
            if offsets[-1] != new:
                continue
        low = high
    return Clock(np.array(changes, np.int64), np.array(offsets, np.int64))
