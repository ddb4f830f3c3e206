"""Functions of text and bytes; lengths and positions count Unicode code points."""

from __future__ import annotations

import hashlib
from collections.abc import Callable

import numpy as np
import pyarrow as pa

from tidemill.task.expressions import Call
from tidemill.task.functions.columns import failures, growth
from tidemill.task.functions.columns.by_value import map_values
from tidemill.task.functions.columns.compute import Array, buffer, null_unless, pc
from tidemill.task.functions.columns.lists import keep, put_together, take_apart
from tidemill.task.functions.columns.numpy_values import bitmap, validity
from tidemill.task.functions.columns.registry import Kernel, Value, as_array, function
from tidemill.task.functions.columns.sizes import check_size
from tidemill.task.functions.columns.text_buffers import longs, make_texts, of_columns, texts
from tidemill.task.functions.kernels import digest as digest_kernels
from tidemill.task.functions.kernels.encoding import bit_digits, hexadecimal
from tidemill.task.functions.text.text_edits import capitalised


def _cased(ascii_kernel: Callable[[Array], Array], full: Callable[[str], str]) -> Kernel:
    """Only ASCII letters have one-to-one case pairs: other texts take the full mapping (ß to SS)."""

    def kernel(call: Call, args: list[Value], rows: int) -> Value:
        array = as_array(args[0], rows)
        result = ascii_kernel(array)
        other = pc.fill_null(pc.invert(pc.string_is_ascii(array)), False)
        if failures.any_true(other):
            result = pc.replace_with_mask(result, other, map_values(array.filter(other), full))
        return result

    return kernel


function("upper", sql=("upper", "ucase"))(_cased(pc.ascii_upper, str.upper))
function("lower", sql=("lower", "lcase"))(_cased(pc.ascii_lower, str.lower))


def _capital(text: str) -> str:
    return " ".join(word[:1].title() + word[1:].lower() for word in text.split(" "))


function("initcap")(_cased(capitalised, _capital))


@function("length", sql=("length", "char_length", "character_length", "len"))
def _length(call: Call, args: list[Value], rows: int) -> Value:
    array = as_array(args[0], rows)
    return (pc.binary_length if pa.types.is_binary(array.type) else pc.utf8_length)(array)


@function("octet_length")
def _octet_length(call: Call, args: list[Value], rows: int) -> Value:
    return pc.binary_length(args[0])


@function("bit_length")
def _bit_length(call: Call, args: list[Value], rows: int) -> Value:
    return pc.multiply(pc.binary_length(args[0]), pa.scalar(8, pa.int32()))


@function("concat", sql=("concat", "||"), size=growth.joined)
def _concat(call: Call, args: list[Value], rows: int) -> Value:
    empty = pa.scalar(b"" if pa.types.is_binary(call.type) else "", call.type)
    return pc.binary_join_element_wise(*args, empty)


@function("concat_ws", strict=False, size=growth.joined_by)
def _concat_ws(call: Call, args: list[Value], rows: int) -> Value:
    """``args`` are the separator and texts or arrays of texts, whose NULLs are left out."""
    separator, *parts = (as_array(arg, rows) for arg in args)
    if not parts:
        return pc.if_else(separator.is_valid(), "", pa.scalar(None, pa.string()))
    joined, begun = _one_text(parts[0], separator)
    # Not null_handling="skip": Arrow 26 then drops the rows in which every part is NULL.
    for part in parts[1:]:
        text, present = _one_text(part, separator)
        longer = pc.if_else(begun, pc.binary_join_element_wise(joined, text, separator), text)
        joined = pc.if_else(present, longer, joined)
        begun = pc.or_(begun, present)
    return null_unless(separator.is_valid(), joined)


def _one_text(part: Array, separator: Array) -> tuple[Array, Array]:
    """A part of ``concat_ws`` as one text, empty where there is none, and where there is one."""
    if pa.types.is_list(part.type):
        lists = take_apart(part, len(part))
        kept = keep(lists, validity(lists.values))
        part = pc.binary_join(put_together(pa.list_(pa.string()), kept), separator)
        return pc.fill_null(part, ""), pa.array(kept.lengths > 0)
    return pc.fill_null(part, ""), part.is_valid()


