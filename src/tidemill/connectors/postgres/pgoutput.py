"""Changes as ``pgoutput`` says them (version 1 of its protocol), made into lines of CSV by compiled code.

The messages are described in PostgreSQL's documentation, *Logical Replication Message Formats*. Each line has the
values of the columns that are wanted, as PostgreSQL writes them, and then ``I`` or ``D``; an update is two lines, the
old row first. Values are quoted, NULL is empty.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

import numpy as np

from tidemill.kernels.types import int64
from tidemill.kernels.words import I64, I64_OUT, U8, U8_OUT, Bytes, Ints, inlined, kernel

PLAIN, BOOLEAN, ZONED = 0, 1, 2
"""What becomes of a value: nothing; ``t`` is true and ``f`` is false; minutes are added to a zone of hours."""

_MOST_COLUMNS = 1664
_DONE, NO_OLD_ROW, TRUNCATED = 0, 1, 2

_INSERT, _UPDATE, _DELETE, _TRUNCATE = ord("I"), ord("U"), ord("D"), ord("T")
_OLD, _NEW, _NULL, _UNCHANGED = ord("O"), ord("N"), ord("n"), ord("u")
_QUOTE, _COMMA, _LINE_END, _COLON, _ZERO = ord('"'), ord(","), ord("\n"), ord(":"), ord("0")
_T, _F = ord("t"), ord("f")


@dataclass(frozen=True)
class Relation:
    """A table as a message of type R describes it."""

    oid: int
    schema: str
    name: str
    columns: tuple[str, ...]
    type_ids: tuple[int, ...]


def parse_relation(message: bytes) -> Relation:
    """What a message of type R says."""
    (oid,) = struct.unpack_from(">I", message, 1)
    schema, name, rest = message[5:].split(b"\0", 2)
    (count,) = struct.unpack_from(">H", rest, 1)
    columns, type_ids, at = [], [], 3
    for _ in range(count):
        end = rest.index(b"\0", at + 1)
        columns.append(rest[at + 1 : end].decode())
        type_ids.append(struct.unpack_from(">I", rest, end + 1)[0])
        at = end + 9
    return Relation(oid, schema.decode() or "pg_catalog", name.decode(), tuple(columns), tuple(type_ids))


def commit_end(message: bytes) -> int:
    """The position behind a transaction, of its message of type C."""
    end: int = struct.unpack_from(">Q", message, 10)[0]
    return end


@inlined
def _word(data: Bytes, at: int, size: int) -> int:
    """An unsigned number of some bytes."""
    found = 0
    for i in range(size):
        found = found * 256 + data[at + i]
    return found


@inlined
def _spans(data: Bytes, at: int, starts: Ints, sizes: Ints) -> int:
    """Where the values of a row are; -1 for the size of NULL, -2 for one that is not given. Returns the row's end."""
    count = _word(data, at, 2)
    at += 2
    for i in range(count):
        tag = data[at]
        at += 1
        if tag == _NULL:
            sizes[i] = -1
        elif tag == _UNCHANGED:
            sizes[i] = -2
        else:
            starts[i], sizes[i] = at + 4, _word(data, at, 4)
            at += 4 + sizes[i]
    return at


@inlined
def _value(data: Bytes, start: int, size: int, kind: int, out: Bytes, at: int) -> int:
    """Write a value in quotes; returns where it ends."""
    out[at] = _QUOTE
    at += 1
    if kind == BOOLEAN and size == 1 and (data[start] == _T or data[start] == _F):
        word = (116, 114, 117, 101, 0) if data[start] == _T else (102, 97, 108, 115, 101)
        for i in range(4 if data[start] == _T else 5):
            out[at + i] = word[i]
        at += 4 if data[start] == _T else 5
    else:
        for i in range(start, start + size):
            if data[i] == _QUOTE:
                out[at] = _QUOTE
                at += 1
            out[at] = data[i]
            at += 1
        if kind == ZONED:
            out[at], out[at + 1], out[at + 2] = _COLON, _ZERO, _ZERO
            at += 3
    out[at] = _QUOTE
    return at + 1


@kernel(int64, U8, I64, int64, I64, U8, U8_OUT, I64_OUT)
def _write_lines(
    data: Bytes, starts: Ints, relation: int, columns: Ints, kinds: Bytes, out: Bytes, report: Ints
) -> int:
    """Write the lines of messages about one relation; returns how many bytes.

    ``columns`` are the places of the wanted columns in the relation. ``report`` gets why it ended, the message at which
    that was, and the lines written.
    """
    old_starts, old_sizes = np.zeros(_MOST_COLUMNS, np.int64), np.zeros(_MOST_COLUMNS, np.int64)
    new_starts, new_sizes = np.zeros(_MOST_COLUMNS, np.int64), np.zeros(_MOST_COLUMNS, np.int64)
    at = lines = 0
    for number in range(starts.size):
        begin = starts[number]
        type_ = data[begin]
        if type_ == _TRUNCATE:
            for i in range(_word(data, begin + 1, 4)):
                if _word(data, begin + 6 + 4 * i, 4) == relation:
                    report[0], report[1], report[2] = TRUNCATED, number, lines
                    return at
            continue
        if type_ not in (_INSERT, _UPDATE, _DELETE) or _word(data, begin + 1, 4) != relation:
            continue
        place, old = begin + 5, False
        if type_ != _INSERT:
            if data[place] != _OLD:
                report[0], report[1], report[2] = NO_OLD_ROW, number, lines
                return at
            place, old = _spans(data, place + 1, old_starts, old_sizes), True
        new = type_ != _DELETE
        if new:
            _spans(data, place + 1, new_starts, new_sizes)
        for turn in range(2):
            if not (old if turn == 0 else new):
                continue
            for i in range(columns.size):
                column = columns[i]
                start, size = old_starts[column], old_sizes[column]
                if turn == 1 and new_sizes[column] != -2:
                    start, size = new_starts[column], new_sizes[column]
                if size >= 0:
                    at = _value(data, start, size, kinds[i], out, at)
                out[at] = _COMMA
                at += 1
            out[at] = _DELETE if turn == 0 else _INSERT
            out[at + 1] = _LINE_END
            at += 2
            lines += 1
    report[0], report[1], report[2] = _DONE, starts.size, lines
    return at


@dataclass(frozen=True)
class Lines:
    """Lines of CSV, and why there are no more of these messages: 0, NO_OLD_ROW or TRUNCATED."""

    text: bytes
    count: int
    ended: int


def lines_of(messages: list[bytes], relation: int, columns: Ints, kinds: Bytes) -> Lines:
    """The lines of messages.

    Parameters
    ----------
    messages : list of bytes
        Those of one relation that has one shape, and any that are not about rows.
    relation : int
        Its number.
    columns : ndarray of int64
        The places in it of the columns that are wanted.
    kinds : ndarray of uint8
        What becomes of the values of each.
    """
    if not messages:
        return Lines(b"", 0, _DONE)
    data = np.frombuffer(b"".join(messages), np.uint8)
    ends = np.cumsum(np.fromiter((len(m) for m in messages), np.int64, len(messages)))
    starts = np.concatenate([np.zeros(1, np.int64), ends[:-1]])
    # A value is at most doubled by quotes, written twice where it did not change, and again for each use of its column.
    uses = int(np.bincount(columns).max(initial=1))
    out = np.empty(4 * uses * data.size + 2 * len(messages) * (9 * columns.size + 2), np.uint8)
    report = np.zeros(3, np.int64)
    size = _write_lines(data, starts, relation, columns, kinds, out, report)
    return Lines(out[:size].tobytes(), int(report[2]), int(report[0]))
