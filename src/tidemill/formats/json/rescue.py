"""JSON records with a column of rescued data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tidemill.formats.json.indexing.index import Bytes, ValueIndex
from tidemill.formats.json.indexing.tree import Node
from tidemill.formats.json.known_keys import NEW_COLUMN, NEW_WITHIN, known_keys, known_of, marking_unknown
from tidemill.formats.json.leftover_texts import Known, write_leftovers
from tidemill.formats.json.leftovers import leftover, top_keys
from tidemill.formats.json.options import parse_options
from tidemill.formats.json.reader import JsonReader
from tidemill.formats.json_tokens.tokens import SPECIAL_NUMBERS, tokenise
from tidemill.formats.messages import Messages
from tidemill.formats.rescue.new_columns import NewColumnsError, new_names
from tidemill.formats.rescue.object_texts import gather
from tidemill.formats.rescue.options import RescueRules
from tidemill.formats.rescue.parting import Rescue
from tidemill.formats.rows.malformed import MODE, Flaws, Mode
from tidemill.formats.text.line_ends import BYTE_ORDER_MARK
from tidemill.formats.types.json_shapes import seen_of
from tidemill.schema import Schema

Texts: TypeAlias = "pa.Array[Any]"
Longs = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]


class RescuingJsonReader(JsonReader):
    """See :class:`tidemill.formats.base.RowReader`. Texts are made only when the rescued data are read."""

    def __init__(
        self,
        schema: Schema,
        options: Mapping[str, str],
        needed: Sequence[str],
        rules: RescueRules,
        messages: Messages | None = None,
    ) -> None:
        given = {k.lower(): v for k, v in options.items()}
        inner = rules.without_column(schema)
        rescues = rules.column in needed
        read = inner.names if rescues or MODE.of(given) is not Mode.PERMISSIVE else needed
        parsed = parse_options(inner, given)
        places = {f.name: parsed.paths.get(i, (f.name,)) for i, f in enumerate(inner)}
        columns = tuple(path[0] for path in places.values()) if rules.strict else ()
        deletions = None if messages is None else messages.deletions(inner)
        super().__init__(inner, parsed, read, deletions, columns)
        keys = known_keys(inner, parsed.paths)
        builder = self._builder
        leftovers = None
        tree = builder.tree
        if rescues or rules.strict:
            known = known_of(tree, builder.root, keys)
            tree = marking_unknown(known)
        if rescues:
            nodes = {c.field.name: c.node.number for c in builder.columns}
            leftovers = _Leftovers(known, nodes, keys, places)
        fields = {f.name: f for f in schema}
        own = () if rules.column is None else (rules.column,)
        allowed = (*columns, *places, *own) if rules.strict else None
        rescue = JsonRescue(tuple(fields[name] for name in needed), rules.column, leftovers, allowed)
        self._builder = replace(builder, tree=tree, rescue=rescue)


@dataclass(frozen=True)
class JsonRescue(Rescue):
    """See :class:`tidemill.formats.json.rows.Rescuer`.

    Attributes
    ----------
    leftovers : _Leftovers or None
        Writes the texts; None when they are not read.
    allowed : tuple of str or None
        Keys beside which any other raises TM4074; None allows all.
    """

    leftovers: _Leftovers | None
    allowed: tuple[str, ...] | None

    def take(self, index: ValueIndex, flaws: Sequence[Flaws]) -> tuple[Texts | None, list[Flaws]]:
        """See :meth:`tidemill.formats.json.rows.Rescuer.take`."""
        if self.allowed is not None:
            self._refuse(index, self.allowed)
        stay, rescued = self.part(flaws, index.row_starts.size)
        return None if self.leftovers is None else self.leftovers.texts(index, rescued), stay

    def new_within(self, index: ValueIndex) -> int:
        """See :meth:`tidemill.formats.json.rows.Rescuer.new_within`."""
        return 0 if self.allowed is None else int(np.count_nonzero(index.unknown == NEW_WITHIN))

    def _refuse(self, index: ValueIndex, allowed: tuple[str, ...]) -> None:
        """Raise TM4074 when a record has a key that is no column."""
        names: dict[str, None] = {}
        records = []
        for row in np.flatnonzero(index.unknown == NEW_COLUMN).tolist():
            text = _text(index.data, index.row_starts[row], index.row_ends[row])
            keys = new_names(top_keys(text), allowed)
            if keys:
                names |= dict.fromkeys(keys)
                records.append(text.encode("utf-8", "surrogatepass"))
        if names:
            types = {f.name.lower(): f.type for f in seen_of(records).columns()}
            raise NewColumnsError({name: types.get(name.lower()) for name in new_names(list(names), ())})


@dataclass(frozen=True)
class _Leftovers:
    """Writes texts of what no column holds.

    Attributes
    ----------
    known : Known
    nodes : mapping of str to int
        The node of each column.
    keys : Node
        What is known, for the plain twin.
    places : mapping of str to tuple of str
        Where each column lies.
    """

    known: Known
    nodes: Mapping[str, int]
    keys: Node
    places: Mapping[str, tuple[str, ...]]

    def texts(self, index: ValueIndex, rescued: Sequence[Flaws]) -> Texts:
        """Texts by row; NULL where nothing is left over."""
        count = index.row_starts.size
        asked = index.unknown > 0
        for flaws in rescued:
            asked[flaws.rows] = True
        rows = np.flatnonzero(asked)
        if not rows.size:
            return pa.nulls(count, pa.string())
        names = sorted({str(flaws.column) for flaws in rescued})
        wrong = np.zeros((len(names), count), np.bool_)
        for flaws in rescued:
            wrong[names.index(str(flaws.column)), flaws.rows] = True
        texts = self._write(index, rows, names, wrong[:, rows])
        if rows.size == count:
            return texts
        places = np.zeros(count, np.int32)
        places[rows] = np.arange(rows.size)
        return texts.take(pa.array(places, pa.int32(), mask=~asked))

    def _write(self, index: ValueIndex, rows: Longs, names: Sequence[str], wrong: Mask) -> Texts:
        """Texts of some rows; the values of the columns ``names`` are left over where ``wrong`` says so."""
        starts, ends = index.row_starts[rows].astype(np.int64), index.row_ends[rows].astype(np.int64)
        data: Bytes = gather(index.data, starts, ends)
        bounds = np.zeros(rows.size + 1, np.int64)
        np.cumsum(ends - starts, out=bounds[1:])
        tokens = tokenise(data, bounds, SPECIAL_NUMBERS)
        wrong_slot = np.full(self.known.opens.size, -1, np.int32)
        merged = wrong.copy()
        for slot, node in enumerate(self.nodes[name] for name in names):
            if wrong_slot[node] < 0:
                wrong_slot[node] = slot
            else:  # two columns of one field
                merged[wrong_slot[node]] |= wrong[slot]
        out, offsets = np.empty(data.size, np.uint8), np.empty(rows.size + 1, np.int64)
        decided = np.empty(rows.size, np.bool_)
        write_leftovers(tokens, self.known, wrong_slot, merged, out, offsets, decided)
        validity = np.packbits(np.diff(offsets) > 0, bitorder="little")
        parts: list[npt.NDArray[Any]] = [validity, offsets.astype(np.int32), out[: offsets[-1]].copy()]
        found: Texts = pa.Array.from_buffers(pa.string(), rows.size, [pa.py_buffer(part.data) for part in parts])
        if not decided.all():
            paths = [self.places[name] for name in names]
            plain = [
                leftover(_text(data, *bounds[row : row + 2]), self.keys, [p for p, w in zip(paths, wrong[:, row]) if w])
                for row in np.flatnonzero(~decided).tolist()
            ]
            found = pc.replace_with_mask(found, pa.array(~decided), pa.array(plain, pa.string()))
        return found


def _text(data: Bytes, start: int, end: int) -> str:
    return data[start:end].tobytes().removeprefix(BYTE_ORDER_MARK).decode("utf-8", "replace")
