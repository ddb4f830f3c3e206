"""Phase 2 for all columns of a buffer at once: block by block of rows, column by column in each.

One compiled call parses a buffer. A small loop over the columns chooses the parser of each by a number; since it does
so once a block, choosing costs nothing, and no code is generated for a schema (``docs/decisions/0009``). What a block
touches, the bytes of its rows and where their fields lie, stays in the first-level cache while its columns are parsed.
"""

from __future__ import annotations

# mypy: allow-untyped-defs
import numpy as np

from tidemill.formats.rows.field_index import field_bounds
from tidemill.formats.values.numbers.decimals import parse_decimals, scale_lanes
from tidemill.formats.values.numbers.floats import parse_floats, round_lanes
from tidemill.formats.values.numbers.integers import parse_integers
from tidemill.formats.values.numbers.lanes import (
    BLOCK,
    decimal_lanes,
    gather,
    gather_marked,
    integer_lanes,
    lanes_apply,
)
from tidemill.formats.values.texts.texts import copy_texts, parse_booleans
from tidemill.formats.values.times.time_lanes import DATE_LENGTH, TIME_LENGTH, date_lanes, gather_times, timestamp_lanes
from tidemill.formats.values.times.times import parse_dates, parse_timestamps
from tidemill.kernels.byte_masks import kernel, pointer_to
from tidemill.kernels.deferred import carray

INT8, INT16, INT32, INT64, FLOAT32, FLOAT64, DECIMAL, TEXT, BINARY, BOOLEAN, DATE, TIMESTAMP = range(12)
"""What parses a column."""

CODE, FIRST, SECOND, STEPS = range(4)
"""Columns of a plan: the parser, its two arguments, and the length of its time pattern."""
PLAN = 4
OUT, STATUS, OFFSETS, PATTERN = range(4)
"""Columns of addresses: where the values, outcomes and text offsets of a column go, and where its pattern is."""
ADDRESSES = 4
FAILURES, INEXACT_FLOATS, TEXT_BYTES, ODD_TEXTS = range(4)
"""Columns of totals: rows that are not ``VALID``, floats among them that are ``INEXACT``, bytes of text, and
blocks of texts that cannot be copied without looking at each, after which that is not tried again."""
TOTALS = 4

_WITHOUT_END = 1 << 40
"""Size of an array of which the caller knows the true one."""
_ROOM = (6, BLOCK)
_SCRATCH = (_ROOM[0] + 2) * BLOCK
"""Words: six rows for lanes, one for values that are narrowed, one for where fields start and end."""
_WIDE = np.uint64(8 * _ROOM[0] * BLOCK)
_STARTS = _WIDE + np.uint64(8 * BLOCK)
_ENDS = _STARTS + np.uint64(4 * BLOCK)


@kernel
def _number_lanes(code, first, second, longest, count, room, out, status):
    """Read gathered numbers to ``out``, an address; returns how many are left ``UNDECIDED``."""
    words, tails, lengths, mantissas, behind, negatives = room[0], room[1], room[2], room[3], room[4], room[5]
    if code <= INT64:
        longs = carray(pointer_to(out), (count,), np.int64)
        return integer_lanes(words, tails, lengths, longest, np.uint64(first), longs, status)
    decimal_lanes(words, tails, lengths, longest, count, mantissas, behind, negatives)
    if code == DECIMAL:
        pairs = carray(pointer_to(out), (2 * count,), np.uint64)
        return scale_lanes(mantissas, behind, negatives, first, second, pairs, status)
    doubles = carray(pointer_to(out), (count,), np.float64)
    return round_lanes(mantissas, behind, negatives, code == FLOAT32, doubles, status)


@kernel
def _time_lanes(code, buf, starts, ends, room, out, status):
    """Read dates or timestamps to ``out``, an address; returns how many are left ``UNDECIDED``, -1 if none is read."""
    count = starts.size
    heads, dates, times, marks = room[0], room[1], room[2], room[3]
    others = gather_times(buf, starts, ends, DATE_LENGTH if code == DATE else TIME_LENGTH, heads, dates, times, marks)
    if 2 * others > count:
        return np.int64(-1)
    if code == DATE:
        return date_lanes(heads, dates, carray(pointer_to(out), (count,), np.int32), status)
    return timestamp_lanes(heads, dates, times, marks, carray(pointer_to(out), (count,), np.int64), status)


