"""JSON files read in plain Python, byte by byte: the oracle of kernels, reader, modes and errors in tests."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
from tests.formats.value_reference import plain_value

from tidemill.formats.base import RowError
from tidemill.formats.json.options import parse_options
from tidemill.formats.rows.malformed import Mode
from tidemill.formats.text.line_ends import BYTE_ORDER_MARK
from tidemill.formats.values.columns.columns import parser_for
from tidemill.schema import TIMESTAMP, Schema

_SPACES = b" \t\r\n"
_WORD = re.compile(rb"[^\x00-\x20{}\[\]:,\"]*")
_NUMBER = re.compile(rb"-?(0|[1-9][0-9]*)(?P<rest>(\.[0-9]+)?([eE][+-]?[0-9]+)?)")
_WORDS = {b"null": "null", b"true": "bool", b"false": "bool", b"NaN": "special", b"Infinity": "special"}
_TEXT = re.compile(rb'"((?:[^"\\\x00-\x1f]|\\["\\/bfnrt]|\\u[0-9a-fA-F]{4})*)"')
_ESCAPE = re.compile(rb'\\(?:(["\\/bfnrt])|u([0-9a-fA-F]{4}))')
_SHORT = dict(zip(b'"\\/bfnrt', '"\\/\b\f\n\r\t', strict=True))
_NOT_FINITE = ("NaN", "Infinity", "+Infinity", "-Infinity")


class MalformedError(ValueError):
    """A record is no JSON object; its text is the reason."""


@dataclass(frozen=True)
class PlainJson:
    """A value: its kind, how it is written, and what it holds.

    ``kind`` is one of null, bool, int, fraction, special, text, object, array; ``held`` the text (None where it is
    not valid Unicode), the list of names and values, or the list of elements.
    """

    kind: str
    raw: bytes
    held: Any = None


def parse_record(data: bytes, max_depth: int) -> PlainJson:
    """The object that a record is. MalformedError when it is none, or nested too deep."""
    value, stop = _value(data, _skip(data, 0), max_depth, 0)
    if _skip(data, stop) != len(data) or value.kind != "object":
        raise MalformedError("bad_json")
    return value


def _skip(data: bytes, at: int) -> int:
    while at < len(data) and data[at] in _SPACES:
        at += 1
    return at


def _value(data: bytes, at: int, max_depth: int, depth: int) -> tuple[PlainJson, int]:
    first = data[at : at + 1]
    if depth == 0 and first != b"{":
        raise MalformedError("bad_json")
    if first == b'"':
        return _text(data, at)
    if first in (b"{", b"["):
        if depth == max_depth:
            raise MalformedError("too_deep")
        return _container(data, at, max_depth, depth)
    word = _WORD.match(data, at)
    assert word is not None
    raw = word[0]
    if number := _NUMBER.fullmatch(raw):
        return PlainJson("fraction" if number["rest"] else "int", raw), word.end()
    if raw == b"-Infinity" or raw in _WORDS:
        return PlainJson(_WORDS.get(raw, "special"), raw), word.end()
    raise MalformedError("bad_json")


def _container(data: bytes, at: int, max_depth: int, depth: int) -> tuple[PlainJson, int]:
    begin, is_object = at, data[at : at + 1] == b"{"
    close = b"}" if is_object else b"]"
    held: list[Any] = []
    at = _skip(data, at + 1)
    while data[at : at + 1] != close or held:
        name = None
        if is_object:
            name, at = _text(data, at)
            at = _skip(data, at)
            if data[at : at + 1] != b":":
                raise MalformedError("bad_json")
            at = _skip(data, at + 1)
        value, at = _value(data, at, max_depth, depth + 1)
        held.append((name, value) if is_object else value)
        at = _skip(data, at)
        if data[at : at + 1] == close:
            break
        if data[at : at + 1] != b",":
            raise MalformedError("bad_json")
        at = _skip(data, at + 1)
    return PlainJson("object" if is_object else "array", data[begin : at + 1], held), at + 1


def _text(data: bytes, at: int) -> tuple[PlainJson, int]:
    match = _TEXT.match(data, at)
    if match is None:
        raise MalformedError("bad_json")
    units = ""
    begin = 0
    inner = match[1]
    for escape in _ESCAPE.finditer(inner):
        units += inner[begin : escape.start()].decode("utf-8", "surrogateescape")
        units += _SHORT[escape[1][0]] if escape[1] else chr(int(escape[2], 16))
        begin = escape.end()
    units += inner[begin:].decode("utf-8", "surrogateescape")
    joined = re.sub("[\ud800-\udbff][\udc00-\udfff]", _pair, units)
    valid = not re.search("[\ud800-\udfff]", joined)
    return PlainJson("text", match[0], joined if valid else None), match.end()


def _pair(match: re.Match[str]) -> str:
    return match[0].encode("utf-16", "surrogatepass").decode("utf-16")


Wrong = list[tuple[tuple[int, ...], str]]


def value_of(value: PlainJson | None, type_: pa.DataType, patterns: Mapping[str, str], at: tuple[int, ...]) -> Any:
    """The value of a column, as ``as_py`` gives it, and what is wrong with it: where in the type, and the reason.

    Returns
    -------
    tuple of (value, list, bool)
        The last tells whether the value itself is malformed, and not only something in it.
    """
    if value is None or value.kind == "null":
        return None, [], False
    types = pa.types
    if types.is_struct(type_):
        if value.kind != "object":
            return None, [(at, "bad_struct")], True
        last = {name.held: held for name, held in value.held}
        parts = [value_of(last.get(f.name), f.type, patterns, (*at, i)) for i, f in enumerate(type_)]
        found = {f.name: part[0] for f, part in zip(type_, parts, strict=True)}
        return found, [w for part in parts for w in part[1]], False
    if types.is_list(type_):
        if value.kind != "array":
            return None, [(at, "bad_array")], True
        parts = [value_of(held, type_.value_type, patterns, (*at, 0)) for held in value.held]
        spoilt = any(part[2] for part in parts)
        return None if spoilt else [p[0] for p in parts], [w for part in parts for w in part[1]], spoilt
    if types.is_map(type_):
        if value.kind != "object":
            return None, [(at, "bad_map")], True
        names: Wrong = [((*at, 0), "bad_utf8") for name, _ in value.held if name.held is None]
        last = {name.held: held for name, held in value.held if name.held is not None}
        parts = [value_of(held, type_.item_type, patterns, (*at, 1)) for held in last.values()]
        parts += [value_of(held, type_.item_type, patterns, (*at, 1)) for name, held in value.held if name.held is None]
        spoilt = bool(names) or any(part[2] for part in parts)
        entries = {name: part[0] for name, part in zip(last, parts, strict=False)}
        return None if spoilt else list(entries.items()), [*names, *(w for part in parts for w in part[1])], spoilt
    try:
        return _leaf(value, type_, patterns), [], False
    except ValueError as error:
        return None, [(at, str(error))], True


def _leaf(value: PlainJson, type_: pa.DataType, patterns: Mapping[str, str]) -> Any:
    if type_ == pa.string():
        try:
            found = value.held if value.kind == "text" else value.raw.decode()
        except UnicodeDecodeError:
            found = None
        if found is None:
            raise ValueError("bad_utf8")
        return found
    if type_ == pa.binary():
        text = value.held if value.kind == "text" else None
        if text is None or not re.fullmatch("([A-Za-z0-9+/]{4})*([A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?", text):
            raise ValueError("bad_binary")
        return base64.b64decode(text)
    parser = parser_for(type_)
    assert parser is not None
    try:
        return plain_value(type_, _spelling(value, type_), patterns.get(str(type_)[:4]))
    except _Seconds as seconds:
        return seconds.moment
    except ValueError:
        raise ValueError(parser.bad_value) from None


class _Seconds(Exception):  # noqa: N818 - no error
    def __init__(self, moment: datetime) -> None:
        self.moment = moment


def _spelling(value: PlainJson, type_: pa.DataType) -> bytes:
    """What the parser of the type is given. ValueError for a kind that is none of the type's."""
    types = pa.types
    timed, text = types.is_temporal(type_), value.kind == "text"
    if text and value.held and (timed or types.is_decimal(type_) or types.is_floating(type_)):
        if types.is_floating(type_) and value.held not in _NOT_FINITE:
            raise ValueError(value.raw)
        return str(value.held).encode()
    if type_ == TIMESTAMP and value.kind == "int":
        try:
            raise _Seconds(datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=int(value.raw)))
        except OverflowError as error:
            raise ValueError(value.raw) from error
    if timed or text:
        raise ValueError(value.raw)
    return value.raw


