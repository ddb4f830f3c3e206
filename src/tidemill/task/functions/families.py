"""Imports every family of functions, so that the registry is complete."""

from tidemill.task.functions import (
    arithmetic,
    array_elements,
    arrays,
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
    structs,
    text_positions,
    timestamps,
)

__all__ = [
    "arithmetic",
    "array_elements",
    "arrays",
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
    "structs",
    "text_positions",
    "timestamps",
]
