"""The index of a buffer of JSON records: what phase 1 tells phase 2."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tidemill.formats.json.scalars import ARRAY, OBJECT
from tidemill.formats.json.tokens import index_tokens
from tidemill.formats.json.tree import Node, Tree
from tidemill.formats.json.walk import part_elements, walk_records

Ints = npt.NDArray[np.int32]
Bytes = npt.NDArray[np.uint8]


@dataclass(frozen=True)
class Values:
    """One value for each row, element or entry: where it is, with its quotes, and its kind.

    Attributes
    ----------
    starts, ends : ndarray of int32
        Equal where a value is missing or NULL.
    kinds : ndarray of uint8
        See :mod:`tidemill.formats.json.scalars`.
    """

    starts: Ints
    ends: Ints
    kinds: npt.NDArray[np.uint8]


@dataclass(frozen=True)
class ValueIndex:
    """The needed values of one buffer.

    Attributes
    ----------
    data : ndarray of uint8
    escapes : bool
        Whether any backslash occurs in it.
    row_starts, row_ends : ndarray of int32, shape (rows,)
        Each record; a line without its newline.
    broken : ndarray of int32, shape (rows,)
        -1, or where the record is malformed; ``-2 - offset`` where it is nested too deep.
    state : int
        Where in a file of arrays the buffer ends.
    """

    data: Bytes
    escapes: bool
    row_starts: Ints
    row_ends: Ints
    broken: Ints
    state: int
    _starts: Ints
    _ends: Ints
    _kinds: npt.NDArray[np.uint8]
    _base: npt.NDArray[np.int64]
    _firsts: Ints
    _lengths: Ints
    _list_base: npt.NDArray[np.int64]
    _used: npt.NDArray[np.int64]

    def values(self, node: Node, chosen: npt.NDArray[np.int64] | None) -> Values:
        """The values of a node, of all rows of its level or of some."""
        begin = int(self._base[node.number])
        place = slice(begin, begin + int(self._used[node.level]))
        starts, ends, kinds = self._starts[place], self._ends[place], self._kinds[place]
        if chosen is None:
            return Values(starts, ends, kinds)
        return Values(starts[chosen], ends[chosen], kinds[chosen])

    def elements(
        self, node: Node, below: Node, chosen: npt.NDArray[np.int64] | None
    ) -> tuple[Ints, npt.NDArray[np.int64] | None]:
        """The number of elements of each list or entries of each map, 0 for what is none, and which these are.

        None stands for all of the level of ``below``, in order.
        """
        begin = int(self._list_base[node.number])
        place = slice(begin, begin + int(self._used[node.level]))
        firsts, lengths = self._firsts[place], self._lengths[place]
        kinds = self.values(node, chosen).kinds
        if chosen is not None:
            firsts, lengths = firsts[chosen], lengths[chosen]
        lengths = np.where(kinds == (OBJECT if node.key is below else ARRAY), lengths, 0).astype(np.int32)
        total = int(lengths.sum())
        if total == int(self._used[below.level]):
            return lengths, None
        begins = np.cumsum(lengths, dtype=np.int64) - lengths
        return lengths, np.repeat(firsts - begins, lengths) + np.arange(total)


_kept = threading.local()
_KEPT_BYTES = 1 << 22


def _scratch(size: int) -> tuple[Ints, Bytes]:
    """Room for tokens. That for usual buffers is kept: to get it anew costs as much as to find the tokens."""
    if size > _KEPT_BYTES:
        return np.empty(size, np.int32), np.empty(size, np.uint8)
    kept: tuple[Ints, Bytes] | None = getattr(_kept, "room", None)
    if kept is None or kept[0].size < size:
        kept = _kept.room = np.empty(size, np.int32), np.empty(size, np.uint8)
    return kept


def index_values(
    data: Bytes, begin: int, state: int | None, max_depth: int, order: Sequence[Node], tree: Tree
) -> ValueIndex:
    """Index a buffer of complete records.

    Parameters
    ----------
    begin : int
        First byte to read.
    state : int or None
        None for lines, else where in a file of arrays the buffer begins.
    order : sequence of Node
        The nodes of ``tree`` by number; the first one is the record.
    """
    marks, codes = _scratch(data.size + 1)
    count, rows, within, escapes = index_tokens(data, begin, state is None, marks, codes)
    if state is not None:
        parted = np.empty(2 * count, np.int32), np.empty(2 * count, np.uint8)
        count, rows, state = part_elements(marks, codes, count, state, *parted)
        marks, codes = parted
    room = np.array([rows if node.level == 0 else within for node in order], np.int64)
    base = np.cumsum(room) - room
    lists = np.array([bool(node.element or node.key) for node in order]) * room
    starts, ends = np.zeros(int(room.sum()), np.int32), np.zeros(int(room.sum()), np.int32)
    kinds = np.zeros(int(room.sum()), np.uint8)
    list_base = np.cumsum(lists) - lists
    firsts, lengths = np.zeros(int(lists.sum()), np.int32), np.zeros(int(lists.sum()), np.int32)
    used = np.zeros(tree.levels, np.int64)
    row_starts, row_ends, broken = (np.empty(rows, np.int32) for _ in range(3))
    found = walk_records(
        data, marks, codes, count, state is None, max_depth, escapes, tree, base, starts, ends, kinds,
        list_base, firsts, lengths, used, row_starts, row_ends, broken
    )  # fmt: skip
    return ValueIndex(
        data=data,
        escapes=bool(escapes),
        row_starts=row_starts[:found],
        row_ends=row_ends[:found],
        broken=broken[:found],
        state=0 if state is None else int(state),
        _starts=starts,
        _ends=ends,
        _kinds=kinds,
        _base=base,
        _firsts=firsts,
        _lengths=lengths,
        _list_base=list_base,
        _used=used,
    )
