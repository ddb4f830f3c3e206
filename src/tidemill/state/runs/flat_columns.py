"""Columns of several runs by address, for kernels that read values at places; those of nested types are left out.

A table of them is uint64[runs, columns, 6]: addresses of the validity bitmap (0 where no value is NULL), of the values
and of the offsets of texts; the kind; how many bits a value of a fixed width has; and which value is that of row 0.
Columns must outlive their table.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidemill.kernels import types
from tidemill.kernels.columns import nulls, room
from tidemill.kernels.deferred import carray
from tidemill.kernels.words import (
    BOOL,
    BOOL_OUT,
    I64,
    I64_OUT,
    U8_OUT,
    U64_OUT,
    Bools,
    Bytes,
    Ints,
    Words,
    as_pointer,
    copy_bytes,
    inlined,
    kernel,
)
from tidemill.state.keys.arrow_columns import bitmap
from tidemill.state.runs.pages import check_bytes, fetch_ahead, is_inside, position
from tidemill.state.runs.places import row_at, run_at

Flat = npt.NDArray[np.uint64]
"""A table of columns, or the columns of one run."""
FLAT = types.array(types.uint64, 3, "C", readonly=True)
WIDTH = 6
"""Numbers that a column has in a table."""
_VALIDITY, _DATA, _OFFSETS, _KIND, _BITS, _FIRST = range(WIDTH)
_NESTED, _NULLS, _FIXED, _SHORT, _LONG = range(5)
_MOST_SHORT = (1 << 31) - 1
_TEXTS = {
    pa.string().id: _SHORT,
    pa.binary().id: _SHORT,
    pa.large_string().id: _LONG,
    pa.large_binary().id: _LONG,
}


def _kind(type_: pa.DataType) -> int:
    if type_.id in _TEXTS:
        return _TEXTS[type_.id]
    if pa.types.is_null(type_):
        return _NULLS
    fixed = pa.types.is_primitive(type_) or pa.types.is_decimal(type_) or pa.types.is_fixed_size_binary(type_)
    return _FIXED if fixed else _NESTED


def is_flat(type_: pa.DataType) -> bool:
    """Whether a table can have columns of a type."""
    return _kind(type_) != _NESTED


def flat_columns(columns: Iterable[pa.Array[Any]]) -> Flat:
    """The columns of one run as a table has them (uint64[columns, 6])."""
    found = []
    for array in columns:
        kind, buffers = _kind(array.type), array.buffers()
        validity, data, offsets, bits = buffers[0], None, None, 0
        if kind == _FIXED:
            data, bits = buffers[1], array.type.bit_width
        elif kind in (_SHORT, _LONG):
            offsets, data = buffers[1:]
        addresses = [
            buffer.address if buffer is not None and buffer.size else 0 for buffer in (validity, data, offsets)
        ]
        found.append([0] * WIDTH if kind == _NESTED else [*addresses, kind, bits, array.offset])
    return np.array(found, np.uint64).reshape(-1, WIDTH)


def moved(columns: Flat, rows: int) -> Flat:
    """The columns of a slice that begins so many rows later."""
    if not rows:
        return columns
    later = columns.copy()
    later[:, _FIRST] += np.uint64(rows)
    return later


def columns_of_slices(columns: Sequence[Flat], starts: Ints) -> Flat:
    """The columns of slices of several runs (uint64[runs, columns, 6]), given the row that each begins with."""
    found = np.stack(columns)
    found[:, :, _FIRST] += starts.astype(np.uint64)[:, None]
    return found


def may_have_nulls(table: Flat, at: int) -> bool:
    """Whether any run has a validity bitmap of a column."""
    return bool(table[:, at, _VALIDITY].any())


@inlined
def int_at(table: Flat, at: int, place: int) -> Any:
    """The value at a place of a column of int64."""
    run = run_at(place)
    row = row_at(place) + np.int64(table[run, at, _FIRST])
    return carray(as_pointer(table[run, at, _DATA]), row + 1, np.int64)[row]


@inlined
def word_at(table: Flat, at: int, place: int) -> Any:
    """The value at a place of a column of 8 bytes, as a word."""
    run = run_at(place)
    row = row_at(place) + np.int64(table[run, at, _FIRST])
    return carray(as_pointer(table[run, at, _DATA]), row + 1, np.uint64)[row]


@inlined
def float_at(table: Flat, at: int, place: int) -> Any:
    """The value at a place of a column of float64."""
    run = run_at(place)
    row = row_at(place) + np.int64(table[run, at, _FIRST])
    return carray(as_pointer(table[run, at, _DATA]), row + 1, np.float64)[row]


@inlined
def _bit(address: Any, row: Any) -> Any:
    return (carray(as_pointer(address), (row >> 3) + 1, np.uint8)[row >> 3] >> (row & 7)) & 1 != 0


@inlined
def _span(table: Flat, at: int, run: int, row: Any) -> Any:
    """Where a text begins and ends among the bytes of its column."""
    if table[run, at, _KIND] == _SHORT:
        short = carray(as_pointer(table[run, at, _OFFSETS]), row + 2, np.int32)
        return np.int64(short[row]), np.int64(short[row + 1])
    long = carray(as_pointer(table[run, at, _OFFSETS]), row + 2, np.int64)
    return long[row], long[row + 1]


@inlined
def check_flat_rows(pages: Words, body: int, table: Flat, run: int, first: int, end: int) -> int:
    """Check the values of rows ``first`` to ``end - 1`` of a run, whose pages a row of a table of pages describes.

    Returns a page that is corrupt, -1 if there is none. Values that are not in the file are not checked.
    """
    for c in range(table.shape[1]):
        kind = table[run, c, _KIND]
        low = first + np.int64(table[run, c, _FIRST])
        high = end + np.int64(table[run, c, _FIRST])
        if table[run, c, _VALIDITY]:
            at = position(pages, body, table[run, c, _VALIDITY])
            if is_inside(pages, body, at):
                bad = check_bytes(pages, body, at + (low >> 3), at + (high + 7 >> 3))
                if bad >= 0:
                    return bad
        begin = np.int64(0)
        stop = np.int64(0)
        if kind == _FIXED:
            bits = np.int64(table[run, c, _BITS])
            begin = low * bits >> 3
            stop = high * bits + 7 >> 3
        elif kind >= _SHORT and table[run, c, _OFFSETS]:
            size = 4 if kind == _SHORT else 8
            at = position(pages, body, table[run, c, _OFFSETS])
            if is_inside(pages, body, at):
                bad = check_bytes(pages, body, at + low * size, at + (high + 1) * size)
                if bad >= 0:
                    return bad
            begin = _span(table, c, run, low)[0]
            stop = _span(table, c, run, high - 1)[1]
        at = position(pages, body, table[run, c, _DATA])
        if begin < stop and is_inside(pages, body, at):
            bad = check_bytes(pages, body, at + begin, at + stop)
            if bad >= 0:
                return bad
    return -1


@inlined
def fetch_row_ahead(pages: Words, body: int, table: Flat, run: int, row: int) -> None:
    """Fetch what :func:`check_flat_rows` needs of the values of fixed widths of a row, without waiting."""
    for c in range(table.shape[1]):
        if table[run, c, _KIND] == _FIXED:
            at = position(pages, body, table[run, c, _DATA])
            at += (row + np.int64(table[run, c, _FIRST])) * np.int64(table[run, c, _BITS]) >> 3
            if is_inside(pages, body, at):
                fetch_ahead(pages, body, at)


@kernel(types.void, FLAT, types.int64, I64, BOOL_OUT)
def _find_valid(table: Flat, at: int, places: Ints, valid: Bools) -> None:
    for p in range(places.size):
        valid[p] = False
        if places[p] >= 0:
            run = run_at(places[p])
            validity = table[run, at, _VALIDITY]
            valid[p] = validity == 0 or _bit(validity, row_at(places[p]) + np.int64(table[run, at, _FIRST]))


@kernel(types.void, FLAT, types.int64, I64, BOOL_OUT)
def _gather_flags(table: Flat, at: int, places: Ints, out: Bools) -> None:
    for p in range(places.size):
        out[p] = False
        if places[p] >= 0:
            run = run_at(places[p])
            out[p] = _bit(table[run, at, _DATA], row_at(places[p]) + np.int64(table[run, at, _FIRST]))


@kernel(types.void, FLAT, types.int64, I64, U64_OUT)
def _gather_words(table: Flat, at: int, places: Ints, out: Words) -> None:
    for p in range(places.size):
        out[p] = 0
        if places[p] >= 0:
            out[p] = word_at(table, at, places[p])


@kernel(types.void, FLAT, types.int64, I64, types.int64, U8_OUT)
def _gather_fixed(table: Flat, at: int, places: Ints, width: int, out: Bytes) -> None:
    out[:] = 0
    for p in range(places.size):
        if places[p] >= 0:
            run = run_at(places[p])
            row = row_at(places[p]) + np.int64(table[run, at, _FIRST])
            data = carray(as_pointer(table[run, at, _DATA]), (row + 1) * width, np.uint8)
            for i in range(width):
                out[p * width + i] = data[row * width + i]


@kernel(types.int64, FLAT, types.int64, I64, BOOL, I64_OUT)
def _find_ends(table: Flat, at: int, places: Ints, valid: Bools, ends: Ints) -> Any:
    """Write where each text ends when they are put together; returns the last of these."""
    end = np.int64(0)
    for p in range(places.size):
        if valid[p]:
            run = run_at(places[p])
            first, last = _span(table, at, run, row_at(places[p]) + np.int64(table[run, at, _FIRST]))
            end += last - first
        ends[p] = end
    return end


@kernel(types.void, FLAT, types.int64, I64, I64, U8_OUT)
def _gather_texts(table: Flat, at: int, places: Ints, ends: Ints, out: Bytes) -> None:
    before = np.int64(0)
    for p in range(places.size):
        if ends[p] > before:
            run = run_at(places[p])
            first, last = _span(table, at, run, row_at(places[p]) + np.int64(table[run, at, _FIRST]))
            data = carray(as_pointer(table[run, at, _DATA]), last, np.uint8)
            copy_bytes(data, first, out, int(before), last - first)
        before = ends[p]


def gather(table: Flat, at: int, type_: pa.DataType, places: Ints) -> pa.Array[Any]:
    """The values of a flat column at some places, NULL where a place is -1; the caller has checked them."""
    n, kind = len(places), _kind(type_)
    if kind == _NULLS:
        return nulls(n, type_)
    valid = np.empty(n, np.bool_)
    _find_valid(table, at, places, valid)
    if kind == _FIXED:
        return pa.Array.from_buffers(type_, n, [bitmap(valid), _values(table, at, type_, places)])
    offsets = np.zeros(n + 1, np.int64)
    size = _find_ends(table, at, places, valid, offsets[1:])
    if kind == _SHORT and size > _MOST_SHORT:
        raise pa.ArrowCapacityError(f"{size} bytes of texts do not fit into one column")
    data = room(size, np.uint8)
    _gather_texts(table, at, places, offsets[1:], data)
    starts = offsets.astype(np.int32) if kind == _SHORT else offsets
    return pa.Array.from_buffers(type_, n, [bitmap(valid), pa.py_buffer(starts.data), pa.py_buffer(data.data)])


def _values(table: Flat, at: int, type_: pa.DataType, places: Ints) -> pa.Buffer:
    bits = type_.bit_width
    if bits == 1:
        flags = np.empty(len(places), np.bool_)
        _gather_flags(table, at, places, flags)
        return pa.py_buffer(np.packbits(flags, bitorder="little").data)
    if bits == 64:
        words = room(len(places), np.uint64)
        _gather_words(table, at, places, words)
        return pa.py_buffer(words.data)
    data = room(len(places) * (bits >> 3), np.uint8)
    _gather_fixed(table, at, places, bits >> 3, data)
    return pa.py_buffer(data.data)
