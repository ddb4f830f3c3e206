"""Helpers for testing operators and views: delta literals, state in memory, comparison of rows.

    delta("+ 1 a | - 2 b | +3 4 NULL", pa.int64(), pa.string())

is three rows with weights 1, -1 and 3.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from tidemill.errors import EvaluationError
from tidemill.schema import WEIGHT, nullable_type
from tidemill.sources.split import SplitResult
from tidemill.state.keys.keys import decode
from tidemill.state.lookup.memtable import Memtable
from tidemill.state.lookup.reader import TableState
from tidemill.state.memory import MemoryBudget
from tidemill.state.merge.merge import Rows
from tidemill.task.dataflow.deltas import Delta, Keyed, batch_of
from tidemill.task.program import StateTable

Row = tuple[Any, ...]


def delta(text: str, *types: pa.DataType) -> Delta:
    """A delta from a literal.

    Parameters
    ----------
    text : str
        Rows separated by ``|``; each is ``+`` or ``-``, perhaps with a multiplicity (``-2``), then one word per
        column. ``NULL`` is NULL, ``''`` the empty string. An empty text is no rows.
    types : Arrow types
        One per column; words are cast to them.

    Returns
    -------
    Delta
        Rows in the order written.
    """
    rows = [part.split() for part in text.split("|")] if text.strip() else []
    for row in rows:
        if len(row) != len(types) + 1:
            raise ValueError(f"{len(types)} columns expected in {' '.join(row)!r}")
    weights = np.array([int(r[0] if r[0][1:] else r[0] + "1") for r in rows], np.int64)
    columns = [_column([r[i + 1] for r in rows], type_) for i, type_ in enumerate(types)]
    return Delta(batch_of(columns, len(rows)), weights)


def _column(words: Sequence[str], type_: pa.DataType) -> pa.Array[Any]:
    texts = [None if w == "NULL" else "" if w == "''" else w for w in words]
    return pa.array(texts, pa.string()).cast(type_)


def weighted_rows(delta_: Delta | pa.Table) -> dict[Row, int]:
    """Rows with their net weights; rows that cancel out are left out.

    Parameters
    ----------
    delta_ : Delta or pyarrow.Table
        A table may have the column ``__weight``; without it each row counts once. NaN is shown as ``"NaN"``,
        so that it equals itself.
    """
    if isinstance(delta_, Delta):
        values = [plain_values(c) for c in delta_.batch.columns]
        weights: list[Any] = delta_.explicit_weights().tolist()
    else:
        values = [plain_values(delta_.column(n)) for n in delta_.column_names if n != WEIGHT]
        weighted = WEIGHT in delta_.column_names
        weights = delta_.column(WEIGHT).to_pylist() if weighted else [1] * delta_.num_rows
    found: Counter[Row] = Counter()
    for row, weight in zip(zip(*values, strict=True) if values else [()] * len(weights), weights, strict=True):
        found[tuple(_hashable(v) for v in row)] += weight
    return {row: weight for row, weight in found.items() if weight}


def _hashable(value: Any) -> Any:
    return "NaN" if isinstance(value, float) and math.isnan(value) else value


def plain_values(column: pa.Array[Any] | pa.ChunkedArray[Any]) -> list[Any]:
    """Values that can be hashed: arrays are tuples, structs and maps tuples of (name, value), maps sorted.

    Inside nested values NaN is ``math.nan``, one object, and -0.0 is 0.0.
    """
    if not pa.types.is_nested(column.type):
        return column.to_pylist()
    return [_plain(value, column.type) for value in column.to_pylist(maps_as_pydicts=None)]


def _plain(value: Any, type_: pa.DataType) -> Any:
    if value is None:
        return None
    if pa.types.is_list(type_):
        return tuple(_plain(v, type_.value_type) for v in value)
    if pa.types.is_struct(type_):
        return tuple((f.name, _plain(value[f.name], f.type)) for f in type_)
    if pa.types.is_map(type_):
        pairs = ((_plain(k, type_.key_type), _plain(v, type_.item_type)) for k, v in value)
        return tuple(sorted(pairs, key=lambda pair: repr(pair[0])))
    if isinstance(value, float):
        return math.nan if math.isnan(value) else value + 0.0
    return value


def keyed_rows(table: StateTable, keyed: Keyed | Rows) -> list[Row]:
    """Rows of a keyed stream, key columns then values, sorted by value (streams are sorted by vnode first)."""
    rows = keyed.rows if isinstance(keyed, Keyed) else keyed
    columns = [*decode(rows.keys, table.key), *rows.values]
    found = zip(*(plain_values(c) for c in columns), strict=True)
    return sorted(found, key=lambda row: [(v is not None, v) for v in row])


class MemoryContext:
    """The context in which operators run, with state tables in memory.

    ``runs`` has what an operator wrote after :meth:`seal`, as in an epoch of a mill. With ``memory_bytes`` memtables
    spill, into memory.

    Attributes
    ----------
    tables : dict
        Sealed runs per table id, oldest first.
    splits : list of SplitResult
    failures : dict
        Step number to error.
    """

    keeps_state = True

    def __init__(self, partition: int = 0, partitions: int = 1, memory_bytes: int = 0) -> None:
        self.epoch = 1
        self.partition = partition
        self.partitions = partitions
        self.tables: dict[str, list[Rows]] = {}
        self.budget = MemoryBudget(memory_bytes)
        self._states: dict[str, TableState] = {}
        self.splits: list[SplitResult] = []
        self.failures: dict[int, EvaluationError] = {}
        self.failing_rows: list[tuple[int, int, EvaluationError | None]] = []

    def runs(self, table: StateTable, everywhere: bool = False) -> list[Rows]:
        """Sealed runs of a table, oldest first."""
        return list(self.tables.get(table.id, ()))

    @property
    def written(self) -> dict[str, Rows]:
        """What the epoch in progress has written, per table id."""
        return {table: rows for table, state in self._states.items() if len(rows := state.changes())}

    def write(self, table: StateTable, rows: Rows) -> None:
        """Write to a table, as an operator would."""
        self.state(table).write(rows)

    def state(self, table: StateTable, everywhere: bool = False) -> TableState:
        """A table; what is written to it is sealed with the epoch."""
        if table.id not in self._states:
            self._states[table.id] = self._state(table, table.drops_zero)
        return self._states[table.id]

    def hold(self, table: StateTable, everywhere: bool = False) -> TableState:
        """A table with a memtable that is not sealed."""
        return self._state(table, table.is_multiset)

    def _state(self, table: StateTable, drop_zero: bool) -> TableState:
        memtable = Memtable(table.ops, table.value_types, drop_zero, self.budget, lambda rows: (rows, rows.nbytes))
        return TableState(lambda: self.runs(table), table.ops, table.value_types, memtable)

    def finished(self, result: SplitResult) -> None:
        """Note a split as read."""
        self.splits.append(result)

    def failed(self, step: int, error: EvaluationError) -> None:
        """Note the first failure of a step."""
        self.failures.setdefault(step, error)

    def failing(self, step: int, weight: int, error: EvaluationError | None) -> None:
        """Note rows that a step left out."""
        self.failing_rows.append((step, weight, error))

    def seal(self) -> None:
        """End the epoch: what was written becomes readable."""
        for table, rows in self.written.items():
            self.tables.setdefault(table, []).append(rows)
        self._states = {}
        self.budget = MemoryBudget(self.budget.limit)
        self.epoch += 1


def difference(actual: pa.Table, expected: pa.Table, relative: float = 1e-9) -> str | None:
    """How two tables differ as multisets of rows, or None when they do not.

    Column names and types must be equal. Floats are equal within ``relative``, NaN equals NaN and -0.0 equals
    0.0; everything else is compared exactly.
    """
    if actual.column_names != expected.column_names:
        return f"columns {actual.column_names}, expected {expected.column_names}"
    if [nullable_type(t) for t in actual.schema.types] != [nullable_type(t) for t in expected.schema.types]:
        return f"types {actual.schema.types}, expected {expected.schema.types}"
    found, wanted = _multiset(actual), _multiset(expected)
    extra, missing = found - wanted, wanted - found
    unmatched = [row for row in extra.elements() if not _take_close(row, missing, relative)]
    if unmatched or missing:
        left = sorted(map(repr, unmatched))[:5], sorted(map(repr, missing.elements()))[:5]
        return f"{actual.num_rows} rows, expected {expected.num_rows}; unexpected {left[0]}, missing {left[1]}"
    return None


def assert_same_rows(actual: pa.Table, expected: pa.Table, what: str = "") -> None:
    """Fail with a short list of the rows that differ; see :func:`difference`."""
    found = difference(actual, expected)
    assert found is None, f"{what}: {found}"


def _multiset(table: pa.Table) -> Counter[Row]:
    columns = [_comparable(plain_values(c)) for c in table.columns]
    return Counter(zip(*columns, strict=True) if columns else [()] * table.num_rows)


def _comparable(values: Iterable[Any]) -> list[Any]:
    return [
        tuple(_comparable(v))
        if isinstance(v, list)
        else (("NaN" if math.isnan(v) else v + 0.0) if isinstance(v, float) else v)  # -0.0 + 0.0 is 0.0
        for v in values
    ]


def _take_close(row: Row, rows: Counter[Row], relative: float) -> bool:
    for other in rows:
        if all(_close(a, b, relative) for a, b in zip(row, other, strict=True)):
            rows[other] -= 1
            if not rows[other]:
                del rows[other]
            return True
    return False


def _close(a: Any, b: Any, relative: float) -> bool:
    if isinstance(a, tuple) and isinstance(b, tuple):
        return len(a) == len(b) and all(_close(x, y, relative) for x, y in zip(a, b, strict=True))
    if isinstance(a, float) and isinstance(b, float):
        return math.isclose(a, b, rel_tol=relative) or (math.isnan(a) and math.isnan(b))
    return bool(a == b)
