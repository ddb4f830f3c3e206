"""The keys that the columns of a table account for."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from tidemill.formats.json.indexing.tree import Node, Tree
from tidemill.formats.json.leftover_texts import ELEMENTS, ENTRIES, FIELDS, Known
from tidemill.schema import Schema

NEW_WITHIN, NEW_COLUMN = 1, 2
"""Marks of records with an unknown key: within a column, or beside all columns."""


def known_keys(schema: Schema, paths: Mapping[int, tuple[str, ...]]) -> Node:
    """The keys that the columns of a table account for.

    All that is within a value that a column reads as one, such as a STRING, is known.

    Parameters
    ----------
    paths : mapping of int to tuple of str
        For columns, by their place in the schema, that are not the field of their name.
    """
    root = Node()
    leaves: list[Node] = []
    for ordinal, field in enumerate(schema):
        node = root.at(paths.get(ordinal, (field.name,)))
        node.want(field.type)
        _add_leaves(node, field.type, leaves)
    for node in leaves:
        node.fields, node.element, node.key, node.value = {}, None, None, None
    return root


def _add_leaves(node: Node, type_: pa.DataType, leaves: list[Node]) -> None:
    """Note the nodes that are read as one value."""
    if pa.types.is_struct(type_):
        for field in type_:
            _add_leaves(node.fields[field.name], field.type, leaves)
    elif pa.types.is_list(type_):
        assert node.element is not None
        _add_leaves(node.element, type_.value_type, leaves)
    elif pa.types.is_map(type_):
        assert node.value is not None
        _add_leaves(node.value, type_.item_type, leaves)
    else:
        leaves.append(node)


def known_of(tree: Tree, root: Node, keys: Node) -> Known:
    """What is known of the values of a tree. Objects with known fields that the tree lacks are not gone into.

    Parameters
    ----------
    root : Node
        Of the tree.
    keys : Node
        See :func:`known_keys`.
    """
    opens, entry = np.zeros(tree.span.size, np.uint8), np.full(tree.span.size, -1, np.int32)

    def mark(node: Node, key: Node) -> None:
        if key.fields and key.fields.keys() <= node.fields.keys():
            opens[node.number] |= FIELDS
        for name in key.fields.keys() & node.fields.keys():
            mark(node.fields[name], key.fields[name])
        if node.element and key.element:
            opens[node.number] |= ELEMENTS
            mark(node.element, key.element)
        if node.value and key.value:
            opens[node.number] |= ENTRIES
            entry[node.number] = node.value.number
            mark(node.value, key.value)

    mark(root, keys)
    return Known(tree, opens, entry)


def marking_unknown(known: Known) -> Tree:
    """The tree, so that records with any unknown key are marked."""
    beyond = np.where(known.opens & FIELDS, NEW_WITHIN, 0).astype(np.uint8)
    beyond[0] = NEW_COLUMN
    return known.tree._replace(beyond=beyond)
