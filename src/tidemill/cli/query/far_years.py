"""Dates and timestamps in years that Python's own types lack: before 1 and after 9999."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from tidemill.zones import UTC, clock_of


def values_of(column: pa.ChunkedArray[Any], exact: bool = False) -> list[Any]:
    """The values of a column as Python's, but for dates and timestamps that Python lacks: those are Spark's texts.

    Parameters
    ----------
    exact : bool
        Whether the text of a timestamp outside UTC is followed by its offset.
    """
    try:
        return column.to_pylist()
    except (OverflowError, ValueError):  # whole columns at once are much faster, and such years are rare
        return [_value(scalar, exact) for scalar in column]


def _value(scalar: Any, exact: bool) -> Any:
    type_ = scalar.type
    if not scalar.is_valid:
        return None
    if pa.types.is_map(type_):
        entries = scalar.values
        return [(_value(k, exact), _value(v, exact)) for k, v in zip(entries.field(0), entries.field(1), strict=True)]
    if pa.types.is_list(type_):
        return [_value(v, exact) for v in scalar.values]
    if pa.types.is_struct(type_):
        return {field.name: _value(scalar[i], exact) for i, field in enumerate(type_)}
    if not (pa.types.is_date(type_) or pa.types.is_timestamp(type_)):
        return scalar.as_py()
    try:
        return scalar.as_py()
    except (OverflowError, ValueError):
        return _text(pa.array([scalar]), exact)


def _text(array: pa.Array[Any], exact: bool) -> str:
    from tidemill.task.functions.times.time_formats import offset_texts
    from tidemill.task.functions.times.time_text import date_text, timestamp_text

    if pa.types.is_date(array.type):
        return str(date_text(array)[0])
    micros = array.cast(pa.int64()).to_numpy()
    zone = getattr(array.type, "tz", None)
    offset = np.zeros(1, np.int64) if zone is None else clock_of(zone).offset(micros)
    text = str(timestamp_text(pa.array(micros + offset))[0])
    return text + str(offset_texts(offset)[0]).replace("Z", "+00:00") if exact and zone not in (None, UTC) else text
