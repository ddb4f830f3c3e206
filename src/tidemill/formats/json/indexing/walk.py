"""Phase 1 of JSON: one pass over the bytes of records that finds where the needed values are, and reads numbers.

The grammar is that of RFC 8259 and of Python's ``json``, with ``NaN`` and ``Infinity``, and all of a record is checked
against it: so which records are malformed never depends on the columns in use.

Records of one file look alike. What stands between two values of an object (``,"price":``, with all white space) is
therefore compared, eight bytes at a time, with what stood there in records before; only where it differs is a key read
and looked up. That, and 64 bytes at once in texts, made an index of tokens in front of this pass slower than none.
"""

from __future__ import annotations

# mypy: allow-untyped-defs
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from tidemill.formats.json.indexing.numbers import digit_count, digits_of, read_number
from tidemill.formats.json.indexing.texts import is_escape, unescape
from tidemill.formats.json.indexing.tree import NO_NUMBER, WHOLE, find_field
from tidemill.formats.json_tokens.scalars import (
    ARRAY,
    FRACTION,
    INTEGER,
    MISSING,
    NOT_FINITE,
    NULL,
    OBJECT,
    READ,
    TEXT,
    read_word,
)
from tidemill.formats.values.numbers.digits import TENS
from tidemill.formats.values.numbers.eisel_lemire import nearest_double_of
from tidemill.kernels.byte_masks import (
    below_mask,
    bits_of_float,
    block_mask,
    byte_at,
    digit_mask,
    equal_mask,
    inlined,
    item_at,
    kernel,
    load_word,
    put_item,
    trailing_zeros,
)

QUOTE, COMMA, COLON, BACKSLASH = 0x22, 0x2C, 0x3A, 0x5C
OPEN_BRACKET, CLOSE_BRACKET, OPEN_BRACE, CLOSE_BRACE = 0x5B, 0x5D, 0x7B, 0x7D

_REGIONS = 32
_SLOTS = 64
"""How many objects are remembered, by their place in a record, and how many keys of each."""
_LOOKAHEAD = 4
"""How many remembered keys are compared before a key is looked up."""

_EXACT_MANTISSA = np.uint64(1 << 53)
_GREATEST = np.uint64((1 << 63) - 1)
_POWERS = 10.0 ** np.arange(23)


class Room(NamedTuple):
    """Where :func:`walk_records` puts what it finds.

    Attributes
    ----------
    capacity : int64, shape (levels,)
        Rows, elements or entries of each level that there is room for.
    used : int64, shape (levels,)
        How many there are; those of malformed records and of values given twice are among them, and belong to no list.
    escaped : uint8, shape (nodes,)
        1 where any text may have escapes.
    base : int64, shape (nodes,)
        First place of each node in the next four: the value of a node in row, element or entry ``i`` of its level is at
        ``base + i``.
    starts, ends : int32
        Equal where a value is missing or NULL.
    kinds : uint8
        See :mod:`tidemill.formats.json_tokens.scalars`.
    numbers : int64
        The values of what is ``READ``: integers, and the bits of floats.
    list_base : int64, shape (nodes,)
        The same as ``base`` for lists and maps in ``firsts`` and ``lengths``: which elements are theirs.
    firsts, lengths : int32
    """

    capacity: npt.NDArray[np.int64]
    used: npt.NDArray[np.int64]
    escaped: npt.NDArray[np.uint8]
    base: npt.NDArray[np.int64]
    starts: npt.NDArray[np.int32]
    ends: npt.NDArray[np.int32]
    kinds: npt.NDArray[np.uint8]
    numbers: npt.NDArray[np.int64]
    list_base: npt.NDArray[np.int64]
    firsts: npt.NDArray[np.int32]
    lengths: npt.NDArray[np.int32]


@kernel
def find_with_escapes(tree, node, buf, at, length):
    """:func:`find_field` for a name with escapes."""
    name = np.empty(length, np.uint8)
    stop = unescape(buf, at, at + length, name, np.int64(0))
    return find_field(tree, node, name, np.int64(0), stop) if stop >= 0 else np.int64(-1)


