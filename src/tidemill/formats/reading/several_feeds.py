"""Rows of several feeds as one."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from tidemill.formats.base import RowError, Rows
from tidemill.formats.rows.checked_columns import make_batch


def concatenated(parts: Sequence[Rows]) -> Rows:
    """Rows of several feeds as one."""
    if len(parts) == 1:
        return parts[0]
    bounds = np.cumsum([0] + [p.count for p in parts])
    count = int(bounds[-1])

    def raw(row: int) -> bytes:
        part = int(np.searchsorted(bounds, row, "right")) - 1
        return parts[part].raw(row - int(bounds[part]))

    schema = parts[0].batch.schema
    columns = [pa.concat_arrays([p.batch.column(i) for p in parts]) for i in range(len(schema))]
    batch = make_batch(schema, columns, count)
    errors: tuple[RowError, ...] = sum((p.errors for p in parts), ())
    passed_over, new_within = sum(p.passed_over for p in parts), sum(p.new_within for p in parts)
    return Rows(batch, count, np.concatenate([p.positions for p in parts]), errors, raw, passed_over, new_within)
