"""Expiry of rows of state that can no longer be looked up."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np
import pyarrow as pa

from tidemill.kernels.words import Bools, Ints
from tidemill.state.keys.keys import KeyColumn, decode
from tidemill.state.merge.merge import Rows
from tidemill.state.versions.version import Span

_FOREVER = 2**63 - 1


@dataclass(frozen=True)
class Expiry:
    """Rows whose key column, or a field of it that is a struct, is a time before ``before`` (microseconds)."""

    column: int
    field: int | None
    before: int


def without_expired(rows: Rows, layout: Sequence[KeyColumn], conditions: Sequence[Expiry]) -> Rows:
    """The rows for which not all conditions (at least one) hold; NULL never expires."""
    gone = np.ones(len(rows.keys), np.bool_)
    for condition, (valid, micros) in zip(conditions, _times(rows, layout, conditions), strict=True):
        gone &= valid & (micros < condition.before)
    return rows.take(np.flatnonzero(~gone)) if gone.any() else rows


def spans(rows: Rows, layout: Sequence[KeyColumn], conditions: Sequence[Expiry]) -> tuple[Span, ...]:
    """The range of the times of each condition; without an upper bound if some are NULL."""
    if not len(rows.keys):
        return ()
    found = []
    for condition, (valid, micros) in zip(conditions, _times(rows, layout, conditions), strict=True):
        known = micros[valid]
        oldest = int(known.min()) if len(known) else _FOREVER
        newest = int(known.max()) if len(known) == len(micros) else _FOREVER
        found.append(Span(condition.column, condition.field, oldest, newest))
    return tuple(found)


def joint_spans(given: Sequence[tuple[Span, ...]]) -> tuple[Span, ...]:
    """The spans of several runs together; empty unless all are known."""
    if len({tuple(s[:2] for s in spans) for spans in given}) != 1:
        return ()
    return tuple(
        Span(same[0].column, same[0].field, min(s.oldest for s in same), max(s.newest for s in same))
        for same in zip(*given, strict=True)
    )


def _times(rows: Rows, layout: Sequence[KeyColumn], conditions: Sequence[Expiry]) -> Iterator[tuple[Bools, Ints]]:
    """By condition: which rows have a time, and the times in microseconds."""
    width = 1 + max(c.column for c in conditions)
    columns = decode(rows.keys, layout[:width])
    for condition in conditions:
        times = columns[condition.column]
        if condition.field is not None:
            times = cast("pa.StructArray", times).flatten()[condition.field]
        valid = times.is_valid().to_numpy(zero_copy_only=False)
        yield valid, times.cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False)