@kernel
def _forget(tree, room, node, instance):
    """A value that is given a second time replaces the first one with all that lies below it."""
    for other in range(node, node + tree.span[node] + 1):
        place = room.base[other] + instance
        room.kinds[place] = MISSING
        room.starts[place] = 0
        room.ends[place] = 0


@kernel
def _behind_spaces(buf, at, limit, by_line):
    """Offset of the first byte that is no white space; with ``by_line`` a newline is none."""
    while at < limit:
        c = byte_at(buf, at)
        if c != 32 and c != 9 and c != 13 and (by_line or c != 10):
            break
        at += 1
    return at


@inlined
def _specials(buf, at):
    """Which of 64 bytes are quotes, backslashes or control characters."""
    return equal_mask(buf, at, QUOTE) | equal_mask(buf, at, BACKSLASH) | below_mask(buf, at, 32)


@kernel
def _text_end(buf, at, limit):
    """Offset of the quote that closes a text, or ``-1 - offset`` of what is wrong; and whether it has escapes."""
    size = np.int64(buf.size)
    escaped = False
    while True:
        if at + 64 <= size:
            special = _specials(buf, at)
            if special == 0:
                at += 64
                continue
            at += trailing_zeros(special)
        else:
            while at < size and byte_at(buf, at) != QUOTE and byte_at(buf, at) != BACKSLASH and byte_at(buf, at) >= 32:
                at += 1
        if at >= limit:
            return -1 - limit, escaped
        c = byte_at(buf, at)
        if c == QUOTE:
            return at, escaped
        if c != BACKSLASH or not is_escape(buf, at, limit):
            return -1 - at, escaped
        escaped = True
        at += 2


@kernel
def _next_newline(buf, at):
    size = np.int64(buf.size)
    while at < size:
        mask = block_mask(buf, at, size, 10)
        if mask != 0:
            return at + trailing_zeros(mask)
        at += 64
    return size


@inlined
def _same_between(buf, at, other, length):
    """Whether two pieces of a buffer are equal; 8 bytes behind each are in the buffer too."""
    k = np.int64(0)
    while length - k > 8:
        if load_word(buf, at + k) != load_word(buf, other + k):
            return False
        k += 8
    difference = load_word(buf, at + k) ^ load_word(buf, other + k)
    return difference << np.uint64(64 - 8 * (length - k)) == 0


@inlined
def _as_number(want, negative, kind, value, behind):
    """The number to keep for a column of integers or doubles, and whether the column holds it."""
    if want == WHOLE:
        if kind != INTEGER or value > _GREATEST:
            return np.int64(0), False
        return (-np.int64(value) if negative else np.int64(value)), True
    number = 0.0
    if value <= _EXACT_MANTISSA and -22 <= behind <= 22:
        number = float(value) / _POWERS[behind] if behind >= 0 else float(value) * _POWERS[-behind]
    elif value != 0:
        number, known = nearest_double_of(value, -behind)
        if not known:
            return np.int64(0), False
    if negative:
        number = -number
    return np.int64(bits_of_float(number)), True


class Extents(NamedTuple):
    """Where records lie.

    Attributes
    ----------
    by_line : bool
        Every line that is not blank is a record; else they lie where the others say.
    first_bytes, last_bytes : ndarray of int32
    """

    by_line: bool
    first_bytes: npt.NDArray[np.int32]
    last_bytes: npt.NDArray[np.int32]


class Records(NamedTuple):
    """What :func:`walk_records` says of each record.

    Attributes
    ----------
    starts, ends : ndarray of int32
        Where it lies.
    broken : ndarray of int32
        -1, or the offset where it is malformed; less than -1, ``-2 - offset`` where it is too deep. All values of a
        malformed record are missing.
    unknown : ndarray of uint8
        0; or what ``tree.beyond`` says of the outermost object that holds a key which is not in the tree. A key that is
        given twice may count though its last value does not.
    """

    starts: npt.NDArray[np.int32]
    ends: npt.NDArray[np.int32]
    broken: npt.NDArray[np.int32]
    unknown: npt.NDArray[np.uint8]


