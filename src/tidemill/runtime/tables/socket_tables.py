"""Options of tables whose rows come over connections, and which tables these can be."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any

from tidemill.errors import TidemillError
from tidemill.formats.base import has_lines
from tidemill.formats.csv.messages import message_boundary
from tidemill.formats.inference.options import INFERENCE_OPTIONS
from tidemill.formats.options import bad_option, flag, parse_size
from tidemill.formats.reading.codecs import CODEC_OPTIONS
from tidemill.formats.records.sized_records import SizeRules
from tidemill.formats.records.spooled_records import RecordFormat, Records, RowWidth, records_of
from tidemill.formats.registry import lookup
from tidemill.schema import Schema
from tidemill.sources.sockets.endpoints import parse_endpoints
from tidemill.sources.sockets.framing import Framing, RecordFraming, RowFraming, parse_seconds
from tidemill.sources.sockets.inlet import InletOptions, no_boundary

STREAM_OPTIONS = frozenset(
    {
        "framing",
        "lengthbytes",
        "lengthbyteorder",
        "maxmessagebytes",
        "messagetimeout",
        "maxspoolbytes",
        "retainbytes",
    }
)
"""Options that only these tables have, in lower case."""

_LEAST_SPOOL = 1 << 20


def check_stream(format_name: str, schema: Schema, options: Mapping[str, str]) -> None:
    """Check a table over pushed streams at CREATE TABLE; ``options`` have lower-case names.

    Raises
    ------
    TidemillError
        TM5020 for the path, TM5024 for a format, or a kind of table, that cannot be read from a stream, TM4003 for
        values of options, of which :func:`parse_inlet` checks the others.
    """
    parse_endpoints(options["path"])
    if not len(schema):
        raise _cannot("its columns are not declared", "declare them: no sample can be taken of a stream")
    format_ = lookup(format_name)
    if not has_lines(format_) and not isinstance(format_, RecordFormat):
        raise _cannot(f"USING {format_name}", "csv, json, debezium or another format of lines, native or frames")
    if flag(options, "static"):
        raise _cannot("static 'true'", "leave it out: a stream has no end")
    if flag(options, "multiLine") and format_name == "json":
        raise bad_option("multiLine", "true", "each line of a message is a record")
    for name in sorted(options.keys() & (CODEC_OPTIONS | INFERENCE_OPTIONS)):
        raise _cannot(f"option {name}", "leave it out: it is for files")
    parse_retained(options)


def parse_inlet(format_name: str, schema: Schema, options: Mapping[str, str]) -> InletOptions:
    """How messages of a table are taken; ``schema`` is that of files. TM4003 for bad values."""
    boundary = message_boundary(_csv_options(options)) if format_name == "csv" else no_boundary
    most = parse_size("maxMessageBytes", options.get("maxmessagebytes", "1m"))
    if most > 1 << 30:
        raise bad_option("maxMessageBytes", options["maxmessagebytes"], "at most 1g")
    records = records_of(lookup(format_name), schema, options)
    framing = _lines(options, most) if records is None else _records(records, options, most)
    timeout = parse_seconds(options.get("messagetimeout", "30s"))
    if timeout is None or timeout <= 0:
        raise bad_option("messageTimeout", options["messagetimeout"], "a time such as 30s, 500ms or 5 minutes")
    spool = parse_size("maxSpoolBytes", options.get("maxspoolbytes", "1g"))
    if spool < _LEAST_SPOOL:
        raise bad_option("maxSpoolBytes", options["maxspoolbytes"], "at least 1m")
    return InletOptions(framing, timeout, spool, boundary)


def _lines(options: Mapping[str, str], most: int) -> Framing:
    kind = _one_of(options, "framing", {"lines": "lines", "length": "length"}, "lines")
    width = _one_of(options, "lengthBytes", {"1": 1, "2": 2, "4": 4, "8": 8}, 4)
    order = _one_of(options, "lengthByteOrder", {"big": "big", "little": "little"}, "big")
    for name in ("lengthBytes", "lengthByteOrder"):
        if kind == "lines" and name.lower() in options:
            raise bad_option(name, options[name.lower()], "it needs framing 'length'")
    return Framing(kind, width, order, most)


def _records(records: Records, options: Mapping[str, str], most: int) -> RowFraming | RecordFraming:
    """Framing of a format of bytes is its own."""
    for name in ("framing", "lengthBytes", "lengthByteOrder"):
        if name.lower() in options:
            raise bad_option(name, options[name.lower()], "leave it out: the format itself says where a message ends")
    least = records.width if isinstance(records, RowWidth) else records.least
    if least > most:
        raise bad_option("maxMessageBytes", str(most), f"at least {least}, which a row has")
    if isinstance(records, RowWidth):
        return RowFraming(records.width)
    return RecordFraming(records.width, "big" if records.big else "little", least, min(most, records.most))


def is_sized(format_name: str, schema: Schema, options: Mapping[str, str]) -> bool:
    """Whether rows can only be found from one before, by sizes in front of them; ``schema`` is that of files."""
    return isinstance(records_of(lookup(format_name), schema, options), SizeRules)


def parse_retained(options: Mapping[str, str]) -> int | None:
    """How many bytes that were read are kept for views created later, None for all. TM4003 for a bad value."""
    text = options.get("retainbytes", "1g").strip()
    if text.lower() == "all":
        return None
    return 0 if text == "0" else parse_size("retainBytes", text)


def history_wanted(again: Mapping[str, Callable[[], int]], tables: Collection[str], unit: str) -> list[str]:
    """A view that reads some tables was created: what is retained of their streams stays until it has it.

    Parameters
    ----------
    again : mapping
        For each table with a stream, what makes all that is there readable again, and gives how much is gone.
    unit : str
        Of what is gone.

    Returns
    -------
    list of str
        What is to be said of tables whose first rows are gone (TM5027).
    """
    gone = {name: again[name]() for name in sorted(again.keys() & set(tables))}
    return [
        TidemillError(
            "TM5027",
            "a view begins without the oldest rows of a pushed stream: they are not retained",
            got=f"{name}: the first {count:,} {unit} are gone",
            hint="retainBytes says how much of a stream is kept for views created later",
        ).message()
        for name, count in gone.items()
        if count
    ]


def _csv_options(options: Mapping[str, str]) -> dict[str, str]:
    known = lookup("csv").option_names
    return {k: v for k, v in options.items() if k in known}


def _one_of(options: Mapping[str, str], name: str, values: Mapping[str, Any], default: Any) -> Any:
    text = options.get(name.lower())
    if text is None:
        return default
    if text.lower() not in values:
        raise bad_option(name, text, f"one of {', '.join(values)}")
    return values[text.lower()]


def _cannot(got: str, hint: str) -> TidemillError:
    return TidemillError("TM5024", "such a table cannot be read from a pushed stream", got=got, hint=hint)
