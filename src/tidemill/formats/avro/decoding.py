"""Kernels that walk values of a schema: they check every byte, and note where the values of chosen nodes lie.

The nodes of a schema are a table in preorder, so that a node's subtree is a range of it. A value of a node takes one
*slot*; a node below no array or map has as many slots as there are values of the schema.
"""

from __future__ import annotations

# mypy: allow-untyped-defs
import numpy as np

from tidemill.formats.avro.schema import (
    ARRAY,
    BOOLEAN,
    BYTES,
    DOUBLE,
    ENUM,
    FIXED,
    FLOAT,
    INT,
    LONG,
    MAP,
    NULL,
    UNION,
    Node,
)
from tidemill.kernels.byte_masks import inlined, kernel

KIND, END, SIZE, FEWEST, NULL_BRANCH, BRANCHES, WIDTH = range(7)
"""Columns of a table of nodes: kind, the node behind the subtree, size, the fewest bytes of all children together, the
branch that is null, and where branches begin. WIDTH is how many there are."""

OK, TRUNCATED, BAD_LENGTH, BAD_NUMBER, BAD_BRANCH, BAD_SYMBOL, BAD_BOOLEAN, TRAILING = range(8)
REASONS = (
    *("", "truncated_record", "bad_size", "bad_number", "bad_union", "bad_enum"),
    *("bad_boolean", "trailing_bytes"),
)
"""What is wrong with a value, by code."""

_MOST_EMPTY = 1 << 20
"""Items without bytes that an array may have."""


def table_of(root: Node) -> tuple[np.ndarray, np.ndarray, int]:
    """The nodes below a record as a table, the branches of unions, and how deep arrays and unions are nested.

    The record itself is left out: it is what one value has.
    """
    rows: list[list[int]] = []
    branches: list[int] = []

    def add(node: Node) -> int:
        at = len(rows)
        first = len(branches)
        fewest = sum(child.fewest for child in node.children)
        rows.append([node.kind, 0, node.size, fewest, node.null, first])
        branches.extend([0] * len(node.branches))
        places, deepest = [], 0
        for child in node.children:
            places.append(len(rows))
            deepest = max(deepest, add(child))
        for i, child_number in enumerate(node.branches):
            branches[first + i] = -1 if child_number < 0 else places[child_number]
        rows[at][END] = len(rows)
        return deepest + (node.kind in (ARRAY, MAP, UNION))

    depth = max((add(child) for child in root.children), default=0)
    return np.array(rows, np.int64).reshape(len(rows), WIDTH), np.array([*branches, 0], np.int64), depth


@inlined
def _number(buf, at, limit):
    """A zigzag number: its value, where it ends, and a code."""
    value = np.uint64(0)
    shift = np.uint64(0)
    while at < limit:
        byte = np.uint64(buf[at])
        at += 1
        if shift == np.uint64(63) and byte > np.uint64(1):
            return np.int64(0), at, BAD_NUMBER
        value |= (byte & np.uint64(0x7F)) << shift
        if byte < np.uint64(0x80):
            return np.int64(value >> np.uint64(1)) ^ -np.int64(value & np.uint64(1)), at, OK
        shift += np.uint64(7)
    return np.int64(0), at, TRUNCATED


