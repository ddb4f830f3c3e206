"""Avro: files, and single values by the schema that they were written with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tidemill.formats.avro.files import AvroReader
from tidemill.formats.avro.options import AVRO_OPTIONS
from tidemill.formats.avro.values import AvroValues, avro_values
from tidemill.formats.columnar.rows import column_choice, validate_columnar
from tidemill.formats.rows.malformed import MODE
from tidemill.options.option import lowered
from tidemill.schema import Schema


class AvroFormat:
    """Rows of Avro's object container files, and of messages whose values are Avro.

    **Columns** are those of the record, by name in any case; types as in Parquet files. Logical types: date,
    timestamp-millis and -micros (TIMESTAMP), local-timestamp-millis and -micros (TIMESTAMP_NTZ), decimal of at most 38
    digits; values of others are what they are without. An enum is STRING, fixed is BINARY, a map has STRING keys. A
    union of one type with null is that type, int and long is BIGINT, float and double is DOUBLE; another one is a
    STRUCT with ``member0``, ``member1`` and so on for its types without null, of which one is not NULL. A record that
    holds itself is refused.

    **Splits.** A file is one split. The position of a row is its number in the file.

    **Messages** begin with a zero byte and the number of their schema in a registry, or all have ``avroSchema``. A
    value that is malformed, has no number, or was written with a schema that does not fit the columns is left out and
    counted: ``no_schema_id``, ``unknown_schema``, ``bad_schema``, ``other_type``, and what is wrong with bytes.
    """

    name = "avro"
    option_names = AVRO_OPTIONS.keys

    def validate(self, schema: Schema, options: Mapping[str, str]) -> None:
        """See :meth:`tidemill.formats.base.Format.validate`. TM4003 for options that only messages have."""
        validate_columnar(schema, options)
        given = lowered(options)
        for option in AVRO_OPTIONS.options:
            if option is not MODE and option.key in given:
                raise option.bad(given[option.key], "leave it out: a file has its schema")

    def reads_whole_files(self, schema: Schema, options: Mapping[str, str]) -> bool:
        """See :class:`tidemill.formats.base.WholeFiles`."""
        return True

    def reader(self, schema: Schema, options: Mapping[str, str], needed: Sequence[str]) -> AvroReader:
        """See :meth:`tidemill.formats.base.Format.reader`."""
        return AvroReader(column_choice(schema, options, needed))

    def values(self, schema: Schema, options: Mapping[str, str], needed: Sequence[str]) -> AvroValues:
        """See :class:`tidemill.formats.records.value_format.ValueFormat`."""
        return avro_values(schema, options, needed)
