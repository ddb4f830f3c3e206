"""Which flaws of rows are rescued, and batches with the rescued data, for all formats."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from tidemill.formats.rows.malformed import Flaws
from tidemill.kernels.columns import nulls
from tidemill.schema import Field

KEPT = frozenset(
    {
        "bad_json",
        "too_deep",
        "bad_utf8",
        "bad_quote",
        "null_in_not_null",
        "too_few_fields",
        "unterminated_quote",
        "bare_carriage_return",
        "utf16_mark",
    }
)
"""Reasons that are not rescued."""


@dataclass(frozen=True)
class Rescue:
    """The rescued data of a table.

    Attributes
    ----------
    fields : tuple of Field
        The columns of the batch, in order; among them perhaps the rescued data.
    column : str or None
        The column of rescued data; None when the table has none: then every flaw stays.
    """

    fields: tuple[Field, ...]
    column: str | None

    @property
    def reads(self) -> bool:
        """Whether the rescued data are read."""
        return any(field.name == self.column for field in self.fields)

    def part(self, flaws: Sequence[Flaws], rows: int) -> tuple[list[Flaws], list[Flaws]]:
        """Flaws that stay, and flaws that are rescued: none of rows that are dropped."""
        if self.column is None or not flaws:
            return list(flaws), []
        kept = np.ones(rows, np.bool_)
        for flaw in flaws:
            if flaw.drops:
                kept[flaw.rows] = False
        stay, rescued = [], []
        for flaw in flaws:
            if flaw.drops or flaw.reason in KEPT:
                stay.append(flaw)
                continue
            rescued.append(flaw.only(kept))
            stay.append(flaw.only(~kept))
        return [f for f in stay if f.rows.size], [f for f in rescued if f.rows.size]

    def arrays(
        self, names: Sequence[str], arrays: Sequence[pa.Array[Any]], texts: pa.Array[Any] | None, rows: int
    ) -> list[pa.Array[Any]]:
        """The columns of the batch: those parsed, the rescued texts, and NULL for what a file lacks."""
        parsed = dict(zip(names, arrays, strict=True))
        if self.column is not None and texts is not None:
            parsed[self.column] = texts
        return [parsed[f.name] if f.name in parsed else nulls(rows, f.type) for f in self.fields]
