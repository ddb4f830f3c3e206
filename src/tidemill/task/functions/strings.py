"""Functions of text and bytes; lengths and positions count Unicode code points."""

from __future__ import annotations

import binascii
import hashlib
from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidemill.task.expressions import Call
from tidemill.task.functions import failures, growth
from tidemill.task.functions.registry import Kernel, Value, as_array, function


def map_distinct(array: pa.Array, change: Callable[[str], str | None]) -> pa.Array:
    """``change`` applied once to every distinct text: for rules that Arrow has no kernel for."""
    encoded = array.dictionary_encode()
    changed = pa.array([change(text) for text in encoded.dictionary.to_pylist()], pa.string())
    return changed.take(encoded.indices)


def _cased(ascii_kernel: Callable[[pa.Array], pa.Array], full: Callable[[str], str]) -> Kernel:
    """Only ASCII letters have one-to-one case pairs: other texts take the full mapping (ß to SS)."""

    def kernel(call: Call, args: list[Value], rows: int) -> Value:
        array = as_array(args[0], rows)
        result = ascii_kernel(array)
        other = pc.fill_null(pc.invert(pc.string_is_ascii(array)), False)
        if failures.any_true(other):
            result = pc.replace_with_mask(result, other, map_distinct(array.filter(other), full))
        return result

    return kernel


function("upper", sql=("upper", "ucase"))(_cased(pc.ascii_upper, str.upper))
function("lower", sql=("lower", "lcase"))(_cased(pc.ascii_lower, str.lower))


def _capital(text: str) -> str:
    return " ".join(word[:1].title() + word[1:].lower() for word in text.split(" "))


function("initcap")(_cased(lambda array: map_distinct(array, _capital), _capital))


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
    separator, *parts = (as_array(arg, rows) for arg in args)
    if not parts:
        return pc.if_else(separator.is_valid(), "", pa.scalar(None, pa.string()))
    # Not null_handling="skip": Arrow 26 then drops the rows in which every part is NULL.
    joined, begun = pc.fill_null(parts[0], ""), parts[0].is_valid()
    for part in parts[1:]:
        longer = pc.if_else(begun, pc.binary_join_element_wise(joined, part, separator), part)
        joined = pc.if_else(part.is_valid(), longer, joined)
        begun = pc.or_(begun, part.is_valid())
    return pc.if_else(separator.is_valid(), joined, pa.scalar(None, pa.string()))


_TRIMS = {
    "trim": (pc.utf8_trim, r"^[{0}]+|[{0}]+$"),
    "ltrim": (pc.utf8_ltrim, r"^[{0}]+"),
    "rtrim": (pc.utf8_rtrim, r"[{0}]+$"),
}


def _trim(call: Call, args: list[Value], rows: int) -> Value:
    characters = str(call.option("characters", " "))
    return _TRIMS[call.function][0](args[0], characters) if characters else args[0]


function("trim", sql=("trim", "btrim", "trim(BOTH x FROM s)"))(_trim)
function("ltrim", sql=("ltrim", "trim(LEADING x FROM s)"))(_trim)
function("rtrim", sql=("rtrim", "trim(TRAILING x FROM s)"))(_trim)


@function("replace", size=growth.replaced)
def _replace(call: Call, args: list[Value], rows: int) -> Value:
    search = str(call.option("search"))
    return pc.replace_substring(args[0], search, str(call.option("replacement"))) if search else args[0]


@function("translate")
def _translate(call: Call, args: list[Value], rows: int) -> Value:
    table: dict[int, str | None] = {}
    target = str(call.option("target"))
    for position, letter in enumerate(str(call.option("source"))):
        table.setdefault(ord(letter), target[position] if position < len(target) else None)
    return map_distinct(as_array(args[0], rows), lambda text: text.translate(table))


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
        encoded = array.dictionary_encode()
        numbers = encoded.dictionary.to_pylist()
        return pa.array([f"{n & (2**64 - 1):X}" for n in numbers], pa.string()).take(encoded.indices)
    encoded = array.cast(pa.binary()).dictionary_encode()
    texts = [binascii.hexlify(b).decode().upper() for b in encoded.dictionary.to_pylist()]
    return pa.array(texts, pa.string()).take(encoded.indices)


def _digest(call: Call, args: list[Value], rows: int) -> Value:
    name = str(call.option("algorithm"))
    encoded = as_array(args[0], rows).dictionary_encode()
    texts = [hashlib.new(name, b).hexdigest() for b in encoded.dictionary.to_pylist()]
    return pa.array(texts, pa.string()).take(encoded.indices)


function("digest", sql=("md5", "sha", "sha1", "sha2"))(_digest)


@function("split_part", fails=True)
def _split_part(call: Call, args: list[Value], rows: int) -> Value:
    """``args`` are text and part number; the delimiter is an option."""
    text, number = as_array(args[0], rows), as_array(args[1], rows)
    delimiter = str(call.option("delimiter"))
    zero = pc.and_(text.is_valid(), pc.fill_null(pc.equal(number, 0), False))
    if failures.any_true(zero):
        raise failures.failure("the number of a part must not be 0", zero, text)
    parts = pc.split_pattern(text, delimiter) if delimiter else pa.array([[t] for t in [""]] * 0)
    if not delimiter:
        first = pc.is_in(number, value_set=pa.array([1, -1], number.type))
        result = pc.if_else(first, text, "")
        return pc.if_else(pc.and_(text.is_valid(), number.is_valid()), result, pa.scalar(None, pa.string()))
    counts = pc.fill_null(pc.list_value_length(parts), 0).to_numpy(zero_copy_only=False).astype(np.int64)
    wanted = pc.fill_null(number, 0).to_numpy(zero_copy_only=False).astype(np.int64)
    index = np.where(wanted > 0, wanted - 1, counts + wanted)
    inside = (index >= 0) & (index < counts)
    starts = np.cumsum(counts) - counts
    found = parts.flatten().take(pa.array(np.where(inside, starts + index, 0), mask=~inside))
    present = pc.and_(text.is_valid(), number.is_valid())
    return pc.if_else(present, pc.fill_null(found, ""), pa.scalar(None, pa.string()))


@function("substring_index")
def _substring_index(call: Call, args: list[Value], rows: int) -> Value:
    array = as_array(args[0], rows)
    delimiter, count = str(call.option("delimiter")), int(call.option("count"))
    if not delimiter or count == 0:
        return pc.if_else(array.is_valid(), "", pa.scalar(None, pa.string()))

    def cut(text: str) -> str:
        # Occurrences are found from the left for positive counts and from the right for negative ones.
        if count > 0:
            return delimiter.join(text.split(delimiter)[:count])
        return delimiter.join(text.rsplit(delimiter, abs(count))[count:]) if delimiter in text else text

    return map_distinct(array, cut)
