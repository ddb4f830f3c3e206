"""Whether sides end with equal answers: each returns a digest of its own, and without equal ones there is no ratio."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

import numpy as np
import pyarrow as pa


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
