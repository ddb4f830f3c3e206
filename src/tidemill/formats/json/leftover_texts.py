"""What of JSON records no column holds, as text: one look at the bytes of the records that have something left over.

Plain twin: :func:`tidemill.formats.json.leftovers.leftover`, which is also asked about records in which a key is given
twice, or has half of a surrogate pair in it.
"""

from __future__ import annotations

# mypy: allow-untyped-defs
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from tidemill.formats.json.indexing.texts import unescape
from tidemill.formats.json.indexing.tree import Tree, find_field
from tidemill.formats.values.texts.texts import is_utf8
from tidemill.kernels.byte_masks import byte_at, equal_mask, inlined, kernel, load_word, store_word, trailing_zeros

_QUOTE, _BACKSLASH, _COMMA, _COLON = 0x22, 0x5C, 0x2C, 0x3A
_OPEN_BRACE, _CLOSE_BRACE, _OPEN_BRACKET, _CLOSE_BRACKET = 0x7B, 0x7D, 0x5B, 0x5D

FIELDS, ELEMENTS, ENTRIES = 1, 2, 4
"""What is known of a value: the fields of an object, what an array holds, or what the entries of a map hold."""

NOTHING, LEFT, NOT_UTF8, UNDECIDED = 0, 1, 2, 3
"""Outcome of one record: nothing is left over; a text; a text that is not UTF-8; ask the plain twin."""

SLACK = 16
"""Bytes that the output of :func:`write_leftovers` must have beyond the records' own."""

_HIGH_BITS = np.uint64(0x8080808080808080)
_MIX = np.uint64(0x9E3779B97F4A7C15)
_SEEN_KEYS = 1 << 12


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
def _behind_text(buf, at, end):
    """The offset behind the string that begins at ``at``, and whether it has escapes."""
    size = np.int64(buf.size)
    at += 1
    escaped = False
    while True:
        if at + 64 <= size:
            special = equal_mask(buf, at, _QUOTE) | equal_mask(buf, at, _BACKSLASH)
            at += trailing_zeros(special)
            if special == 0 and at < end:
                continue
        else:
            while at < end and byte_at(buf, at) != _QUOTE and byte_at(buf, at) != _BACKSLASH:
                at += 1
        if at >= end:
            return end, escaped
        if byte_at(buf, at) == _QUOTE:
            return at + 1, escaped
        escaped = True
        at += 2


@kernel
def _behind_value(buf, at, end):
    """The offset behind the value that begins at ``at``."""
    depth = 0
    while at < end:
        c = byte_at(buf, at)
        if c == _QUOTE:
            at, _ = _behind_text(buf, at, end)
            if depth == 0:
                return at
            continue
        if c | 0x20 == _OPEN_BRACE:
            depth += 1
        elif c | 0x20 == _CLOSE_BRACE:
            depth -= 1
            if depth == 0:
                return at + 1
            if depth < 0:
                return at
        elif depth == 0 and (c == _COMMA or c <= 32):
            return at
        at += 1
    return end


@inlined
def _to_token(buf, at, end):
    """The offset of the next byte that is neither white space, nor a comma, nor a colon."""
    while at < end:
        c = byte_at(buf, at)
        if c > 32 and c != _COMMA and c != _COLON:
            break
        at += 1
    return at


@inlined
def _copy(buf, start, end, out, cursor):
    """Copy bytes; returns which of their high bits occur."""
    seen = np.uint64(0)
    while start + 8 <= end:
        word = load_word(buf, start)
        store_word(out, cursor, word)
        seen |= word
        start += 8
        cursor += 8
    while start < end:
        c = byte_at(buf, start)
        out[cursor] = c
        seen |= np.uint64(c)
        start += 1
        cursor += 1
    return seen & _HIGH_BITS


@inlined
def _find(buf, start, end, escaped, scratch, tree, node):
    """The field of a node, or -1; -2 for a key with half of a surrogate pair in it."""
    if not escaped:
        return find_field(tree, node, buf, start, end - start)
    length = unescape(buf, start, end, scratch, np.int64(0))
    return find_field(tree, node, scratch, np.int64(0), length) if length >= 0 else np.int64(-2)