@function("repeat", size=growth.repeated)
def _repeat(call: Call, args: list[Value], rows: int) -> Value:
    texts, times = as_array(args[0], rows), pc.max_element_wise(as_array(args[1], rows), 0, skip_nulls=False)
    return pc.binary_repeat(texts, times)


@function("reverse")
def _reverse(call: Call, args: list[Value], rows: int) -> Value:
    return pc.utf8_reverse(args[0])


@function("ascii")
def _ascii(call: Call, args: list[Value], rows: int) -> Value:
    first = pc.utf8_slice_codeunits(as_array(args[0], rows), 0, 1)
    encoded = first.dictionary_encode()
    codes = pa.array([ord(text) if text else 0 for text in encoded.dictionary.to_pylist()], pa.int32())
    return codes.take(encoded.indices)


@function("chr", sql=("chr", "char"))
def _chr(call: Call, args: list[Value], rows: int) -> Value:
    numbers = as_array(args[0], rows)
    codes = pc.bit_wise_and(numbers, pa.scalar(255, pa.int64()))
    letters = pa.array([chr(code) for code in range(256)]).take(codes)
    return pc.if_else(pc.less(numbers, 0), "", letters)


@function("starts_with", sql=("startswith", "LIKE 'x%'"))
def _starts_with(call: Call, args: list[Value], rows: int) -> Value:
    return pc.starts_with(args[0], str(call.option("pattern")))


@function("ends_with", sql=("endswith", "LIKE '%x'"))
def _ends_with(call: Call, args: list[Value], rows: int) -> Value:
    return pc.ends_with(args[0], str(call.option("pattern")))


@function("contains", sql=("contains", "LIKE '%x%'"))
def _contains(call: Call, args: list[Value], rows: int) -> Value:
    return pc.match_substring(args[0], str(call.option("pattern")))


@function("hex")
def _hex(call: Call, args: list[Value], rows: int) -> Value:
    array = as_array(args[0], rows)
    if pa.types.is_integer(array.type):
        return _digits(array, 4)
    text = texts(array, rows)
    return make_texts(call.type, text.valid, lambda ends, room: hexadecimal(*text.parts, ends, room))


@of_columns("bin")
def _bin(call: Call, args: list[Value], rows: int) -> Value:
    return _digits(as_array(args[0], rows), 1)


def _digits(array: Array, bits: int) -> Array:
    numbers, valid = longs(array, len(array))
    return make_texts(pa.string(), valid, lambda ends, room: bit_digits(numbers, bits, ends, room))


_DIGESTS: dict[str, tuple[int, Callable[..., None]]] = {
    "md5": (32, digest_kernels.md5),
    "sha1": (40, digest_kernels.sha1),
    "sha224": (56, lambda raw, first, last, room: digest_kernels.sha256(raw, first, last, True, room)),
    "sha256": (64, lambda raw, first, last, room: digest_kernels.sha256(raw, first, last, False, room)),
}
"""Digits, and the kernel that writes them."""


def _digest(call: Call, args: list[Value], rows: int) -> Value:
    name, array = str(call.option("algorithm")), as_array(args[0], rows)
    if name not in _DIGESTS:
        return map_values(array, lambda b: None if b is None else hashlib.new(name, b).hexdigest())
    size, write = _DIGESTS[name]
    content = texts(array, rows)
    check_size(size * rows)
    room = np.empty(size * rows, np.uint8)
    write(*content.parts, room)
    ends = np.arange(rows + 1, dtype=np.int32) * np.int32(size)
    return pa.Array.from_buffers(call.type, rows, [bitmap(content.valid), buffer(ends), buffer(room)])


function("digest", sql=("md5", "sha", "sha1", "sha2"))(_digest)
