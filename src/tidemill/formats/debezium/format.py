"""Debezium change events: one JSON envelope a line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa

from tidemill.errors import TidemillError
from tidemill.formats.debezium.envelopes import EnvelopeBuilder, Layout
from tidemill.formats.messages import Messages
from tidemill.formats.rows.malformed import MODE
from tidemill.formats.text.line_split import LineSplitReader
from tidemill.options.kinds import choice
from tidemill.options.option import Option, OptionGroup
from tidemill.schema import Schema, type_to_ddl

OPERATION = "__op"
"""Name of the column that carries ``I`` or ``D``, last in the schema that the reader is given."""

_UNITS = {"micros": 1, "millis": 1000}
TIMESTAMP_UNIT = Option(
    "timestampUnit", choice(*_UNITS), "micros", "what numbers count that are timestamps, since 1970"
)
DEBEZIUM_OPTIONS = OptionGroup("Debezium", "Tables `USING debezium`.", (MODE, TIMESTAMP_UNIT))


class DebeziumFormat:
    """Lines ``{"before": row, "after": row, "op": "c"}``, or these as ``payload`` of an object with ``schema``.

    **Rows.** ``c``, ``r`` and ``u`` insert or replace the row ``after``; ``d`` deletes the key of ``before``. A ``u``
    whose ``before`` has another key deletes that one too. Columns are found by name; what else is in a row is
    ignored, a column that is not there is NULL. Empty lines, ``null`` lines (tombstones) and a NULL ``payload`` are
    no messages.

    **Values.** Numbers for numeric types, and texts of them. decimal: number or text (``decimal.handling.mode``
    ``double`` or ``string``), rounded HALF_UP to the scale. date: days since 1970 or ``yyyy-mm-dd``. timestamp:
    microseconds since 1970 (milliseconds with ``timestampUnit 'millis'``) or ISO 8601, UTC unless a zone is given.
    boolean: ``true``, ``false``, 0, 1. string: a JSON text.

    **Malformed messages.** ``bad_json``, ``utf16_mark`` (the first line of a file in UTF-16), ``bad_operation`` (no
    such ``op``, a truncation ``t`` among them), ``missing_before``, ``missing_after``, ``null_in_not_null`` (a key
    or NOT NULL column): the message is left out. ``bad_<type>``: the value is NULL and the row is kept, or left out
    in mode DROPMALFORMED. FAILFAST raises TM4020.
    """

    name = "debezium"
    is_text = True
    option_names = DEBEZIUM_OPTIONS.keys

    def validate(self, schema: Schema, options: Mapping[str, str]) -> None:
        """See :meth:`tidemill.formats.base.Format.validate`."""
        _layout(schema, options)

    def reader(self, schema: Schema, options: Mapping[str, str], needed: Sequence[str]) -> DebeziumReader:
        """See :meth:`tidemill.formats.base.Format.reader`; the schema ends in the column ``OPERATION``."""
        return DebeziumReader(_layout(schema, options), needed)

    def message_reader(
        self, schema: Schema, options: Mapping[str, str], needed: Sequence[str], messages: Messages
    ) -> DebeziumReader:
        """See :class:`tidemill.formats.messages.MessageFormat`."""
        return DebeziumReader(_layout(schema, options, messages.key), needed)


def _layout(schema: Schema, options: Mapping[str, str], key: tuple[str, ...] = ()) -> Layout:
    mode = MODE.of(options)
    fields = tuple(f for f in schema if f.name != OPERATION)
    for field in fields:
        if not _holds(field.type):
            raise TidemillError(
                "TM4004",
                f"the column {field.name!r} has a type that debezium cannot hold",
                got=type_to_ddl(field.type),
                hint="use a number, string, date, timestamp or boolean",
            )
    return Layout(fields, key, mode, _UNITS[TIMESTAMP_UNIT.of(options)])


def _holds(type_: pa.DataType) -> bool:
    types = pa.types
    return (
        types.is_signed_integer(type_)
        or type_ in (pa.float32(), pa.float64(), pa.bool_(), pa.string(), pa.date32())
        or types.is_decimal(type_)
        or types.is_timestamp(type_)
    )


class DebeziumReader:
    """See :class:`tidemill.formats.base.RowReader`."""

    def __init__(self, layout: Layout, needed: Sequence[str]) -> None:
        self._builder = EnvelopeBuilder(layout, tuple(needed), OPERATION)

    def header_bytes_needed(self) -> bool:
        """See :meth:`tidemill.formats.base.RowReader.header_bytes_needed`."""
        return False

    def split(
        self, *, start: int, end: int, file_size: int, in_quotes: bool | None, header: bytes | None
    ) -> LineSplitReader:
        """See :meth:`tidemill.formats.base.RowReader.split`. JSON has no line ends within a text."""
        return LineSplitReader(self._builder, start=start, end=end, file_size=file_size, in_quotes=in_quotes)