@kernel
def _write_name(name, length, out, cursor):
    """Write a text in quotes, with the escapes of Python's ``json``, which are no longer than any others."""
    out[cursor] = _QUOTE
    cursor += 1
    for k in range(length):
        c = byte_at(name, k)
        short = 0
        if c in (_QUOTE, _BACKSLASH):
            short = c
        elif c == 10:
            short = 110
        elif c == 13:
            short = 114
        elif c == 9:
            short = 116
        elif c == 12:
            short = 102
        elif c == 8:
            short = 98
        if short:
            out[cursor] = _BACKSLASH
            out[cursor + 1] = short
            cursor += 2
        elif c < 32:
            out[cursor] = _BACKSLASH
            out[cursor + 1] = 117
            out[cursor + 2] = 48
            out[cursor + 3] = 48
            out[cursor + 4] = 48 + (c >> 4)
            low = c & 15
            out[cursor + 5] = low + (48 if low < 10 else 87)
            cursor += 6
        else:
            out[cursor] = c
            cursor += 1
    out[cursor] = _QUOTE
    return cursor + 1


@kernel
def _hash(buf, start, end):
    """A hash of all bytes of a key."""
    found = np.uint64(end - start)
    while start + 8 <= end:
        found = (found ^ load_word(buf, start)) * _MIX
        found ^= found >> np.uint64(29)
        start += 8
    while start < end:
        found = (found ^ np.uint64(byte_at(buf, start))) * _MIX
        start += 1
    return found ^ found >> np.uint64(31)


@inlined
def _seen_before(object_, hashed, seen_hash, seen_in, oldest):
    """Whether an object has had a key of this hash, which is noted; objects before ``oldest`` do not count."""
    place = np.int64((hashed ^ np.uint64(object_) * _MIX) >> np.uint64(40)) & (_SEEN_KEYS - 1)
    while seen_in[place] >= oldest:
        if seen_in[place] == object_ and seen_hash[place] == hashed:
            return True
        place = (place + 1) & (_SEEN_KEYS - 1)
    seen_hash[place] = hashed
    seen_in[place] = object_
    return False


@kernel
def _holds_unknown(buf, at, end, node, known, nodes, objects, stamps, object_, scratch):
    """Whether the array or map at ``at`` holds an object with a key that is not known; -1 when a key is given twice.

    ``nodes`` and ``objects`` are room for a stack: the node of what is open, and the number of an object, 0 for an
    array. Objects are numbered on from ``object_``.

    Returns
    -------
    tuple of int
        And the number of the last object.
    """
    tree, opens, entry = known
    depth = np.int64(-1)
    below = np.int64(node)
    while True:
        # ``below`` is the node of the value at ``at``.
        c = byte_at(buf, at) if at < end else np.int64(0)
        if c == _OPEN_BRACE and opens[below] & (FIELDS | ENTRIES):
            depth += 1
            object_ += 1
            nodes[depth] = below
            objects[depth] = object_
            at += 1
        elif c == _OPEN_BRACKET and opens[below] & ELEMENTS:
            depth += 1
            nodes[depth] = below
            objects[depth] = 0
            at += 1
        else:
            at = _behind_value(buf, at, end)
        while True:
            at = _to_token(buf, at, end)
            if at >= end:
                return 0, object_
            c = byte_at(buf, at)
            if c != _CLOSE_BRACE and c != _CLOSE_BRACKET:
                break
            depth -= 1
            at += 1
            if depth < 0:
                return 0, object_
        node = np.int64(nodes[depth])
        if objects[depth] == 0:
            below = np.int64(tree.element[node])
            continue
        behind, escaped = _behind_text(buf, at, end)
        below = np.int64(entry[node])
        if opens[node] & FIELDS:
            below = _find(buf, at + 1, behind - 1, escaped, scratch, tree, node)
            if below < 0:
                return 1, object_
            if stamps[below] == objects[depth]:
                return -1, object_
            stamps[below] = objects[depth]
        at = _to_token(buf, behind, end)


