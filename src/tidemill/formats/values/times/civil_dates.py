"""Days of the proleptic Gregorian calendar."""

from __future__ import annotations

# mypy: allow-untyped-defs
from tidemill.kernels.byte_masks import inlined


@inlined
def days_in_month(year, month):
    """Length of a month of the proleptic Gregorian calendar."""
    if month == 2:
        return 29 if year % 4 == 0 and (year % 100 != 0 or year % 400 == 0) else 28
    return 30 if month == 4 or month == 6 or month == 9 or month == 11 else 31


@inlined
def days_from_civil(year, month, day):
    """Days from 1970-01-01 (Hinnant, "chrono-Compatible Low-Level Date Algorithms", for years from 0)."""
    if month <= 2:
        year -= 1
    era = (year if year >= 0 else year - 399) // 400
    year_of_era = year - era * 400
    day_of_year = (153 * (month + (-3 if month > 2 else 9)) + 2) // 5 + day - 1
    day_of_era = year_of_era * 365 + year_of_era // 4 - year_of_era // 100 + day_of_year
    return era * 146097 + day_of_era - 719468


@inlined
def checked_days(year, month, day):
    """Days from 1970-01-01, and whether there is such a day in the years 1 to 9999."""
    if year < 1 or month < 1 or month > 12 or day < 1 or day > days_in_month(year, month):
        return 0, False
    return days_from_civil(year, month, day), True
