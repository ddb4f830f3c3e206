"""``from_json``: texts as structs, arrays and maps, column by column over the tokens.

As in Spark a value of another kind than its type is *wrong*: it is NULL, and the array or map that holds it is wrong,
too. A struct keeps its other fields; it, and whatever holds it, is then *partial*. A text with a wrong or partial value
is malformed: the column of corrupt records shows it, and FAILFAST refuses it.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from tidemill.errors import EvaluationError
from tidemill.formats.json_tokens.tokens import (
    ARRAY,
    FALSE,
    FRACTION,
    INTEGER,
    NULL,
    OBJECT,
    SINGLE_QUOTES,
    SPECIAL,
    SPECIAL_NUMBERS,
    TEXT,
    TRUE,
    Tokens,
)
from tidemill.kernels.columns import column
from tidemill.task.expressions import Call
from tidemill.task.functions.columns import growth
from tidemill.task.functions.columns.compute import (
    Array,
    columns_of,
    element_type,
    fields_of,
    null_unless,
    null_where,
    pc,
)
from tidemill.task.functions.columns.lists import Ints, Lists, entries_of, offsets_of, put_together
from tidemill.task.functions.columns.numpy_values import Bools, bitmap, validity
from tidemill.task.functions.columns.registry import Value, as_array, function, try_cast
from tidemill.task.functions.documents.json_paths import fields_called
from tidemill.task.functions.documents.json_texts import doubles, kinds_of, members, rendered, token_texts, tokens_of
from tidemill.task.functions.times.time_formats import TimeFormats, formats_of, read_times

_FROM_JSON = SINGLE_QUOTES | SPECIAL_NUMBERS
_INFINITIES = ("NaN", "+INF", "+Infinity", "Infinity", "INF", "-INF", "-Infinity")


class Read(NamedTuple):
    """Values, which of them are wrong, and which are partial."""

    array: Array
    wrong: Bools
    partial: Bools


@function("from_json", fails=lambda call: call.option("mode") == "FAILFAST", size=growth.fields)
def _from_json(call: Call, args: list[Value], rows: int) -> Value:
    texts = as_array(args[0], rows)
    present = validity(texts) & pc.not_equal(pc.utf8_trim_whitespace(texts), "").fill_null(False).to_numpy(
        zero_copy_only=False
    )
    tokens = tokens_of(texts, _FROM_JSON)
    type_, formats = call.type, formats_of(call)
    if pa.types.is_struct(type_):
        corrupt = call.option("corrupt")
        read = _root_struct(tokens, formats, type_, corrupt)
        malformed = present & (read.wrong | read.partial)
        array = _with_corrupt(read.array, type_, corrupt, texts, malformed, present)
    else:
        roots = np.where(kinds_of(tokens, tokens.roots) == NULL, -1, tokens.roots)
        read = _root_list(tokens, formats, type_, roots)
        malformed = present & (read.wrong | read.partial | (roots < 0))
        array = read.array
    if call.option("mode") == "FAILFAST" and malformed.any():
        raise EvaluationError(
            "TM3004",
            "a text is not JSON of the type that from_json expects",
            got=repr(texts[int(np.flatnonzero(malformed)[0])].as_py()),
            hint="mode PERMISSIVE gives NULL",
        )
    return array


def _root_struct(tokens: Tokens, formats: TimeFormats, type_: pa.DataType, corrupt: str | None) -> Read:
    wanted = pa.struct([f for f in fields_of(type_) if f.name != corrupt])
    return _read(tokens, formats, wanted, tokens.roots, root=True)


def _root_list(tokens: Tokens, formats: TimeFormats, type_: pa.DataType, roots: Ints) -> Read:
    """An object is read as an array of this one struct."""
    read = _read(tokens, formats, type_, roots)
    if not (pa.types.is_list(type_) and pa.types.is_struct(type_.value_type)):
        return read
    alone = np.flatnonzero(kinds_of(tokens, roots) == OBJECT)
    if not len(alone):
        return read
    one = _read(tokens, formats, type_.value_type, roots[alone])
    lists = put_together(type_, Lists(np.ones(len(alone), np.bool_), np.arange(len(alone) + 1), one.array))
    places = np.arange(len(roots))
    places[alone] = len(roots) + np.arange(len(alone))
    wrong, partial = read.wrong.copy(), read.partial.copy()
    wrong[alone], partial[alone] = one.wrong, one.partial
    return Read(pa.concat_arrays([read.array, lists]).take(column(places)), wrong, partial)


def _with_corrupt(
    array: Array, type_: pa.DataType, corrupt: str | None, texts: Array, malformed: Bools, present: Bools
) -> Array:
    """The structs with their column of corrupt records; NULL where there is no text."""
    fields = dict(zip([f.name for f in array.type], columns_of(array), strict=True))
    if corrupt is not None:
        fields[corrupt] = null_unless(pa.array(malformed), texts)
    columns = [fields[f.name] for f in fields_of(type_)]
    mask = None if present.all() else pa.array(~present)
    if not columns:
        return pa.StructArray.from_buffers(type_, len(texts), [bitmap(present)])
    return pa.StructArray.from_arrays(columns, fields=fields_of(type_), mask=mask)


def _read(tokens: Tokens, formats: TimeFormats, type_: pa.DataType, chosen: Ints, *, root: bool = False) -> Read:
    """Values as a type; -1 and JSON's null are NULL, but wrong at the root."""
    kinds = kinds_of(tokens, chosen)
    if pa.types.is_struct(type_):
        return _structs(tokens, formats, type_, chosen, kinds, root)
    if pa.types.is_list(type_) or pa.types.is_map(type_):
        return _lists(tokens, formats, type_, chosen, kinds)
    array = _leaves(tokens, formats, type_, chosen, kinds)
    wrong = (kinds >= 0) & (kinds != NULL) & ~validity(array)
    return Read(array, wrong, np.zeros(len(chosen), np.bool_))


