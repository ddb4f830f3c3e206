"""What of malformed rows is rescued, and batches with the column that it goes to; whatever the format."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from tidemill.formats.rows.malformed import Flaws
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
"""Reasons of what cannot be held by a text, or makes a row malformed though it can."""


@dataclass(frozen=True)
class Rescue:
    """How the rows of a table are made that has a column for what does not fit.

    Attributes
    ----------
    fields : tuple of Field
        The columns of the batch, in order; among them perhaps the rescued data.
    column : str or None
        The column that holds what does not fit, None when the table has none: then everything stays malformed.
    """

    fields: tuple[Field, ...]
    column: str | None

    @property
    def reads(self) -> bool:
        """Whether the rescued data are read."""
        return any(field.name == self.column for field in self.fields)

    def part(self, flaws: Sequence[Flaws], rows: int) -> tuple[list[Flaws], list[Flaws]]:
        """What stays malformed, and what is rescued: nothing of rows that are left out of the table."""
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
        """The columns of the batch: of those parsed, texts of what does not fit, and NULL for what a file lacks."""
        parsed = dict(zip(names, arrays, strict=True))
        if self.column is not None and texts is not None:
            parsed[self.column] = texts
        return [parsed[f.name] if f.name in parsed else pa.nulls(rows, f.type) for f in self.fields]