@kernel
def write_leftovers(buf, row_starts, row_ends, asked, known, wrong_slot, wrong, out, offsets, outcomes):
    """Write what is left over of some records.

    Parameters
    ----------
    buf : ndarray of uint8
    row_starts, row_ends : ndarray of int32, shape (rows,)
        Records that are known to be valid, as far as they are asked about.
    asked : ndarray of bool, shape (rows,)
    known : Known
    wrong_slot : ndarray of int32, shape (nodes,)
        The row of ``wrong`` for nodes whose values may not fit, else -1.
    wrong : ndarray of bool, shape (slots, rows)
        Which values are left over though they are known.
    out : ndarray of uint8
        At least the sum of the lengths of the records asked about, and ``SLACK``: no text is longer than its record.
    offsets : ndarray of int32, shape (rows + 1,)
        Receives where each text begins and ends; empty unless the outcome is ``LEFT`` or ``NOT_UTF8``.
    outcomes : ndarray of uint8, shape (rows,)
    """
    tree, opens = known.tree, known.opens
    size = np.int64(buf.size)
    deepest = opens.size + 1
    nodes, begins, objects = (np.empty(deepest, np.int64), np.empty(deepest, np.int64), np.empty(deepest, np.int64))
    members = np.empty(deepest, np.bool_)
    inner_nodes, inner_objects = np.empty(deepest, np.int64), np.empty(deepest, np.int64)
    stamps = np.zeros(opens.size, np.int64)
    seen_hash, seen_in = np.empty(_SEEN_KEYS, np.uint64), np.zeros(_SEEN_KEYS, np.int64)
    longest = np.int64(0)
    for row in range(row_starts.size):
        if asked[row]:
            longest = max(longest, np.int64(row_ends[row]) - np.int64(row_starts[row]))
    scratch = np.empty(longest + SLACK, np.uint8)
    object_ = np.int64(0)
    cursor = np.int64(0)
    offsets[0] = 0
    for row in range(row_starts.size):
        outcomes[row] = NOTHING
        if not asked[row]:
            offsets[row + 1] = cursor
            continue
        first = cursor
        end = min(np.int64(row_ends[row]), size)
        at = np.int64(row_starts[row])
        while at < end and byte_at(buf, at) != _OPEN_BRACE:
            at += 1
        at += 1
        object_ += 1
        oldest = object_
        keys = 0
        high = np.uint64(0)
        undecided: Any = False
        depth = 0
        nodes[0], begins[0], objects[0], members[0] = 0, cursor, object_, False
        out[cursor] = _OPEN_BRACE
        cursor += 1
        while True:
            at = _to_token(buf, at, end)
            if at >= end:
                undecided = True
                break
            if byte_at(buf, at) == _CLOSE_BRACE:
                at += 1
                if members[depth]:
                    out[cursor] = _CLOSE_BRACE
                    cursor += 1
                else:
                    cursor = begins[depth]
                depth -= 1
                if depth < 0:
                    break
                members[depth] |= members[depth + 1]
                continue
            node = nodes[depth]
            name, stop = at + 1, at
            behind, escaped = _behind_text(buf, at, end)
            stop = behind - 1
            length = np.int64(-1)
            if escaped:
                length = unescape(buf, name, stop, scratch, np.int64(0))
                child = find_field(tree, node, scratch, np.int64(0), length) if length >= 0 else np.int64(-1)
            else:
                child = find_field(tree, node, buf, name, stop - name)
            if child >= 0:
                undecided = stamps[child] == objects[depth]
                stamps[child] = objects[depth]
            else:
                keys += 1
                undecided = keys > _SEEN_KEYS // 2 or (escaped and length < 0)
                if not undecided:
                    if escaped:
                        hashed = _hash(scratch, np.int64(0), length)
                    else:
                        hashed = _hash(buf, name, stop)
                    undecided = _seen_before(objects[depth], hashed, seen_hash, seen_in, oldest)
            if undecided:
                break
            at = _to_token(buf, behind, end)
            c = byte_at(buf, at) if at < end else np.int64(0)
            left = child < 0 or (wrong_slot[child] >= 0 and wrong[wrong_slot[child], row])
            enters = not left and c == _OPEN_BRACE and opens[child] & FIELDS != 0
            if not left and not enters:
                if (c == _OPEN_BRACKET and opens[child] & ELEMENTS) or (c == _OPEN_BRACE and opens[child] & ENTRIES):
                    found, object_ = _holds_unknown(
                        buf, at, end, child, known, inner_nodes, inner_objects, stamps, object_, scratch
                    )
                    left = found == 1
                    if found < 0:
                        undecided = True
                        break
                if not left:
                    at = _behind_value(buf, at, end)
                    continue
            begin = cursor
            if members[depth]:
                out[cursor] = _COMMA
                cursor += 1
            if escaped:
                # What was looked for below may have used the room.
                length = unescape(buf, name, stop, scratch, np.int64(0))
                cursor = _write_name(scratch, length, out, cursor)
                high |= _HIGH_BITS
            else:
                high |= _copy(buf, name - 1, behind, out, cursor)
                cursor += behind - name + 1
            out[cursor] = _COLON
            cursor += 1
            if enters:
                out[cursor] = _OPEN_BRACE
                cursor += 1
                at += 1
                depth += 1
                object_ += 1
                nodes[depth], begins[depth], objects[depth], members[depth] = child, begin, object_, False
            else:
                members[depth] = True
                stop = _behind_value(buf, at, end)
                high |= _copy(buf, at, stop, out, cursor)
                cursor += stop - at
                at = stop
        if undecided:
            outcomes[row] = UNDECIDED
            cursor = first
        elif cursor > first:
            outcomes[row] = LEFT if high == 0 or is_utf8(out, first, cursor) else NOT_UTF8
        offsets[row + 1] = cursor
