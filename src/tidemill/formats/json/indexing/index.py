"""The index of a buffer of JSON records: what phase 1 hands to phase 2."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from tidemill.formats.json.indexing.elements import part_elements
from tidemill.formats.json.indexing.tree import Node, Tree
from tidemill.formats.json.indexing.walk import Extents, Records, Room, walk_records
from tidemill.formats.json_tokens.scalars import ARRAY, OBJECT

Ints = npt.NDArray[np.int32]
Bytes = npt.NDArray[np.uint8]


class Values(NamedTuple):
    """One value for each row, element or entry: where it is, with its quotes, and its kind.

    Attributes
    ----------
    starts, ends : ndarray of int32
        Equal where a value is missing or NULL.
    kinds : ndarray of uint8
        See :mod:`tidemill.formats.json_tokens.scalars`.
    numbers : ndarray of int64
        What is ``READ``: integers, or the bits of doubles. Set nowhere else.
    """

    starts: Ints
    ends: Ints
    kinds: npt.NDArray[np.uint8]
    numbers: npt.NDArray[np.int64]

    def only(self, chosen: npt.NDArray[np.int64]) -> Values:
        """Some of them, by their places."""
        return Values(self.starts[chosen], self.ends[chosen], self.kinds[chosen], self.numbers[chosen])


@dataclass(frozen=True)
class ValueIndex:
    """The needed values of one buffer.

    Attributes
    ----------
    data : ndarray of uint8
    row_starts, row_ends : ndarray of int32, shape (rows,)
        Each record; a line without its newline.
    broken : ndarray of int32, shape (rows,)
        -1, or where the record is malformed; ``-2 - offset`` where it is nested too deep.
    unknown : ndarray of uint8, shape (rows,)
        Whether a record may hold keys that are not in the tree, as ``Tree.beyond`` has it; 0 where it is malformed.
    state : int
        Where in a file of arrays the buffer ends.
    room : Room
        Hazard: valid until the thread indexes another buffer.
    """

    data: Bytes
    row_starts: Ints
    row_ends: Ints
    broken: Ints
    unknown: npt.NDArray[np.uint8]
    state: int
    room: Room

    def values(self, node: Node, chosen: npt.NDArray[np.int64] | None) -> Values:
        """The values of a node, of all rows of its level or of some."""
        room = self.room
        begin = int(room.base[node.number])
        place = slice(begin, begin + int(room.used[node.level]))
        values = Values(room.starts[place], room.ends[place], room.kinds[place], room.numbers[place])
        return values if chosen is None else values.only(chosen)

    def has_escapes(self, node: Node) -> bool:
        """Whether any text of a node may have escapes."""
        return bool(self.room.escaped[node.number])

    def elements(
        self, node: Node, below: Node, chosen: npt.NDArray[np.int64] | None
    ) -> tuple[Ints, npt.NDArray[np.int64] | None]:
        """The number of elements of each list or entries of each map, 0 for what is none, and which these are.

        None stands for all of the level of ``below``, in order.
        """
        room = self.room
        begin = int(room.list_base[node.number])
        place = slice(begin, begin + int(room.used[node.level]))
        firsts, lengths = room.firsts[place], room.lengths[place]
        kinds = self.values(node, chosen).kinds
        if chosen is not None:
            firsts, lengths = firsts[chosen], lengths[chosen]
        lengths = np.where(kinds == (OBJECT if node.key is below else ARRAY), lengths, 0).astype(np.int32)
        total = int(lengths.sum())
        if total == int(room.used[below.level]):
            return lengths, None
        begins = np.cumsum(lengths, dtype=np.int64) - lengths
        return lengths, np.repeat(firsts - begins, lengths) + np.arange(total)


class _ThreadMemory(threading.local):
    """Arrays of one thread that are used again: to allocate them costs as much as to fill them."""

    def __init__(self) -> None:
        self.arrays: dict[str, npt.NDArray[Any]] = {}
        self.tree: Tree | None = None
        self.per_row: npt.NDArray[np.float64] = np.empty(0)

    def take(self, name: str, size: int, type_: type[np.generic], clear: bool) -> npt.NDArray[Any]:
        """An array of ``size``, zeroed or with what it held; one beyond ``_MOST_REUSED`` bytes is new."""
        if size * np.dtype(type_).itemsize > _MOST_REUSED:
            return _fresh(name, size, type_, clear)
        kept = self.arrays.get(name)
        if kept is None or kept.size < size:
            kept = self.arrays[name] = np.empty(size, type_)
        kept = kept[:size]
        if clear:
            kept.fill(0)
        return kept

    def first_capacity(self, tree: Tree, rows: int, size: int) -> npt.NDArray[np.int64]:
        """Rows, elements and entries to begin with: as many as in the buffer before, if so many are likely."""
        if self.tree is not tree:
            self.tree, self.per_row = tree, np.full(tree.levels, 2.0)
        capacity = np.minimum(self.per_row * rows * 1.125, size / 8).astype(np.int64) + 16
        capacity[0] = rows
        return capacity


_memory = _ThreadMemory()
_MOST_REUSED = 1 << 24


def _fresh(name: str, size: int, type_: type[np.generic], clear: bool) -> npt.NDArray[Any]:
    return np.zeros(size, type_) if clear else np.empty(size, type_)


def _make_room(tree: Tree, capacity: npt.NDArray[np.int64], fresh: bool = False) -> Room:
    """Room for so many rows, elements and entries, in the memory of the thread or, if ``fresh``, in other."""
    take = _fresh if fresh else _memory.take
    room = capacity[tree.level]
    lists = np.where(tree.holds_lists, room, 0)
    ends, list_ends = room.cumsum(), lists.cumsum()
    total, listed = int(ends[-1]), int(list_ends[-1])
    return Room(
        capacity=capacity,
        used=np.zeros(capacity.size, np.int64),
        escaped=np.zeros(room.size, np.uint8),
        base=ends - room,
        starts=take("starts", total, np.int32, True),
        ends=take("ends", total, np.int32, True),
        kinds=take("kinds", total, np.uint8, True),
        numbers=take("numbers", total, np.int64, False),
        list_base=list_ends - lists,
        firsts=take("firsts", listed, np.int32, False),
        lengths=take("lengths", listed, np.int32, False),
    )


def _more_room(tree: Tree, room: Room, level: int) -> Room:
    """Twice as much room for one level, with all that the old one holds."""
    capacity = room.capacity.copy()
    capacity[level] = 2 * capacity[level] + 16
    old, new = room, _make_room(tree, capacity, fresh=True)
    new.used[:] = old.used
    new.escaped[:] = old.escaped
    for node, of_node in enumerate(tree.level):
        count = int(old.used[of_node])
        for names, bases in ((_FILLED[:4], "base"), (_FILLED[4:], "list_base")):
            if bases == "list_base" and not tree.holds_lists[node]:
                continue
            source, target = int(getattr(old, bases)[node]), int(getattr(new, bases)[node])
            for name in names:
                getattr(new, name)[target : target + count] = getattr(old, name)[source : source + count]
    return new


_FILLED = ("starts", "ends", "kinds", "numbers", "firsts", "lengths")


def _find_elements(data: Bytes, begin: int, state: int) -> tuple[Ints, Ints, int]:
    """Where the records of a file of arrays lie, and the state behind them."""
    room = data.size // 64 + 64
    while True:
        first_bytes, last_bytes = np.empty(room, np.int32), np.empty(room, np.int32)
        count, behind = part_elements(data, begin, state, first_bytes, last_bytes)
        if count <= room:
            return first_bytes[:count], last_bytes[:count], int(behind)
        room = int(count)


_NO_PLACES = np.empty(0, np.int32)


def index_values(data: Bytes, begin: int, rows: int, state: int | None, max_depth: int, tree: Tree) -> ValueIndex:
    """Index a buffer of complete records.

    Parameters
    ----------
    begin : int
        First byte to read.
    rows : int
        Upper limit of the number of lines.
    state : int or None
        None for lines, else where in a file of arrays the buffer begins.
    tree : Tree
        Its first node is the record.
    """
    first_bytes = last_bytes = _NO_PLACES
    if state is not None:
        first_bytes, last_bytes, state = _find_elements(data, begin, state)
        rows = first_bytes.size
    extents = Extents(state is None, first_bytes, last_bytes)
    found_at = np.empty((3, rows), np.int32)
    records = Records(found_at[0], found_at[1], found_at[2], np.empty(rows, np.uint8))
    room = _make_room(tree, _memory.first_capacity(tree, rows, data.size))
    found, at = 0, begin
    while True:
        found, at, level = walk_records(data, at, found, extents, max_depth, tree, room, records)
        if level < 0:
            break
        assert level > 0, "a buffer has more lines than were counted"
        room = _more_room(tree, room, level)
    if rows:
        _memory.per_row = room.used / rows
    if state is None and found and records.starts[0] == begin:
        records.starts[0] = 0  # the byte order mark is part of the first line
    return ValueIndex(
        data=data,
        row_starts=records.starts[:found],
        row_ends=records.ends[:found],
        broken=records.broken[:found],
        unknown=records.unknown[:found],
        state=0 if state is None else state,
        room=room,
    )
