"""A whole CSV file read in plain Python, row by row: the oracle of reader, modes and errors in tests."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from tests.formats.chosen_reference import plain_chosen_value
from tests.formats.csv_reference import PlainRow, plain_rows, plain_text
from tests.formats.value_reference import plain_value

from tidemill.formats.base import RowError
from tidemill.formats.csv.options import CsvOptions, parse_options
from tidemill.formats.rows.malformed import Mode
from tidemill.formats.text.line_ends import NO_BYTE
from tidemill.formats.values.columns.chosen import column_parsers
from tidemill.formats.values.columns.columns import DEFAULT_PATTERNS
from tidemill.formats.values.field_text import TRIM_LEADING, TRIM_TRAILING
from tidemill.schema import Field, Schema


@dataclass(frozen=True)
class PlainTable:
    """Values by row in schema order, the byte offset of each row, and all errors."""

    rows: tuple[tuple[Any, ...], ...]
    positions: tuple[int, ...]
    errors: tuple[RowError, ...]


def plain_table(data: bytes, schema: Schema, given: Mapping[str, str]) -> PlainTable:
    """Read a file; mode FAILFAST counts as PERMISSIVE, whose first error it would raise."""
    options = parse_options(given)
    layout = _PlainLayout(len(schema), tuple(range(len(schema))), 0)
    if options.header:
        layout = _layout_by_names(schema, data, options)
    rows: list[tuple[Any, ...]] = []
    positions: list[int] = []
    errors: list[RowError] = []
    rules = options.general
    for row in _rows(data, options):
        if row.position < layout.data_start:
            continue
        raw = data[row.position : row.end]
        if row.comment:
            if rules.row_end in raw:
                errors.append(RowError(row.position, None, "quote_in_comment", raw, True))
            continue
        values, flaws = _parse(row, schema, given, options, layout)
        told = _told(row, data, options)
        flaws = [(None, told[0]), *flaws] if told else flaws
        drop = any(reason == "null_in_not_null" for _, reason in flaws)
        drop = drop or (bool(flaws) and options.mode is Mode.DROPMALFORMED)
        places = [
            told[1] if told and reason == told[0] else _place(row, raw, column, reason, schema, layout)
            for column, reason in flaws
        ]
        errors.extend(
            RowError(row.position, column, reason, raw, drop, at)
            for (column, reason), at in zip(flaws, places, strict=True)
        )
        if not drop:
            rows.append(values)
            positions.append(row.position)
    return PlainTable(tuple(rows), tuple(positions), tuple(errors))


@dataclass(frozen=True)
class _PlainLayout:
    """How many fields rows should have, the field of each column, and where rows begin."""

    width: int
    field_of: tuple[int, ...]
    data_start: int


def _rows(data: bytes, options: CsvOptions) -> Iterator[PlainRow]:
    rules = options.general
    return plain_rows(
        data,
        rules.separator,
        rules.quote,
        options.comment,
        bool(rules.leading),
        rules.escape,
        rules.row_end,
        options.multi_line,
    )


def _layout_by_names(schema: Schema, data: bytes, options: CsvOptions) -> _PlainLayout:
    """Columns by their names in the first line, in any case; LookupError for a name that is not there once."""
    line = next((row for row in _rows(data, options) if not row.comment), None)
    if line is None:
        return _PlainLayout(len(schema), tuple(range(len(schema))), 0)
    names = []
    for field in line.fields:
        try:
            names.append(_text(field, options)[0].decode("utf-8", "replace").lower())
        except ValueError:
            names.append(field.decode("utf-8", "replace").lower())
    others = [f"{name}{i}" if names.count(name) > 1 else name or f"_c{i}" for i, name in enumerate(names)]
    field_of = []
    for column in schema.names:
        known = names if column.lower() in names else others
        if known.count(column.lower()) != 1:
            raise LookupError(column)
        field_of.append(known.index(column.lower()))
    return _PlainLayout(len(names), tuple(field_of), line.stop)


def _told(row: PlainRow, data: bytes, options: CsvOptions) -> tuple[str, int] | None:
    """What else is wrong with a row as a whole, and where."""
    if row.position == 0 and data[:2] in (b"\xff\xfe", b"\xfe\xff"):
        return "utf16_mark", 0
    if options.general.row_end != b"\n":
        return None
    if not options.multi_line:
        at = data.find(b"\r", row.position, row.end)
        return ("bare_carriage_return", at) if at >= 0 else None
    if row.position > 0:
        return None
    fields = list(zip(row.fields, row.begins, strict=True))
    for field, begin in fields if row.terminated else fields[:-1]:
        quoted = re.match(_quoted(options), field)  # in there it is data
        at = field.find(b"\r", quoted.end() if quoted else 0)
        if at >= 0:
            return "bare_carriage_return", begin + at
    return None


def _quoted(options: CsvOptions) -> bytes:
    """A pattern of a quoted text at the beginning of a field."""
    rules = options.general
    if rules.quote == NO_BYTE:
        return b"(?!)"
    quote = re.escape(bytes([rules.quote]))
    blanks = b"[ \t]*" if rules.leading else b""
    if rules.escape == NO_BYTE:
        return b"(?s)" + blanks + quote + b"(?:" + quote + quote + b"|[^" + quote + b"])*" + quote
    escape = re.escape(bytes([rules.escape]))
    return b"(?s)" + blanks + quote + b"(?:" + escape + b".|[^" + escape + quote + b"])*" + quote


def _place(
    row: PlainRow, raw: bytes, column: str | None, reason: str, schema: Schema, layout: _PlainLayout
) -> int | None:
    """Where in the file something is wrong with a row."""
    if reason == "unterminated_quote":
        return row.begins[-1]
    if reason == "too_few_fields":
        return row.position + len(raw)
    if reason == "too_many_fields":
        return row.begins[layout.width]
    assert column is not None
    number = layout.field_of[schema.names.index(column)]
    if not row.terminated or number >= len(row.fields):
        return None
    try:
        row.fields[number].decode()
    except UnicodeDecodeError as error:
        return row.begins[number] + error.start
    return row.begins[number]


def _parse(
    row: PlainRow, schema: Schema, given: Mapping[str, str], options: CsvOptions, layout: _PlainLayout
) -> tuple[tuple[Any, ...], list[tuple[str | None, str]]]:
    """The values of a row, and column and reason of everything wrong with it."""
    flaws: list[tuple[str | None, str]] = []
    fields: dict[int, bytes] = dict(enumerate(row.fields))
    if not row.terminated:
        flaws.append((None, "unterminated_quote"))
        fields = {}
    elif len(fields) < layout.width:
        flaws.append((None, "too_few_fields"))
    elif len(fields) > layout.width:
        flaws.append((None, "too_many_fields"))
    values: list[Any] = []
    for field, index in zip(schema, layout.field_of, strict=True):
        value, reason = _parse_field(fields.get(index), field, given, options)
        if value is None and not field.nullable:
            reason = "null_in_not_null"
        if reason:
            flaws.append((field.name, reason))
        values.append(value)
    return tuple(values), flaws


def _text(field: bytes, options: CsvOptions) -> tuple[bytes, bool]:
    leading, trailing = bool(options.trim & TRIM_LEADING), bool(options.trim & TRIM_TRAILING)
    return plain_text(field, options.quote, leading, trailing, options.general.escape)


def _parse_field(
    raw: bytes | None, field: Field, given: Mapping[str, str], options: CsvOptions
) -> tuple[Any, str | None]:
    if raw is None:
        return None, None
    (parser,) = column_parsers(
        Schema((field,)),
        {n.lower(): v for n, v in given.items() if n.lower() == f"parser.{field.name.lower()}"},
        DEFAULT_PATTERNS,
    )
    assert parser is not None
    is_text = field.type in (pa.string(), pa.binary())
    try:
        text, quoted = _text(raw, options)
    except ValueError:
        return None, "bad_quote" if is_text else parser.bad_value
    if text in options.null_texts or (not quoted and not text):
        return None, None
    if parser.bad_value in ("bad_float32", "bad_float64"):
        text = dict(options.not_finite).get(text, text)
    names = {name.lower(): value for name, value in given.items()}
    family = "dateformat" if parser.bad_value == "bad_date" else "timestampformat"
    pattern = names.get(f"{family}.{field.name.lower()}", names.get(family))
    chosen = names.get(f"parser.{field.name.lower()}")
    try:
        if chosen is not None:
            return plain_chosen_value(chosen, field.type, text), None
        return plain_value(field.type, text, pattern), None
    except ValueError:
        return None, parser.bad_value
