"""Functions of text that go by Unicode's kinds of characters, and the validity of UTF-8."""

from __future__ import annotations

import unicodedata
from dataclasses import replace
from functools import cache

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidemill.task.expressions import Call
from tidemill.task.functions.columns.by_value import kernel_of
from tidemill.task.functions.columns.compute import Array, null_unless, pc
from tidemill.task.functions.columns.registry import Value, as_array, fails_unless_try, function
from tidemill.task.functions.columns.text_buffers import check_rows, make_texts, of_columns, texts
from tidemill.task.functions.kernels.edit import mask

_KINDS = {"Lu": 0, "Ll": 1, "Nd": 2}
_OTHER = 3


@cache
def _kinds(end: int) -> npt.NDArray[np.uint8]:
    """The kind of every code point below ``end``."""
    return np.array([_KINDS.get(unicodedata.category(chr(point)), _OTHER) for point in range(end)], np.uint8)


@function("mask", strict=False)
def _mask(call: Call, args: list[Value], rows: int) -> Value:
    """Each kind of character replaced by one; NULL keeps the characters of its kind. Only the text is a column."""
    array = as_array(args[0], rows)
    text, by = texts(array, rows), texts(pa.array([(as_array(arg, 1)[0].as_py() or "") for arg in args[1:]]), 4)
    kinds = _kinds(128 if pc.all(pc.string_is_ascii(array)).as_py() is not False else 0x110000)
    return make_texts(call.type, text.valid, lambda ends, room: mask(*text.parts, kinds, *by.parts, ends, room))


def as_text(array: Array) -> Array | None:
    """The bytes as text, or None when a row of them is not valid UTF-8."""
    try:
        return array.cast(pa.string())
    except pa.ArrowInvalid:
        return None


def replace_invalid(call: Call, array: Array) -> Array:
    """The bytes as text, with U+FFFD for bytes that are not valid UTF-8."""
    text = as_text(array)
    return kernel_of(_replaced)(call, [array], len(array)) if text is None else text


def _replaced(call: Call, content: bytes) -> str:
    return content.decode("utf-8", errors="replace")


def _text_of(call: Call, content: bytes) -> str | None:
    """The text, or NULL for what is not valid UTF-8."""
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError:
        return None


@of_columns("is_valid_utf8")
def _is_valid(call: Call, args: list[Value], rows: int) -> Value:
    array = as_array(args[0], rows)
    found = kernel_of(_text_of)(replace(call, type=pa.string()), [array], rows) if as_text(array) is None else array
    return null_unless(array.is_valid(), found.is_valid())


@of_columns("make_valid_utf8")
def _make_valid(call: Call, args: list[Value], rows: int) -> Value:
    return replace_invalid(call, as_array(args[0], rows))


@of_columns("validate_utf8", sql=("validate_utf8", "try_validate_utf8"), fails=fails_unless_try)
def _validate(call: Call, args: list[Value], rows: int) -> Value:
    array = as_array(args[0], rows)
    text = as_text(array)
    if text is not None:
        return text
    text = kernel_of(_text_of)(call, [array], rows)
    if fails_unless_try(call):
        wrong = pc.and_(array.is_valid(), text.is_null()).to_numpy(zero_copy_only=False)
        check_rows(call, [array], wrong, "the bytes are not valid UTF-8", hint="use try_validate_utf8 to get NULL")
    return text
