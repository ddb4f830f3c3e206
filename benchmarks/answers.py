"""Whether sides end with equal answers: each returns a digest of its own, or keeps its rows, and without equal ones
there is no ratio."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tidemill.testing import difference


def digest(answer: pa.Table) -> str:
    """A digest of rows in any order whose first column is a key, and of their number.

    Doubles count to a hundredth: sums of hundredths are right to that, in whatever order they were added.
    """
    ordered = answer.sort_by(answer.column_names[0])
    found = hashlib.sha256()
    for column in ordered.columns:
        values = column.to_numpy()
        exact = np.round(values * 100) if values.dtype.kind == "f" else values
        found.update(exact.astype(np.int64).tobytes())
    return f"{answer.num_rows} rows, {found.hexdigest()[:16]}"


def equal(answers: Iterable[str]) -> bool:
    """Whether all are the same; says so if not."""
    found = sorted(set(answers))
    if len(found) > 1:
        print(f"the answers differ, so there is no ratio: {'; '.join(found)}", flush=True)
    return len(found) == 1


def keep(work: str, name: str, answer: pa.Table) -> str:
    """Keep the answer of a side to a query in its directory; returns the file."""
    file = Path(work) / f"{name}.answer.parquet"
    file.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(answer, file)
    return str(file)


def unlike(answer: str, expected: str) -> str | None:
    """How two kept answers differ as rows in any order, whatever their columns are called; None when they do not.

    Numbers are compared as doubles, to nine digits.
    """
    first, second = (_plain(pq.read_table(file)) for file in (answer, expected))
    return difference(first, second)


def _plain(table: pa.Table) -> pa.Table:
    columns = []
    for column in table.columns:
        kind = column.type
        if pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind):
            column = column.cast(pa.float64())
        elif pa.types.is_timestamp(kind):
            column = column.cast(pa.timestamp("us"))
        elif pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
            column = column.cast(pa.string())
        columns.append(column)
    return pa.table(columns, names=[str(place) for place in range(len(columns))])