@kernel
def _block(buf, at, limit, fewest):
    """How many items a block of an array or map has, where they begin, and a code."""
    count, at, code = _number(buf, at, limit)
    if code == OK and count < 0:
        count = -count
        size, at, code = _number(buf, at, limit)
        if code == OK and (size < 0 or size > limit - at):
            code = BAD_LENGTH
    if code == OK and (count < 0 or (count > _MOST_EMPTY if fewest == 0 else count > (limit - at) // fewest)):
        code = BAD_LENGTH
    return count, at, code


@kernel
def _no_value(node, table, first, last, valid, places, lengths, used):
    """A slot without a value for a node and all below it, down to arrays and maps."""
    end = table[node, END]
    while node < end:
        if first[node] >= 0:
            slot = first[node] + used[node]
            if slot < last[node]:
                valid[slot] = 0
                places[slot] = 0
                lengths[slot] = 0
        used[node] += 1
        node = table[node, END] if table[node, KIND] in (ARRAY, MAP) else node + 1


@kernel
def _walk(buf, at, limit, table, branches, first, last, valid, places, lengths, used, stack):
    """Walk one value; where it ends, and a code.

    ``stack`` has for each array, map or union that is open: its node, the node behind its items or branch, the items
    that its block still has (-1 for a union), its slot, and how many items it has.
    """
    depth = 0
    node = 0
    while True:
        while depth > 0 and node == stack[depth - 1, 1]:
            top = stack[depth - 1, 0]
            if stack[depth - 1, 2] >= 0:
                left = stack[depth - 1, 2] - 1
                if left == 0:
                    left, at, code = _block(buf, at, limit, table[top, FEWEST])
                    if code != OK:
                        return at, code
                    stack[depth - 1, 4] += left
                if left > 0:
                    stack[depth - 1, 2] = left
                    node = top + 1
                    break
                if first[top] >= 0 and stack[depth - 1, 3] < last[top]:
                    lengths[stack[depth - 1, 3]] = stack[depth - 1, 4]
            depth -= 1
            node = table[top, END]
        if node == table.shape[0]:
            return at, OK
        kind = table[node, KIND]
        null = table[node, NULL_BRANCH]
        if null >= 0:
            branch, at, code = _number(buf, at, limit)
            if code != OK:
                return at, code
            if branch == null and null < 2:
                _no_value(node, table, first, last, valid, places, lengths, used)
                node = table[node, END]
                continue
            if branch != (0 if null == 2 else 1 - null):
                return at, BAD_BRANCH
        value = np.int64(0)
        length = np.int64(0)
        code = OK
        if kind == LONG:
            value, at, code = _number(buf, at, limit)
        elif kind == BYTES:
            length, at, code = _number(buf, at, limit)
            if code == OK and (length < 0 or length > limit - at):
                code = BAD_LENGTH if length < 0 else TRUNCATED
            value = at
            at += length
        elif kind == INT:
            value, at, code = _number(buf, at, limit)
            if code == OK and value != np.int64(np.int32(value)):
                code = BAD_NUMBER
        elif kind in (DOUBLE, FLOAT):
            width = 8 if kind == DOUBLE else 4
            if limit - at < width:
                code = TRUNCATED
            else:
                bits = np.uint64(0)
                for i in range(width):
                    bits |= np.uint64(buf[at + i]) << np.uint64(8 * i)
                value = np.int64(bits)
                at += width
        elif kind == BOOLEAN:
            if at >= limit:
                code = TRUNCATED
            else:
                value = np.int64(buf[at])
                at += 1
                if value > 1:
                    code = BAD_BOOLEAN
        elif kind == FIXED:
            length = table[node, SIZE]
            value = at
            if length > limit - at:
                code = TRUNCATED
            at += length
        elif kind == ENUM:
            value, at, code = _number(buf, at, limit)
            if code == OK and (value < 0 or value >= table[node, SIZE]):
                code = BAD_SYMBOL
        elif kind == UNION:
            value, at, code = _number(buf, at, limit)
            if code == OK and (value < 0 or value >= table[node, SIZE]):
                code = BAD_BRANCH
        elif kind in (ARRAY, MAP):
            length, at, code = _block(buf, at, limit, table[node, FEWEST])
        if code != OK:
            return at, code
        child = node
        if kind == UNION:
            child = branches[table[node, BRANCHES] + value]
            if child < 0:
                _no_value(node, table, first, last, valid, places, lengths, used)
                node = table[node, END]
                continue
        slot = first[node] + used[node]
        used[node] += 1
        if first[node] >= 0 and slot < last[node]:
            valid[slot] = 0 if kind == NULL else 1
            places[slot] = value
            lengths[slot] = length
        if kind in (ARRAY, MAP):
            if length == 0:
                node = table[node, END]
                continue
            stack[depth, 0] = node
            stack[depth, 1] = table[node, END]
            stack[depth, 2] = length
            stack[depth, 3] = slot
            stack[depth, 4] = length
            depth += 1
            node += 1
        elif kind == UNION:
            other = node + 1
            while other < table[node, END]:
                if other != child:
                    _no_value(other, table, first, last, valid, places, lengths, used)
                other = table[other, END]
            stack[depth, 0] = node
            stack[depth, 1] = table[child, END]
            stack[depth, 2] = -1
            depth += 1
            node = child
        else:
            node += 1


@kernel
def walk_values(buf, starts, sizes, table, branches, first, last, valid, places, lengths, used, stack, codes):
    """Walk the values ``buf[starts[i] : starts[i] + sizes[i]]``, each of which one takes whole.

    Parameters
    ----------
    buf : uint8 array
    starts, sizes : int64 arrays
    table, branches
        Of :func:`table_of`.
    first : int64 array
        By node, the slot of its first value; -1 for one whose values are not noted.
    last : int64 array
        By node, the slot behind its last one. Slots from there on are counted only: also a value that turns out to be
        malformed takes some.
    valid : uint8 array
        Receives by slot whether there is a value.
    places : int64 array
        Receives by slot the number, the bits of a float, the symbol, the branch, or where bytes lie in ``buf``.
    lengths : int64 array
        Receives by slot how many bytes or items there are.
    used : int64 array
        Receives by node how many slots its values take.
    stack : int64 array, shape (depth, 5)
    codes : int8 array
        Receives by value what is wrong; such a value takes no slot.
    """
    before = used.copy()
    for i in range(starts.size):
        before[:] = used
        at, code = _walk(
            buf, starts[i], starts[i] + sizes[i], table, branches, first, last, valid, places, lengths, used, stack
        )
        if code == OK and at != starts[i] + sizes[i]:
            code = TRAILING
        codes[i] = code
        if code != OK:
            used[:] = before


@kernel
def walk_blocks(buf, counts, ends, table, branches, first, last, valid, places, lengths, used, stack):
    """Walk blocks that lie one behind the other, each of ``counts[i]`` values up to ``ends[i]``; a code.

    The others as :func:`walk_values`.
    """
    at = np.int64(0)
    for i in range(counts.size):
        for _ in range(counts[i]):
            at, code = _walk(buf, at, ends[i], table, branches, first, last, valid, places, lengths, used, stack)
            if code != OK:
                return code
        if at != ends[i]:
            return TRAILING
    return OK


@kernel
def gather(buf, places, lengths, offsets, out):
    """Put the bytes ``buf[places[i] : places[i] + lengths[i]]`` behind each other; ``offsets`` are where they begin."""
    cursor = np.int64(0)
    for i in range(places.size):
        offsets[i] = cursor
        for k in range(lengths[i]):
            out[cursor + k] = buf[places[i] + k]
        cursor += lengths[i]
    offsets[places.size] = cursor


@kernel
def decimal_words(buf, places, lengths, valid, words):
    """Numbers of two's complement, the high byte first, as pairs of words, the low one first; whether all fit.

    A number may have more bytes than 16 if they say nothing.
    """
    fit = True
    for i in range(places.size):
        low = np.uint64(0)
        high = np.uint64(0)
        if valid[i] and lengths[i] > 0:
            begin = places[i]
            end = begin + lengths[i]
            sign = np.uint64(0) - np.uint64(buf[begin] >> 7)
            low = sign
            high = sign
            for k in range(begin, end):
                if end - k == 16 and k > begin and (buf[k] >> 7) != (sign & np.uint64(1)):
                    fit = False
                if end - k > 16:
                    fit = fit and np.uint64(buf[k]) == (sign & np.uint64(0xFF))
                high = (high << np.uint64(8)) | (low >> np.uint64(56))
                low = (low << np.uint64(8)) | np.uint64(buf[k])
        words[2 * i] = low
        words[2 * i + 1] = high
    return fit
