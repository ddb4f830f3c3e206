"""Intervals in PostgreSQL's own style: ``1 year 2 mons -3 days +04:05:06.7``."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidemill.serve.postgres.values.plain_arrays import interval_parts
from tidemill.task.functions.columns.compute import pc

Ints = npt.NDArray[np.int64]


def interval_texts(array: pa.Array[Any]) -> pa.Array[Any]:
    """The texts of an array of ``month_day_nano_interval``, NULL for NULL."""
    parts = interval_parts(array)
    months, days = parts["months"].astype(np.int64), parts["days"].astype(np.int64)
    micros = np.trunc(parts["nanos"] / 1000).astype(np.int64)
    years = np.trunc(months / 12).astype(np.int64)
    months = months - years * 12
    negative = np.zeros(len(array), np.bool_)
    pieces: list[Any] = []
    for numbers, unit in ((years, "year"), (months, "mon"), (days, "day")):
        pieces.append(_counted(numbers, unit, negative))
        negative = np.where(numbers != 0, numbers < 0, negative)  # of the last field that is written
    nothing = (years == 0) & (months == 0) & (days == 0)
    pieces.append(_clock(micros, negative, nothing))
    texts = pc.utf8_trim_whitespace(pc.binary_join_element_wise(*pieces, ""))
    return pc.if_else(array.is_valid(), texts, pa.scalar(None, pa.string()))


def _counted(numbers: Ints, unit: str, after_negative: npt.NDArray[np.bool_]) -> pa.Array[Any]:
    """``3 days `` and so on; nothing for 0."""
    sign = pc.if_else(pa.array(after_negative & (numbers > 0)), "+", "")
    name = pc.if_else(pa.array(numbers == 1), f" {unit} ", f" {unit}s ")
    texts = pc.binary_join_element_wise(sign, pa.array(numbers).cast(pa.string()), name, "")
    return pc.if_else(pa.array(numbers == 0), "", texts)


def _clock(micros: Ints, after_negative: npt.NDArray[np.bool_], always: npt.NDArray[np.bool_]) -> pa.Array[Any]:
    """``04:05:06.7``; nothing for 0, unless there is nothing else."""
    size = np.abs(micros)
    hours, rest = np.divmod(size, 3_600_000_000)
    sign = np.where(micros < 0, "-", np.where(after_negative & (micros > 0), "+", ""))
    clock = pa.array(rest, pa.time64("us")).cast(pa.string())  # 00:05:06.700000
    clock = pc.utf8_rtrim(pc.utf8_rtrim(clock, "0"), ".") if rest.any() else clock
    clock = pc.utf8_slice_codeunits(clock, 2, None)
    clock = pc.if_else(pa.array(rest % 60_000_000 == 0), _whole_minutes(rest), clock)
    hour = pc.utf8_lpad(pa.array(hours).cast(pa.string()), 2, "0")
    texts = pc.binary_join_element_wise(pa.array(sign.tolist(), pa.string()), hour, clock, "")
    return pc.if_else(pa.array((micros != 0) | always), texts, "")


def _whole_minutes(rest: Ints) -> pa.Array[Any]:
    minutes = pc.utf8_lpad(pa.array(rest // 60_000_000).cast(pa.string()), 2, "0")
    return pc.binary_join_element_wise(":", minutes, ":00", "")
