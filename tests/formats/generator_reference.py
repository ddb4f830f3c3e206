"""Generated values, one at a time: what the columns of ``columns.py`` are tested against."""

from __future__ import annotations

import datetime
import hashlib
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa

from tidemill.formats.generator.settings import Shape

GOLDEN = 0x9E3779B97F4A7C15
NULLS = 0xA0761D6478BD642F
ALPHABET = b"abcdefghijklmnopqrstuvwxyz234567"
BITS, LETTERS = 5, 12
"""Of a letter, and letters of a word."""

MASK = (1 << 64) - 1


def mix(word: int) -> int:
    """The finaliser of SplitMix64 (Steele, Lea and Flood, 2014)."""
    word = ((word ^ (word >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    word = ((word ^ (word >> 27)) * 0x94D049BB133111EB) & MASK
    return word ^ (word >> 31)


def key_of(seed: int, name: str) -> int:
    """The number that stands for a column, or a part of one."""
    digest = hashlib.blake2b(name.encode(), digest_size=8).digest()
    return mix((seed & MASK) ^ int.from_bytes(digest, "little"))


def word_at(key: int, row: int, number: int = 0) -> int:
    """64 random bits of a row; it has as many of them as somebody wants."""
    return mix((mix((key + row * GOLDEN) & MASK) + number * GOLDEN) & MASK)


def null_below(shape: Shape) -> int:
    """A row is NULL when its word for that is less."""
    return int(shape.null_rate * (1 << 64))


def value_of(shape: Shape, seed: int, row: int) -> Any:
    """The value of a row, as Arrow gives it to Python."""
    key = key_of(seed, shape.name)
    if pa.types.is_null(shape.type) or word_at(key ^ NULLS, row) < null_below(shape):
        return None
    if pa.types.is_struct(shape.type):
        fields = zip(shape.type, shape.parts, strict=True)
        return {field.name: value_of(part, seed, row) for field, part in fields}
    if shape.parts:
        values = [value_of(shape.parts[0], seed, row * shape.length + i) for i in range(shape.length)]
        if pa.types.is_list(shape.type):
            return values
        text = shape.type.key_type == pa.string()
        return [(str(i) if text else i, value) for i, value in enumerate(values)]
    if shape.sequence:
        return _in_python(shape.type, shape.least + _in_sequence(shape, row))
    word = word_at(key, row)
    if pa.types.is_boolean(shape.type):
        return word >> 63 == 1
    if shape.type in (pa.string(), pa.binary()):
        return _text(shape, key, row)
    if pa.types.is_floating(shape.type):
        number = shape.least + (word >> 11) * 2.0**-53 * (shape.most - shape.least)
        return float(np.float32(number)) if shape.type == pa.float32() else number
    count = min(shape.most - shape.least, MASK - 1)
    step = max((shape.most - shape.least) // count, 1) if count else 1
    return _in_python(shape.type, shape.least + step * (word % (count + 1)))


def _in_sequence(shape: Shape, row: int) -> int:
    if pa.types.is_decimal(shape.type):
        return row * int(10**shape.type.scale)
    count = row % shape.wrap if shape.wrap else row
    return int(count * shape.step) if shape.step else count


def _text(shape: Shape, key: int, row: int) -> str | bytes:
    if shape.type == pa.binary():
        words = [word_at(key, row, i).to_bytes(8, "little") for i in range(-(-shape.length // 8))]
        return b"".join(words)[: shape.length]
    letters = []
    for i in range(shape.length):
        word = word_at(key, row, i // LETTERS) >> i % LETTERS * BITS
        letters.append(chr(ALPHABET[word & (1 << BITS) - 1]))
    return "".join(letters)


def _in_python(type_: pa.DataType, number: int) -> Any:
    if type_ == pa.string():
        return str(_wrapped(number, 64))
    if pa.types.is_decimal(type_):
        return Decimal(f"{number}e{-type_.scale}")
    if type_ == pa.date32():
        return datetime.date(1970, 1, 1) + datetime.timedelta(number)
    if pa.types.is_timestamp(type_):
        zone = None if type_.tz is None else datetime.UTC
        return datetime.datetime(1970, 1, 1, tzinfo=zone) + datetime.timedelta(microseconds=number)
    if pa.types.is_floating(type_):
        return float(np.float32(number)) if type_ == pa.float32() else float(number)
    return _wrapped(number, type_.bit_width)


def _wrapped(number: int, bits: int) -> int:
    return (number + (1 << bits - 1)) % (1 << bits) - (1 << bits - 1)
