"""Dates and timestamps as ``from_json`` and ``to_json`` read and write them: the zone is an option of the call."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidemill.task.expressions import Call, Ref
from tidemill.task.functions.arithmetic import from_numpy, to_numpy
from tidemill.task.functions.registry import FUNCTIONS, as_array
from tidemill.zones import Ints, clock_of


class TimeFormats(NamedTuple):
    """How times are written.

    Attributes
    ----------
    zone : str or None
        What the clocks show that texts without a zone mean; None for UTC.
    """

    zone: str | None = None


def formats_of(call: Call) -> TimeFormats:
    """Those of the options of a call."""
    return TimeFormats(call.option("zone"))


def read_times(texts: pa.Array, type_: pa.DataType, formats: TimeFormats) -> pa.Array:
    """``try_cast`` of texts."""
    options: tuple[tuple[str, str], ...] = (("mode", "try"),)
    if formats.zone is not None:
        options += (("zone", formats.zone),)
    source = Call("cast", (Ref(0, pa.string()),), type_, True, options)
    found: pa.Array = as_array(FUNCTIONS["cast"].kernel(source, [texts], len(texts)), len(texts))
    return found


def written_times(array: pa.Array, formats: TimeFormats) -> pa.Array:
    """``yyyy-MM-dd``, or ``yyyy-MM-dd'T'HH:mm:ss.SSS`` with the offset behind it where the type has a zone."""
    type_ = array.type
    if pa.types.is_date(type_):
        return array.cast(pa.string())
    offsets = np.zeros(len(array), np.int64)
    plain = array.cast(pa.timestamp("us"))
    if type_.tz and formats.zone is not None:
        micros = to_numpy(array.cast(pa.int64()), len(array))
        offsets = clock_of(formats.zone).offset(micros)
        plain = from_numpy(micros + offsets, pa.int64(), array).cast(pa.timestamp("us"))
    whole = pc.floor_temporal(plain, unit="millisecond").cast(pa.timestamp("ms"))
    text = pc.strftime(whole, "%Y-%m-%dT%H:%M:%S")
    return pc.binary_join_element_wise(text, offset_texts(offsets), "") if type_.tz else text


def offset_texts(offsets: Ints) -> pa.Array:
    """Offsets in microseconds as ``Z``, ``+hh:mm`` or, with the seconds of local mean times, ``+hh:mm:ss``."""
    distinct, places = np.unique(offsets // 1_000_000, return_inverse=True)
    texts = [_offset_text(int(seconds)) for seconds in distinct]
    return pa.array(texts, pa.string()).take(pa.array(places))


def _offset_text(seconds: int) -> str:
    if not seconds:
        return "Z"
    minutes, rest = divmod(abs(seconds), 60)
    text = f"{'-' if seconds < 0 else '+'}{minutes // 60:02}:{minutes % 60:02}"
    return f"{text}:{rest:02}" if rest else text
