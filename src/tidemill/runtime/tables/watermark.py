"""The watermark of a table: options, and what they mean.

The watermark of an epoch is the greatest event time of all rows admitted in the epochs before it, less the
delay. A row whose event time is before it is late: it is not admitted. All tasks of an epoch use the same one.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from tidemill.errors import TidemillError
from tidemill.schema import TIMESTAMP, TIMESTAMP_NTZ, Schema, type_to_ddl

_MICROSECONDS = {
    "microsecond": 1,
    "millisecond": 1_000,
    "second": 1_000_000,
    "minute": 60_000_000,
    "hour": 3_600_000_000,
    "day": 86_400_000_000,
    "week": 7 * 86_400_000_000,
}
_PART = re.compile(r"\s*(\d+)\s+([a-z]+?)s?(?=\s|$)")


@dataclass(frozen=True)
class Watermark:
    """``column`` holds the event time; rows may be ``delay`` microseconds late."""

    column: str
    delay: int


def parse_watermark(options: Mapping[str, str], schema: Schema) -> Watermark | None:
    """The watermark of a table; ``options`` have lower-case names.

    Raises
    ------
    TidemillError
        TM4003 for a delay that is no interval, TM2021 for a column that is missing or no timestamp.
    """
    name = options.get("watermark")
    if name is None:
        if "watermarkdelay" in options:
            raise TidemillError(
                "TM4003",
                "bad value for option watermarkDelay",
                got=options["watermarkdelay"],
                hint="it needs the option watermark, which names the column of the event time",
            )
        return None
    field = next((f for f in schema if f.name.lower() == name.lower()), None)
    if field is None or field.type not in (TIMESTAMP, TIMESTAMP_NTZ):
        raise TidemillError(
            "TM2021",
            "watermark must name a column of event times",
            got=name if field is None else f"{name} of type {type_to_ddl(field.type)}",
            hint="a column of the table of type TIMESTAMP or TIMESTAMP_NTZ",
        )
    return Watermark(field.name, parse_delay(options.get("watermarkdelay", "0 seconds")))


def parse_delay(text: str, option: str = "watermarkDelay") -> int:
    """Microseconds of an interval such as ``10 minutes`` or ``1 hour 30 minutes``, the value of an option.

    Raises
    ------
    TidemillError
        TM4003 when it is none.
    """
    rest = text.strip().lower().removeprefix("interval ")
    total, at = 0, 0
    while at < len(rest):
        match = _PART.match(rest, at)
        if match is None or match[2] not in _MICROSECONDS:
            break
        total += int(match[1]) * _MICROSECONDS[match[2]]
        at = match.end()
    if not rest or rest[at:].strip():
        raise TidemillError(
            "TM4003",
            f"bad value for option {option}",
            got=text,
            hint="for example '10 minutes' or '1 hour 30 minutes'; units from microseconds to weeks",
        )
    return total
