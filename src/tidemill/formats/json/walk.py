"""Phase 1 of JSON, second half: what the tokens of each record mean, and where the needed values are.

The grammar is that of RFC 8259 and of Python's ``json``, with ``NaN`` and ``Infinity``, and all of a record is held to
it, needed or not: so which records are malformed never depends on the columns in use. Keys are compared with those in
the same place of the object before, which is all it takes while records look alike.
"""

from __future__ import annotations

# mypy: allow-untyped-defs
import numpy as np

from tidemill.formats.byte_masks import byte_at, inlined, item_at, kernel
from tidemill.formats.json.scalars import ARRAY, MISSING, NULL, OBJECT, TEXT, scalar_kind
from tidemill.formats.json.texts import unescape
from tidemill.formats.json.tokens import (
    BROKEN,
    CLOSE_BRACE,
    CLOSE_BRACKET,
    COLON,
    COMMA,
    OPEN_BRACE,
    OPEN_BRACKET,
    QUOTE,
    RECORD_END,
)
from tidemill.formats.json.tree import MEMORY, find_field, same_bytes

_VALUE, _KEY, _ELEMENT, _AFTER = 0, 1, 2, 3

OUTSIDE, FRESH, OWED, FILLED = 0, 1, 2, 3
"""Where in a file of arrays: outside of them; inside one, behind its bracket, behind a comma, behind an element."""


@kernel
def find_with_escapes(tree, node, buf, at, length):
    """:func:`find_field` for a name with escapes."""
    name = np.empty(length, np.uint8)
    stop = unescape(buf, at, at + length, name, np.int64(0))
    return find_field(tree, node, name, np.int64(0), stop) if stop >= 0 else np.int64(-1)


@inlined
def _has_backslash(buf, at, length):
    for k in range(length):  # noqa: SIM110 - any() over a generator does not compile to a loop
        if byte_at(buf, at + k) == 0x5C:
            return True
    return False


@kernel
def _forget(tree, base, node, instance, starts, ends, kinds):
    """A value that is given a second time replaces the first one with all that lies below it."""
    for other in range(node, node + tree.span[node] + 1):
        place = base[other] + instance
        kinds[place] = MISSING
        starts[place] = 0
        ends[place] = 0


