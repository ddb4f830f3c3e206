"""The types of JSON values, merged as Spark's ``JsonInferSchema`` merges them."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

import numpy as np
import pyarrow as pa

from tidemill.formats.text.line_ends import NO_BYTE
from tidemill.formats.types.naming import spelling
from tidemill.formats.values.columns.columns import parser_for
from tidemill.formats.values.columns.time_options import time_patterns
from tidemill.formats.values.field_text import VALID, TextRules
from tidemill.schema import TIMESTAMP

_MOST_DIGITS = 38
_LONG_DIGITS = 20
"""Digits of the decimal that Spark takes a BIGINT for."""


class _Kind(Enum):
    NULL = "null"
    BOOLEAN = "boolean"
    LONG = "long"
    DOUBLE = "double"
    STRING = "string"
    TIMESTAMP = "timestamp"


@dataclass(frozen=True)
class _Large:
    """An integer beyond BIGINT."""

    digits: int


class _Fields(tuple[Any, ...]):
    """An object: pairs of a name and a shape."""


class _Elements(frozenset[Any]):
    """An array: the shapes of its elements."""


def _can_be_named(name: str) -> bool:
    """Whether a key can be the name of a column: half of a surrogate pair is no character."""
    return not any("\ud800" <= c <= "\udfff" for c in name)


@dataclass
class Seen:
    """What was seen of the values in one place.

    ``kinds`` are those of values without parts; ``digits`` the most of integers beyond BIGINT. ``fields`` are those of
    objects by their spelling, with ``counts``; ``elements`` what arrays hold.
    """

    kinds: set[_Kind] = field(default_factory=set)
    digits: int = 0
    objects: bool = False
    counts: Counter[str] = field(default_factory=Counter)
    fields: dict[str, Seen] = field(default_factory=dict)
    elements: Seen | None = None

    def add(self, shape: Any, times: int = 1) -> None:
        """Note a shape that occurs so many times."""
        if isinstance(shape, _Fields):
            self.objects = True
            for name, below in shape:
                if not _can_be_named(name):
                    continue
                self.counts[name] += times
                self.fields.setdefault(name, Seen()).add(below, times)
        elif isinstance(shape, _Elements):
            self.elements = self.elements or Seen()
            for below in shape:
                self.elements.add(below, times)
        elif isinstance(shape, _Large):
            self.digits = max(self.digits, shape.digits)
        elif shape is not _Kind.NULL:
            self.kinds.add(shape)

    def merge(self, other: Seen) -> None:
        """Note all that another has noted."""
        self.kinds |= other.kinds
        self.digits = max(self.digits, other.digits)
        self.objects |= other.objects
        self.counts += other.counts
        for name, below in other.fields.items():
            self.fields.setdefault(name, Seen()).merge(below)
        if other.elements is not None:
            self.elements = self.elements or Seen()
            self.elements.merge(other.elements)

    def type(self) -> pa.DataType | None:
        """The type that holds all of it; None for objects without any field, which Spark leaves out."""
        numbers = self.kinds & {_Kind.LONG, _Kind.DOUBLE}
        groups = [self.objects, self.elements is not None, bool(numbers or self.digits)]
        others = self.kinds - numbers
        if sum(groups) + len(others) > 1:
            return pa.string()
        if self.objects:
            fields = self.columns()
            return pa.struct(fields) if fields else None
        if self.elements is not None:
            below = self.elements.type()
            return None if below is None else pa.list_(below)
        if numbers or self.digits:
            return self._number()
        return _TYPES[next(iter(others))] if others else pa.string()

    def _number(self) -> pa.DataType:
        if _Kind.DOUBLE in self.kinds:
            return pa.float64()
        if not self.digits:
            return pa.int64()
        digits = max(self.digits, _LONG_DIGITS) if _Kind.LONG in self.kinds else self.digits
        return pa.decimal128(digits, 0) if digits <= _MOST_DIGITS else pa.float64()

    def columns(self) -> list[pa.Field[Any]]:
        """The fields of the objects in the order of their names, those that differ in case only as one."""
        by_name: dict[str, list[str]] = {}
        for name in self.fields:
            by_name.setdefault(name.lower(), []).append(name)
        found = []
        for spellings in by_name.values():
            one = Seen()
            for name in spellings:
                one.merge(self.fields[name])
            type_ = one.type()
            if type_ is not None:
                found.append(pa.field(spelling({name: self.counts[name] for name in spellings}), type_))
        return sorted(found, key=lambda f: f.name.encode("utf-16-be", "surrogatepass"))


_TYPES: dict[_Kind, pa.DataType] = {_Kind.BOOLEAN: pa.bool_(), _Kind.STRING: pa.string(), _Kind.TIMESTAMP: TIMESTAMP}


DEEPEST = 200
"""So many objects and arrays within one another have a type; what lies deeper is STRING, which holds it as written."""

_MARK = re.compile(rb'"(?:[^"\\]|\\.)*"|[\[\]{}]')


def without_depths(record: bytes, deepest: int = DEEPEST) -> bytes:
    """A valid record with a text in the place of each object or array that lies too deep."""
    if record.count(b"{") + record.count(b"[") <= deepest:
        return record
    parts = []
    depth = begin = 0
    for match in _MARK.finditer(record):
        if match[0] in (b"{", b"["):
            depth += 1
            if depth == deepest + 1:
                parts.append(record[begin : match.start()] + b'"deep"')
        elif match[0] in (b"}", b"]"):
            if depth == deepest + 1:
                begin = match.end()
            depth -= 1
    return b"".join(parts) + record[begin:]


def seen_of(rows: Iterable[bytes], timestamps: bool = False, pattern: str | None = None) -> Seen:
    """What records, each one JSON object in UTF-8, hold; bytes that are no UTF-8 count as some text, and so does what
    lies too deep.

    Parameters
    ----------
    timestamps : bool
        Texts that are timestamps are TIMESTAMP, by ``pattern`` if it is given; else STRING as all others.
    """
    shapes: Counter[Any] = Counter()
    rows = list(rows)
    moments = _timestamps_of(rows, pattern) if timestamps else frozenset()

    def shape(value: Any) -> Any:
        if value is None:
            return _Kind.NULL
        if isinstance(value, str):
            if not value:
                return _Kind.NULL
            return _Kind.TIMESTAMP if value in moments else _Kind.STRING
        if isinstance(value, bool):
            return _Kind.BOOLEAN
        if isinstance(value, list):
            return _Elements(shape(v) for v in value)
        return value

    def fields(pairs: list[tuple[str, Any]]) -> _Fields:
        return _Fields((name, shape(value)) for name, value in dict(pairs).items())

    decode = json.JSONDecoder(
        object_pairs_hook=fields, parse_int=_integer, parse_float=_double, parse_constant=_double
    ).decode
    for row in rows:
        shapes[decode(without_depths(row).decode("utf-8", "replace"))] += 1
    seen = Seen()
    for found, times in shapes.items():
        seen.add(found, times)
    return seen


def _integer(text: str) -> Any:
    digits = len(text.lstrip("-"))
    if digits < 19 or -(1 << 63) <= int(text[:40]) < 1 << 63:
        return _Kind.LONG
    return _Large(digits) if digits <= _MOST_DIGITS else _Kind.DOUBLE


def _double(text: str) -> Any:
    return _Kind.DOUBLE


def _timestamps_of(rows: list[bytes], pattern: str | None) -> frozenset[str]:
    """All texts in some records that are timestamps."""
    texts: set[str] = set()

    def collect(value: Any) -> None:
        if isinstance(value, str):
            texts.add(value)
        elif isinstance(value, list):
            for part in value:
                collect(part)

    def fields(pairs: list[tuple[str, Any]]) -> None:
        for _, value in pairs:
            collect(value)

    decode = json.JSONDecoder(object_pairs_hook=fields, parse_int=_integer).decode
    for row in rows:
        decode(without_depths(row).decode("utf-8", "replace"))
    written = [text.encode("utf-8", "surrogatepass") for text in texts]
    ends = np.cumsum([0, *map(len, written)]).astype(np.int32)
    parser = parser_for(TIMESTAMP, time_patterns({} if pattern is None else {"timestampformat": pattern}))
    assert parser is not None
    data = np.frombuffer(b"".join(written), np.uint8)
    parsed = parser.parse(data, ends[:-1].copy(), ends[1:].copy(), TextRules(NO_BYTE, 0, np.empty(0, np.uint8)))
    found = [parsed.status is None or parsed.status[i] == VALID for i in range(len(written))]
    return frozenset(text for text, is_one in zip(texts, found, strict=True) if is_one)
