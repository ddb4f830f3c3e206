"""The values that a table needs of a JSON record, as a tree that the kernels walk."""

from __future__ import annotations

# mypy: allow-untyped-defs
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidemill.kernels.byte_masks import byte_at, inlined, kernel, load_word

NO_NUMBER, WHOLE, DOUBLE = 0, 1, 2
"""What is read at once where it is found: nothing, integers, or doubles."""

_PRIME = np.uint64(0x9E3779B97F4A7C15)
_MIX = np.uint64(0xC2B2AE3D27D4EB4F)


@dataclass
class Node:
    """A place in a record: a value with its fields, elements or entries, as far as they are needed.

    ``number`` is its place in the arrays of :class:`Tree`; ``level`` that of the list or map it lies in, 0 for the
    record. ``element`` is what a list holds; ``key`` and ``value`` what a map holds. ``read_as`` is ``WHOLE`` or
    ``DOUBLE`` where all columns that read it are of such a type.
    """

    fields: dict[str, Node] = field(default_factory=dict)
    element: Node | None = None
    key: Node | None = None
    value: Node | None = None
    number: int = -1
    level: int = 0
    span: int = 0
    read_as: int | None = None

    def at(self, path: Iterable[str]) -> Node:
        """The node of a field of a field, made if need be."""
        node = self
        for name in path:
            node = node.fields.setdefault(name, Node())
        return node

    def want(self, type_: pa.DataType) -> None:
        """Note that the value is read as this type."""
        number = WHOLE if pa.types.is_integer(type_) else DOUBLE if type_ == pa.float64() else NO_NUMBER
        self.read_as = number if self.read_as in (None, number) else NO_NUMBER
        if pa.types.is_struct(type_):
            for f in type_:
                self.at((f.name,)).want(f.type)
        elif pa.types.is_list(type_):
            self.element = self.element or Node()
            self.element.want(type_.value_type)
        elif pa.types.is_map(type_):
            self.key, self.value = self.key or Node(), self.value or Node()
            self.value.want(type_.item_type)

    @property
    def ambiguous(self) -> bool:
        """Whether one object would be read as a map and as a record."""
        below = [*self.fields.values(), *(n for n in (self.element, self.value) if n)]
        return bool(self.fields and self.key) or any(n.ambiguous for n in below)


class Tree(NamedTuple):
    """The nodes as arrays, in an order in which each is followed by those below it in its own level.

    Attributes
    ----------
    span : int32
        How many nodes of its level lie below it.
    level : int32
    element, map_key : int32
        The node of a list's elements; that of a map's keys, which is followed by that of its values; or -1.
    key_start, key_size : int32
        Where the name of the node lies in ``keys``; that has 8 more bytes behind the last one.
    slot_base, slot_mask, slots : int32
        For each node with fields a hash table of these: its first slot, and its size less one, -1 for a node
        without; -1 is an empty slot.
    read_as : uint8
        ``WHOLE``, ``DOUBLE`` or ``NO_NUMBER``.
    beyond : uint8
        The mark of a record in which an object at the node has a key that is none of its fields; 0 is no mark, and of
        several the greatest counts.
    holds_lists : bool
        Whether the node is read as a list or a map.
    levels : int
    """

    span: npt.NDArray[np.int32]
    level: npt.NDArray[np.int32]
    element: npt.NDArray[np.int32]
    map_key: npt.NDArray[np.int32]
    keys: npt.NDArray[np.uint8]
    key_start: npt.NDArray[np.int32]
    key_size: npt.NDArray[np.int32]
    slot_base: npt.NDArray[np.int32]
    slot_mask: npt.NDArray[np.int32]
    slots: npt.NDArray[np.int32]
    read_as: npt.NDArray[np.uint8]
    beyond: npt.NDArray[np.uint8]
    holds_lists: npt.NDArray[np.bool_]
    levels: int


def number_nodes(root: Node) -> list[Node]:
    """Give every node its number, level and span; returns them in order."""
    order: list[Node] = []
    queue = [[root]]
    level = 0
    while queue:
        below: list[list[Node]] = []
        for node in queue.pop(0):
            _number(node, level, order, below)
        queue += below
        level += 1
    return order