@kernel
def walk_records(
    buf, marks, codes, count, by_line, max_depth, escapes, tree, base, starts, ends, kinds,
    list_base, firsts, lengths, used, row_starts, row_ends, broken
):  # fmt: skip
    """Go through the tokens of complete records.

    Parameters
    ----------
    buf : ndarray of uint8
    marks, codes, count
        As :func:`~tidemill.formats.json.tokens.index_tokens` gives them, records apart.
    by_line : bool
        A row begins where its line does, and not at its first token.
    max_depth : int
        Objects and arrays may lie within one another so deep.
    escapes : bool
        Whether any backslash occurs in the buffer.
    tree : Tree
    base : ndarray of int64, shape (nodes,)
        First place of each node in ``starts``, ``ends`` and ``kinds``, which are all zero: the value of a node in
        row, element or entry ``i`` of its level is at ``base + i``. A missing or NULL value has ``start == end``.
    list_base : ndarray of int64, shape (nodes,)
        The same for lists and maps in ``firsts`` and ``lengths``: which elements are theirs.
    used : ndarray of int64, shape (levels,)
        Receives the number of rows, elements or entries of each level; those of malformed records and of values
        given twice are among them, and belong to no list.
    row_starts, row_ends : ndarray of int32
        Receive where each record lies.
    broken : ndarray of int32
        Receives -1, or the offset where a record is malformed; less than -1, ``-2 - offset`` where it is too deep.
        All values of a malformed record are missing.

    Returns
    -------
    int
        Number of records.
    """
    size = np.int64(buf.size)
    memory_at = np.empty(tree.memory, np.int32)
    memory_size = np.full(tree.memory, -1, np.int32)
    memory_field = np.empty(tree.memory, np.int32)
    stack_node = np.empty(max_depth + 1, np.int32)
    stack_instance = np.empty(max_depth + 1, np.int32)
    stack_ordinal = np.empty(max_depth + 1, np.int32)
    stack_closer = np.empty(max_depth + 1, np.uint8)
    row = np.int64(0)
    t = np.int64(0)
    line_start = np.int64(0)
    while t < count:
        if codes[t] == RECORD_END:
            line_start = np.int64(marks[t]) + 1
            t += 1
            continue
        row_starts[row] = line_start if by_line else marks[t]
        bad = np.int64(-1)
        deep = False
        depth = np.int64(0)
        node = np.int64(0)
        instance = row
        # The object or array that is open: its node, row or element, closing byte, elements, and keys so far.
        open_node = np.int64(-1)
        open_instance = np.int64(0)
        closer = np.int64(0)
        held = np.int64(-1)
        ordinal = np.int64(0)
        state = _VALUE
        if codes[t] != OPEN_BRACE:
            bad = np.int64(marks[t])
        while bad < 0:
            c = byte_at(codes, t)
            at = item_at(marks, t)
            if state == _AFTER:
                if depth == 0:
                    if c != RECORD_END:
                        bad = at
                    break
                if c == COMMA:
                    t += 1
                    c = byte_at(codes, t)
                    at = item_at(marks, t)
                    state = _KEY if closer == CLOSE_BRACE else _ELEMENT
                elif c == closer:
                    if open_node >= 0:
                        ends[base[open_node] + open_instance] = at + 1
                    t += 1
                    depth -= 1
                    open_node = np.int64(stack_node[depth])
                    open_instance = np.int64(stack_instance[depth])
                    ordinal = np.int64(stack_ordinal[depth])
                    closer = np.int64(stack_closer[depth])
                    held = np.int64(-1)
                    if open_node >= 0:
                        held = np.int64(tree.map_key[open_node] if closer == CLOSE_BRACE else tree.element[open_node])
                    continue
                else:
                    bad = at
                    break
            if state == _KEY:
                if c != QUOTE:
                    bad = at
                    break
                behind = item_at(marks, t + 1)
                if byte_at(codes, t + 1) != QUOTE:
                    bad = behind
                    break
                if byte_at(codes, t + 2) != COLON:
                    bad = item_at(marks, t + 2)
                    break
                t += 3
                c = byte_at(codes, t)
                node = np.int64(-1)
                if open_node >= 0 and held >= 0:
                    level = tree.level[held]
                    instance = used[level]
                    used[level] += 1
                    lengths[list_base[open_node] + open_instance] += 1
                    place = base[held] + instance
                    kinds[place] = TEXT
                    starts[place] = at
                    ends[place] = behind + 1
                    node = held + 1
                elif open_node >= 0 and tree.memory_base[open_node] >= 0:
                    instance = open_instance
                    at += 1
                    length = behind - at
                    memory = tree.memory_base[open_node] + ordinal
                    if (
                        ordinal < MEMORY
                        and memory_size[memory] == length
                        and same_bytes(buf, np.int64(memory_at[memory]), size, buf, at, size, length)
                    ):
                        node = np.int64(memory_field[memory])
                    else:
                        node = find_field(tree, open_node, buf, at, length)
                        if node < 0 and escapes and _has_backslash(buf, at, length):
                            node = find_with_escapes(tree, open_node, buf, at, length)
                        if ordinal < MEMORY:
                            memory_at[memory] = at
                            memory_size[memory] = length
                            memory_field[memory] = node
                    ordinal += 1
                at = item_at(marks, t)
            elif state == _ELEMENT:
                node = held
                if held >= 0:
                    level = tree.level[held]
                    instance = used[level]
                    used[level] += 1
                    lengths[list_base[open_node] + open_instance] += 1
            if c == QUOTE:
                end = item_at(marks, t + 1) + 1
                if byte_at(codes, t + 1) != QUOTE:
                    bad = end - 1
                    break
                if node >= 0:
                    place = base[node] + instance
                    if kinds[place] != MISSING and tree.span[node] > 0:
                        _forget(tree, base, node, instance, starts, ends, kinds)
                    kinds[place] = TEXT
                    starts[place] = at
                    ends[place] = end
                t += 2
                state = _AFTER
            elif c in (OPEN_BRACE, OPEN_BRACKET):
                if depth == max_depth:
                    bad = at
                    deep = True
                    break
                stack_node[depth] = open_node
                stack_instance[depth] = open_instance
                stack_ordinal[depth] = ordinal
                stack_closer[depth] = closer
                depth += 1
                open_node = node
                open_instance = instance
                ordinal = np.int64(0)
                closer = np.int64(CLOSE_BRACE if c == OPEN_BRACE else CLOSE_BRACKET)
                held = np.int64(-1)
                if node >= 0:
                    place = base[node] + instance
                    if kinds[place] != MISSING and tree.span[node] > 0:
                        _forget(tree, base, node, instance, starts, ends, kinds)
                    kinds[place] = OBJECT if c == OPEN_BRACE else ARRAY
                    starts[place] = at
                    held = np.int64(tree.map_key[node] if c == OPEN_BRACE else tree.element[node])
                    if held >= 0:
                        firsts[list_base[node] + instance] = used[tree.level[held]]
                        lengths[list_base[node] + instance] = 0
                t += 1
                if byte_at(codes, t) == closer:
                    state = _AFTER
                else:
                    state = _KEY if c == OPEN_BRACE else _ELEMENT
            elif c in (COMMA, COLON, CLOSE_BRACE, CLOSE_BRACKET, RECORD_END, BROKEN):
                bad = at
            else:
                end = item_at(marks, t + 1)
                while byte_at(buf, end - 1) <= 32:
                    end -= 1
                kind = scalar_kind(buf, at, end, size)
                if kind < 0:
                    bad = at
                    break
                if node >= 0:
                    place = base[node] + instance
                    if kinds[place] != MISSING and tree.span[node] > 0:
                        _forget(tree, base, node, instance, starts, ends, kinds)
                    kinds[place] = kind
                    starts[place] = 0 if kind == NULL else at
                    ends[place] = 0 if kind == NULL else end
                t += 1
                state = _AFTER
        broken[row] = -1
        if bad >= 0:
            broken[row] = -2 - bad if deep else bad
            _forget(tree, base, 0, row, starts, ends, kinds)
            while codes[t] != RECORD_END:
                t += 1
        row_ends[row] = marks[t]
        row += 1
    used[0] = row
    return row


