"""What of JSON records no column holds, as texts: by the tokens of the records that have something left over.

Plain twin: :func:`tidemill.formats.json.leftovers.leftover`, which also does the records that are rare: with escapes in
keys, a key given twice, or bytes that are not UTF-8.
"""

from __future__ import annotations

# mypy: allow-untyped-defs
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from tidemill.formats.json.indexing.tree import Tree, find_key, same_bytes
from tidemill.formats.json_tokens.tokens import ARRAY, ESCAPED, OBJECT, TEXT
from tidemill.formats.values.texts.texts import is_utf8
from tidemill.kernels.byte_masks import kernel

FIELDS, ELEMENTS, ENTRIES = 1, 2, 4
"""What is known of a value: the fields of an object, what an array holds, or what the entries of a map hold."""

MOST_NEW_KEYS = 1024
"""An object with more unknown keys is left to the plain twin: each of them is compared with all others."""

_PART, _ALL = 1, 2
"""What of a value is left over: some fields of an object, or all of it."""


class Known(NamedTuple):
    """What the columns of a table account for.

    Attributes
    ----------
    tree : Tree
    opens : uint8, shape (nodes,)
        Sum of ``FIELDS``, ``ELEMENTS`` and ``ENTRIES``; 0 for a value that a column takes as a whole.
    entry : int32, shape (nodes,)
        The node of what the entries of a map hold, or -1.
    """

    tree: Tree
    opens: npt.NDArray[np.uint8]
    entry: npt.NDArray[np.int32]


@kernel
def _find_unknown(tokens, root, known, wrong, nodes, parents, left, stamps, new_keys):
    """Find the values of a record that are left over: ``nodes``, ``parents`` and ``left`` of its tokens are filled.

    Returns whether that is all: not where a key has escapes or is given twice.
    """
    buf, kinds, flags, starts, ends, after, _ = tokens
    tree, opens, entry = known
    keys, key_start, key_size = tree.keys, tree.key_start, tree.key_size
    slot_base, slot_mask, slots = tree.slot_base, tree.slot_mask, tree.slots
    size = np.int64(buf.size)
    for token in range(root, after[root]):
        nodes[token], left[token] = -1, 0
    nodes[root], parents[root] = 0, -1
    for token in range(root, after[root]):
        # A value lies behind what it is in, so its node is known by now.
        node = np.int64(nodes[token])
        if node < 0 or opens[node] == 0:
            continue
        member, stop = token + 1, after[token]
        if kinds[token] == OBJECT and opens[node] & FIELDS:
            unknown = 0
            while member < stop:
                start, length, value = starts[member], ends[member] - starts[member], member + 1
                child = find_key(keys, key_start, key_size, slot_base, slot_mask, slots, node, buf, start, length)
                parents[value] = token
                if flags[member] & ESCAPED or (child >= 0 and stamps[child] == token):
                    return False
                if child < 0:
                    if unknown == new_keys.size:
                        return False
                    for k in range(unknown):
                        other = new_keys[k]
                        same_length = ends[other] - starts[other] == length
                        if same_length and same_bytes(buf, starts[other], size, buf, start, size, length):
                            return False
                    new_keys[unknown] = member
                    unknown += 1
                    left[value] = _ALL
                else:
                    stamps[child] = token
                    if wrong[child]:
                        left[value] = _ALL
                    else:
                        nodes[value] = child
                member = after[value]
        elif kinds[token] == ARRAY and opens[node] & ELEMENTS:
            while member < stop:
                nodes[member], parents[member] = tree.element[node], token
                member = after[member]
        elif kinds[token] == OBJECT and opens[node] & ENTRIES:
            while member < stop:
                nodes[member + 1], parents[member + 1] = entry[node], token
                member = after[member + 1]
    for token in range(after[root] - 1, root, -1):
        if left[token]:
            # An array or map of which something is left over is so as a whole.
            parent = parents[token]
            left[parent] = _PART if kinds[parent] == OBJECT and opens[nodes[parent]] & FIELDS else _ALL
    return True


@kernel
def _write(tokens, root, parents, left, out, cursor):
    """Write what of an object is left over; returns the end."""
    buf, kinds, _, starts, ends, after, _ = tokens
    out[cursor] = 0x7B
    cursor += 1
    inside, token, fresh = root, root + 1, True
    while True:
        if token == after[inside]:
            out[cursor] = 0x7D
            cursor += 1
            if inside == root:
                return cursor
            inside, fresh = parents[inside], False
            continue
        value = token + 1
        if left[value]:
            if not fresh:
                out[cursor] = 0x2C
                cursor += 1
            start, stop = starts[token] - 1, ends[token] + 1
            out[cursor : cursor + stop - start] = buf[start:stop]
            cursor += stop - start
            out[cursor] = 0x3A
            cursor += 1
            fresh = left[value] == _PART
            if fresh:
                out[cursor] = 0x7B
                cursor += 1
                inside, token = value, value + 1
                continue
            quote = kinds[value] == TEXT
            start, stop = starts[value] - quote, ends[value] + quote
            out[cursor : cursor + stop - start] = buf[start:stop]
            cursor += stop - start
        token = after[value]


@kernel
def write_leftovers(tokens, known, wrong_slot, wrong, out, offsets, decided):
    """Write what is left over of some records.

    Parameters
    ----------
    tokens : Tokens
        Of the records.
    known : Known
    wrong_slot : ndarray of int32, shape (nodes,)
        The row of ``wrong`` for nodes whose values may not fit, else -1.
    wrong : ndarray of bool, shape (slots, records)
        Which values are left over though they are known.
    out : ndarray of uint8
        As large as the records: no text is longer than its record.
    offsets : ndarray of int64, shape (records + 1,)
        Receives where each text begins and ends; empty where nothing is left over.
    decided : ndarray of bool, shape (records,)
        Receives False for what is left to the plain twin.
    """
    count, roots = tokens.kinds.size, tokens.roots
    nodes, parents, left = np.empty(count, np.int32), np.empty(count, np.int64), np.empty(count, np.uint8)
    stamps, misfits = np.full(wrong_slot.size, -1, np.int64), np.zeros(wrong_slot.size, np.bool_)
    new_keys = np.empty(MOST_NEW_KEYS, np.int64)
    offsets[0] = 0
    for record in range(roots.size):
        cursor, root = offsets[record], roots[record]
        for node in range(misfits.size):
            misfits[node] = wrong_slot[node] >= 0 and wrong[wrong_slot[node], record]
        decided[record] = root >= 0 and _find_unknown(
            tokens, root, known, misfits, nodes, parents, left, stamps, new_keys
        )
        if decided[record] and left[root]:
            stop = _write(tokens, root, parents, left, out, cursor)
            decided[record] = is_utf8(out, cursor, stop)
            if decided[record]:
                cursor = stop
        offsets[record + 1] = cursor