@dataclass(frozen=True)
class PlainTable:
    """Values by row in schema order, the byte offset of each row, and all errors."""

    rows: tuple[tuple[Any, ...], ...]
    positions: tuple[int, ...]
    errors: tuple[RowError, ...]


def plain_lines(data: bytes) -> Iterator[tuple[int, bytes, bytes]]:
    """Position, text and raw bytes of each line that is not blank."""
    position = 0
    for line in data.split(b"\n"):
        text = line.removeprefix(BYTE_ORDER_MARK) if position == 0 else line
        if text.strip(b" \t\r"):
            yield position, text, line.removesuffix(b"\r")
        position += len(line) + 1


def plain_elements(data: bytes) -> tuple[list[tuple[int, bytes, bytes]], bool]:
    """The same of each record of a file of arrays, and whether the last array is closed."""
    found: list[tuple[int, bytes, bytes]] = []
    inside = due = quoted = escaped = False
    depth = 0
    begin = at = len(BYTE_ORDER_MARK) if data.startswith(BYTE_ORDER_MARK) else 0

    def end(stop: int, broken: bool = False) -> None:
        text = data[begin:stop]
        if text.strip(_SPACES) or broken:
            start = begin + len(text) - len(text.lstrip(_SPACES))
            # A byte that cannot stand where it stands is malformed whatever is around it.
            found.append((start, b"!" if broken else text, data[start:stop].removesuffix(b"\r")))

    while at < len(data):
        c = data[at : at + 1]
        quoted ^= c == b'"' and not escaped
        escaped = c == b"\\" and not escaped
        blank = not data[begin:at].strip(_SPACES)
        if not quoted and c in b"{}[],:":
            if depth == 0 and not inside:
                if c in b"{[":
                    end(at)
                    begin = at
                    depth = int(c == b"{")
                    inside, due = c == b"[", False
                    begin += inside
                else:
                    end(at + 1, broken=True)
                    begin = at + 1
            elif depth == 0 and c in b",]":
                end(at, broken=blank and (due or c == b","))
                begin, due, inside = at + 1, c == b",", c == b","
            elif c in b"{[":
                depth += 1
            elif c in b"}]" and depth:
                depth -= 1
                if not depth and not inside:
                    end(at + 1)
                    begin = at + 1
        at += 1
    end(len(data))
    return found, not inside