@kernel
def _one_by_one(buf, starts, ends, quote, trim, null_text, plan, addresses, totals, slot, in_lanes, out, status, base):
    """Read what lanes did not."""
    count = starts.size
    code, first, second = plan[slot, CODE], plan[slot, FIRST], plan[slot, SECOND]
    failures = np.int64(0)
    if code <= INT64:
        longs = carray(pointer_to(out), (count,), np.int64)
        failures = parse_integers(buf, starts, ends, quote, trim, null_text, np.uint64(first), in_lanes, longs, status)
    elif code <= FLOAT64:
        doubles = carray(pointer_to(out), (count,), np.float64)
        single = code == FLOAT32
        failures, inexact = parse_floats(buf, starts, ends, quote, trim, null_text, single, in_lanes, doubles, status)
        totals[slot, INEXACT_FLOATS] += inexact
    elif code == DECIMAL:
        pairs = carray(pointer_to(out), (2 * count,), np.uint64)
        failures = parse_decimals(buf, starts, ends, quote, trim, null_text, first, second, in_lanes, pairs, status)
    elif code <= BINARY:
        texts = carray(pointer_to(addresses[slot, OUT]), (_WITHOUT_END,), np.uint8)
        offsets = carray(pointer_to(addresses[slot, OFFSETS] + np.uint64(4 * base)), (count + 1,), np.int32)
        cursor = totals[slot, TEXT_BYTES]
        plain = totals[slot, ODD_TEXTS] == 0
        failures, odd = copy_texts(
            buf, starts, ends, quote, trim, null_text, code == TEXT, plain, texts, cursor, offsets, status
        )
        totals[slot, ODD_TEXTS] += odd
        totals[slot, TEXT_BYTES] = offsets[count]
    elif code == BOOLEAN:
        truths = carray(pointer_to(out), (count,), np.uint8)
        failures = parse_booleans(buf, starts, ends, quote, trim, null_text, truths, status)
    else:
        pattern = carray(pointer_to(addresses[slot, PATTERN]), (plan[slot, STEPS], 6), np.int64)
        if code == DATE:
            days = carray(pointer_to(out), (count,), np.int32)
            failures = parse_dates(buf, starts, ends, quote, trim, null_text, pattern, in_lanes, days, status)
        else:
            micros = carray(pointer_to(out), (count,), np.int64)
            failures = parse_timestamps(
                buf, starts, ends, quote, trim, null_text, pattern, first, in_lanes, micros, status
            )
    totals[slot, FAILURES] += failures


@kernel
def _narrow(code, wide, out, base):
    """Write 64-bit integers as narrower ones from row ``base`` on of an array at an address."""
    count = wide.size
    if code == INT32:
        ints = carray(pointer_to(out + np.uint64(4 * base)), (count,), np.int32)
        for i in range(count):
            ints[i] = wide[i]
    elif code == INT16:
        shorts = carray(pointer_to(out + np.uint64(2 * base)), (count,), np.int16)
        for i in range(count):
            shorts[i] = wide[i]
    else:
        bytes_ = carray(pointer_to(out + np.uint64(base)), (count,), np.int8)
        for i in range(count):
            bytes_[i] = wide[i]


@kernel
def _width(code):
    """Bytes of a value as it is parsed, or 0 where that says nothing."""
    if code <= FLOAT64 or code == TIMESTAMP:
        return 8
    if code == DECIMAL:
        return 16
    if code == DATE:
        return 4
    return 1 if code == BOOLEAN else 0


