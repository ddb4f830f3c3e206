"""``format_number`` and ``format_string`` over columns.

Numbers of up to 19 digits are laid out by a kernel. Others, and rare conversions, are printed one distinct value after
the other.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidemill.task.expressions import Call
from tidemill.task.functions.columns.by_value import kernel_of, map_values
from tidemill.task.functions.columns.compute import Array, pc
from tidemill.task.functions.columns.numpy_values import Bools, Longs, to_numpy, validity, words_of
from tidemill.task.functions.columns.registry import Value, as_array, function
from tidemill.task.functions.columns.text_buffers import longs, make_texts, of_columns
from tidemill.task.functions.kernels import number as kernels
from tidemill.task.functions.numbers.printing import Piece, number_layout, number_text, pieces, printed

_DIGITS = 18
"""Decimals of so many digits have 64 bits."""
_Words = npt.NDArray[np.uint64]


@of_columns("format_number")
def _format_number(call: Call, args: list[Value], rows: int) -> Value:
    """``args`` are a number, and how many digits are behind the point or a pattern."""
    value = as_array(args[0], rows)
    if pa.types.is_string(args[1].type):
        if not (isinstance(args[1], pa.Scalar) and args[1].is_valid):
            return kernel_of(number_text)(call, args, rows)
        group, least, *bounds = number_layout(args[1].as_py())
        fewest, most = (np.broadcast_to(np.int64(n), rows) for n in bounds)
        known: Bools = np.ones(rows, np.bool_)
    else:
        group, least = 3, 1
        fewest, known = longs(args[1], rows)
        most, known = fewest, known & (fewest >= 0)
    numbers, negative, scale, good = _scaled(value, rows, most, half_up=False)
    valid = validity(value) & known & good
    result = make_texts(
        call.type,
        valid,
        lambda ends, room: kernels.grouped_digits(numbers, negative, scale, group, least, fewest, ends, room),
    )
    rest = validity(value) & known & ~good
    if not rest.any():
        return result
    chosen = pa.array(rest)
    few = [arg if isinstance(arg, pa.Scalar) else arg.filter(chosen) for arg in (value, args[1])]
    return pc.replace_with_mask(result, chosen, kernel_of(number_text)(call, few, int(rest.sum())))


@function("format_string", sql=("format_string", "printf"), strict=False)
def _format_string(call: Call, args: list[Value], rows: int) -> Value:
    """Each piece of the format is a column of its own."""
    types = tuple(arg.type for arg in call.args)
    parts = [_column(piece, args, rows) for piece in pieces(str(call.option("format")), types)]
    return as_array(pc.binary_join_element_wise(pa.repeat("", rows), *parts, ""), rows)


def _column(piece: Piece, args: list[Value], rows: int) -> Value:
    conversion, flags, width, precision, number = piece
    if not conversion:
        return pa.scalar(flags)
    array = as_array(args[number], rows)
    if pa.types.is_null(array.type):
        return pa.scalar(printed(piece, None, array.type))
    plain = not flags.strip("-")
    shown = None
    if conversion == "d" and plain:
        shown = pc.fill_null(array.cast(pa.string()), "null")
    elif conversion == "s" and precision is None and pa.types.is_string(array.type):
        shown = pc.fill_null(array, "null")
    elif conversion == "f" and pa.types.is_float64(array.type) and not flags.strip("-,"):
        shown = _fixed(array, rows, 6 if precision is None else precision, "," in flags)
    # Java counts the halves of a character beyond the 65,536 first ones.
    if shown is None or (width and not pc.all(pc.string_is_ascii(shown)).as_py()):
        return map_values(array, lambda value: printed(piece, value, array.type))
    return shown if not width else (pc.utf8_rpad if "-" in flags else pc.utf8_lpad)(shown, width)


def _fixed(array: Array, rows: int, places: int, grouped: bool) -> Array:
    """Doubles with so many digits behind the point."""
    most = np.broadcast_to(np.int64(places), rows)
    numbers, negative, scale, good = _scaled(array, rows, most, half_up=True)
    group = 3 if grouped else 0
    result = make_texts(
        pa.string(),
        np.ones(rows, np.bool_),
        lambda ends, room: kernels.grouped_digits(numbers, negative, scale, group, 1, most, ends, room),
    )
    rest = pa.array(~(good & validity(array)))
    if not pc.any(rest).as_py():
        return result
    piece = ("f", "," if grouped else "", 0, places, 0)
    few = map_values(array.filter(rest), lambda value: printed(piece, value, array.type))
    return pc.replace_with_mask(result, rest, few)


def _scaled(value: Array, rows: int, most: Longs, *, half_up: bool) -> tuple[_Words, Bools, Longs, Bools]:
    """Integers, which are negative, their digits behind the point, at most ``most``, and which rows are right.

    Doubles are rounded half to even by what they are exactly, or half up by their shortest digits.
    """
    if pa.types.is_floating(value.type):
        floats = np.ascontiguousarray(to_numpy(value, rows))
        numbers, good = np.empty(rows, np.uint64), np.empty(rows, np.bool_)
        kernels.round_floats(floats, most, half_up, numbers, good)
        return numbers, np.signbit(floats), np.where(good, most, 0), good
    if pa.types.is_integer(value.type):
        return *_sizes(to_numpy(value, rows).astype(np.int64)), np.zeros(rows, np.int64), np.ones(rows, np.bool_)
    if value.type.precision > _DIGITS:
        nothing: npt.NDArray[Any] = np.zeros(rows, np.int64)
        return nothing.astype(np.uint64), nothing > 0, nothing, nothing > 0
    words = words_of(value.buffers()[1], np.int64)[2 * value.offset :: 2][:rows]
    numbers, negative = _sizes(np.where(validity(value), words, 0))
    scale = np.minimum(most.clip(0), value.type.scale)
    powers = np.uint64(10) ** (value.type.scale - scale).astype(np.uint64)
    whole, rest = numbers // powers, numbers % powers
    up = (2 * rest > powers) | ((2 * rest == powers) & (whole % np.uint64(2) == 1))
    return whole + up, negative, scale, np.ones(rows, np.bool_)


def _sizes(numbers: Longs) -> tuple[_Words, Bools]:
    return np.abs(numbers).view(np.uint64), numbers < 0
