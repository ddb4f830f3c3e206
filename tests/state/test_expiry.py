"""Rows that are let go of are those below every limit, and no others."""

from __future__ import annotations

import datetime

import pyarrow as pa

from tidemill.schema import TIMESTAMP
from tidemill.state.keys.keys import KeyColumn, decode, encode
from tidemill.state.merge.merge import MergeOp, Rows, consolidate
from tidemill.state.versions.expiry import Expiry, without_expired

WINDOW = pa.struct([("start", TIMESTAMP), ("end", TIMESTAMP)])


def at(second: int) -> datetime.datetime:
    return datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC) + datetime.timedelta(seconds=second)


def rows(layout: list[KeyColumn], *columns: list[object]) -> Rows:
    arrays = [pa.array(c, k.type) for c, k in zip(columns, layout, strict=True)]
    keys = encode(arrays, layout, len(layout))
    return consolidate(keys, [pa.array([1] * len(columns[0]))], [MergeOp.SUM], drop_zero=True)


def test_rows_below_the_limit_go() -> None:
    layout = [KeyColumn(pa.int64()), KeyColumn(TIMESTAMP), KeyColumn(pa.string())]
    state = rows(layout, [1, 2, 3, 4], [at(9), at(10), None, at(-5)], ["a", "b", "c", None])
    left = without_expired(state, layout, [Expiry(1, None, 10_000_000)])
    assert sorted(decode(left.keys, layout)[0].to_pylist()) == [2, 3]
    assert len(left.values[0]) == 2


def test_windows_and_several_limits() -> None:
    layout = [KeyColumn(WINDOW)]
    windows = [{"start": at(s), "end": at(s + 10)} for s in (0, 10, 20)] + [None, {"start": None, "end": None}]
    state = rows(layout, windows)
    by_end = Expiry(0, 1, 15_000_000)
    assert len(without_expired(state, layout, [by_end]).keys) == 4
    assert len(without_expired(state, layout, [by_end, Expiry(0, 0, 0)]).keys) == 5, "both must hold"
    assert without_expired(state, layout, [Expiry(0, 1, 0)]) is state
