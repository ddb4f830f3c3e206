"""Column lists and types in Spark's notation, read without Spark: ``a BIGINT NOT NULL, tags ARRAY<STRING>``.

Formats are opened without a Spark session, on workers too, and Spark's parser is in Java. General SQL parsers take
names of types that Spark does not have, and others for types that it has; what is read here is exactly what can be
stored.
"""

from __future__ import annotations

import re
from typing import Any, NoReturn

import pyarrow as pa

from tidemill.errors import TidemillError
from tidemill.schema import TIMESTAMP, TIMESTAMP_NTZ, Field, Schema

_TYPES: dict[str, pa.DataType] = {
    "boolean": pa.bool_(),
    "tinyint": pa.int8(),
    "byte": pa.int8(),
    "smallint": pa.int16(),
    "short": pa.int16(),
    "int": pa.int32(),
    "integer": pa.int32(),
    "bigint": pa.int64(),
    "long": pa.int64(),
    "float": pa.float32(),
    "real": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "timestamp": TIMESTAMP,
    "timestamp_ltz": TIMESTAMP,
    "timestamp_ntz": TIMESTAMP_NTZ,
}
_TOKEN = re.compile(r"\s*(`(?:[^`]|``)*`|'(?:[^'\\]|\\.|'')*'|\w+|[<>(),:]|\S)", re.DOTALL)
_DEPTH = 64


def parse_columns(text: str) -> Schema:
    """The columns of a list such as ``a BIGINT NOT NULL, b STRUCT<x: INT, y: ARRAY<DOUBLE>> COMMENT 'c'``.

    Raises
    ------
    TidemillError
        TM2020 for a text that is no column list, or a type that Tidemill does not store.
    """
    parser = _Parser(text)
    fields: list[Field] = []
    while not fields or parser.take(","):
        name = parser.name()
        type_ = parser.type()
        nullable = not parser.take("not")
        if not nullable:
            parser.expect("null")
        parser.comment()
        fields.append(Field(name, type_, nullable))
    parser.end()
    return Schema(tuple(fields))


def parse_type(text: str) -> pa.DataType:
    """The type of a name such as ``map<string, decimal(10, 2)>``. Errors as :func:`parse_columns`."""
    parser = _Parser(text)
    found = parser.type()
    parser.end()
    return found


class _Parser:
    """Recursive descent over tokens; keywords in any case."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = [(m.group(1), m.start(1)) for m in _TOKEN.finditer(text)]
        self._at = 0
        self._depth = 0

    def _next(self) -> str:
        return self._tokens[self._at][0] if self._at < len(self._tokens) else ""

    def fail(self, wanted: str) -> NoReturn:
        place = self._tokens[self._at][1] if self._at < len(self._tokens) else len(self._text)
        raise TidemillError(
            "TM2020",
            "this is no list of columns",
            got=f"{self._next() or 'the end'!r} at character {place + 1} of {self._text!r}",
            hint=f"expected {wanted}; write columns as Spark does: a BIGINT NOT NULL, b ARRAY<STRING>",
        )

    def take(self, word: str) -> bool:
        """Whether the next token is this one, in any case; then it is passed."""
        if self._next().lower() != word:
            return False
        self._at += 1
        return True

    def expect(self, word: str) -> None:
        if not self.take(word):
            self.fail(repr(word))

    def end(self) -> None:
        if self._at < len(self._tokens):
            self.fail("',' or the end")

    def name(self) -> str:
        token = self._next()
        if token.startswith("`") and len(token) > 1:
            self._at += 1
            return token[1:-1].replace("``", "`")
        if not re.fullmatch(r"\w+", token):
            self.fail("a name")
        self._at += 1
        return token

    def number(self) -> int:
        token = self._next()
        if not (token.isascii() and token.isdigit()):
            self.fail("a number")
        self._at += 1
        return int(token)

    def comment(self) -> None:
        if self.take("comment"):
            if not self._next().startswith("'"):
                self.fail("a text in single quotes")
            self._at += 1

    def type(self) -> pa.DataType:
        self._depth += 1
        if self._depth > _DEPTH:
            self.fail(f"at most {_DEPTH} types within each other")
        found = self._one_type()
        self._depth -= 1
        return found

    def _one_type(self) -> pa.DataType:
        word = self._next().lower()
        if word in _TYPES:
            self._at += 1
            return _TYPES[word]
        if self.take("decimal") or self.take("dec") or self.take("numeric"):
            return self._decimal()
        if self.take("char") or self.take("varchar"):
            self.expect("(")
            self.number()
            self.expect(")")
            return pa.string()
        if self.take("array"):
            self.expect("<")
            element = self.type()
            self.expect(">")
            return pa.list_(element)
        if self.take("map"):
            self.expect("<")
            key = self.type()
            self.expect(",")
            value = self.type()
            self.expect(">")
            return pa.map_(key, value)
        if not self.take("struct"):
            self.fail("a type")
        return self._struct()

    def _decimal(self) -> pa.DataType:
        precision, scale = 10, 0
        if self.take("("):
            precision = self.number()
            if self.take(","):
                scale = self.number()
            self.expect(")")
        if not 0 < precision <= 38 or scale > precision:
            self._at -= 1
            self.fail("a precision of 1 to 38, and no greater scale")
        return pa.decimal128(precision, scale)

    def _struct(self) -> pa.DataType:
        self.expect("<")
        fields: list[pa.Field[Any]] = []
        if self.take(">"):
            return pa.struct([])
        while not fields or self.take(","):
            name = self.name()
            self.take(":")
            fields.append(pa.field(name, self.type()))
            if self.take("not"):
                self.expect("null")
            self.comment()
        self.expect(">")
        return pa.struct(fields)
