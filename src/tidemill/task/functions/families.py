"""Imports every family of functions, so that the registry is complete."""

from tidemill.task.functions import (
    arithmetic,
    bitwise,
    cast,
    comparison,
    date_patterns,
    dates,
    decimals,
    mathematics,
    patterns,
    rounding,
    strings,
    text_positions,
    timestamps,
)

__all__ = [
    "arithmetic",
    "bitwise",
    "cast",
    "comparison",
    "date_patterns",
    "dates",
    "decimals",
    "mathematics",
    "patterns",
    "rounding",
    "strings",
    "text_positions",
    "timestamps",
]
