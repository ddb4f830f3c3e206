"""``to_csv``: structs as one record of CSV, column by column."""

from __future__ import annotations

import pyarrow as pa

from tidemill.task.expressions import Call
from tidemill.task.functions.columns.compute import Array, columns_of, null_unless, pc
from tidemill.task.functions.columns.registry import Value, as_array, function
from tidemill.task.functions.documents.json_write import decimal_texts
from tidemill.task.functions.numbers.number_text import float_text
from tidemill.task.functions.times.time_formats import TimeFormats, formats_of, written_times

_BLANKS = "".join(map(chr, range(33)))


@function("to_csv")
def _to_csv(call: Call, args: list[Value], rows: int) -> Value:
    array, formats = as_array(args[0], rows), formats_of(call)
    separator, null = str(call.option("sep")), str(call.option("null", ""))
    fields = [
        pc.fill_null(_written(_texts(values, formats), separator, place == 0), null)
        for place, values in enumerate(columns_of(array))
    ]
    texts = pc.binary_join_element_wise(*fields, separator)
    return null_unless(array.is_valid(), texts)


def _texts(array: Array, formats: TimeFormats) -> Array:
    type_ = array.type
    if pa.types.is_floating(type_):
        return float_text(array)
    if pa.types.is_decimal(type_):
        return decimal_texts(array)
    if pa.types.is_date(type_) or pa.types.is_timestamp(type_):
        return written_times(array, formats)
    return array.cast(pa.string())


def _written(texts: Array, separator: str, first: bool) -> Array:
    """Texts without the blanks around them, in quotes where they would be read as something else."""
    behind = pc.utf8_ltrim(texts, _BLANKS)
    trimmed = pc.utf8_rtrim(behind, _BLANKS)
    quoted = pc.equal(trimmed, "")
    for mark in (separator, '"', "\n", "\r"):  # also where it is trimmed
        quoted = pc.or_(quoted, pc.match_substring(behind, mark))
    if first:  # read again, it would begin a comment
        quoted = pc.or_(quoted, pc.starts_with(texts, "#"))
    escaped = pc.replace_substring(pc.replace_substring(trimmed, "\\", "\\\\"), '"', '\\"')
    return pc.if_else(quoted, pc.binary_join_element_wise('"', escaped, '"', ""), trimmed)
