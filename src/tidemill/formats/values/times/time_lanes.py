"""Dates and timestamps in lanes, see :mod:`tidemill.formats.values.numbers.lanes`: ``yyyy-MM-dd`` and, behind a blank
or a ``T``, ``HH:mm:ss``. All else, and the 29th of February, stays ``UNDECIDED``."""

from __future__ import annotations

# mypy: allow-untyped-defs
import numpy as np

from tidemill.formats.values.field_text import UNDECIDED, VALID
from tidemill.kernels.byte_masks import byte_at, inlined, kernel, load_word

_U1 = np.uint64(1)
_U2 = np.uint64(2)
_U3 = np.uint64(3)
_TEN = np.uint64(10)
_DIGIT = np.uint64(15)
_ABOVE_NINE = np.uint64(0x7676767676767676)
_HIGH_BITS = np.uint64(0x8080808080808080)
_HEAD = np.uint64(int.from_bytes(b"0000-00-", "little"))
_HEAD_MARKS = np.uint64(0xFF0000FF00000000)
_DATE = np.uint64(int.from_bytes(b"00-00-00", "little"))
_TIME = np.uint64(int.from_bytes(b"00:00:00", "little"))
_PAIR_MARKS = np.uint64(0x0000FF0000FF0000)
_EPOCH = 719_468
_DAY_MICROS = 86_400_000_000
_SECOND_MICROS = 1_000_000
DATE_LENGTH = 10
TIME_LENGTH = 19


@kernel
def gather_times(buf, starts, ends, length, heads, dates, times, marks):
    """Bring the bytes of fields of one length together.

    Parameters
    ----------
    buf : ndarray of uint8
    starts, ends : ndarray of int32, shape (rows,)
    length : int
        ``DATE_LENGTH`` or ``TIME_LENGTH``.
    heads, dates, times, marks : ndarray of uint64, shape (>= rows,)
        Receive bytes 0 to 7, 2 to 9, and of the longer ones 11 to 18 and byte 10; zeros for a field of another length.

    Returns
    -------
    int
        How many fields have another length.
    """
    others = np.int64(0)
    for i in range(starts.size):
        start = np.int64(starts[i])
        if np.int64(ends[i]) - start == length:
            heads[i] = load_word(buf, start)
            dates[i] = load_word(buf, start + 2)
            if length == TIME_LENGTH:
                times[i] = load_word(buf, start + 11)
                marks[i] = np.uint64(byte_at(buf, start + 10))
        else:
            heads[i] = np.uint64(0)
            others += 1
    return others


@inlined
def _pair(word, place):
    """The number of two digits, of which the first is byte ``place`` of the word."""
    return ((word >> place) & _DIGIT) * _TEN + ((word >> (place + np.uint64(8))) & _DIGIT)


@inlined
def _days(head, date):
    """Days since 1970-01-01 of ``yyyy-MM-dd``, and whether it is a date that lanes read."""
    head ^= _HEAD
    date ^= _DATE
    strange = (((head + _ABOVE_NINE) | head) | ((date + _ABOVE_NINE) | date)) & _HIGH_BITS
    strange |= (head & _HEAD_MARKS) | (date & _PAIR_MARKS)
    year = _pair(head, np.uint64(0)) * np.uint64(100) + _pair(head, np.uint64(16))
    month = _pair(head, np.uint64(40))
    day = _pair(date, np.uint64(48))
    longest = np.uint64(28) if month == _U2 else np.uint64(30) + ((month + (month >> _U3)) & _U1)
    good = (strange == np.uint64(0)) & (year != np.uint64(0))
    good &= (month - _U1 < np.uint64(12)) & (day - _U1 < longest)
    early = np.uint64(month <= _U2)
    year -= early
    # Divisions by 100 and 5 as multiplications, right for years up to 9999 and days of a year.
    centuries = (year * np.uint64(5243)) >> np.uint64(19)
    since_march = month + np.uint64(12) * early - _U3
    of_year = ((np.uint64(153) * since_march + _U2) * np.uint64(52429) >> np.uint64(18)) + day - _U1
    leaps = (year >> _U2) - centuries + (centuries >> _U2)
    return np.int64(np.uint64(365) * year + leaps + of_year) - _EPOCH, good


@kernel
def date_lanes(heads, dates, out, status):
    """Days since 1970-01-01 of gathered fields; returns how many are ``UNDECIDED``.

    Parameters
    ----------
    heads, dates : ndarray of uint64
        As :func:`gather_times` leaves them.
    out : ndarray of int32, shape (rows,)
    status : ndarray of uint8, shape (rows,)
        Receives ``VALID`` or ``UNDECIDED``.
    """
    undecided = np.int64(0)
    for i in range(out.size):
        days, good = _days(heads[i], dates[i])
        out[i] = days
        status[i] = VALID if good else UNDECIDED
        undecided += np.int64(not good)
    return undecided


@kernel
def timestamp_lanes(heads, dates, times, marks, out, status):
    """Microseconds since 1970-01-01 00:00:00 UTC; the rest as for :func:`date_lanes`.

    Parameters
    ----------
    out : ndarray of int64, shape (rows,)
    """
    undecided = np.int64(0)
    for i in range(out.size):
        days, good = _days(heads[i], dates[i])
        time = times[i] ^ _TIME
        strange = (((time + _ABOVE_NINE) | time) & _HIGH_BITS) | (time & _PAIR_MARKS)
        hour = _pair(time, np.uint64(0))
        minute = _pair(time, np.uint64(24))
        second = _pair(time, np.uint64(48))
        good &= (strange == np.uint64(0)) & (hour < np.uint64(24)) & (minute < np.uint64(60)) & (second < np.uint64(60))
        good &= (marks[i] == np.uint64(32)) | (marks[i] == np.uint64(84))
        of_day = (hour * np.uint64(60) + minute) * np.uint64(60) + second
        out[i] = days * _DAY_MICROS + np.int64(of_day) * _SECOND_MICROS
        status[i] = VALID if good else UNDECIDED
        undecided += np.int64(not good)
    return undecided
