"""From complete records in a buffer to Arrow rows and errors: both phases, and the modes for malformed rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidemill.formats.base import RowError, Rows
from tidemill.formats.checked_columns import CheckedColumn, make_batch
from tidemill.formats.csv.changes import DeleteRule
from tidemill.formats.json.columns import Build, Built
from tidemill.formats.json.index import Bytes, ValueIndex, index_values
from tidemill.formats.json.options import JsonOptions
from tidemill.formats.json.tree import Node, Tree
from tidemill.formats.line_ends import BYTE_ORDER_MARK, PLAIN_LINES, LineRules
from tidemill.formats.malformed import Flaw, Mode, check_size, fail_fast, first_bad_byte


@dataclass(frozen=True)
class JsonColumn(CheckedColumn[Build]):
    """A column and, as ``node``, its values in the index."""

    node: Node


@dataclass(frozen=True)
class RecordBuilder:
    """Parses buffers of complete records; see :class:`tidemill.formats.line_split.LineBuilder`.

    Attributes
    ----------
    columns : tuple of CheckedColumn
        The needed columns first, in the order of the output.
    needed : int
        How many of ``columns`` go into the batch.
    order : tuple of Node
        The nodes of ``tree`` by number.
    deletes : DeleteRule or None
        Of rows that are deletions only the key counts.
    """

    options: JsonOptions
    columns: tuple[JsonColumn, ...]
    needed: int
    order: tuple[Node, ...]
    tree: Tree
    deletes: DeleteRule | None = None

    @property
    def lines(self) -> LineRules:
        """Every newline ends a record: there is none within a JSON text."""
        return PLAIN_LINES

    def build(self, data: Bytes, position: int, row_ends: int, quotes: bool, unterminated: bool) -> Rows:
        """See :meth:`tidemill.formats.line_split.LineBuilder.build`."""
        return self.build_records(data, position, row_ends, None)[0]

    def build_records(
        self, data: Bytes, position: int, lines: int, state: int | None, further: Sequence[RowError] = ()
    ) -> tuple[Rows, int]:
        """Rows of a buffer.

        Parameters
        ----------
        lines : int
            So many there are; counts only for lines.
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
        index = index_values(data, begin, lines, state, self.options.max_depth, self.order, self.tree)
        built = [column.parser(index, None) for column in self.columns]
        flaws = self._flaws(index, built)
        errors, dropped = self._judge(index, position, flaws, further)
        return self._collect(index, position, built, errors, dropped), index.state

    def _flaws(self, index: ValueIndex, built: Sequence[Built]) -> list[Flaw]:
        flaws = [
            Flaw(int(row), -1, None, "bad_json" if index.broken[row] >= 0 else "too_deep", False)
            for row in np.flatnonzero(index.broken != -1)
        ]
        for column, values in zip(self.columns, built, strict=True):
            name = column.field.name
            missing: set[int] = set()
            if not column.field.nullable and values.array.null_count:
                missing.update(np.flatnonzero(pc.is_null(values.array).to_numpy(zero_copy_only=False)).tolist())
                flaws += [Flaw(row, column.ordinal, name, "null_in_not_null", True) for row in sorted(missing)]
            reasons: dict[int, str] = {}
            for rows, reason in values.wrong:
                for row in rows.tolist():
                    reasons.setdefault(row, reason)
            flaws += [Flaw(r, column.ordinal, name, why, False) for r, why in reasons.items() if r not in missing]
        if flaws and self.deletes is not None:
            flaws = self._that_count(flaws, self.deletes, built)
        return flaws

    def _that_count(self, flaws: list[Flaw], deletes: DeleteRule, built: Sequence[Built]) -> list[Flaw]:
        slot = next(i for i, c in enumerate(self.columns) if c.ordinal == deletes.operation)
        deleted = pc.fill_null(pc.equal(built[slot].array, deletes.value), False).to_numpy(zero_copy_only=False)
        return [f for f in flaws if f.ordinal < 0 or f.ordinal in deletes.kept or not deleted[f.row]]

    def _judge(
        self, index: ValueIndex, position: int, flaws: list[Flaw], further: Sequence[RowError]
    ) -> tuple[tuple[RowError, ...], set[int]]:
        """Turn flaws into errors in order, and tell which rows are left out."""
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
        built: Sequence[Built],
        errors: tuple[RowError, ...],
        dropped: set[int],
    ) -> Rows:
        kept = np.arange(index.row_starts.size)
        arrays = [values.array for values in built[: self.needed]]
        if dropped:
            keep = np.ones(kept.size, np.bool_)
            keep[list(dropped)] = False
            kept = np.flatnonzero(keep)
            arrays = [array.filter(pa.array(keep)) for array in arrays]
        positions = index.row_starts[kept].astype(np.int64) + position
        batch = make_batch([c.field for c in self.columns[: self.needed]], arrays, kept.size)
        return Rows(batch, kept.size, positions, errors, lambda row: self._raw(index, int(kept[row])))
