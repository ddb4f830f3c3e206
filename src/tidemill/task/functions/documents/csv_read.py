"""``from_csv``: texts of one record as structs, column by column."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from tidemill.errors import EvaluationError
from tidemill.task.expressions import Call
from tidemill.task.functions.columns import growth
from tidemill.task.functions.columns.compute import Array, fields_of, null_unless, null_where, pc
from tidemill.task.functions.columns.lists import offsets_of
from tidemill.task.functions.columns.numpy_values import Bools, Bytes, Longs, text_bytes, validity
from tidemill.task.functions.columns.registry import Value, as_array, function, try_cast
from tidemill.task.functions.documents.csv_records import split_records
from tidemill.task.functions.documents.json_texts import text_column
from tidemill.task.functions.times.time_formats import TimeFormats, formats_of, read_times

_QUOTE, _ESCAPE = ord('"'), ord("\\")
_LINE_END = r"(?:\r?\n|\r)\z"
_WHOLE = r"^[+-]?[0-9]+$"
_NAMED = r"^[\x00-\x20]*[+-]?[A-Za-z]"
_INFINITIES = {"Inf": "inf", "-Inf": "-inf"}
_JAVA_NAMED = r"^[\x00-\x20]*[+-]?(?:NaN|Infinity)[\x00-\x20]*$"


@function("from_csv", fails=lambda call: call.option("mode") == "FAILFAST", size=growth.fields)
def _from_csv(call: Call, args: list[Value], rows: int) -> Value:
    """A struct of the fields; a field that its type cannot hold is NULL, and its text is malformed."""
    texts = as_array(args[0], rows)
    names, corrupt, formats = [f.name for f in fields_of(call.type)], call.option("corrupt"), formats_of(call)
    wanted = [f for f in fields_of(call.type) if f.name != corrupt]
    data, offsets = text_bytes(texts)
    out = np.empty(2 * int(offsets[-1] - offsets[0]) + 2 * rows, np.uint8)
    starts, ends = np.zeros((2, rows * len(wanted)), np.int64)
    marks = np.array([ord(str(call.option("sep"))), _QUOTE, _ESCAPE], np.int64)
    counts = split_records(offsets, data, marks, out, starts, ends)
    present, empty = validity(texts), offsets[1:] == offsets[:-1]
    malformed = present & (counts != len(wanted))
    columns: dict[str, Array] = {}
    for position, field in enumerate(wanted):
        found = _texts(out, starts[position :: len(wanted)], ends[position :: len(wanted)], counts > position)
        found = null_where(pc.equal(found, str(call.option("null", ""))), found)
        columns[field.name] = _values(found, field.type, formats)
        malformed |= present & validity(found) & ~validity(columns[field.name])
    if call.option("mode") == "FAILFAST" and malformed.any():
        raise EvaluationError(
            "TM3004",
            "a text is not CSV of the columns that from_csv expects",
            got=repr(texts[int(np.flatnonzero(malformed)[0])].as_py()),
            hint="mode PERMISSIVE gives NULL for what is not",
        )
    if corrupt is not None:
        shown = pc.replace_substring_regex(texts, _LINE_END, "")
        columns[str(corrupt)] = null_unless(pa.array(malformed & ~empty), shown)
    mask = None if present.all() else pa.array(~present)
    return pa.StructArray.from_arrays([columns[name] for name in names], fields=fields_of(call.type), mask=mask)


def _texts(out: Bytes, starts: Longs, ends: Longs, present: Bools) -> Array:
    present = present & (ends >= starts)
    lengths = np.where(present, ends - starts, 0)
    offsets = offsets_of(lengths)
    source = np.arange(int(offsets[-1])) + np.repeat(starts - offsets[:-1], lengths)
    return text_column(out[source], offsets, ~present)


def _values(texts: Array, type_: pa.DataType, formats: TimeFormats) -> Array:
    """Texts as a type, NULL for those that it cannot hold."""
    none = pa.scalar(None, pa.string())
    if pa.types.is_string(type_):
        return texts
    if pa.types.is_boolean(type_):
        lower = pc.utf8_lower(texts)
        known = pc.is_in(lower, value_set=pa.array(["true", "false"]))
        return null_unless(known, pc.equal(lower, "true"))
    if pa.types.is_integer(type_):
        return try_cast(pc.if_else(pc.match_substring_regex(texts, _WHOLE), texts, none), type_)
    if pa.types.is_floating(type_):
        other = pc.and_(
            pc.match_substring_regex(texts, _NAMED), pc.invert(pc.match_substring_regex(texts, _JAVA_NAMED))
        )
        numbers = pc.if_else(other, none, pc.replace_substring_regex(texts, r"[+-](NaN)", r"\1"))
        for name, text in _INFINITIES.items():
            numbers = pc.if_else(pc.equal(texts, name), text, numbers)
        return try_cast(numbers, type_)
    if pa.types.is_decimal(type_):
        written = pc.replace_substring(texts, ",", "")
        return try_cast(pc.if_else(pc.match_substring_regex(written, r"\s"), none, written), type_)
    return read_times(texts, type_, formats)