def plain_table(data: bytes, schema: Schema, given: Mapping[str, str], arrays: bool = False) -> PlainTable:
    """Read a file; mode FAILFAST counts as PERMISSIVE, whose first error it would raise. ``at`` of errors is None."""
    options = parse_options(schema, given)
    closed = True
    records = list(plain_lines(data))
    if arrays:
        records, closed = plain_elements(data)
    names = {name.lower(): value for name, value in given.items()}
    patterns = {"date": names.get("dateformat"), "time": names.get("timestampformat")}
    known = {name: pattern for name, pattern in patterns.items() if pattern is not None}
    rows, positions, errors = [], [], []
    for position, text, raw in records:
        flaws: list[tuple[str | None, str]] = []
        record = None
        try:
            record = parse_record(text, options.max_depth)
        except MalformedError as error:
            flaws.append((None, str(error)))
        values = []
        for ordinal, field in enumerate(schema):
            found = record
            for name in options.paths.get(ordinal, (field.name,)):
                below = found.held if found and found.kind == "object" else []
                found = {key.held: held for key, held in below}.get(name)
            value, wrong, _ = value_of(found, field.type, known, ())
            values.append(value)
            if value is None and not field.nullable:
                flaws.append((field.name, "null_in_not_null"))
            elif wrong:
                flaws.append((field.name, min(wrong, key=lambda w: w[0])[1]))
        drop = any(reason == "null_in_not_null" for _, reason in flaws)
        drop = drop or (bool(flaws) and options.mode is Mode.DROPMALFORMED)
        errors += [RowError(position, column, reason, raw, drop) for column, reason in flaws]
        if not drop:
            rows.append(tuple(values))
            positions.append(position)
    if not closed:
        errors.append(RowError(len(data), None, "unterminated_array", b"", True))
    return PlainTable(tuple(rows), tuple(positions), tuple(errors))
