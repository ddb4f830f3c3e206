"""Parsers that a table chooses for single columns: ``parser.<column>``, ``dateFormat.<column>``,
``timestampFormat.<column>``.

Installed packages add parsers under the entry point group ``tidemill.parsers``: an entry is a function that takes an
Arrow type and gives a :class:`~tidemill.formats.values.columns.columns.ColumnParser`, or None for a type that it has no
values of. :func:`parser_of_texts` makes one of a function on Arrow arrays.

Plain twin: :mod:`tests.formats.chosen_reference`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tidemill.errors import TidemillError, nearest
from tidemill.formats.values.columns.columns import (
    Bytes,
    ColumnParser,
    Offsets,
    ParseColumn,
    ParsedColumn,
    Status,
    TimePatterns,
    finish,
    parser_for,
)
from tidemill.formats.values.columns.time_options import PATTERN
from tidemill.formats.values.field_text import BAD_VALUE, VALID, TextRules
from tidemill.formats.values.numbers.written_numbers import PERCENT_BYTES, parse_words, rewrite_numbers
from tidemill.formats.values.texts.encoded import decode_base64, decode_hex, parse_hex_integers
from tidemill.formats.values.texts.texts import SLACK, copy_texts
from tidemill.formats.values.times.epochs import parse_epochs
from tidemill.formats.values.times.times import FIRST_MICROS, LAST_MICROS, MICROS_PER_DAY
from tidemill.kernels.columns import values_of
from tidemill.options.kinds import TEXT
from tidemill.options.option import Option, bad_option, read_value
from tidemill.schema import Field, Schema

ENTRY_POINT_GROUP = "tidemill.parsers"

PARSER_PREFIX = "parser."
COLUMN_OPTIONS: tuple[Option[object], ...] = (
    Option(PARSER_PREFIX + "*", TEXT, None, "the parser of a column: `parser.at` `epoch_millis`"),
    Option("dateFormat.*", PATTERN, None, "the pattern of one DATE column"),
    Option("timestampFormat.*", PATTERN, None, "the pattern of one TIMESTAMP column"),
)
"""The options for single columns, each a family."""

_FAMILIES = frozenset(option.key.removesuffix(".*") for option in COLUMN_OPTIONS)

ParserFactory = Callable[[pa.DataType], ColumnParser | None]
"""Takes the type of a column; None when the parser has no values of it."""


def column_parsers(schema: Schema, given: Mapping[str, str], patterns: TimePatterns) -> tuple[ColumnParser | None, ...]:
    """The parser of each column: the one chosen for it, or that of its type; None when there is none.

    Parameters
    ----------
    given : mapping
        The options of the table, names in lower case.
    patterns : TimePatterns
        Of columns that have none of their own.

    Raises
    ------
    TidemillError
        TM4003 for a column or a parser that does not exist, or that do not fit; TM4002 for a package that cannot be
        loaded.
    """
    chosen = _by_column(schema, given)
    usual: dict[int, ColumnParser | None] = {}  # columns of one type mostly have one object for it
    found = []
    for i, field in enumerate(schema):
        if i in chosen:
            found.append(_parser(field, chosen[i], patterns))
            continue
        if id(field.type) not in usual:
            usual[id(field.type)] = parser_for(field.type, patterns)
        found.append(usual[id(field.type)])
    return tuple(found)


def _by_column(schema: Schema, given: Mapping[str, str]) -> dict[int, dict[str, str]]:
    """The options of single columns, by the place of the column."""
    chosen: dict[int, dict[str, str]] = {}
    names: list[str] = []
    for option, value in given.items():
        family, point, column = option.partition(".")
        if not point or family not in _FAMILIES:
            continue
        names = names or [name.lower() for name in schema.names]
        if column not in names:
            raise bad_option(option, value, f"there is no such column; {nearest(column, schema.names)}")
        chosen.setdefault(names.index(column), {})[family] = value
    return chosen


def _parser(field: Field, chosen: Mapping[str, str], patterns: TimePatterns) -> ColumnParser | None:
    """The parser of one column."""
    for family, fits in (("dateformat", pa.types.is_date), ("timestampformat", pa.types.is_timestamp)):
        if family in chosen:
            option = f"{family}.{field.name}"
            if not fits(field.type):
                raise bad_option(option, chosen[family], f"the column is not a {family.removesuffix('format')}")
            if "parser" in chosen:
                raise bad_option(option, chosen[family], f"the column has {PARSER_PREFIX}{field.name} already")
            pattern = read_value(option, PATTERN, chosen[family])
            patterns = TimePatterns(pattern, pattern, zone=patterns.zone)
    if "parser" not in chosen:
        return parser_for(field.type, patterns)
    return named_parser(chosen["parser"], field)


def named_parser(name: str, field: Field) -> ColumnParser:
    """The parser of a name, in any case, for a column.

    Raises
    ------
    TidemillError
        TM4003 when there is none, or none of the column's type; TM4002 when its package cannot be loaded.
    """
    option = PARSER_PREFIX + field.name
    if name.lower() not in _BUILT_IN and name.lower() not in (offered := _offered()):
        raise bad_option(option, name, nearest(name, [*_BUILT_IN, *offered]))
    parser = _factory(name.lower())(field.type)
    if parser is None:
        fitting = [n for n, factory in _BUILT_IN.items() if factory(field.type) is not None]
        known = f"for it there are {', '.join(fitting)}" if fitting else "there is none for it"
        raise bad_option(option, name, f"it has no values of the column's type {field.type}; {known}")
    return parser


def _offered() -> dict[str, EntryPoint]:
    return {entry.name.lower(): entry for entry in entry_points(group=ENTRY_POINT_GROUP)}


@cache
def _factory(name: str) -> ParserFactory:
    if name in _BUILT_IN:
        return _BUILT_IN[name]
    entry = _offered()[name]
    try:
        loaded: ParserFactory = entry.load()
    except Exception as error:
        raise TidemillError(
            "TM4002",
            "the package that offers this parser cannot be loaded",
            got=f"{entry.value}: {type(error).__name__}: {error}",
            hint="reinstall or remove the package",
        ) from error
    return loaded


def parser_of_texts(convert: Callable[[pa.Array[Any]], pa.Array[Any]], bad_value: str) -> ColumnParser:
    """A parser that is a function on Arrow arrays.

    Parameters
    ----------
    convert : callable
        Takes the texts of a buffer as a BINARY array, without quotes, NULL for what is NULL in the file; gives as many
        values of the column's type, NULL also for what it does not understand.
    bad_value : str
        Reason code of a field that it does not understand.
    """

    def parse(buf: Bytes, starts: Offsets, ends: Offsets, rules: TextRules) -> ParsedColumn:
        texts, offsets, status = _texts(buf, starts, ends, rules)
        failures = int(np.count_nonzero(status))
        values = convert(finish(pa.binary(), status, failures, offsets, texts).array)
        valid = pc.is_valid(values).to_numpy(zero_copy_only=False)
        status[(status == VALID) & ~valid] = BAD_VALUE
        return ParsedColumn(values, status if status.any() else None)

    return ColumnParser(parse, bad_value)


def _texts(buf: Bytes, starts: Offsets, ends: Offsets, rules: TextRules) -> tuple[Bytes, Offsets, Status]:
    capacity = int(np.subtract(ends, starts, dtype=np.int64).sum()) + starts.size + SLACK
    out = np.empty(capacity, np.uint8)
    offsets = np.empty(starts.size + 1, np.int32)
    status = np.empty(starts.size, np.uint8)
    copy_texts(buf, starts, ends, rules.quote, rules.trim, rules.null_text, False, False, out, 0, offsets, status)
    return out, offsets, status


def _epochs(places: int) -> ParserFactory:
    def parser(type_: pa.DataType) -> ColumnParser | None:
        def parse(buf: Bytes, starts: Offsets, ends: Offsets, rules: TextRules) -> ParsedColumn:
            out, status = np.empty(starts.size, np.int64), np.empty(starts.size, np.uint8)
            failures = parse_epochs(buf, starts, ends, rules.quote, rules.trim, rules.null_text, places, out, status)
            return finish(type_, status, failures, out)

        return ColumnParser(parse, "bad_timestamp") if pa.types.is_timestamp(type_) else None

    return parser


def _epoch_days(type_: pa.DataType) -> ColumnParser | None:
    numbers = parser_for(pa.int32())
    assert numbers is not None

    def parse(buf: Bytes, starts: Offsets, ends: Offsets, rules: TextRules) -> ParsedColumn:
        parsed = numbers.parse(buf, starts, ends, rules)
        days = values_of(parsed.array.buffers()[1], np.int32)[: starts.size]
        status = np.zeros(starts.size, np.uint8) if parsed.status is None else parsed.status
        outside = (days < FIRST_MICROS // MICROS_PER_DAY) | (days > LAST_MICROS // MICROS_PER_DAY)
        status[(status == VALID) & outside] = BAD_VALUE
        return finish(type_, status, int(np.count_nonzero(status)), days)

    return ColumnParser(parse, "bad_date") if pa.types.is_date32(type_) else None


def _hex(type_: pa.DataType) -> ColumnParser | None:
    if type_ == pa.binary():
        return _decoded(decode_hex)
    if not pa.types.is_signed_integer(type_):
        return None
    highest = np.uint64((1 << type_.bit_width - 1) - 1)

    def parse(buf: Bytes, starts: Offsets, ends: Offsets, rules: TextRules) -> ParsedColumn:
        out, status = np.empty(starts.size, np.int64), np.empty(starts.size, np.uint8)
        failures = parse_hex_integers(buf, starts, ends, rules.quote, rules.trim, rules.null_text, highest, out, status)
        return finish(type_, status, failures, out.astype(f"int{type_.bit_width}", copy=False))

    return ColumnParser(parse, f"bad_{type_}")


def _base64(type_: pa.DataType) -> ColumnParser | None:
    return _decoded(decode_base64) if type_ == pa.binary() else None


def _decoded(decode: Callable[..., int]) -> ColumnParser:
    def parse(buf: Bytes, starts: Offsets, ends: Offsets, rules: TextRules) -> ParsedColumn:
        texts, offsets, status = _texts(buf, starts, ends, rules)
        out, out_offsets = np.empty(texts.size, np.uint8), np.empty_like(offsets)
        failures = decode(texts, offsets, out, out_offsets, status)
        return finish(pa.binary(), status, failures, out_offsets, out[: out_offsets[-1]])

    return ColumnParser(parse, "bad_binary")


def _written(group: str = "", point: str = ".", *, percent: bool = False) -> ParserFactory:
    def parser(type_: pa.DataType) -> ColumnParser | None:
        base = parser_for(type_)
        fractions = pa.types.is_floating(type_) or pa.types.is_decimal(type_)
        if base is None or not (fractions or (not percent and pa.types.is_integer(type_))):
            return None
        parse = _of_rewritten(base.parse, ord(group) if group else -1, ord(point), percent)
        return replace(base, parse=parse, kind=None)

    return parser


_REWRITTEN_RULES = TextRules(-1, 0, np.empty(0, np.uint8))


def _of_rewritten(parse_rewritten: ParseColumn, group: int, point: int, percent: bool) -> ParseColumn:
    def parse(buf: Bytes, starts: Offsets, ends: Offsets, rules: TextRules) -> ParsedColumn:
        lengths = int(np.maximum(np.subtract(ends, starts, dtype=np.int64), 0).sum())
        out = np.empty(lengths + PERCENT_BYTES * starts.size + SLACK, np.uint8)
        new_starts, new_ends = np.empty(starts.size, np.int32), np.empty(starts.size, np.int32)
        rewrite_numbers(
            buf,
            starts,
            ends,
            rules.quote,
            rules.trim,
            rules.null_text,
            group,
            point,
            percent,
            out,
            new_starts,
            new_ends,
        )
        out.flags.writeable = False
        return parse_rewritten(out, new_starts, new_ends, _REWRITTEN_RULES)

    return parse


def _words(true: bytes, false: bytes) -> ParserFactory:
    words: tuple[npt.NDArray[np.uint8], ...] = (np.frombuffer(true, np.uint8), np.frombuffer(false, np.uint8))

    def parser(type_: pa.DataType) -> ColumnParser | None:
        def parse(buf: Bytes, starts: Offsets, ends: Offsets, rules: TextRules) -> ParsedColumn:
            out, status = np.empty(starts.size, np.uint8), np.empty(starts.size, np.uint8)
            failures = parse_words(buf, starts, ends, rules.quote, rules.trim, rules.null_text, *words, out, status)
            return finish(type_, status, failures, np.packbits(out, bitorder="little"))

        return ColumnParser(parse, "bad_bool") if pa.types.is_boolean(type_) else None

    return parser


_BUILT_IN: dict[str, ParserFactory] = {
    "epoch_seconds": _epochs(6),
    "epoch_millis": _epochs(3),
    "epoch_micros": _epochs(0),
    "epoch_days": _epoch_days,
    "hex": _hex,
    "base64": _base64,
    "percent": _written(percent=True),
    "comma_groups": _written(","),
    "comma_decimal": _written(".", ","),
    "zero_one": _words(b"1", b"0"),
    "yes_no": _words(b"yes", b"no"),
    "true_false": _words(b"true", b"false"),
}