def _structs(tokens: Tokens, formats: TimeFormats, type_: pa.DataType, chosen: Ints, kinds: Ints, root: bool) -> Read:
    inside = kinds == OBJECT
    wrong = ~inside if root else (kinds >= 0) & (kinds != NULL) & ~inside
    objects = np.where(inside, chosen, -1)
    partial = np.zeros(len(chosen), np.bool_)
    columns = []
    for field in fields_of(type_):
        array, malformed = _field(tokens, formats, field, objects)
        partial |= malformed
        columns.append(array)
    valid = np.ones(len(chosen), np.bool_) if root else inside
    if not columns:
        return Read(pa.StructArray.from_buffers(type_, len(chosen), [bitmap(valid)]), wrong, partial)
    mask = None if valid.all() else pa.array(~valid)
    return Read(pa.StructArray.from_arrays(columns, fields=fields_of(type_), mask=mask), wrong, partial)


def _field(tokens: Tokens, formats: TimeFormats, field: pa.Field[Any], objects: Ints) -> tuple[Array, Bools]:
    """A field of objects, and where it is malformed. Of repeated keys the last value that is not wrong counts."""
    found, counts = fields_called(tokens, objects, field.name, skip_nulls=False)
    read = _read(tokens, formats, field.type, found)
    array, malformed, open_ = read.array, read.wrong | read.partial, read.wrong
    again = np.flatnonzero(counts > 1)
    while len(again):
        found[again], counts[again] = fields_called(
            tokens, objects[again], field.name, skip_nulls=False, before=found[again]
        )
        earlier = _read(tokens, formats, field.type, found[again])
        places = np.arange(len(objects))
        places[again] = np.where(open_[again], len(objects) + np.arange(len(again)), again)
        array = pa.concat_arrays([array, earlier.array]).take(column(places))
        malformed[again] |= earlier.wrong | earlier.partial
        open_[again] &= earlier.wrong
        again = again[counts[again] > 1]
    return array, malformed


def _lists(tokens: Tokens, formats: TimeFormats, type_: pa.DataType, chosen: Ints, kinds: Ints) -> Read:
    is_map = pa.types.is_map(type_)
    inside = kinds == (OBJECT if is_map else ARRAY)
    wrong = (kinds >= 0) & (kinds != NULL) & ~inside
    counts, places = members(tokens, np.where(inside, chosen, -1))
    if is_map:
        counts //= 2
    inner = type_.item_type if pa.types.is_map(type_) else element_type(type_)
    read = _read(tokens, formats, inner, places[1::2] if is_map else places)
    owners = np.repeat(np.arange(len(chosen)), counts)
    wrong |= np.bincount(owners[read.wrong], minlength=len(chosen)) > 0
    partial = (np.bincount(owners[read.partial], minlength=len(chosen)) > 0) & ~wrong
    values = read.array
    if is_map:
        keys = rendered(tokens, places[::2], lenient=True)
        values = entries_of(keys, values)
    valid = inside & ~wrong
    kept = valid[owners]
    if not kept.all():
        values = values.filter(pa.array(kept))
    lengths = np.where(valid, counts, 0).astype(np.int64)
    return Read(put_together(type_, Lists(valid, offsets_of(lengths), values)), wrong, partial)


def _leaves(tokens: Tokens, formats: TimeFormats, type_: pa.DataType, chosen: Ints, kinds: Ints) -> Array:
    """Scalars, NULL where the token is of another kind or does not fit."""
    if pa.types.is_string(type_):
        return rendered(tokens, np.where(kinds == NULL, -1, chosen), lenient=True)
    if pa.types.is_boolean(type_):
        return column(kinds == TRUE, (kinds != TRUE) & (kinds != FALSE))
    if pa.types.is_integer(type_):
        return try_cast(token_texts(tokens, np.where(kinds == INTEGER, chosen, -1)), type_)
    texts = rendered(tokens, np.where(kinds == TEXT, chosen, -1), lenient=True)
    number = (kinds == INTEGER) | (kinds == FRACTION) | (kinds == SPECIAL)
    numbers = token_texts(tokens, np.where(number, chosen, -1))
    if pa.types.is_floating(type_):
        named = pc.is_in(texts, value_set=pa.array(_INFINITIES))
        special = null_unless(named, texts)
        numbers = pc.if_else(pc.equal(numbers, "-0"), "0", numbers)  # a whole number has no negative zero
        return doubles(pc.coalesce(numbers, special)).cast(type_)
    if pa.types.is_decimal(type_):
        numbers = null_where(pa.array(kinds == SPECIAL), numbers)
        written = pc.replace_substring(texts, ",", "")
        written = null_where(pc.match_substring_regex(written, r"\s"), written)
        return try_cast(pc.coalesce(numbers, written), type_)
    found = read_times(texts, type_, formats)
    if pa.types.is_date(type_) and formats.date is None:
        days = try_cast(pc.if_else(pc.match_substring_regex(texts, r"^[+-]?[0-9]+$"), texts, None), pa.int32())
        return pc.coalesce(found, days.cast(pa.date32()))
    if pa.types.is_timestamp(type_) and type_.tz:
        seconds = try_cast(token_texts(tokens, np.where(kinds == INTEGER, chosen, -1)), pa.int64())
        inside = pc.less_equal(pc.abs(seconds), 2**63 // 1_000_000)
        seconds = null_unless(inside, seconds)
        return pc.coalesce(found, pc.multiply(seconds, 1_000_000).cast(type_))
    return found