@kernel
def walk_records(buf, at, row, extents, max_depth, tree, room, records):
    """Go through complete records.

    This is one function, because parts of it that were functions counted references to their arrays at each call:
    reading took 1.15 times as long with functions for texts and numbers (1.03 times if they were inlined), 2 times with
    one for the search of a remembered key, and 10 times with one that took ``tree`` and ``room``.

    Parameters
    ----------
    buf : ndarray of uint8
    at, row : int
        First byte to read, and number of the first record: 0, or what an earlier call returned.
    extents : Extents
    max_depth : int
        Greatest depth of nested objects and arrays.
    tree : Tree
    room : Room
        Its ``starts``, ``ends`` and ``kinds`` are all zero from ``used`` on.
    records : Records
        Receives what is said of each.

    Returns
    -------
    tuple of int
        Number of records so far, the first byte that is not read, and the level for which there is not enough room to
        go on, or -1 for the end of the buffer.
    """
    size = np.int64(buf.size)
    between_at = np.empty(_REGIONS * _SLOTS, np.int32)
    between_code = np.empty(_REGIONS * _SLOTS, np.int32)  # twice the length, and 1 for the first of an object
    between_node = np.empty(_REGIONS * _SLOTS, np.int32)
    between_child = np.empty(_REGIONS * _SLOTS, np.int32)
    slots_known = np.zeros(_REGIONS, np.int64)
    region_node = np.full(_REGIONS, -2, np.int32)
    region_node[0] = 0
    regions = np.int64(1)
    stack_node = np.empty(max_depth + 1, np.int32)
    stack_instance = np.empty(max_depth + 1, np.int32)
    stack_cursor = np.empty(max_depth + 1, np.int32)
    stack_region = np.empty(max_depth + 1, np.int32)
    stack_closer = np.empty(max_depth + 1, np.uint8)
    # Each use of a member of a tuple would count references.
    by_line, first_bytes, last_bytes = extents.by_line, extents.first_bytes, extents.last_bytes
    row_starts, row_ends, broken, unknown = records.starts, records.ends, records.broken, records.unknown
    base, starts, ends, kinds, numbers = room.base, room.starts, room.ends, room.kinds, room.numbers
    list_base, firsts, lengths, used, capacity = room.list_base, room.firsts, room.lengths, room.used, room.capacity
    escaped_nodes = room.escaped
    span, level_of, element, map_key = tree.span, tree.level, tree.element, tree.map_key
    slot_mask, read_as, beyond = tree.slot_mask, tree.read_as, tree.beyond
    saved = used.copy()
    full = np.int64(-1)
    while True:
        begin = at
        limit = size
        if by_line:
            if at < size and byte_at(buf, at) != OPEN_BRACE:
                at = _behind_spaces(buf, at, size, True)
            if at >= size:
                break
            if byte_at(buf, at) == 10:
                at += 1
                continue
        elif row == first_bytes.size:
            break
        else:
            begin = at = np.int64(first_bytes[row])
            limit = np.int64(last_bytes[row])
        if row == row_starts.size:
            full = np.int64(0)
            at = begin
            break
        row_starts[row] = begin
        for level in range(1, used.size):
            saved[level] = used[level]
        bad = np.int64(-1)
        deep = False
        depth = np.int64(0)
        node = np.int64(0)
        instance = row
        # The object or array that is open: its node, row or element, closing byte, elements, whether nothing of it was
        # read, its remembered keys and which of them is next; and where among them the value stands that is read.
        open_node = np.int64(-1)
        open_instance = np.int64(0)
        closer = np.int64(0)
        inner_node = np.int64(-1)
        fresh = False
        region = np.int64(-1)
        cursor = np.int64(0)
        slot = np.int64(-1)
        lowest = np.int64(-1)
        if at >= limit or byte_at(buf, at) != OPEN_BRACE:
            bad = at
        while bad < 0:
            c = byte_at(buf, at) if at < limit else np.int64(0)
            if c == 32 or c == 9 or c == 13 or c == 10:
                at = _behind_spaces(buf, at, limit, by_line)
                c = byte_at(buf, at) if at < limit else np.int64(0)
            if c == QUOTE:
                # Most texts end within 64 bytes.
                stop = np.int64(-1)
                escaped = False
                if at + 65 <= size:
                    stop = at + 1 + trailing_zeros(_specials(buf, at + 1))
                if stop < 0 or stop > at + 64 or byte_at(buf, stop) != QUOTE:
                    stop, escaped = _text_end(buf, at + 1, limit)
                    if stop < 0:
                        bad = -1 - stop
                        break
                if node >= 0:
                    place = item_at(base, node) + instance
                    if item_at(span, node) > 0 and item_at(kinds, place) != MISSING:
                        _forget(tree, room, node, instance)
                    put_item(kinds, place, TEXT)
                    put_item(starts, place, at)
                    put_item(ends, place, stop + 1)
                    if escaped:
                        put_item(escaped_nodes, node, 1)
                elif node < lowest:
                    lowest = node
                at = stop + 1
            elif 48 <= c <= 57 or c == 45:
                first = at + (c == 45)
                stop = np.int64(-1)
                kind = INTEGER
                behind = np.int64(0)
                plain = True
                value = np.uint64(0)
                want = np.int64(item_at(read_as, node)) if node >= 0 else np.int64(NO_NUMBER)
                if want == NO_NUMBER:
                    # Only where it ends.
                    if first + 65 <= size:
                        others = ~digit_mask(buf, first)
                        digits = trailing_zeros(others)
                        stop = first + digits
                        if byte_at(buf, stop) == 46:
                            kind = FRACTION
                            behind = trailing_zeros(others & ((~np.uint64(1)) << np.uint64(digits & 63))) - digits - 1
                            stop += behind + 1
                        if (
                            digits == 0
                            or (kind == FRACTION and behind == 0)
                            or digits + behind >= 63
                            or (digits > 1 and byte_at(buf, first) == 48)
                            or byte_at(buf, stop) | 32 == 101
                        ):
                            stop = np.int64(-1)
                elif first + 24 <= size:
                    # Most numbers have up to 7 digits, and perhaps as many behind a point.
                    word = load_word(buf, first)
                    digits = digit_count(word)
                    if (digits == 1 or byte_at(buf, first) != 48) and 0 < digits < 8:
                        value = digits_of(word, digits)
                        stop = first + digits
                        if byte_at(buf, stop) == 46:
                            kind = FRACTION
                            word = load_word(buf, stop + 1)
                            behind = digit_count(word)
                            stop += behind + 1
                            if 0 < behind < 8:
                                value = value * TENS[behind] + digits_of(word, behind)
                            else:
                                stop = np.int64(-1)
                        if stop >= 0 and byte_at(buf, stop) | 32 == 101:
                            stop = np.int64(-1)
                if stop < 0:
                    stop, kind, value, behind, plain = read_number(buf, first, size)
                    if stop < 0 and c == 45:
                        stop, kind = read_word(buf, first, limit)
                        if kind != NOT_FINITE or byte_at(buf, first) == 78:
                            stop = np.int64(-1)
                        plain = False
                    if stop < 0:
                        bad = at
                        break
                if node >= 0:
                    place = item_at(base, node) + instance
                    if item_at(span, node) > 0 and item_at(kinds, place) != MISSING:
                        _forget(tree, room, node, instance)
                    known = False
                    if want != NO_NUMBER and plain:
                        word, known = _as_number(want, c == 45, kind, value, behind)
                        put_item(numbers, place, word)
                    put_item(kinds, place, READ if known else kind)
                    put_item(starts, place, at)
                    put_item(ends, place, stop)
                elif node < lowest:
                    lowest = node
                at = stop
            elif c in (OPEN_BRACE, OPEN_BRACKET):
                if depth == max_depth:
                    bad = at
                    deep = True
                    break
                child = np.int64(0)
                if depth > 0:
                    child = np.int64(-1)
                    if slot >= 0:
                        child = np.int64(item_at(between_child, slot))
                        if child < 0 or item_at(region_node, child) != node:
                            child = regions if regions < _REGIONS else np.int64(-1)
                            if child >= 0:
                                regions += 1
                                region_node[child] = node
                                between_child[child * _SLOTS] = -1
                                between_child[slot] = child
                put_item(stack_node, depth, open_node)
                put_item(stack_instance, depth, open_instance)
                put_item(stack_cursor, depth, cursor)
                put_item(stack_region, depth, region)
                put_item(stack_closer, depth, closer)
                depth += 1
                open_node = node
                open_instance = instance
                region = child
                cursor = np.int64(0)
                slot = np.int64(-1)
                fresh = True
                closer = np.int64(CLOSE_BRACE if c == OPEN_BRACE else CLOSE_BRACKET)
                inner_node = np.int64(-1)
                if node >= 0:
                    place = item_at(base, node) + instance
                    if item_at(span, node) > 0 and item_at(kinds, place) != MISSING:
                        _forget(tree, room, node, instance)
                    put_item(kinds, place, OBJECT if c == OPEN_BRACE else ARRAY)
                    put_item(starts, place, at)
                    inner_node = np.int64(item_at(map_key, node) if c == OPEN_BRACE else item_at(element, node))
                    if inner_node >= 0:
                        place = item_at(list_base, node) + instance
                        put_item(firsts, place, item_at(used, item_at(level_of, inner_node)))
                        put_item(lengths, place, 0)
                elif node < lowest:
                    lowest = node
                at += 1
            else:
                stop, kind = read_word(buf, at, limit)
                if stop < 0:
                    bad = at
                    break
                if node >= 0:
                    place = item_at(base, node) + instance
                    if item_at(span, node) > 0 and item_at(kinds, place) != MISSING:
                        _forget(tree, room, node, instance)
                    put_item(kinds, place, kind)
                    put_item(starts, place, 0 if kind == NULL else at)
                    put_item(ends, place, 0 if kind == NULL else stop)
                elif node < lowest:
                    lowest = node
                at = stop
            # What stands behind a value or a bracket: another value, perhaps with a key, or the end of what is open.
            value_due = False
            while not value_due:
                between = at
                if region >= 0 and closer == CLOSE_BRACE:
                    known_slots = item_at(slots_known, region)
                    last = min(cursor + _LOOKAHEAD, known_slots)
                    k = cursor
                    while k < last:
                        code = item_at(between_code, region * _SLOTS + k)
                        length = code >> 1
                        if (
                            (code & 1 != 0) == fresh
                            and at + length + 8 <= size
                            and _same_between(buf, at, item_at(between_at, region * _SLOTS + k), length)
                        ):
                            break
                        k += 1
                    if k < last:
                        slot = region * _SLOTS + k
                        node = item_at(between_node, slot)
                        instance = open_instance
                        at = at + (item_at(between_code, slot) >> 1)
                        cursor = k + 1
                        fresh = False
                        break
                c = byte_at(buf, at) if at < limit else np.int64(0)
                if c == 32 or c == 9 or c == 13 or c == 10:
                    at = _behind_spaces(buf, at, limit, by_line)
                    c = byte_at(buf, at) if at < limit else np.int64(0)
                if depth == 0:
                    if at < limit and not (by_line and c == 10):
                        bad = at
                    break
                if c == closer:
                    if open_node >= 0:
                        ends[item_at(base, open_node) + open_instance] = at + 1
                    at += 1
                    depth -= 1
                    open_node = np.int64(item_at(stack_node, depth))
                    open_instance = np.int64(item_at(stack_instance, depth))
                    cursor = np.int64(item_at(stack_cursor, depth))
                    region = np.int64(item_at(stack_region, depth))
                    closer = np.int64(item_at(stack_closer, depth))
                    fresh = False
                    inner_node = np.int64(-1)
                    if open_node >= 0:
                        inner_node = np.int64(
                            item_at(map_key, open_node) if closer == CLOSE_BRACE else item_at(element, open_node)
                        )
                    continue
                if not fresh:
                    if c != COMMA:
                        bad = at
                        break
                    at += 1
                if closer == CLOSE_BRACKET:
                    slot = region * _SLOTS if region >= 0 else np.int64(-1)
                    node = inner_node
                    if inner_node >= 0:
                        list_level = np.int64(item_at(level_of, inner_node))
                        instance = item_at(used, list_level)
                        if instance == item_at(capacity, list_level):
                            full = list_level
                            break
                        put_item(used, list_level, instance + 1)
                        place = item_at(list_base, open_node) + open_instance
                        put_item(lengths, place, item_at(lengths, place) + 1)
                    fresh = False
                    value_due = True
                    continue
                at = _behind_spaces(buf, at, limit, by_line)
                if at >= limit or byte_at(buf, at) != QUOTE:
                    bad = at
                    break
                name = at + 1
                stop, escaped = _text_end(buf, name, limit)
                if stop < 0:
                    bad = -1 - stop
                    break
                at = _behind_spaces(buf, stop + 1, limit, by_line)
                if at >= limit or byte_at(buf, at) != COLON:
                    bad = at
                    break
                at = _behind_spaces(buf, at + 1, limit, by_line)
                slot = np.int64(-1)
                node = np.int64(-1)
                if inner_node >= 0:
                    list_level = np.int64(item_at(level_of, inner_node))
                    instance = item_at(used, list_level)
                    if instance == item_at(capacity, list_level):
                        full = list_level
                        break
                    put_item(used, list_level, instance + 1)
                    place = item_at(list_base, open_node) + open_instance
                    put_item(lengths, place, item_at(lengths, place) + 1)
                    place = item_at(base, inner_node) + instance
                    put_item(kinds, place, TEXT)
                    put_item(starts, place, name - 1)
                    put_item(ends, place, stop + 1)
                    if escaped:
                        put_item(escaped_nodes, inner_node, 1)
                    node = inner_node + 1
                else:
                    instance = open_instance
                    if open_node >= 0 and item_at(slot_mask, open_node) >= 0:
                        node = find_field(tree, open_node, buf, name, stop - name)
                        if node < 0 and escaped:
                            node = find_with_escapes(tree, open_node, buf, name, stop - name)
                        if node < 0:
                            node = -1 - np.int64(beyond[open_node])
                    if region >= 0 and item_at(slots_known, region) < _SLOTS:
                        # The key is remembered in front of the one that was expected here.
                        slot = region * _SLOTS + cursor
                        for moved in range(region * _SLOTS + item_at(slots_known, region), slot, -1):
                            between_at[moved] = between_at[moved - 1]
                            between_code[moved] = between_code[moved - 1]
                            between_node[moved] = between_node[moved - 1]
                            between_child[moved] = between_child[moved - 1]
                        slots_known[region] += 1
                        between_at[slot] = between
                        between_code[slot] = 2 * (at - between) + fresh
                        between_node[slot] = node
                        between_child[slot] = -1
                        cursor += 1
                fresh = False
                value_due = True
            if full >= 0 or (depth == 0 and bad < 0):
                break
        if full >= 0:
            for level in range(1, used.size):
                used[level] = saved[level]
            at = begin
            break
        broken[row] = -1
        unknown[row] = -1 - lowest
        if bad >= 0:
            unknown[row] = 0
            broken[row] = -2 - bad if deep else bad
            _forget(tree, room, 0, row)
            at = _next_newline(buf, bad) if by_line else limit
        row_ends[row] = at if by_line else limit
        at += 1
        row += 1
    used[0] = row
    return row, at, full
