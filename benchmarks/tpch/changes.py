"""The tables of TPC-H as epochs of changes: rows come, some go again, some of those come back.

Orders come in the order of their keys, lineitems with their orders; customers, parts, suppliers and partsupps come
in between, most of them early, some after rows that refer to them. A tenth of the orders is deleted later with all
their lineitems, and a few percent of the other rows; half of the latter come back.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq

OPERATION = "op"
_GONE_ORDERS, _GONE_OTHERS, _BACK = 0.10, 0.04, 0.5
_EARLY = 0.4
_DDL = {pa.int64(): "BIGINT", pa.int32(): "INT", pa.string(): "STRING", pa.date32(): "DATE", pa.float64(): "DOUBLE"}
_DDL |= {pa.timestamp("us", "UTC"): "TIMESTAMP"}
_FIXED = ("region", "nation")

Times: TypeAlias = tuple[np.ndarray, np.ndarray, np.ndarray]
"""Row, weight and time in [0, 1) of each change of a table."""


def generate(directory: Path, scale: float) -> dict[str, pa.Table]:
    """All eight tables at a scale factor, from ``tpchgen-cli`` unless they are in ``directory``."""
    if not (directory / "lineitem.parquet").exists():
        program = Path(sys.executable).with_name("tpchgen-cli")
        subprocess.run(
            [program, "parquet", "--scale-factor", str(scale), "--output-dir", directory],
            check=True,
            capture_output=True,
        )
    return {path.stem: _plain(pq.read_table(path)) for path in sorted(directory.glob("*.parquet"))}


def _plain(table: pa.Table) -> pa.Table:
    """The same rows with ``string`` for ``string_view``."""
    fields = [pa.field(f.name, pa.string() if pa.types.is_string_view(f.type) else f.type) for f in table.schema]
    return table.cast(pa.schema(fields)).combine_chunks()


def ddl(schema: pa.Schema) -> str:
    """Columns of a table in SQL."""
    return ", ".join(
        f"{f.name} " + (f"DECIMAL({f.type.precision},{f.type.scale})" if pa.types.is_decimal(f.type) else _DDL[f.type])
        for f in schema
    )


@dataclass(frozen=True)
class Events:
    """Changes of one table, ordered by epoch: which row, +1 or -1, and the epoch (from 1)."""

    rows: np.ndarray
    weights: np.ndarray
    epochs: np.ndarray


@dataclass(frozen=True)
class Changes:
    """Tables and what happens to their rows.

    A row that comes twice has gone in between, in an earlier epoch or the same one.
    """

    tables: Mapping[str, pa.Table]
    events: Mapping[str, Events]

    @property
    def epochs(self) -> int:
        """Number of the last epoch."""
        return max(int(e.epochs[-1]) for e in self.events.values() if len(e.epochs))

    def size(self, epoch: int, names: Collection[str] | None = None) -> int:
        """Changes in an epoch, over all tables, or those of some names."""
        events = self.events.values() if names is None else [self.events[n] for n in names]
        return sum(int(np.count_nonzero(e.epochs == epoch)) for e in events)

    def of(self, name: str, epoch: int) -> tuple[pa.Table, np.ndarray]:
        """Changed rows of a table in an epoch with their weights."""
        events = self.events[name]
        start, end = np.searchsorted(events.epochs, [epoch, epoch + 1])
        return self.tables[name].take(pa.array(events.rows[start:end])), events.weights[start:end]

    def surviving(self, name: str, epoch: int) -> pa.Table:
        """Rows of a table that are there once an epoch is over."""
        events, table = self.events[name], self.tables[name]
        end = np.searchsorted(events.epochs, epoch + 1)
        counts = np.bincount(events.rows[:end], events.weights[:end], minlength=table.num_rows).astype(np.int64)
        assert counts.min(initial=0) >= 0 and counts.max(initial=0) <= 1
        return table.filter(pa.array(counts > 0))

    def write(self, directory: Path, epoch: int, deletes: bool = True) -> int:
        """Write the changes of an epoch, a file a table that has any; returns the number of changes.

        The last column is the operation, ``I`` or ``D``; without ``deletes`` only inserts, and no such column.
        """
        written = 0
        for name in self.tables:
            rows, weights = self.of(name, epoch)
            if deletes:
                operations = pa.DictionaryArray.from_arrays(pa.array(weights < 0).cast(pa.int32()), ["I", "D"])
                rows = rows.append_column(OPERATION, operations.cast(pa.string()))
            else:
                rows = rows.filter(pa.array(weights > 0))
            place = directory / name
            place.mkdir(parents=True, exist_ok=True)
            if rows.num_rows:
                hidden = place / f".e{epoch:06d}.csv"
                pa_csv.write_csv(rows, hidden)
                hidden.rename(place / f"e{epoch:06d}.csv")
                written += rows.num_rows
        return written

    def then(self, epochs: Sequence[Mapping[str, tuple[np.ndarray, int]]]) -> Changes:
        """The same with more epochs at the end: for each some tables, with rows that all get one weight."""
        events = dict(self.events)
        for number, epoch in enumerate(epochs, self.epochs + 1):
            for name, (rows, weight) in epoch.items():
                old = events[name]
                events[name] = Events(
                    np.concatenate([old.rows, rows]),
                    np.concatenate([old.weights, np.full(len(rows), weight)]),
                    np.concatenate([old.epochs, np.full(len(rows), number)]),
                )
        return Changes(self.tables, events)

    def alive(self, name: str) -> np.ndarray:
        """Rows of a table that are there at the end."""
        events = self.events[name]
        return np.flatnonzero(np.bincount(events.rows, events.weights, minlength=self.tables[name].num_rows) > 0)


def stream(tables: Mapping[str, pa.Table], seed: int, epoch_rows: int, last: int | None = None) -> Changes:
    """Changes in epochs of ``epoch_rows``; with ``last`` the first epoch takes all but that many epochs.

    Parameters
    ----------
    tables : dict
        All eight tables of TPC-H.
    seed : int
        Same seed, same stream.
    """
    random = np.random.default_rng(seed)
    times = {name: _times(name, tables, random) for name in tables if name != "lineitem"}
    times["lineitem"] = _with_orders(tables, times["orders"])
    return cut(tables, times, epoch_rows, last)


def cut(
    tables: Mapping[str, pa.Table], times: Mapping[str, Times], epoch_rows: int, last: int | None = None
) -> Changes:
    """Changes in the order of their times, in epochs of ``epoch_rows``; ``last`` as in :func:`stream`."""
    total = sum(len(rows) for rows, _, _ in times.values())
    first = epoch_rows if last is None else max(1, total - last * epoch_rows)
    ordered = np.sort(np.concatenate([at for _, _, at in times.values()]), kind="stable")
    cuts = ordered[first::epoch_rows]
    events = {}
    for name in tables:
        rows, weights, at = times[name]
        order = np.argsort(at, kind="stable")
        epochs = 1 + np.searchsorted(cuts, at[order], side="right")
        events[name] = Events(rows[order], weights[order], epochs)
    return Changes(tables, events)


def lives(created_at_epoch: np.ndarray, gone_share: float, back_share: float, random: np.random.Generator) -> Times:
    """Each row comes at ``created_at_epoch``; a share of them goes at some time after, a share of those comes back."""
    count = len(created_at_epoch)
    gone = random.choice(count, max(1, int(gone_share * count)), replace=False)
    died = created_at_epoch[gone] + (1 - created_at_epoch[gone]) * random.uniform(0.01, 1, len(gone))
    back = random.permutation(len(gone))[: int(np.ceil(back_share * len(gone)))]
    again = died[back] + (1 - died[back]) * random.uniform(0.01, 1, len(back))
    rows = np.concatenate([np.arange(count), gone, gone[back]])
    weights = np.repeat([1, -1, 1], [count, len(gone), len(back)])
    return rows, weights, np.concatenate([created_at_epoch, died, again])


def _times(name: str, tables: Mapping[str, pa.Table], random: np.random.Generator) -> Times:
    count = tables[name].num_rows
    if name in _FIXED:
        return np.arange(count), np.ones(count, np.int64), np.zeros(count)
    if name == "orders":
        return lives(np.arange(count) / count, _GONE_ORDERS, 0, random)
    return lives(_EARLY * random.random(count), _GONE_OTHERS, _BACK, random)


def _with_orders(tables: Mapping[str, pa.Table], orders: Times) -> Times:
    """Changes of lineitems: each comes and goes with its order."""
    keys = tables["orders"].column("o_orderkey").to_numpy()
    number = np.searchsorted(keys, tables["lineitem"].column("l_orderkey").to_numpy())
    starts, ends = np.searchsorted(number, [np.arange(len(keys)), np.arange(len(keys)) + 1])
    rows, weights, at = orders
    lines = (ends - starts)[rows]
    within = np.arange(lines.sum()) - np.repeat(np.cumsum(lines) - lines, lines)
    return np.repeat(starts[rows], lines) + within, np.repeat(weights, lines), np.repeat(at, lines)
