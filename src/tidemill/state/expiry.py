"""Rows of state that nothing will look up any more."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from tidemill.state.keys import KeyColumn, decode
from tidemill.state.merge import Rows


@dataclass(frozen=True)
class Expiry:
    """Rows whose key column, or a field of it that is a struct, is a time before ``before`` (microseconds)."""

    column: int
    field: int | None
    before: int


def without_expired(rows: Rows, layout: Sequence[KeyColumn], conditions: Sequence[Expiry]) -> Rows:
    """The rows that some of the conditions, of which there is one at least, do not hold for; NULL never expires."""
    width = 1 + max(c.column for c in conditions)
    columns = decode(rows.keys, layout[:width])
    gone = np.ones(len(rows.keys), np.bool_)
    for condition in conditions:
        times = columns[condition.column]
        if condition.field is not None:
            times = times.flatten()[condition.field]
        valid = times.is_valid().to_numpy(zero_copy_only=False)
        micros = times.cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False)
        gone &= valid & (micros < condition.before)
    return rows.take(np.flatnonzero(~gone)) if gone.any() else rows
