"""The changes of an epoch as text: an update is one line with the old and the new values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from tidemill.cli.query.far_years import values_of
from tidemill.cli.query.output import aligned, shown_columns
from tidemill.schema import WEIGHT

_UPDATED = "±1"
_MOST_UPDATES = 100_000
"""Updates among more changed rows are shown as a removed and an added row."""


def in_order(changes: pa.Table) -> pa.Table:
    """The rows by their columns from left to right, removed ones before added ones."""
    names = [f.name for f in changes.schema if f.name != WEIGHT and not pa.types.is_nested(f.type)]
    if not changes.num_rows or len(set(names)) < len(names):
        return changes
    return changes.take(pc.sort_indices(changes, sort_keys=[(n, "ascending") for n in (*names, WEIGHT)]))


def as_text(changes: pa.Table) -> str:
    """Aligned columns, one line a change; where a row took the place of another, the cells that differ show both."""
    changes = in_order(changes)
    columns = shown_columns(changes)
    rows = list(zip(*columns, strict=True))
    weights = changes.column(WEIGHT).to_pylist()
    old = [i for i, w in enumerate(weights) if w == -1]
    new = [i for i, w in enumerate(weights) if w == 1]
    values = list(zip(*(values_of(c) for c in changes.drop_columns([WEIGHT]).columns), strict=True))
    pairs = _pairs(values, old, new) if 0 < len(old) + len(new) <= _MOST_UPDATES else {}
    lines = []
    for i, row in enumerate(rows):
        if i in pairs:
            cells = [a if a == b else f"{a} → {b}" for a, b in zip(rows[pairs[i]], row, strict=True)]
            cells[changes.column_names.index(WEIGHT)] = _UPDATED
            lines.append(cells)
        elif i not in pairs.values():
            lines.append(list(row))
    texts = [list(column) for column in zip(*lines, strict=True)] if lines else [[] for _ in columns]
    return aligned(changes.schema, texts)


def _pairs(values: Sequence[tuple[Any, ...]], old: Sequence[int], new: Sequence[int]) -> dict[int, int]:
    """The old row of each new row that replaces one, by index: rows that agree in the columns of a key.

    The key is guessed: a single column, the first columns, or all columns but one, in which no two old rows and no two
    new ones are alike. The key that pairs most rows is taken.
    """
    if not old or not new:
        return {}
    width = len(values[old[0]])
    every = tuple(range(width))
    candidates = (
        [every[:n] for n in range(1, width)] + [(n,) for n in every] + [(*every[:n], *every[n + 1 :]) for n in every]
    )
    best: dict[int, int] = {}
    for columns in dict.fromkeys(c for c in candidates if c):
        before = {_key(values[i], columns): i for i in old}
        after = {_key(values[i], columns): i for i in new}
        if len(before) == len(old) and len(after) == len(new):
            found = {i: before[key] for key, i in after.items() if key in before}
            if len(found) > len(best):
                best = found
    return best


def _key(row: tuple[Any, ...], columns: Sequence[int]) -> tuple[str, ...]:
    return tuple(repr(row[c]) for c in columns)