def _number(node: Node, level: int, order: list[Node], below: list[list[Node]]) -> None:
    node.number, node.level = len(order), level
    order.append(node)
    if node.element:
        below.append([node.element])
    if node.key and node.value:
        below.append([node.key, node.value])
    for child in node.fields.values():
        _number(child, level, order, below)
    node.span = len(order) - node.number - 1


def build_tree(order: Sequence[Node]) -> Tree:
    """The arrays of numbered nodes."""
    count = len(order)
    keys = bytearray()
    key_start, key_size = np.zeros(count, np.int32), np.zeros(count, np.int32)
    slot_base, slot_mask = np.zeros(count, np.int32), np.full(count, -1, np.int32)
    slots: list[int] = []
    for node in order:
        if not node.fields:
            continue
        size = 1 << (2 * len(node.fields) - 1).bit_length()
        slot_base[node.number], slot_mask[node.number] = len(slots), size - 1
        table = [-1] * size
        for name, child in node.fields.items():
            text = name.encode()
            key_start[child.number], key_size[child.number] = len(keys), len(text)
            keys += text
            padded = np.frombuffer(text + bytes(8), np.uint8)
            place = int(hash_of(padded, 0, len(text), len(padded))) & (size - 1)
            while table[place] >= 0:
                place = (place + 1) % size
            table[place] = child.number
        slots += table
    return Tree(
        span=np.array([n.span for n in order], np.int32),
        level=np.array([n.level for n in order], np.int32),
        element=np.array([n.element.number if n.element else -1 for n in order], np.int32),
        map_key=np.array([n.key.number if n.key else -1 for n in order], np.int32),
        keys=np.frombuffer(bytes(keys) + bytes(8), np.uint8),
        key_start=key_start,
        key_size=key_size,
        slot_base=slot_base,
        slot_mask=slot_mask,
        slots=np.array(slots or [-1], np.int32),
        read_as=np.array([n.read_as or NO_NUMBER for n in order], np.uint8),
        beyond=np.zeros(count, np.uint8),
        holds_lists=np.array([bool(n.element or n.key) for n in order], np.bool_),
        levels=1 + max(n.level for n in order),
    )


@inlined
def _word(buf, at, length, size):
    """The first ``length`` (0..8) bytes from ``at`` on."""
    if length == 8:
        return load_word(buf, at)
    if at + 8 <= size:
        return load_word(buf, at) & ((np.uint64(1) << np.uint64(8 * length)) - np.uint64(1))
    word = np.uint64(0)
    for k in range(length):
        word |= np.uint64(byte_at(buf, at + k)) << np.uint64(8 * k)
    return word


@kernel
def hash_of(buf, at, length, size):
    """A hash of a name by its length and its first and last eight bytes."""
    part = min(length, 8)
    first = _word(buf, at, part, size)
    last = _word(buf, at + length - part, part, size)
    mixed = (first ^ (last * _MIX) ^ np.uint64(length)) * _PRIME
    return np.int64(mixed >> np.uint64(33))


@inlined
def same_bytes(left, at, left_size, right, other, right_size, length):
    """Whether ``left[at : at + length]`` equals ``right[other : other + length]``."""
    k = 0
    while k + 8 <= length:
        if load_word(left, at + k) != load_word(right, other + k):
            return False
        k += 8
    return _word(left, at + k, length - k, left_size) == _word(right, other + k, length - k, right_size)


@inlined
def find_key(keys, key_start, key_size, slot_base, slot_mask, slots, node, buf, at, length):
    """:func:`find_field` by the arrays of the tree: for loops, in which each use of a tuple would count references."""
    mask = np.int64(slot_mask[node])
    size = np.int64(buf.size)
    place = hash_of(buf, at, length, size) & mask
    while True:
        child = np.int64(slots[slot_base[node] + place])
        if child < 0:
            return np.int64(-1)
        if key_size[child] == length and same_bytes(
            keys, np.int64(key_start[child]), np.int64(keys.size), buf, at, size, length
        ):
            return child
        place = (place + 1) & mask


@kernel
def find_field(tree, node, buf, at, length):
    """The field of a node of the name ``buf[at : at + length]``, or -1."""
    return find_key(
        tree.keys, tree.key_start, tree.key_size, tree.slot_base, tree.slot_mask, tree.slots, node, buf, at, length
    )
