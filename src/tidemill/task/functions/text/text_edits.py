"""Texts made of texts and cut out of texts, over the buffers of columns: every argument may be a column."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa

from tidemill.task.expressions import Call
from tidemill.task.functions.columns.compute import Array, pc
from tidemill.task.functions.columns.registry import Value, as_array
from tidemill.task.functions.columns.text_buffers import check_rows, cut, longs, make_texts, of_columns, texts
from tidemill.task.functions.kernels import cut as cut_kernels
from tidemill.task.functions.kernels import edit as edit_kernels
from tidemill.task.functions.text.text_positions import substring


@of_columns("replace")
def _replace(call: Call, args: list[Value], rows: int) -> Value:
    text, part, by = (texts(arg, rows) for arg in args)
    valid = text.valid & part.valid & by.valid
    return make_texts(
        call.type, valid, lambda ends, room: edit_kernels.replace(*text.parts, *part.parts, *by.parts, ends, room)
    )


@of_columns("translate")
def _translate(call: Call, args: list[Value], rows: int) -> Value:
    text, source, target = (texts(arg, rows) for arg in args)
    valid = text.valid & source.valid & target.valid
    return make_texts(
        call.type,
        valid,
        lambda ends, room: edit_kernels.translate(*text.parts, *source.parts, *target.parts, ends, room),
    )


def _trim(call: Call, args: list[Value], rows: int) -> Value:
    """``args`` are text and characters."""
    text, letters = (texts(arg, rows) for arg in args)
    left, right = call.function != "rtrim", call.function != "ltrim"
    return cut(
        call.type,
        text,
        text.valid & letters.valid,
        lambda first, last: cut_kernels.trim(*text.parts, *letters.parts, left, right, first, last),
    )


of_columns("trim", sql=("trim", "btrim", "trim(BOTH x FROM s)"))(_trim)
of_columns("ltrim", sql=("ltrim", "trim(LEADING x FROM s)"))(_trim)
of_columns("rtrim", sql=("rtrim", "trim(TRAILING x FROM s)"))(_trim)


@of_columns("substring_index")
def _substring_index(call: Call, args: list[Value], rows: int) -> Value:
    """``args`` are text, delimiter and count."""
    text, delimiter = (texts(arg, rows) for arg in args[:2])
    count, known = longs(args[2], rows)
    return cut(
        call.type,
        text,
        text.valid & delimiter.valid & known,
        lambda first, last: cut_kernels.substring_index(*text.parts, *delimiter.parts, count, first, last),
    )


@of_columns("split_part", fails=True)
def _split_part(call: Call, args: list[Value], rows: int) -> Value:
    """``args`` are text, delimiter and the number of the part."""
    text, delimiter = (texts(arg, rows) for arg in args[:2])
    number, known = longs(args[2], rows)
    valid = text.valid & delimiter.valid & known
    check_rows(call, args, valid & (number == 0), "the number of a part must not be 0")
    return cut(
        call.type,
        text,
        valid,
        lambda first, last: cut_kernels.split_part(*text.parts, *delimiter.parts, number, first, last),
    )


def _pad(call: Call, args: list[Value], rows: int) -> Value:
    """``args`` are text, width and padding; of bytes the width is in bytes."""
    text, by = texts(args[0], rows), texts(args[2], rows)
    size, known = longs(args[1], rows)
    left, binary = call.function == "lpad", pa.types.is_binary(call.type)
    return make_texts(
        call.type,
        text.valid & by.valid & known,
        lambda ends, room: edit_kernels.pad(*text.parts, size, *by.parts, left, binary, ends, room),
    )


of_columns("lpad")(_pad)
of_columns("rpad")(_pad)


@of_columns("overlay")
def _overlay(call: Call, args: list[Value], rows: int) -> Value:
    """``by`` in place of ``length`` characters from ``position``; a negative length means that of ``by``."""
    text, by, position, length = (as_array(arg, rows) for arg in args)
    size = pc.binary_length if pa.types.is_binary(call.type) else pc.utf8_length
    # As 64-bit numbers, which do not overflow
    place, given = position.cast(pa.int64()), pc.if_else(pc.less(length, 0), size(by), length)
    head = substring(text, pa.scalar(1), pc.subtract(place, 1))
    tail = substring(text, pc.add(place, given), pa.scalar(2**40))
    return pc.binary_join_element_wise(head, by, tail, pa.scalar(b"" if call.type == pa.binary() else "", call.type))


@of_columns("quote")
def _quote(call: Call, args: list[Value], rows: int) -> Value:
    inner = pc.replace_substring(as_array(args[0], rows), "'", "\\'")
    return pc.binary_join_element_wise("'", inner, "'", "")


@of_columns("reverse_bytes", sql=("reverse",))
def _reverse_bytes(call: Call, args: list[Value], rows: int) -> Value:
    return pc.binary_reverse(as_array(args[0], rows))


@of_columns("soundex")
def _soundex(call: Call, args: list[Value], rows: int) -> Value:
    return _changed(call, args, rows, edit_kernels.soundex)


def capitalised(array: Array) -> Array:
    """ASCII texts with an upper-case letter after every blank."""
    text = texts(array, len(array))
    return make_texts(pa.string(), text.valid, lambda ends, room: edit_kernels.capitalise(*text.parts, ends, room))


def _changed(call: Call, args: list[Value], rows: int, kernel: Callable[..., None]) -> Array:
    text = texts(args[0], rows)
    return make_texts(call.type, text.valid, lambda ends, room: kernel(*text.parts, ends, room))
