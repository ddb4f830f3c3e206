"""JSON records with what no column holds in a column of its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tidemill.formats.json.indexing.index import Bytes, Ints, ValueIndex
from tidemill.formats.json.indexing.tree import Node
from tidemill.formats.json.known_keys import NEW_COLUMN, NEW_WITHIN, known_keys, known_of, noting_all
from tidemill.formats.json.leftover_texts import LEFT, NOT_UTF8, SLACK, UNDECIDED, Known, write_leftovers
from tidemill.formats.json.leftovers import leftover, top_keys
from tidemill.formats.json.options import parse_options
from tidemill.formats.json.reader import JsonReader
from tidemill.formats.messages import Messages
from tidemill.formats.rescue.new_columns import NewColumnsError, new_names
from tidemill.formats.rescue.options import RescueRules
from tidemill.formats.rescue.parting import Rescue
from tidemill.formats.rows.malformed import MODE, Flaws, Mode
from tidemill.formats.text.line_ends import BYTE_ORDER_MARK
from tidemill.formats.types.json_shapes import seen_of
from tidemill.schema import Schema

Texts: TypeAlias = "pa.Array[Any]"
Mask = npt.NDArray[np.bool_]


class RescuingJsonReader(JsonReader):
    """See :class:`tidemill.formats.base.RowReader`. Only who reads the rescued data pays for it."""

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
        whole = rules.column in needed
        read = inner.names if whole or MODE.of(given) is not Mode.PERMISSIVE else needed
        parsed = parse_options(inner, given)
        places = {f.name: parsed.paths.get(i, (f.name,)) for i, f in enumerate(inner)}
        columns = tuple(path[0] for path in places.values()) if rules.strict else ()
        deletions = None if messages is None else messages.deletions(inner)
        super().__init__(inner, parsed, read, deletions, columns)
        keys = known_keys(inner, parsed.paths)
        builder = self._builder
        leftovers = None
        tree = builder.tree
        if whole or rules.strict:
            known = known_of(tree, builder.order[0], keys)
            tree = noting_all(known)
        if whole:
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
        What writes the texts, None when nobody reads them.
    allowed : tuple of str or None
        With any other key beside the columns TM4074 is raised; None when there may be any.
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
        """TM4074 when a record has a key that is no column's."""
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
    """What writes the texts of what is left over.

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
        rows = index.row_starts.size
        asked = index.unknown > 0
        if not rescued and not asked.any():
            return pa.nulls(rows, pa.string())
        names = sorted({str(flaws.column) for flaws in rescued})
        wrong = np.zeros((len(names), rows), np.bool_)
        for flaws in rescued:
            wrong[names.index(str(flaws.column)), flaws.rows] = True
            asked[flaws.rows] = True
        return self._write(index.data, index.row_starts, index.row_ends, asked, names, wrong)

    def _write(self, data: Bytes, starts: Ints, ends: Ints, asked: Mask, names: Sequence[str], wrong: Mask) -> Texts:
        wrong_slot = np.full(self.known.opens.size, -1, np.int32)
        merged = wrong.copy() if len({self.nodes[name] for name in names}) < len(names) else wrong
        for slot, name in enumerate(names):
            node = self.nodes[name]
            if wrong_slot[node] < 0:
                wrong_slot[node] = slot
            else:
                merged[wrong_slot[node]] |= wrong[slot]
        size = int((ends - starts)[asked].sum(dtype=np.int64))
        out = np.empty(size + SLACK, np.uint8)
        offsets, outcomes = np.empty(starts.size + 1, np.int32), np.empty(starts.size, np.uint8)
        write_leftovers(data, starts, ends, asked, self.known, wrong_slot, merged, out, offsets, outcomes)
        validity = pa.py_buffer(np.packbits(outcomes == LEFT, bitorder="little").data)
        text = out[: offsets[-1]] if 2 * offsets[-1] > out.size else out[: offsets[-1]].copy()
        found: Texts = pa.Array.from_buffers(
            pa.string(), starts.size, [validity, pa.py_buffer(offsets.data), pa.py_buffer(text.data)]
        )
        if outcomes.max(initial=0) < NOT_UTF8:
            return found
        for outcome, write in ((NOT_UTF8, self._write_replaced), (UNDECIDED, self._ask)):
            rows = np.flatnonzero(outcomes == outcome)
            if rows.size:
                records = [_text(data, starts[row], ends[row]) for row in rows.tolist()]
                mask = pa.array(outcomes == outcome)
                found = pc.replace_with_mask(found, mask, write(records, names, wrong[:, rows]))
        return found

    def _write_replaced(self, records: Sequence[str], names: Sequence[str], wrong: Mask) -> Texts:
        """Of records of which some bytes that are not UTF-8 have been replaced."""
        parts = [record.encode() for record in records]
        ends = np.cumsum([len(part) for part in parts])
        starts = np.concatenate([[0], ends[:-1]])
        data = np.frombuffer(b"".join(parts), np.uint8)
        asked = np.ones(len(parts), np.bool_)
        return self._write(data, starts.astype(np.int32), ends.astype(np.int32), asked, names, wrong)

    def _ask(self, records: Sequence[str], names: Sequence[str], wrong: Mask) -> Texts:
        """By the plain twin."""
        paths = [self.places[name] for name in names]
        found = [
            leftover(record, self.keys, [path for slot, path in enumerate(paths) if wrong[slot, row]])
            for row, record in enumerate(records)
        ]
        return pa.array(found, pa.string())


def _text(data: Bytes, start: int, end: int) -> str:
    return data[start:end].tobytes().removeprefix(BYTE_ORDER_MARK).decode("utf-8", "replace")
