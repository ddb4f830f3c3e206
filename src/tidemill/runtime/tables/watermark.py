"""The watermark of a table: its options.

The watermark of an epoch is the greatest event time of all rows admitted in the epochs before it, less the
delay. A row whose event time is before it is late: it is not admitted. All tasks of an epoch use the same one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tidemill.errors import TidemillError
from tidemill.options.tables import WATERMARK, WATERMARK_DELAY
from tidemill.schema import TIMESTAMP, TIMESTAMP_NTZ, Schema, type_to_ddl


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
    name = WATERMARK.of(options)
    if name is None:
        if WATERMARK_DELAY.key in options:
            hint = "it needs the option watermark, which names the column of the event time"
            raise WATERMARK_DELAY.bad(options[WATERMARK_DELAY.key], hint)
        return None
    field = next((f for f in schema if f.name.lower() == name.lower()), None)
    if field is None or field.type not in (TIMESTAMP, TIMESTAMP_NTZ):
        raise TidemillError(
            "TM2021",
            "watermark must name a column of event times",
            got=name if field is None else f"{name} of type {type_to_ddl(field.type)}",
            hint="a column of the table of type TIMESTAMP or TIMESTAMP_NTZ",
        )
    return Watermark(field.name, WATERMARK_DELAY.of(options))
