"""Values of a schema as Arrow arrays, by the slots that the kernels filled."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tidemill.formats.avro.decoding import REASONS, decimal_words, gather, table_of, walk_blocks, walk_values
from tidemill.formats.avro.schema import ARRAY, BOOLEAN, BYTES, ENUM, FIXED, FLOAT, MAP, NULL, RECORD, UNION, Node
from tidemill.kernels.columns import map_array, nulls

Bytes = npt.NDArray[np.uint8]
Ints = npt.NDArray[np.int64]

_MOST_MILLIS = (1 << 63) // 1000 - 1


class BadValueError(Exception):
    """A value that its type does not hold.

    Attributes
    ----------
    reason : str
        One of malformed rows.
    values : list of int or None
        The numbers of the records that have such values, among those that are whole; None where this is not known.
    """

    def __init__(self, reason: str, values: list[int] | None = None) -> None:
        self.reason, self.values = reason, values
        super().__init__(reason)


@dataclass(frozen=True)
class Decoder:
    """Makes columns of the values of a record.

    Parameters
    ----------
    root : Node
    chosen : frozenset of str
        The fields that become columns.
    """

    root: Node
    chosen: frozenset[str]

    @cached_property
    def _table(self) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], int]:
        return table_of(self.root)

    @cached_property
    def _tops(self) -> list[int]:
        """The nodes of the fields."""
        counts = [child.count for child in self.root.children]
        return [int(at) for at in np.cumsum([0, *counts])[:-1]]

    @cached_property
    def _noted(self) -> npt.NDArray[np.bool_]:
        """Nodes whose values are noted."""
        found = np.zeros(self._table[0].shape[0], np.bool_)
        for name, top, child in zip(self.root.names, self._tops, self.root.children, strict=True):
            found[top : top + child.count] = name in self.chosen
        return found

    @property
    def _varies(self) -> bool:
        """Whether it must be counted how many slots there are: some are below arrays."""
        kinds = self._table[0][self._noted, 0]
        return bool(np.isin(kinds, (ARRAY, MAP)).any())

    def of_messages(self, data: Bytes, starts: Ints, sizes: Ints) -> tuple[pa.RecordBatch, npt.NDArray[np.int8]]:
        """The chosen fields of those values that are whole, and for each value a code of ``REASONS``.

        Raises
        ------
        BadValueError
            When some value is whole, and its type does not hold it.
        """
        codes = np.zeros(starts.size, np.int8)

        def walk(slots: _Slots) -> None:
            table, branches, depth = self._table
            stack = np.zeros((depth + 1, 5), np.int64)
            walk_values(data, starts, sizes, table, branches, *slots.arrays, stack, codes)

        slots = self._filled(starts.size, walk)
        return self._batch(slots, data, int(starts.size - np.count_nonzero(codes))), codes

    def codes(self, data: Bytes, starts: Ints, sizes: Ints) -> npt.NDArray[np.int8]:
        """For each value a code of ``REASONS``."""
        codes = np.zeros(starts.size, np.int8)
        table, branches, depth = self._table
        nothing = _Slots.of(np.zeros(table.shape[0], np.bool_), 0)
        stack = np.zeros((depth + 1, 5), np.int64)
        walk_values(data, starts, sizes, table, branches, *nothing.arrays, stack, codes)
        return codes

    def of_blocks(self, data: Bytes, counts: Ints, ends: Ints) -> tuple[pa.RecordBatch, str]:
        """The chosen fields of blocks of so many values, up to their ends, and what is wrong with them if anything is.

        Raises
        ------
        BadValueError
            As :meth:`of_messages`.
        """
        code = [0]

        def walk(slots: _Slots) -> None:
            table, branches, depth = self._table
            stack = np.zeros((depth + 1, 5), np.int64)
            code[0] = walk_blocks(data, counts, ends, table, branches, *slots.arrays, stack)

        count = int(counts.sum())
        slots = self._filled(count, walk)
        if code[0]:
            return self._batch(_Slots.of(self._noted, 0), data, 0), REASONS[code[0]]
        return self._batch(slots, data, count), ""

    def _filled(self, count: int, walk: Callable[[_Slots], None]) -> _Slots:
        slots = _Slots.of(self._noted, 0 if self._varies else count)
        walk(slots)
        if self._varies:
            slots = _Slots.of(self._noted, slots.used)
            walk(slots)
        return slots

    def _batch(self, slots: _Slots, data: Bytes, count: int) -> pa.RecordBatch:
        names = [name for name in self.root.names if name in self.chosen]
        arrays = [
            _Columns(slots, data).array(child, top)
            for name, top, child in zip(self.root.names, self._tops, self.root.children, strict=True)
            if name in self.chosen
        ]
        struct: pa.Array[Any] = (
            pa.StructArray.from_arrays(arrays, names) if arrays else pa.Array.from_buffers(pa.struct([]), count, [None])
        )
        return pa.RecordBatch.from_struct_array(struct)  # type: ignore[arg-type]


@dataclass(frozen=True)
class _Slots:
    """See ``walk_values``."""

    first: Ints
    last: Ints
    valid: Bytes
    places: Ints
    lengths: Ints
    used: Ints

    @staticmethod
    def of(noted: npt.NDArray[np.bool_], counts: int | Ints) -> _Slots:
        """Room for so many values of each node that is noted."""
        room = np.where(noted, counts, 0)
        ends = np.cumsum(room, dtype=np.int64)
        total = int(ends[-1]) if ends.size else 0
        arrays = np.empty(total, np.uint8), np.empty(total, np.int64), np.empty(total, np.int64)
        return _Slots(np.where(noted, ends - room, -1), ends, *arrays, np.zeros(noted.size, np.int64))

    @property
    def arrays(self) -> tuple[Ints, Ints, Bytes, Ints, Ints, Ints]:
        return self.first, self.last, self.valid, self.places, self.lengths, self.used


@dataclass(frozen=True)
class _Columns:
    """Arrays of nodes, by the number of the node in the table.

    Attributes
    ----------
    direct : bool
        Whether each record has one slot of these nodes: they are below no array or map.
    """

    slots: _Slots
    data: Bytes
    direct: bool = True

    def array(self, node: Node, at: int) -> pa.Array[Any]:
        first, count = int(self.slots.first[at]), int(self.slots.used[at])
        valid = self.slots.valid[first : first + count].view(np.bool_)
        places = self.slots.places[first : first + count]
        lengths = self.slots.lengths[first : first + count]
        match node.kind:
            case k if k == NULL:
                return nulls(count)
            case k if k == BOOLEAN:
                return pa.array(places.astype(np.bool_), mask=~valid)
            case k if k in (BYTES, FIXED):
                if pa.types.is_decimal(node.type):
                    return self._decimals(node.type, valid, places, lengths)
                return self._bytes(node.type, valid, places, lengths)
            case k if k == ENUM:
                codes: Any = pa.array(places.astype(np.int32), mask=~valid)
                return pa.DictionaryArray.from_arrays(codes, pa.array(node.symbols, pa.string())).cast(pa.string())
            case k if k == RECORD:
                return self._struct(node.names, self._children(node, at), valid)
            case k if k == UNION:
                children = self._children(node, at)
                if not pa.types.is_struct(node.type):
                    wide: Any = [child.cast(node.type) for child in children]
                    return pc.coalesce(*wide)
                return self._struct([f.name for f in node.type], children, valid)
            case k if k in (ARRAY, MAP):
                return self._items(node, at, valid, lengths)
        if node.millis:
            places = np.where(valid, places, 0)
            bad = (places > _MOST_MILLIS) | (places < -_MOST_MILLIS)
            if bad.any():
                raise self._bad("bad_timestamp", bad)
            places = places * 1000
        return _numbers(node, valid, places)

    def _bad(self, reason: str, bad: npt.NDArray[np.bool_]) -> BadValueError:
        return BadValueError(reason, np.flatnonzero(bad).tolist() if self.direct else None)

    def _children(self, node: Node, at: int) -> list[pa.Array[Any]]:
        found = []
        at += 1
        for child in node.children:
            found.append(self.array(child, at))
            at += child.count
        return found

    def _struct(
        self, names: Iterable[str], children: Sequence[pa.Array[Any]], valid: npt.NDArray[np.bool_]
    ) -> pa.Array[Any]:
        mask: Any = pa.array(~valid)
        if not children:
            bits = pa.py_buffer(np.packbits(valid, bitorder="little").data)
            return pa.Array.from_buffers(pa.struct([]), valid.size, [bits])
        return pa.StructArray.from_arrays(list(children), list(names), mask=mask)

    def _items(self, node: Node, at: int, valid: npt.NDArray[np.bool_], lengths: Ints) -> pa.Array[Any]:
        offsets = pa.array(np.concatenate([[0], np.cumsum(lengths)]), pa.int32())
        mask: Any = pa.array(~valid)
        children = replace(self, direct=False)._children(node, at)
        if node.kind == MAP:
            return map_array(offsets, children[0], children[1], node.type, mask)
        return pa.ListArray.from_arrays(offsets, children[0], mask=mask)

    def _bytes(self, type_: pa.DataType, valid: npt.NDArray[np.bool_], places: Ints, lengths: Ints) -> pa.Array[Any]:
        offsets = np.empty(places.size + 1, np.int32)
        held = np.empty(int(lengths.sum()), np.uint8)
        gather(self.data, places, lengths, offsets, held)
        bits = None if valid.all() else pa.py_buffer(np.packbits(valid, bitorder="little").data)
        buffers = [bits, pa.py_buffer(offsets.data), pa.py_buffer(held.data)]
        array: pa.Array[Any] = pa.Array.from_buffers(type_, places.size, buffers)
        if type_ == pa.string() and not _is_valid(array):
            texts = array.cast(pa.binary()).to_pylist()
            raise self._bad("bad_utf8", np.array([text is not None and not _is_utf8(text) for text in texts]))
        return array

    def _decimals(self, type_: pa.DataType, valid: npt.NDArray[np.bool_], places: Ints, lengths: Ints) -> pa.Array[Any]:
        words = np.empty(2 * places.size, np.uint64)
        fit = decimal_words(self.data, places, lengths, valid, words)
        bits = pa.py_buffer(np.packbits(valid, bitorder="little").data)
        array: pa.Array[Any] = pa.Array.from_buffers(type_, places.size, [bits, pa.py_buffer(words.data)])
        if fit and _is_valid(array):
            return array
        most = 10**type_.precision  # type: ignore[attr-defined]
        given = [bytes(self.data[p : p + n]) for p, n in zip(places.tolist(), lengths.tolist(), strict=True)]
        large = np.array([abs(int.from_bytes(number, "big", signed=True)) >= most for number in given])
        raise self._bad("bad_decimal", large & valid)


def _is_valid(array: pa.Array[Any]) -> bool:
    try:
        array.validate(full=True)
    except pa.ArrowException:
        return False
    return True


def _is_utf8(text: bytes) -> bool:
    try:
        text.decode()
    except UnicodeDecodeError:
        return False
    return True


def _numbers(node: Node, valid: npt.NDArray[np.bool_], places: Ints) -> pa.Array[Any]:
    """Numbers, dates and times."""
    types, type_ = pa.types, node.type
    if types.is_float64(type_):
        return pa.array(places.view(np.float64), mask=~valid)
    if node.kind == FLOAT:
        return pa.array(places.astype(np.int32).view(np.float32), mask=~valid)
    if type_.bit_width == 32:
        return pa.array(places.astype(np.int32), mask=~valid).cast(type_)
    return pa.array(places, mask=~valid).cast(type_)
