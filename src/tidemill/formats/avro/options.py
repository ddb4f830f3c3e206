"""Options of Avro."""

from __future__ import annotations

from tidemill.connectors.schema_registry.options import REGISTRY_OPTIONS
from tidemill.formats.avro.schema import SchemaError, parse_schema
from tidemill.formats.rows.malformed import MODE
from tidemill.options.option import Kind, Option, OptionGroup


def _schema(text: str) -> str:
    try:
        parse_schema(text)
    except SchemaError as error:
        raise ValueError(f"an Avro schema of a record: {error}") from error
    return text


AVRO_SCHEMA: Option[str | None] = Option(
    "avroSchema",
    Kind("an Avro schema of a record", _schema),
    None,
    "the schema of all values, which then have no number",
)
AVRO_OPTIONS = OptionGroup(
    "Avro",
    "Tables `USING avro`, and messages of Kafka with `value.format 'avro'`: these need a registry or a schema.",
    (MODE, AVRO_SCHEMA, *REGISTRY_OPTIONS),
)
