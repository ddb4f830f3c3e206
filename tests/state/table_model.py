"""A state table as a plain dictionary: what memtables and readers are checked against."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from tidemill.state.keys.keys import Keys, sort
from tidemill.state.merge.merge import MergeOp, Rows

OPS = (
    MergeOp.SUM,
    MergeOp.SUM,
    MergeOp.MIN,
    MergeOp.MAX,
    MergeOp.LAST,
    MergeOp.SUM_I128,
    MergeOp.SUM_DD,
    MergeOp.SUM_QD,
)
_F, _I = pa.float64(), pa.int64()
NESTED = pa.struct([("a", pa.list_(_F)), ("m", pa.map_(pa.string(), _I))])
TYPES = (_I, _F, _F, pa.string(), NESTED, _I, _I, _F, _F, _F, _F, _F, _F)
ABSENT = (0, 0.0, None, None, None, 0, 0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0)

MULTISET = (MergeOp.SUM,)
UPSERT = (MergeOp.SUM, MergeOp.LAST)
UPSERT_TYPES = (_I, pa.string())

Values = tuple[Any, ...]
Written = list[tuple[bytes, Values]]
_GROUPS = [b"", b"\0", b"\1", b"ga", b"gb", b"gb1", b"\xff\xff", b"h" * 20]


def key(rng: random.Random) -> bytes:
    """A group that is no prefix of another, then a tail: NULL (0x00) or 0x01 and a value."""
    group = rng.choice(_GROUPS)
    tail = b"\0" if rng.random() < 0.1 else b"\1" + rng.randrange(60).to_bytes(1, "big")
    return bytes([len(group)]) + group + tail


def prefixes() -> list[bytes]:
    """Those of all groups, and one that no key has."""
    return sorted([bytes([len(g)]) + g for g in _GROUPS] + [b"\7nothing"])


def wide_values(rng: random.Random) -> Values:
    """One value of every kind of operation; sums are of small whole numbers, so that they are exact."""
    n = rng.randrange(-4, 5)
    number = rng.choice([None, math.nan, -0.5, 1.5, math.inf])
    text = rng.choice([None, "", "x", "xy", "ü"])
    nested = rng.choice([None, {"a": [1.0, None], "m": [("k", 1)]}, {"a": None, "m": []}])
    return (
        rng.choice([-1, 0, 1, 1]),
        float(n),
        number,
        text,
        nested,
        n,
        n >> 63,
        *[float(n), 0.0],
        float(n),
        0.0,
        0.0,
        0.0,
    )


def columns(values: Sequence[Values], types: Sequence[pa.DataType]) -> list[pa.Array]:
    return [pa.array([v[i] for v in values], type_) for i, type_ in enumerate(types)]


def keys_of(items: Sequence[bytes]) -> Keys:
    return Keys.from_arrow(pa.array(list(items), pa.large_binary()))


def sorted_rows(written: Written, types: Sequence[pa.DataType]) -> Rows:
    """Rows of distinct keys as a sorted run."""
    keys = keys_of([k for k, _ in written])
    return Rows(keys, tuple(columns([v for _, v in written], types))).take(sort(keys))


class Model:
    """All keys ever written, with their combined values."""

    def __init__(self, ops: Sequence[MergeOp]) -> None:
        self.ops = ops
        self.rows: dict[bytes, Values] = {}

    def write(self, written: Written) -> None:
        for k, values in written:
            old = self.rows.get(k)
            self.rows[k] = values if old is None else self._combined(old, values)

    def _combined(self, old: Values, new: Values) -> Values:
        result: list[Any] = []
        for op in self.ops:
            at = len(result)
            if op is MergeOp.LAST:
                result.append(new[at])
            elif op in (MergeOp.MIN, MergeOp.MAX):
                there = [v for v in (old[at], new[at]) if v is not None]
                pick = min if op is MergeOp.MIN else max
                result.append(pick(there, key=lambda v: (v != v, 0 if v != v else v)) if there else None)
            elif op is MergeOp.SUM_I128:
                total = (old[at + 1] << 64) + old[at] % 2**64 + (new[at + 1] << 64) + new[at] % 2**64
                low = total % 2**64
                high = (total >> 64) % 2**64
                result += [x - 2**64 if x >= 2**63 else x for x in (low, high)]
            else:
                result += [old[at + i] + new[at + i] for i in range(op.columns)]
        return tuple(result)

    def between(self, low: bytes = b"", high: bytes | None = None, prefix: bytes = b"", zero: bool = False) -> Written:
        """Rows in order of their keys, by default without those of weight 0."""
        return [
            (k, v)
            for k, v in sorted(self.rows.items(), key=lambda item: item[0])
            if k >= low and (high is None or k < high) and k.startswith(prefix) and (zero or v[0])
        ]


def listed(rows: Rows) -> Written:
    """Rows as (key, values)."""
    return list(zip(rows.keys.to_arrow().to_pylist(), tuples(rows.values), strict=True))


def tuples(values: Sequence[pa.Array]) -> list[Values]:
    return list(zip(*(v.to_pylist() for v in values), strict=True))


def same(found: Any, expected: Any) -> bool:
    """Equal, NaN being NaN."""
    return repr(found) == repr(expected)


def weights(rng: random.Random, count: int) -> Written:
    """Rows of a multiset in any order, keys perhaps more than once."""
    return [(key(rng), (rng.choice([-1, 1, 1, 2]),)) for _ in range(count)]


def distinct(written: Written) -> Written:
    """The last of each key."""
    return list(dict(written).items())
