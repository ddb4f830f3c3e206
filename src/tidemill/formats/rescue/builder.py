"""Rows with what does not fit them in a column of its own, whatever the format.

The rows come from the format's own builder, told to keep every row and to report what is wrong. What can be rescued
is taken out of its report; the mode of the table is then applied to the rest.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidemill.formats.base import RowError, Rows
from tidemill.formats.malformed import Mode, fail_fast
from tidemill.schema import Field

KEPT = frozenset({"bad_json", "too_deep", "bad_utf8", "bad_quote", "null_in_not_null"})
"""Reasons of what cannot be held by a text, or makes a row malformed though it can."""


class Left(Protocol):
    """What a format knows of what does not fit."""

    def rescuable(self, error: RowError) -> bool:
        """Whether what an error is about can be held as text."""
        ...

    def suspects(self, rows: Rows) -> npt.NDArray[np.int64]:
        """Rows, in order, that may hold what no column is for. Vectorised.

        Raises
        ------
        NewColumnsError
            When that must not be.
        """
        ...

    def texts(self, rows: Rows, numbers: Sequence[int], errors: Mapping[int, Sequence[RowError]]) -> list[str | None]:
        """What does not fit of some rows, given their errors, as JSON objects; None where nothing is left over."""
        ...


@dataclass(frozen=True)
class Rescue:
    """What is made of the rows of a format's builder.

    Attributes
    ----------
    fields : tuple of Field
        The columns of the batch, in order; among them perhaps the rescued data.
    column : str or None
        The column that holds what does not fit, None when the table has none.
    mode : Mode
        For what is malformed all the same.
    left : Left
    """

    fields: tuple[Field, ...]
    column: str | None
    mode: Mode
    left: Left

    def of(self, rows: Rows) -> Rows:
        """The rows of the table. TM4020 in mode FAILFAST, TM4074 for new columns that must not be."""
        suspects = self.left.suspects(rows)
        errors = rows.errors
        rescued: dict[int, list[RowError]] = {}
        if self.column is not None and errors:
            errors, rescued = self._parted(rows)
        fail_fast(self.mode, errors)
        wanted = {f.name: i for i, f in enumerate(self.fields)}
        texts: pa.Array[Any] | None = None
        if self.column in wanted:
            texts = self._texts(rows, suspects, rescued)
        arrays = [self._array(rows, f, texts) for f in self.fields]
        if self.mode is Mode.DROPMALFORMED and errors:
            return self._without(rows, arrays, errors)
        return replace(rows, batch=_batch(self.fields, arrays, rows.count), errors=errors)

    def _parted(self, rows: Rows) -> tuple[tuple[RowError, ...], dict[int, list[RowError]]]:
        """Errors that stay, and those that are rescued by the number of their row."""
        stay: list[RowError] = []
        rescued: dict[int, list[RowError]] = {}
        for error in rows.errors:
            if error.dropped or not self.left.rescuable(error):
                stay.append(error)
            else:
                number = int(np.searchsorted(rows.positions, error.position))
                rescued.setdefault(number, []).append(error)
        return tuple(stay), rescued

    def _texts(
        self, rows: Rows, suspects: npt.NDArray[np.int64], rescued: Mapping[int, Sequence[RowError]]
    ) -> pa.Array[Any]:
        numbers = sorted({*suspects.tolist(), *rescued})
        if not numbers:
            return pa.nulls(rows.count, pa.string())
        found = pa.array(self.left.texts(rows, numbers, rescued), pa.string())
        places = np.full(rows.count, -1, np.int64)
        places[numbers] = np.arange(len(numbers))
        return found.take(pa.array(places, mask=places < 0))

    def _array(self, rows: Rows, field: Field, texts: pa.Array[Any] | None) -> pa.Array[Any]:
        if field.name == self.column:
            assert texts is not None
            return texts
        place = rows.batch.schema.get_field_index(field.name)
        return pa.nulls(rows.count, field.type) if place < 0 else rows.batch.column(place)

    def _without(self, rows: Rows, arrays: list[pa.Array[Any]], errors: tuple[RowError, ...]) -> Rows:
        """Without the rows that have an error."""
        gone = np.unique([e.position for e in errors])
        keep = ~np.isin(rows.positions, gone)
        kept = np.flatnonzero(keep)
        arrays = [array.filter(pa.array(keep)) for array in arrays]
        raw: Callable[[int], bytes] = rows.raw
        return Rows(
            _batch(self.fields, arrays, kept.size),
            kept.size,
            rows.positions[keep],
            tuple(replace(e, dropped=True) for e in errors),
            lambda row: raw(int(kept[row])),
        )


def _batch(fields: Sequence[Field], arrays: list[pa.Array[Any]], count: int) -> pa.RecordBatch:
    if not arrays:
        rows: Any = pa.Array.from_buffers(pa.struct([]), count, [None])
        return pa.RecordBatch.from_struct_array(rows)
    schema = pa.schema([pa.field(f.name, f.type, f.nullable) for f in fields])
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


class RescuingBuilder:
    """Stands where a format's builder stands in a split reader, lines or arrays."""

    def __init__(self, inner: Any, rescue: Rescue) -> None:
        self._inner = inner
        self._rescue = rescue
        self.lines = inner.lines

    def build(self, *place: Any) -> Rows:
        """See :meth:`tidemill.formats.line_split.LineBuilder.build`."""
        return self._rescue.of(self._inner.build(*place))

    def build_records(self, *place: Any) -> tuple[Rows, int]:
        """See :meth:`tidemill.formats.json.rows.RecordBuilder.build_records`."""
        rows, state = self._inner.build_records(*place)
        return self._rescue.of(rows), state