@kernel
def parse_marked(buf, marks, width, begin, row, rows, crlf, fields, quote, trim, null_text, plan, addresses, totals):
    """Parse fields of rows that all have as many.

    Parameters
    ----------
    buf, marks, width, begin, row, crlf
        As for :func:`~tidemill.formats.rows.field_index.field_bounds`.
    rows : int
        How many.
    fields : ndarray of int64, shape (columns,)
        The field of each column.
    quote, trim, null_text
        See :class:`~tidemill.formats.values.field_text.TextRules`.
    plan : ndarray of int64, shape (columns, PLAN)
    addresses : ndarray of uint64, shape (columns, ADDRESSES)
        Of arrays that have room for all rows.
    totals : ndarray of int64, shape (columns, TOTALS)
        Zeros; receives what came out.
    """
    memory = np.empty(_SCRATCH, np.uint64)
    scratch = np.uint64(memory.ctypes.data)
    lanes = lanes_apply(buf, quote, null_text)
    room = carray(pointer_to(scratch), _ROOM, np.uint64)
    for base in range(0, rows, BLOCK):
        count = min(BLOCK, rows - base)
        starts = carray(pointer_to(scratch + _STARTS), (count,), np.int32)
        ends = carray(pointer_to(scratch + _ENDS), (count,), np.int32)
        for slot in range(fields.size):
            field, code = fields[slot], plan[slot, CODE]
            status = carray(pointer_to(addresses[slot, STATUS] + np.uint64(base)), (count,), np.uint8)
            narrow = code < INT64
            out = scratch + _WIDE if narrow else addresses[slot, OUT] + np.uint64(base * _width(code))
            at = (row + base) * width + field
            direct = lanes and code <= DECIMAL and at > 0 and not (crlf and field == width - 1)
            undecided = np.int64(-1)
            if direct:
                longest, long = gather_marked(buf, marks, at, width, count, room[0], room[1], room[2])
                if 2 * long <= count:
                    first, second = plan[slot, FIRST], plan[slot, SECOND]
                    undecided = _number_lanes(code, first, second, longest, count, room, out, status)
            if undecided != 0:
                field_bounds(buf, marks, width, begin, row + base, field, crlf, starts, ends)
                if lanes and not direct:
                    undecided = _lanes(buf, starts, ends, plan, slot, room, out, status)
            if undecided != 0:
                in_lanes = undecided > 0
                _one_by_one(
                    buf,
                    starts,
                    ends,
                    quote,
                    trim,
                    null_text,
                    plan,
                    addresses,
                    totals,
                    slot,
                    in_lanes,
                    out,
                    status,
                    base,
                )
            if narrow:
                _narrow(code, carray(pointer_to(out), (count,), np.int64), addresses[slot, OUT], base)
    memory[0] = 0  # the memory is in use until here


@kernel
def _lanes(buf, starts, ends, plan, slot, room, out, status):
    """Read a block in lanes, if its type has any; returns how many are left ``UNDECIDED``, -1 if none is read."""
    code, first, second = plan[slot, CODE], plan[slot, FIRST], plan[slot, SECOND]
    if code <= DECIMAL:
        longest, long = gather(buf, starts, ends, room[0], room[1], room[2])
        if 2 * long > starts.size:
            return np.int64(-1)
        return _number_lanes(code, first, second, longest, starts.size, room, out, status)
    if code >= DATE and plan[slot, STEPS] == 0:
        return _time_lanes(code, buf, starts, ends, room, out, status)
    return np.int64(-1)


@kernel
def parse_fields(buf, starts, ends, quote, trim, null_text, plan, addresses, totals):
    """Parse the fields of one column, which may lie anywhere.

    Parameters
    ----------
    starts, ends : ndarray of int32, shape (rows,)
        See :class:`~tidemill.formats.rows.field_index.FieldOffsets`.

    The others are as for :func:`parse_marked`.
    """
    memory = np.empty(_SCRATCH, np.uint64)
    scratch = np.uint64(memory.ctypes.data)
    lanes = lanes_apply(buf, quote, null_text)
    room = carray(pointer_to(scratch), _ROOM, np.uint64)
    slot = np.int64(0)  # not a literal, for which what it calls would be compiled once more
    code = plan[slot, CODE]
    narrow = code < INT64
    for base in range(0, starts.size, BLOCK):
        stop = min(base + BLOCK, starts.size)
        begins, stops = starts[base:stop], ends[base:stop]
        status = carray(pointer_to(addresses[0, STATUS] + np.uint64(base)), (stop - base,), np.uint8)
        out = scratch + _WIDE if narrow else addresses[0, OUT] + np.uint64(base * _width(code))
        undecided = _lanes(buf, begins, stops, plan, slot, room, out, status) if lanes else np.int64(-1)
        if undecided != 0:
            in_lanes = undecided > 0
            _one_by_one(
                buf, begins, stops, quote, trim, null_text, plan, addresses, totals, slot, in_lanes, out, status, base
            )
        if narrow:
            _narrow(code, carray(pointer_to(out), (stop - base,), np.int64), addresses[0, OUT], base)
    memory[0] = 0  # the memory is in use until here
