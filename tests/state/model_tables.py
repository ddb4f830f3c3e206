"""Tables of every kind as plain dictionaries, and as runs: what the model of a shared buffer compares."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from tidemill.state.keys.keys import KeyColumn, Keys, decode, encode, prefix, sort
from tidemill.state.lookup import lookup
from tidemill.state.merge.merge import MergeOp, Rows, consolidate, merge
from tidemill.state.store.store import RunStore
from tidemill.state.versions.version import Run, Version
from tidemill.task.program import StateTable, multiset_table

I64, F64, TEXT = pa.int64(), pa.float64(), pa.string()
SUM, LAST = MergeOp.SUM, MergeOp.LAST
WIDE = 1 << 64

Key: TypeAlias = tuple[Any, ...]
Values: TypeAlias = tuple[Any, ...]
Content: TypeAlias = dict[Key, Values]

UPSERT = StateTable("rows", (KeyColumn(I64), KeyColumn(TEXT)), 1, (I64, I64, TEXT), (SUM, LAST, LAST))
"""A table with a primary key: a weight, and the newest values."""
NEWEST = StateTable("list", (KeyColumn(TEXT),), 1, (I64,), (LAST,))
"""Positions of files: the newest value, never deleted."""
ADDITIVE = StateTable(
    "sums", (KeyColumn(I64),), 1, (I64, I64, I64, I64, F64, F64), (SUM, SUM, MergeOp.SUM_I128, MergeOp.SUM_DD)
)
"""Groups: how many rows, and sums of them."""
EXTREMES = StateTable("extremes", (KeyColumn(I64),), 1, (I64, I64, TEXT), (SUM, MergeOp.MIN, MergeOp.MAX))
"""Groups of tables that only grow."""
MULTISET = multiset_table("bag", (I64, TEXT), 1)
TABLES = {t.id: t for t in (UPSERT, NEWEST, ADDITIVE, EXTREMES, MULTISET)}


# -- rows and dictionaries --------------------------------------------------------------------------


def columns_of(keys: Iterable[Key], table: StateTable, width: int | None = None) -> list[pa.Array]:
    """Keys as Arrow columns."""
    rows = list(keys)
    return [pa.array([k[i] for k in rows], c.type) for i, c in enumerate(table.key[:width])]


def encoded(keys: Iterable[Key], table: StateTable) -> Keys:
    """Keys as bytes, in the order given."""
    return encode(columns_of(keys, table), table.key, table.distribution)


def to_rows(writes: list[tuple[Key, Values]], table: StateTable) -> Rows:
    """A batch of writes, oldest first, as a sorted run; values are one per Arrow column."""
    values = [pa.array([v[i] for _, v in writes], t) for i, t in enumerate(table.value_types)]
    return consolidate(encoded((k for k, _ in writes), table), values, table.ops, drop_zero=table.is_multiset)


def to_content(rows: Rows, table: StateTable) -> Content:
    """Combined rows as a dictionary; as they are, rows of weight 0 included."""
    keys = zip(*(c.to_pylist() for c in decode(rows.keys, table.key)), strict=True)
    values = zip(*(c.to_pylist() for c in rows.values), strict=True)
    found = dict(zip(keys, (meaning(table, v) for v in values), strict=True))
    assert len(found) == len(rows), "a key occurs twice"
    return found


def meaning(table: StateTable, values: Values) -> Values:
    """What the Arrow values of a row mean: 128-bit and double-double sums as one number."""
    if table is ADDITIVE:
        n, total, low, high, big, small = values
        return (n, total, (high << 64) + low % WIDE, big + small)
    return values


def stored(table: StateTable, values: Values) -> Values:
    """The Arrow values of a contribution."""
    if table is ADDITIVE:
        n, total, wide, real = values
        low = wide % WIDE
        return (n, total, low - WIDE if low >= WIDE // 2 else low, wide >> 64, real, 0.0)
    return values


def add(table: StateTable, content: Content, key: Key, values: Values) -> None:
    """What a write means for a dictionary."""
    before = content.get(key)
    if table is NEWEST:
        content[key] = values
        return
    weight = values[0] + (before[0] if before else 0)
    if table is UPSERT:
        after: Values = (weight, *values[1:])
    elif table is EXTREMES and before is not None:
        known = [[x for x in pair if x is not None] for pair in zip(before[1:], values[1:], strict=True)]
        after = (weight, min(known[0], default=None), max((t.encode() for t in known[1]), default=None))
        after = (*after[:2], None if after[2] is None else after[2].decode())
    elif before is not None:
        after = tuple(a + b for a, b in zip(before, values, strict=True))
    else:
        after = values
    if any(after) if table is ADDITIVE else weight:  # sums of a group may come before its count
        content[key] = after
    else:
        content.pop(key, None)


# -- reading ----------------------------------------------------------------------------------------


def combined(runs: list[Rows], table: StateTable) -> Content:
    """All rows of some runs, oldest first, together."""
    if not runs:
        return {}
    return to_content(merge(runs, table.ops, drop_zero=table.ops[0] is SUM), table)


def read_all(store: RunStore, version: Version, table: StateTable, epoch: int | None = None) -> Content:
    """A table at an epoch."""
    return combined([store.open(r) for r in version.runs(table.id, epoch)], table)


def read_range(store: RunStore, runs: Iterable[Run], table: StateTable, low: int, high: int) -> Content:
    """The rows of some vnodes."""
    return combined(store.open_range(runs, low, high), table)


def read_keys(runs: list[Rows], table: StateTable, keys: Iterable[Key]) -> Content:
    """The keys that are there."""
    wanted = list(set(keys))
    probes = encoded(wanted, table)
    order = sort(probes)
    found, values = lookup.get(runs, probes.take(order), table.ops, table.value_types, table.ops[0] is SUM)
    rows = zip(*(v.to_pylist() for v in values), strict=True)
    return {wanted[i]: meaning(table, v) for i, there, v in zip(order, found, rows, strict=True) if there}


def read_prefixes(runs: list[Rows], table: StateTable, firsts: Iterable[Any]) -> Content:
    """The rows whose first key column is one of these."""
    probes = _prefixes(table, firsts)
    _, rows = lookup.scan_prefix(runs, probes, table.ops, table.ops[0] is SUM, table.value_types)
    return to_content(rows, table)


def read_ends(runs: list[Rows], table: StateTable, firsts: Iterable[Any], reverse: bool) -> Content:
    """Of each first key column the first row, or the last."""
    probes = _prefixes(table, firsts)
    found, keys, values = lookup.first_with_prefix(runs, probes, reverse, table.ops, value_types=table.value_types)
    which = np.flatnonzero(found)
    return to_content(Rows(keys.take(which), tuple(v.take(pa.array(which)) for v in values)), table)


def _prefixes(table: StateTable, firsts: Iterable[Any]) -> Keys:
    columns = columns_of([(f,) for f in set(firsts)], table, 1)
    probes = prefix(columns, table.key, table.distribution)
    return probes.take(sort(probes))


def vnode_of(table: StateTable, keys: Iterable[Key]) -> dict[Key, int]:
    """The vnode of each key."""
    rows = list(keys)
    data = encoded(rows, table)
    return {k: int.from_bytes(data[i][:2], "big") for i, k in enumerate(rows)}


def same(found: Content, expected: Content, table: StateTable) -> None:
    """Fails with what differs."""
    expected = {k: v for k, v in expected.items() if v[0] or table.ops[0] is not SUM}
    if found == expected:
        return
    wrong = {
        k: (found.get(k), expected.get(k)) for k in found.keys() | expected.keys() if found.get(k) != expected.get(k)
    }
    raise AssertionError(f"{table.id}: found, expected: {dict(list(wrong.items())[:5])}")
