"""Which records hold a key that a table has no column or field for: one look at the bytes of each record.

Plain twin: :func:`tidemill.formats.json.leftovers.leftover`, which tells what it is.
"""

from __future__ import annotations

# mypy: allow-untyped-defs
from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from tidemill.formats.byte_masks import byte_at, inlined, kernel
from tidemill.formats.json.columns import Build, Built, Chosen
from tidemill.formats.json.index import ValueIndex
from tidemill.formats.json.tree import Node, build_tree, find_field, number_nodes
from tidemill.schema import Schema

_QUOTE, _BACKSLASH, _COMMA = 0x22, 0x5C, 0x2C
_OPEN_BRACE, _CLOSE_BRACE, _OPEN_BRACKET, _CLOSE_BRACKET = 0x7B, 0x7D, 0x5B, 0x5D


def known_keys(schema: Schema, paths: Mapping[int, tuple[str, ...]], only_columns: bool = False) -> Node:
    """The keys that the columns of a table account for.

    What lies within a value that a column takes as a whole is known, whatever it is.

    Parameters
    ----------
    paths : mapping of int to tuple of str
        For columns, by their place in the schema, that are not the field of their name.
    only_columns : bool
        Whatever lies within a column is known.
    """
    root = Node()
    whole: list[Node] = []
    for ordinal, field in enumerate(schema):
        node = root.at(paths.get(ordinal, (field.name,))[: 1 if only_columns else None])
        if only_columns:
            continue
        node.want(field.type)
        _take_whole(node, field.type, whole)
    for node in whole:
        node.fields, node.element, node.key, node.value = {}, None, None, None
    return root


def _take_whole(node: Node, type_: pa.DataType, whole: list[Node]) -> None:
    """Note the nodes that are read as one value."""
    if pa.types.is_struct(type_):
        for field in type_:
            _take_whole(node.fields[field.name], field.type, whole)
    elif pa.types.is_list(type_):
        assert node.element is not None
        _take_whole(node.element, type_.value_type, whole)
    elif pa.types.is_map(type_):
        assert node.value is not None
        _take_whole(node.value, type_.item_type, whole)
    else:
        whole.append(node)


def unknown_keys(known: Node) -> Build:
    """What makes a column that is true for records which may hold a key that is not known; malformed ones do not.

    A key with an escape in it, below which nobody has looked, counts as one that may be unknown.
    """
    order = number_nodes(known)
    tree = build_tree(order)
    values = np.array([n.value.number if n.value else -1 for n in order], np.int32)
    deepest = len(order) + 1

    def build(index: ValueIndex, chosen: Chosen) -> Built:
        flags = np.zeros(index.row_starts.size, np.bool_)
        find_unknown(index.data, index.row_starts, index.row_ends, index.broken, tree, values, deepest, flags)
        array: pa.Array[Any] = pa.array(flags)
        return Built(array)

    return build


@inlined
def _behind_text(buf, at, end):
    """The offset behind the string that begins at ``at``."""
    at += 1
    while at < end:
        c = byte_at(buf, at)
        if c == _BACKSLASH:
            at += 1
        elif c == _QUOTE:
            return at + 1
        at += 1
    return end


@inlined
def _behind_value(buf, at, end):
    """The offset behind the value that begins at ``at``."""
    c = byte_at(buf, at)
    if c == _QUOTE:
        return _behind_text(buf, at, end)
    depth = 0
    while at < end:
        c = byte_at(buf, at)
        if c == _QUOTE:
            at = _behind_text(buf, at, end)
            continue
        if c in (_OPEN_BRACE, _OPEN_BRACKET):
            depth += 1
        elif c in (_CLOSE_BRACE, _CLOSE_BRACKET):
            depth -= 1
            if depth == 0:
                return at + 1
            if depth < 0:
                return at
        elif c == _COMMA and depth == 0:
            return at
        at += 1
    return end


@inlined
def _to_token(buf, at, end):
    """The offset of the next byte that is neither white space, nor a comma, nor a colon."""
    while at < end:
        c = byte_at(buf, at)
        if c > 32 and c != _COMMA and c != 0x3A:
            return at
        at += 1
    return end


@kernel
def find_unknown(buf, row_starts, row_ends, broken, tree, values, deepest, flags):
    """Flag the records that may hold a key which is not in the tree.

    Parameters
    ----------
    buf : ndarray of uint8
    row_starts, row_ends, broken : ndarray of int32
        As :class:`tidemill.formats.json.index.ValueIndex` has them; records with ``broken != -1`` are passed over,
        the others are known to be valid.
    tree : Tree
    values : ndarray of int32, shape (nodes,)
        The node of what the entries of a map hold, or -1.
    deepest : int
        More than the tree has levels.
    flags : ndarray of bool, shape (rows,)
        All False; receives True.
    """
    nodes = np.empty(deepest, np.int32)
    size = np.int64(buf.size)
    for row in range(row_starts.size):
        if broken[row] != -1:
            continue
        end = min(np.int64(row_ends[row]), size)
        at = np.int64(row_starts[row])
        while at < end and byte_at(buf, at) != _OPEN_BRACE:
            at += 1
        at += 1
        depth = 0
        nodes[0] = 0
        while depth >= 0:
            at = _to_token(buf, at, end)
            if at >= end:
                break
            c = byte_at(buf, at)
            if c in (_CLOSE_BRACE, _CLOSE_BRACKET):
                depth -= 1
                at += 1
                continue
            node = np.int64(nodes[depth])
            below = np.int64(tree.element[node])
            if tree.memory_base[node] >= 0:
                behind = _behind_text(buf, at, end)
                if behind - 1 <= at:
                    break
                below = find_field(tree, node, buf, at + 1, behind - at - 2)
                if below < 0:
                    flags[row] = True
                    break
                at = _to_token(buf, behind, end)
            elif values[node] >= 0:
                below = np.int64(values[node])
                at = _to_token(buf, _behind_text(buf, at, end), end)
            if at >= end:
                break
            c = byte_at(buf, at)
            opens = (c == _OPEN_BRACE and (tree.memory_base[below] >= 0 or values[below] >= 0)) or (
                c == _OPEN_BRACKET and tree.element[below] >= 0
            )
            if opens:
                depth += 1
                nodes[depth] = below
                at += 1
            else:
                at = _behind_value(buf, at, end)
