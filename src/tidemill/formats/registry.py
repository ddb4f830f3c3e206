"""Formats by name: those built in and those that installed packages offer."""

from __future__ import annotations

import importlib
from functools import cache
from importlib.metadata import EntryPoint, entry_points

from tidemill.errors import TidemillError, nearest
from tidemill.formats.base import Format

ENTRY_POINT_GROUP = "tidemill.formats"
"""Group in which a package names its formats; each entry is a class or function that makes a ``Format``."""

_BUILT_IN = {
    "adaptor": "tidemill.formats.adaptor.format:AdaptorFormat",
    "arrow": "tidemill.formats.arrow.format:ArrowFormat",
    "avro": "tidemill.formats.avro.format:AvroFormat",
    "csv": "tidemill.formats.csv.format:CsvFormat",
    "debezium": "tidemill.formats.debezium.format:DebeziumFormat",
    "delta": "tidemill.formats.versioned.format:DeltaFormat",
    "frames": "tidemill.formats.frames.format:FramesFormat",
    "generator": "tidemill.formats.generator.format:GeneratorFormat",
    "iceberg": "tidemill.formats.versioned.format:IcebergFormat",
    "json": "tidemill.formats.json.format:JsonFormat",
    "kafka": "tidemill.formats.kafka.format:KafkaFormat",
    "mqtt": "tidemill.formats.mqtt.format:MqttFormat",
    "native": "tidemill.formats.native.format:NativeFormat",
    "orderbook": "tidemill.formats.orderbook.format:OrderBookFormat",
    "postgres": "tidemill.formats.postgres.format:PostgresFormat",
    "parquet": "tidemill.formats.parquet.format:ParquetFormat",
}


def built_in() -> tuple[str, ...]:
    """Names of the formats that come with Tidemill."""
    return tuple(_BUILT_IN)


def lookup(name: str) -> Format:
    """The format called ``name``, in any case.

    Built-in formats are imported on first use; a package cannot replace one.

    Raises
    ------
    TidemillError
        TM4001 when no format has that name; TM4002 when the package that offers it cannot be loaded.
    """
    return _load(name.lower())


@cache
def _load(name: str) -> Format:
    if target := _BUILT_IN.get(name):
        module, _, attribute = target.partition(":")
        found: Format = getattr(importlib.import_module(module), attribute)()
        return found
    offered: dict[str, EntryPoint] = {e.name.lower(): e for e in entry_points(group=ENTRY_POINT_GROUP)}
    if name not in offered:
        hint = nearest(name, [*_BUILT_IN, *offered])
        if not hint.startswith("did you mean"):
            hint = f"{hint}; others come from packages with entry points of the group {ENTRY_POINT_GROUP}"
        raise TidemillError("TM4001", "unknown format", got=name, hint=hint)
    try:
        plugin: Format = offered[name].load()()
        for part in ("name", "option_names", "validate", "reader"):
            getattr(plugin, part)
    except Exception as error:
        raise TidemillError(
            "TM4002",
            "the package that offers this format cannot be loaded",
            got=f"{offered[name].value}: {type(error).__name__}: {error}",
            hint="reinstall or remove the package",
        ) from error
    return plugin
