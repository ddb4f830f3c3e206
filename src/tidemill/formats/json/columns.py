"""Phase 2 of JSON: from the index to Arrow arrays, with the parsers that all text formats share.

As in Spark a value of another kind than its column is malformed and NULL: ``"1"`` is no BIGINT, ``1.0`` neither. A
field of a struct that is malformed is NULL alone; a malformed element makes its whole array or map NULL.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidemill.formats.json.indexing.index import Ints, ValueIndex, Values
from tidemill.formats.json.indexing.texts import SLACK, copy_values
from tidemill.formats.json.indexing.tree import Node
from tidemill.formats.json_tokens.scalars import ARRAY, INTEGER, NULL, OBJECT, READ, TEXT
from tidemill.formats.values.columns.columns import DEFAULT_PATTERNS, ParsedColumn, TimePatterns, parser_for
from tidemill.formats.values.field_text import BAD_VALUE, VALID, TextRules
from tidemill.formats.values.field_text import NULL as NULL_FIELD
from tidemill.formats.values.texts.encoded import decode_base64
from tidemill.formats.values.times.times import FIRST_MICROS, LAST_MICROS, MICROS_PER_SECOND
from tidemill.kernels.byte_masks import byte_at, kernel
from tidemill.schema import TIMESTAMP

Chosen = npt.NDArray[np.int64] | None
Mask = npt.NDArray[np.bool_]

_RULES = TextRules(-1, 0, np.empty(0, np.uint8))


@dataclass(frozen=True)
class Built:
    """One column of one buffer.

    Attributes
    ----------
    array : pyarrow.Array
    wrong : list of (ndarray of int64, str)
        Rows with a malformed value in them, and the reason; by the order of the fields of a struct.
    """

    array: pa.Array[Any]
    wrong: list[tuple[npt.NDArray[np.int64], str]] = field(default_factory=list)


Build = Callable[[ValueIndex, Chosen], Built]


def builder_of(type_: pa.DataType, node: Node, patterns: TimePatterns) -> Build | None:
    """What makes arrays of a type of the values of a node; None when JSON cannot hold the type."""
    if pa.types.is_struct(type_):
        fields = [builder_of(f.type, node.fields[f.name], patterns) for f in type_] if type_.num_fields else [None]
        known = [f for f in fields if f is not None]
        return _struct(type_, node, known) if len(known) == len(fields) else None
    if pa.types.is_list(type_) and node.element:
        elements = builder_of(type_.value_type, node.element, patterns)
        return _list(type_, node, elements) if elements else None
    if pa.types.is_map(type_) and node.key and node.value:
        values = builder_of(type_.item_type, node.value, patterns)
        return _map(type_, node, values) if values and type_.key_type == pa.string() else None
    return _leaf(type_, node, patterns)


def _validity(valid: Mask) -> Any:
    return None if valid.all() else pa.py_buffer(np.packbits(valid, bitorder="little").data)


def _misfits(kinds: npt.NDArray[np.uint8], valid: Mask, reason: str) -> list[tuple[npt.NDArray[np.int64], str]]:
    """Values that are written, and are not valid."""
    if valid.all():
        return []
    rows = np.flatnonzero(~valid & (kinds > NULL))
    return [(rows, reason)] if rows.size else []


def _struct(type_: pa.DataType, node: Node, fields: Sequence[Build]) -> Build:
    def build(index: ValueIndex, chosen: Chosen) -> Built:
        kinds = index.values(node, chosen).kinds
        valid = kinds == OBJECT
        parts = [f(index, chosen) for f in fields]
        array: pa.Array[Any] = pa.Array.from_buffers(
            type_, kinds.size, [_validity(valid)], children=[p.array for p in parts]
        )
        return Built(array, [*_misfits(kinds, valid, "bad_struct"), *(w for p in parts for w in p.wrong)])

    return build


def _list(type_: pa.DataType, node: Node, elements: Build) -> Build:
    def build(index: ValueIndex, chosen: Chosen) -> Built:
        below = node.element
        assert below is not None
        kinds = index.values(node, chosen).kinds
        lengths, places = index.elements(node, below, chosen)
        found = elements(index, places)
        valid = kinds == ARRAY
        wrong = _misfits(kinds, valid, "bad_array")
        # What is wrong with a field within an element leaves the element as it is.
        wrong += _owners(lengths, found.wrong)
        spoilt = _spoilt(index, below, places, found)
        if spoilt.size:
            lengths, valid, kept = _without(lengths, valid, spoilt)
            found = Built(found.array.take(kept))
        array: pa.Array[Any] = pa.Array.from_buffers(
            type_, kinds.size, [_validity(valid), _offsets(lengths)], children=[found.array]
        )
        return Built(array, wrong)

    return build


def _map(type_: pa.MapType[Any, Any, Any], node: Node, values: Build) -> Build:
    keys = _leaf(pa.string(), node.key, DEFAULT_PATTERNS)

    def build(index: ValueIndex, chosen: Chosen) -> Built:
        below, names = node.value, node.key
        assert below is not None and names is not None and keys is not None
        kinds = index.values(node, chosen).kinds
        lengths, places = index.elements(node, names, chosen)
        found_keys, found = keys(index, places), values(index, places)
        valid = kinds == OBJECT
        wrong = _misfits(kinds, valid, "bad_map")
        # What another value of its key overwrites is not malformed either.
        lengths, last = _last_of_each(lengths, found_keys.array)
        if last is not None:
            found_keys, found = _only(found_keys, last), _only(found, last)
            places = last if places is None else places[last]
        wrong += _owners(lengths, [*found_keys.wrong, *found.wrong])
        spoilt = np.union1d(_rows_of(found_keys), _spoilt(index, below, places, found))
        key_array, value_array = found_keys.array, found.array
        if spoilt.size:
            lengths, valid, kept = _without(lengths, valid, spoilt)
            key_array, value_array = key_array.take(kept), value_array.take(kept)
        entries_type = pa.struct([type_.key_field, type_.item_field])
        entries: pa.Array[Any] = pa.Array.from_buffers(
            entries_type, len(key_array), [None], children=[key_array, value_array]
        )
        array: pa.Array[Any] = pa.Array.from_buffers(
            type_, kinds.size, [_validity(valid), _offsets(lengths)], children=[entries]
        )
        return Built(array, wrong)

    return build


def _offsets(lengths: Ints) -> Any:
    offsets = np.zeros(lengths.size + 1, np.int32)
    np.cumsum(lengths, out=offsets[1:])
    return pa.py_buffer(offsets.data)


def _rows_of(built: Built) -> npt.NDArray[np.int64]:
    return np.concatenate([np.empty(0, np.int64), *(rows for rows, _ in built.wrong)])


def _spoilt(index: ValueIndex, below: Node, places: Chosen, found: Built) -> npt.NDArray[np.int64]:
    """Elements that are malformed themselves: NULL, but not written so."""
    rows = np.unique(_rows_of(found))
    if not rows.size:
        return rows
    written = index.values(below, places).kinds[rows] > NULL
    null: Mask = found.array.take(rows).is_null().to_numpy(zero_copy_only=False)
    spoilt: npt.NDArray[np.int64] = rows[written & null]
    return spoilt


def _owners(lengths: Ints, wrong: list[tuple[npt.NDArray[np.int64], str]]) -> list[tuple[npt.NDArray[np.int64], str]]:
    """The lists of some elements."""
    if not wrong:
        return []
    ends = np.cumsum(lengths, dtype=np.int64)
    return [(np.unique(np.searchsorted(ends, rows, "right")), reason) for rows, reason in wrong]


def _without(lengths: Ints, valid: Mask, spoilt: npt.NDArray[np.int64]) -> tuple[Ints, Mask, npt.NDArray[np.int64]]:
    """Lengths and validity without the lists of some elements, and the elements that stay."""
    gone = np.unique(np.searchsorted(np.cumsum(lengths, dtype=np.int64), spoilt, "right"))
    stays = np.ones(lengths.size, np.bool_)
    stays[gone] = False
    return (lengths * stays).astype(np.int32), valid & stays, np.flatnonzero(np.repeat(stays, lengths))


def _only(built: Built, chosen: npt.NDArray[np.int64]) -> Built:
    """Some values, in the order given, each at most once."""
    place = np.full(len(built.array), -1, np.int64)
    place[chosen] = np.arange(chosen.size)
    wrong = [(np.sort(place[rows][place[rows] >= 0]), reason) for rows, reason in built.wrong]
    return Built(built.array.take(chosen), [(rows, reason) for rows, reason in wrong if rows.size])


def _last_of_each(lengths: Ints, keys: pa.Array[Any]) -> tuple[Ints, npt.NDArray[np.int64] | None]:
    """Of entries of one key in one map the last one, in the place of the first; None when there are no two.

    A malformed key, which is NULL, is like no other.
    """
    if not len(keys):
        return lengths, None
    owners = np.repeat(np.arange(lengths.size), lengths)
    codes: npt.NDArray[np.int64] = keys.dictionary_encode().indices.fill_null(-1).to_numpy().astype(np.int64)
    odd = np.flatnonzero(codes < 0)
    codes[odd] = len(keys) + odd
    pairs = owners * (int(codes.max()) + 1) + codes
    _, first = np.unique(pairs, return_index=True)
    if first.size == pairs.size:
        return lengths, None
    _, backwards = np.unique(pairs[::-1], return_index=True)
    order = np.argsort(first)
    last = (pairs.size - 1 - backwards)[order]
    return np.bincount(owners[first], minlength=lengths.size).astype(np.int32), last


def _leaf(type_: pa.DataType, node: Node | None, patterns: TimePatterns) -> Build | None:
    parser = parser_for(type_, patterns)
    if parser is None or node is None:
        return None
    place, shared = node, parser

    def parse(index: ValueIndex, values: Values) -> ParsedColumn:
        if place.read_as:
            return _take_numbers(type_, values, lambda rest: _parse_shared(type_, shared.parse, index, place, rest))
        if type_ == pa.string():
            return _parse_texts(index, place, values)
        if type_ == pa.binary():
            return _parse_binary(index, place, values)
        if type_ == TIMESTAMP and (values.kinds == INTEGER).any():
            return _with_seconds(index, values, lambda rest: _parse_shared(type_, shared.parse, index, place, rest))
        return _parse_shared(type_, shared.parse, index, place, values)

    def build(index: ValueIndex, chosen: Chosen) -> Built:
        parsed = parse(index, index.values(place, chosen))
        status = parsed.status
        if status is None or status.max(initial=0) <= NULL_FIELD:
            return Built(parsed.array)
        outcomes = [int(outcome) for outcome in np.unique(status[status > NULL_FIELD])]
        reasons = ["bad_binary" if type_ == pa.binary() else shared.reason(outcome) for outcome in outcomes]
        return Built(parsed.array, [(np.flatnonzero(status == o), r) for o, r in zip(outcomes, reasons, strict=True)])

    return build


def _take_numbers(type_: pa.DataType, values: Values, parse: Callable[[Values], ParsedColumn]) -> ParsedColumn:
    """Integers or doubles that were read in phase 1; what was not is parsed."""
    numbers = np.empty(values.kinds.size, np.float64 if pa.types.is_floating(type_) else f"int{type_.bit_width}")
    unread, outside = copy_read(values.kinds, values.numbers, numbers.view(f"int{type_.bit_width}"))
    if not unread and not outside:
        buffers = [None, pa.py_buffer(numbers.data)]
        return ParsedColumn(pa.Array.from_buffers(type_, numbers.size, buffers, 0), None)
    read = values.kinds == READ
    status = np.where(read, VALID, NULL_FIELD).astype(np.uint8)
    others = np.flatnonzero(~read & (values.kinds > NULL))
    if others.size:
        parsed = parse(values.only(others))
        status[others] = VALID if parsed.status is None else parsed.status
        numbers[others] = parsed.array.fill_null(0).to_numpy(zero_copy_only=False)
    if outside:
        status[read & (values.numbers != numbers)] = BAD_VALUE
    buffers = [_validity(status == VALID), pa.py_buffer(numbers.data)]
    return ParsedColumn(pa.Array.from_buffers(type_, numbers.size, buffers), status)


@kernel
def copy_read(kinds, numbers, out):  # type: ignore[no-untyped-def]
    """Copy numbers that are ``READ`` to an array of integers, which gets 0 for others.

    Returns
    -------
    tuple of int
        How many are not ``READ``, and how many of those that are do not fit.
    """
    unread = np.int64(0)
    outside = np.int64(0)
    for row in range(kinds.size):
        read = kinds[row] == READ
        number = numbers[row] if read else np.int64(0)
        out[row] = number
        unread += not read
        outside += np.int64(out[row]) != number
    return unread, outside


def _parse_shared(type_: pa.DataType, parse: Any, index: ValueIndex, node: Node, values: Values) -> ParsedColumn:
    """Parse values with the parser of their type.

    Numbers and booleans need no care: where another kind of value stands, its first byte is wrong.
    """
    starts, ends, kinds, data = values.starts, values.ends, values.kinds, index.data
    texts = kinds == TEXT
    timed = pa.types.is_temporal(type_)
    if not (timed or texts.any()) or pa.types.is_integer(type_) or pa.types.is_boolean(type_):
        parsed: ParsedColumn = parse(data, starts, ends, _RULES)
        return parsed
    if index.has_escapes(node):
        data, offsets, _, _ = _copied(index, node, values)
        inner_starts, inner_ends = offsets[:-1], offsets[1:]
        starts, ends = inner_starts, inner_ends
    else:
        inner_starts, inner_ends = starts + texts, ends - texts
    if timed and texts.all() and (inner_starts < inner_ends).all():
        return cast(ParsedColumn, parse(data, inner_starts, inner_ends, _RULES))
    if pa.types.is_floating(type_):
        good = np.zeros(texts.size, np.bool_)
        mark_not_finite(data, inner_starts, inner_ends, texts, good)
        wrong = texts & ~good
    else:
        wrong = texts & (inner_starts >= inner_ends)
        if timed:
            wrong |= ~texts & (kinds > NULL)
    nothing = wrong | (kinds <= NULL)
    starts = np.where(nothing, 0, np.where(texts, inner_starts, starts)).astype(np.int32)
    ends = np.where(nothing, 0, np.where(texts, inner_ends, ends)).astype(np.int32)
    parsed = parse(data, starts, ends, _RULES)
    if wrong.any():
        assert parsed.status is not None
        parsed.status[wrong] = BAD_VALUE
    return parsed


@kernel
def mark_not_finite(data, starts, ends, texts, good):  # type: ignore[no-untyped-def]
    """Mark the texts ``NaN``, ``Infinity``, ``+Infinity`` and ``-Infinity``, which Spark reads as numbers."""
    for row in range(starts.size):
        length = ends[row] - starts[row]
        if texts[row] and (length == 3 or length == 8 or length == 9):
            start = np.int64(starts[row])
            word = _INFINITY
            if length == 3:
                word = _NAN
            elif length == 9:
                if byte_at(data, start) != 43 and byte_at(data, start) != 45:
                    continue
                start += 1
            same = True
            for k in range(word.size):
                if byte_at(data, start + k) != word[k]:
                    same = False
            good[row] = same


_NAN = np.frombuffer(b"NaN", np.uint8)
_INFINITY = np.frombuffer(b"Infinity", np.uint8)


def _with_seconds(index: ValueIndex, values: Values, parse: Callable[[Values], ParsedColumn]) -> ParsedColumn:
    """Timestamps of which some are whole numbers: seconds since 1970."""
    whole = values.kinds == INTEGER
    rest = Values(values.starts * ~whole, values.ends * ~whole, values.kinds * ~whole, values.numbers)
    others = parse(rest)
    numbers = parser_for(pa.int64())
    assert numbers is not None and others.status is not None
    found = numbers.parse(index.data, values.starts * whole, values.ends * whole, _RULES)
    seconds = found.array.fill_null(0).to_numpy()
    status = np.where(whole, VALID if found.status is None else found.status, others.status).astype(np.uint8)
    outside = (seconds < FIRST_MICROS // MICROS_PER_SECOND) | (seconds > LAST_MICROS // MICROS_PER_SECOND)
    status[whole & outside] = BAD_VALUE
    micros = np.where(outside, 0, seconds) * MICROS_PER_SECOND
    micros = np.where(whole, micros, others.array.view(pa.int64()).fill_null(0).to_numpy())
    array: pa.Array[Any] = pa.array(micros, mask=status != VALID).view(TIMESTAMP)
    return ParsedColumn(array, status)


def _copied(
    index: ValueIndex, node: Node, values: Values
) -> tuple[npt.NDArray[np.uint8], Ints, npt.NDArray[np.uint8], int]:
    """Texts without quotes and escapes, other values as written: bytes, offsets, outcomes, how many are not VALID."""
    rows = values.starts.size
    out = np.empty(int(np.subtract(values.ends, values.starts, dtype=np.int64).sum()) + SLACK, np.uint8)
    offsets = np.empty(rows + 1, np.int32)
    status = np.empty(rows, np.uint8)
    failures = copy_values(
        index.data, values.starts, values.ends, values.kinds, index.has_escapes(node), out, offsets, status
    )
    out.flags.writeable = False
    return out, offsets, status, failures


def _text_array(
    type_: pa.DataType, out: Any, offsets: Ints, status: npt.NDArray[np.uint8], failures: int
) -> ParsedColumn:
    validity = _validity(status == VALID) if failures else None
    buffers = [validity, pa.py_buffer(offsets.data), pa.py_buffer(out[: offsets[-1]].data)]
    array: pa.Array[Any] = pa.Array.from_buffers(type_, status.size, buffers, failures)
    return ParsedColumn(array, status if failures else None)


def _parse_texts(index: ValueIndex, node: Node, values: Values) -> ParsedColumn:
    return _text_array(pa.string(), *_copied(index, node, values))


def _parse_binary(index: ValueIndex, node: Node, values: Values) -> ParsedColumn:
    out, offsets, status, _ = _copied(index, node, values)
    status[(values.kinds != TEXT) & (values.kinds > NULL)] = BAD_VALUE
    status[status > NULL_FIELD] = BAD_VALUE
    decoded, decoded_offsets = np.empty(out.size, np.uint8), np.empty_like(offsets)
    failures = decode_base64(out, offsets, decoded, decoded_offsets, status)
    return _text_array(pa.binary(), decoded, decoded_offsets, status, failures)
