"""From complete records in a buffer to Arrow rows and errors: both phases, and the modes for malformed rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidemill.formats.base import RowError, Rows
from tidemill.formats.json.columns import Build, Built
from tidemill.formats.json.indexing.index import Bytes, ValueIndex, index_values
from tidemill.formats.json.indexing.tree import Node, Tree
from tidemill.formats.json.options import JsonOptions
from tidemill.formats.messages import Deletions
from tidemill.formats.rows.checked_columns import CheckedColumn, make_batch, schema_of
from tidemill.formats.rows.malformed import Flaw, Flaws, Mode, check_size, fail_fast, first_bad_byte
from tidemill.formats.text.line_ends import BYTE_ORDER_MARK, PLAIN_LINES, UTF16_MARKS, LineRules
from tidemill.schema import Field


@dataclass(frozen=True)
class JsonColumn(CheckedColumn[Build]):
    """A column and, as ``node``, its values in the index."""

    node: Node


class Rescuer(Protocol):
    """Makes the rescued data, see :class:`tidemill.formats.json.rescue.JsonRescue`."""

    @property
    def fields(self) -> tuple[Field, ...]: ...

    def take(self, index: ValueIndex, flaws: Sequence[Flaws]) -> tuple[pa.Array[Any] | None, list[Flaws]]:
        """Rescued texts, None if they are not read, and the flaws that are not rescued.

        Raises
        ------
        NewColumnsError
            When there are keys that are no columns, and the table refuses these.
        """
        ...

    def new_within(self, index: ValueIndex) -> int:
        """How many rows have unknown fields within structs; 0 unless the table refuses new columns."""
        ...

    def arrays(
        self, names: Sequence[str], arrays: Sequence[pa.Array[Any]], texts: pa.Array[Any] | None, rows: int
    ) -> list[pa.Array[Any]]:
        """The columns of the batch."""
        ...


@dataclass(frozen=True)
class RecordBuilder:
    """Parses buffers of complete records; see :class:`tidemill.formats.text.line_split.LineBuilder`.

    Attributes
    ----------
    columns : tuple of CheckedColumn
        The needed columns first, in the order of the output.
    needed : int
        How many of ``columns`` go into the batch.
    root : Node
        The record: the first node of ``tree``.
    deletes : Deletions or None
        Of rows that are deletions only the key counts.
    rescue : Rescuer or None
        Takes values that do not fit, and makes the batch of all columns that are parsed.
    """

    options: JsonOptions
    columns: tuple[JsonColumn, ...]
    needed: int
    root: Node
    tree: Tree
    deletes: Deletions | None = None
    rescue: Rescuer | None = None

    @property
    def lines(self) -> LineRules:
        """Every newline ends a record: there is none within a JSON text."""
        return PLAIN_LINES

    @cached_property
    def _schema(self) -> pa.Schema:
        return schema_of(c.field for c in self.columns[: self.needed])

    def build(self, data: Bytes, position: int, row_ends: int, quotes: bool, unterminated: bool) -> Rows:
        """See :meth:`tidemill.formats.text.line_split.LineBuilder.build`."""
        return self.build_records(data, position, row_ends, None)[0]

    def build_records(
        self, data: Bytes, position: int, lines: int, state: int | None, further: Sequence[RowError] = ()
    ) -> tuple[Rows, int]:
        """Rows of a buffer.

        Parameters
        ----------
        lines : int
            How many lines there are; unused for arrays.
        state : int or None
            None for lines, else where in a file of arrays the buffer begins.
        further : sequence of RowError
            Errors of the caller's to be reported behind those found.

        Returns
        -------
        tuple of (Rows, int)
            And where in a file of arrays the buffer ends.

        Raises
        ------
        FormatError
            TM4020 for a malformed row in mode FAILFAST, TM4021 for a buffer that 32-bit offsets cannot address.
        """
        check_size(data.size, position)
        marked = position == 0 and data[:3].tobytes() == BYTE_ORDER_MARK
        begin = len(BYTE_ORDER_MARK) if marked else 0
        index = index_values(data, begin, lines, state, self.options.max_depth, self.tree)
        built = [column.parser(index, None) for column in self.columns]
        flaws = self._flaws(index, built, utf16=position == 0 and data[:2].tobytes() in UTF16_MARKS)
        schema, arrays = self._schema, [b.array for b in built[: self.needed]]
        if self.rescue is not None:
            texts, flaws = self.rescue.take(index, flaws)
            arrays = self.rescue.arrays(schema.names, arrays, texts, index.row_starts.size)
            schema = schema_of(self.rescue.fields)
        errors, dropped = self._judge(index, position, flaws, further)
        rows = self._collect(index, position, schema, arrays, errors, dropped)
        if self.rescue is not None:
            rows = replace(rows, new_within=self.rescue.new_within(index))
        return rows, index.state

    def _flaws(self, index: ValueIndex, built: Sequence[Built], *, utf16: bool) -> list[Flaws]:
        broken = np.flatnonzero(index.broken != -1)
        flaws = []
        if utf16 and broken.size:
            flaws.append(Flaws(broken[:1], -1, None, "utf16_mark"))
            broken = broken[1:]
        if broken.size:
            deep = index.broken[broken] < -1
            flaws += [Flaws(broken[~deep], -1, None, "bad_json"), Flaws(broken[deep], -1, None, "too_deep")]
        for column, values in zip(self.columns, built, strict=True):
            missing = not column.field.nullable and values.array.null_count
            if not missing and not values.wrong:
                continue
            name, ordinal = column.field.name, column.ordinal
            free = np.ones(index.row_starts.size, np.bool_)
            if missing:
                rows = np.flatnonzero(pc.is_null(values.array).to_numpy(zero_copy_only=False))
                flaws.append(Flaws(rows, ordinal, name, "null_in_not_null", True))
                free[rows] = False
            # Of several things wrong with a value the first one counts.
            for rows, reason in values.wrong:
                flaws.append(Flaws(rows[free[rows]], ordinal, name, reason))
                free[rows] = False
        flaws = [f for f in flaws if f.rows.size]
        if flaws and self.deletes is not None:
            flaws = self._without_ignored(flaws, self.deletes, built)
        return flaws

    def _without_ignored(self, flaws: list[Flaws], deletes: Deletions, built: Sequence[Built]) -> list[Flaws]:
        """The flaws but for those of deletions outside of their key."""
        slot = next(i for i, c in enumerate(self.columns) if c.ordinal == deletes.operation)
        deleted = pc.equal(built[slot].array, pa.scalar(deletes.value)).fill_null(False).to_numpy(zero_copy_only=False)
        return [f if f.ordinal < 0 or f.ordinal in deletes.kept else f.only(~deleted) for f in flaws]

    def _judge(
        self, index: ValueIndex, position: int, found: Sequence[Flaws], further: Sequence[RowError]
    ) -> tuple[tuple[RowError, ...], set[int]]:
        """Turn flaws into errors in order, and tell which rows are left out."""
        flaws = [flaw for flaws in found for flaw in flaws.each()]
        if not flaws and not further:
            return (), set()
        drops_all = self.options.mode is Mode.DROPMALFORMED
        dropped = {flaw.row for flaw in flaws if flaw.drops or drops_all}
        errors = []
        raw: dict[int, bytes] = {}
        for flaw in sorted(flaws, key=lambda f: (f.row, f.ordinal)):
            row = flaw.row
            if row not in raw:
                raw[row] = self._raw(index, row)
            start = position + int(index.row_starts[row])
            place = self._place(index, flaw)
            at = None if place is None else position + place
            errors.append(RowError(start, flaw.column, flaw.reason, raw[row], row in dropped, at))
        errors += further
        fail_fast(self.options.mode, errors)
        return tuple(errors), dropped

    def _place(self, index: ValueIndex, flaw: Flaw) -> int | None:
        """Where in the buffer a flaw is; None for a value that is not there."""
        if flaw.ordinal < 0:
            broken = int(index.broken[flaw.row])
            return broken if broken >= 0 else -2 - broken
        node = next(c.node for c in self.columns if c.ordinal == flaw.ordinal)
        values = index.values(node, None)
        begin, end = int(values.starts[flaw.row]), int(values.ends[flaw.row])
        return begin + first_bad_byte(index.data[begin:end].tobytes()) if end > begin else None

    def _raw(self, index: ValueIndex, row: int) -> bytes:
        found = bytes(index.data[index.row_starts[row] : index.row_ends[row]])
        return found.removesuffix(b"\r")

    def _collect(
        self,
        index: ValueIndex,
        position: int,
        schema: pa.Schema,
        arrays: Sequence[pa.Array[Any]],
        errors: tuple[RowError, ...],
        dropped: set[int],
    ) -> Rows:
        starts = index.row_starts
        if not dropped:
            positions = np.add(starts, position, dtype=np.int64)
            return Rows(
                make_batch(schema, arrays, starts.size), starts.size, positions, errors, partial(self._raw, index)
            )
        keep = np.ones(starts.size, np.bool_)
        keep[list(dropped)] = False
        kept = np.flatnonzero(keep)
        batch = make_batch(schema, [array.filter(pa.array(keep)) for array in arrays], kept.size)
        positions = np.add(starts[kept], position, dtype=np.int64)
        return Rows(batch, kept.size, positions, errors, lambda row: self._raw(index, int(kept[row])))
