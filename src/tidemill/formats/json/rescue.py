"""JSON records with what no column holds in a column of its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidemill.formats.base import RowError, Rows
from tidemill.formats.csv.changes import parse_delete_rule
from tidemill.formats.inference.json_shapes import seen_of
from tidemill.formats.json.format import JsonReader
from tidemill.formats.json.leftovers import leftover, top_keys
from tidemill.formats.json.options import parse_options
from tidemill.formats.json.rows import CheckedColumn
from tidemill.formats.json.tree import Node
from tidemill.formats.json.unknown_keys import known_keys, unknown_keys
from tidemill.formats.line_ends import BYTE_ORDER_MARK
from tidemill.formats.malformed import Mode, parse_mode
from tidemill.formats.rescue.builder import KEPT, Rescue, RescuingBuilder
from tidemill.formats.rescue.new_columns import NewColumnsError, new_names
from tidemill.formats.rescue.options import RescueRules
from tidemill.schema import Field, Schema

_UNKNOWN = "\0unknown"
"""The name of a column that no table can have."""


class RescuingJsonReader(JsonReader):
    """See :class:`tidemill.formats.base.RowReader`. Only who reads the rescued data pays for it."""

    def __init__(self, schema: Schema, options: Mapping[str, str], needed: Sequence[str], rules: RescueRules) -> None:
        given = {k.lower(): v for k, v in options.items()}
        mode = parse_mode(given)
        inner = rules.without_column(schema)
        read = inner.names if rules.column in needed or mode is not Mode.PERMISSIVE else needed
        parsed = parse_options(inner, given | {"mode": Mode.PERMISSIVE.value})
        further: list[CheckedColumn] = []
        known: Node | None = None
        if rules.column in needed or rules.strict:
            known = known_keys(inner, parsed.paths, rules.column not in needed)
            field = Field(_UNKNOWN, pa.bool_())
            further.append(CheckedColumn(len(schema), field, unknown_keys(known), known))
        super().__init__(inner, parsed, read, parse_delete_rule(inner, given), further)
        places = {f.name: parsed.paths.get(i, (f.name,)) for i, f in enumerate(inner)}
        left = _JsonLeft(known, places, rules)
        fields = {f.name: f for f in schema}
        rescue = Rescue(tuple(fields[name] for name in needed), rules.column, mode, left)
        self._builder = RescuingBuilder(self._builder, rescue)  # type: ignore[assignment]


class _JsonLeft:
    """See :class:`tidemill.formats.rescue.builder.Left`."""

    def __init__(self, known: Node | None, places: Mapping[str, tuple[str, ...]], rules: RescueRules) -> None:
        self._known = known
        self._places = places
        self._strict = rules.strict
        self._own = () if rules.column is None else (rules.column,)

    def rescuable(self, error: RowError) -> bool:
        return error.column is not None and error.reason not in KEPT

    def suspects(self, rows: Rows) -> npt.NDArray[np.int64]:
        if self._known is None or not rows.count:
            return np.empty(0, np.int64)
        flags = rows.batch.column(rows.batch.schema.get_field_index(_UNKNOWN))
        found = np.flatnonzero(flags.to_numpy(zero_copy_only=False))
        if self._strict and found.size:
            self._refuse(rows, found)
        return found

    def _refuse(self, rows: Rows, suspects: npt.NDArray[np.int64]) -> None:
        """TM4074 when a record has a key that is no column's."""
        assert self._known is not None
        known = (*self._known.fields, *self._places, *self._own)
        names: dict[str, None] = {}
        records = []
        for row in suspects.tolist():
            keys = new_names(top_keys(_text(rows, row)), known)
            if keys:
                names |= dict.fromkeys(keys)
                records.append(_text(rows, row).encode("utf-8", "surrogatepass"))
        if names:
            types = {f.name.lower(): f.type for f in seen_of(records).columns()}
            raise NewColumnsError({name: types.get(name.lower()) for name in new_names(list(names), ())})

    def texts(self, rows: Rows, numbers: Sequence[int], errors: Mapping[int, Sequence[RowError]]) -> list[str | None]:
        assert self._known is not None
        found = []
        for row in numbers:
            wrong = [self._places[e.column] for e in errors.get(row, ()) if e.column is not None]
            found.append(leftover(_text(rows, row), self._known, wrong))
        return found


def _text(rows: Rows, row: int) -> str:
    return rows.raw(row).removeprefix(BYTE_ORDER_MARK).decode("utf-8", "replace")