@kernel
def part_elements(marks, codes, count, state, out_marks, out_codes):
    """Put a ``RECORD_END`` behind every record of a file of arrays, objects, or both.

    A record is what lies between two commas of an outer array, or between its brackets; outside of arrays it is an
    object, or all that is none up to the next one.

    Parameters
    ----------
    marks, codes, count
        As :func:`~tidemill.formats.json.tokens.index_tokens` gives them, not ``by_line``.
    state : int
        ``OUTSIDE``, ``FRESH``, ``OWED`` or ``FILLED`` at the first token.
    out_marks, out_codes : ndarray of int32 and uint8, shape (2 * count,)

    Returns
    -------
    tuple of int
        Number of tokens, of them ``RECORD_END``, and the state behind the last one.
    """
    records = np.int64(0)
    depth = np.int64(0)
    n = np.int64(0)
    for t in range(count):
        c = np.int64(codes[t])
        m = marks[t]
        if c == RECORD_END:
            out_marks[n] = m
            out_codes[n] = RECORD_END
            n += 1
            continue
        opens = c in (OPEN_BRACE, OPEN_BRACKET)
        closes = c in (CLOSE_BRACE, CLOSE_BRACKET)
        if depth == 0:
            if state == OUTSIDE:
                if opens:
                    out_marks[n] = m
                    out_codes[n] = RECORD_END
                    n += 1
                    if c == OPEN_BRACKET:
                        state = FRESH
                        continue
                elif closes or c in (COMMA, COLON):
                    out_marks[n] = m
                    out_codes[n] = BROKEN
                    out_marks[n + 1] = m + 1
                    out_codes[n + 1] = RECORD_END
                    n += 2
                    continue
            elif c in (COMMA, CLOSE_BRACKET):
                if state == OWED or (state == FRESH and c == COMMA):
                    out_marks[n] = m
                    out_codes[n] = BROKEN
                    n += 1
                out_marks[n] = m
                out_codes[n] = RECORD_END
                n += 1
                state = OWED if c == COMMA else OUTSIDE
                continue
            else:
                state = FILLED
        out_marks[n] = m
        out_codes[n] = c
        n += 1
        if opens:
            depth += 1
        elif closes and depth > 0:
            depth -= 1
            if depth == 0 and state == OUTSIDE:
                out_marks[n] = m + 1
                out_codes[n] = RECORD_END
                n += 1
    for t in range(n):
        records += out_codes[t] == RECORD_END
    return n, records, np.int64(state)


@kernel
def scan_elements(buf, begin, depth, inside, quoted, escaped):
    """Find how far a buffer completes records of a file of arrays; agrees with :func:`part_elements`.

    Parameters
    ----------
    buf : ndarray of uint8
    begin : int
        First byte to look at.
    depth, inside, quoted, escaped : int
        State at that byte: objects and arrays that are open below the outer array, whether that is open, whether
        the byte lies in a string, whether a backslash escapes it.

    Returns
    -------
    tuple of int
        Offset behind the last record, or -1, and the state behind the buffer.
    """
    last = np.int64(-1)
    for i in range(begin, buf.size):
        c = byte_at(buf, i)
        if c == 0x5C:
            escaped = 1 - escaped
            continue
        if c == QUOTE and escaped == 0:
            quoted = 1 - quoted
        escaped = 0
        if quoted != 0:
            continue
        if c in (OPEN_BRACE, OPEN_BRACKET):
            if depth == 0 and inside == 0 and c == OPEN_BRACKET:
                inside = 1
                last = np.int64(i) + 1
            else:
                depth += 1
        elif c in (CLOSE_BRACE, CLOSE_BRACKET):
            if depth > 0:
                depth -= 1
                if depth == 0 and inside == 0:
                    last = np.int64(i) + 1
            elif inside == 0:
                last = np.int64(i) + 1
            elif c == CLOSE_BRACKET:
                inside = 0
                last = np.int64(i) + 1
        elif depth == 0 and (c == COMMA or (c == COLON and inside == 0)):
            last = np.int64(i) + 1
    return last, np.int64(depth), np.int64(inside), np.int64(quoted), np.int64(escaped)
