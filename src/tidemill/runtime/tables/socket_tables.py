"""Options and checks of tables whose rows come over sockets."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Literal

from tidemill.errors import TidemillError
from tidemill.formats.base import has_lines
from tidemill.formats.csv.messages import message_boundary
from tidemill.formats.inference.options import INFERENCE_OPTIONS
from tidemill.formats.json.options import MULTI_LINE
from tidemill.formats.reading.codecs import CODEC_OPTIONS
from tidemill.formats.records.sized_records import SizeRules
from tidemill.formats.records.spooled_records import RecordFormat, Records, RowWidth, records_of
from tidemill.formats.registry import lookup
from tidemill.options.kinds import INTERVAL, TEXT, choice, size
from tidemill.options.option import Option, OptionGroup
from tidemill.options.tables import PATH, RETAIN_BYTES, STATIC
from tidemill.schema import Schema
from tidemill.sources.sockets.endpoints import parse_endpoints
from tidemill.sources.sockets.framing import Framing, RecordFraming, RowFraming
from tidemill.sources.sockets.inlet import LAST, LINES, InletOptions, no_boundary

FRAMING: Option[Literal["lines", "length"]] = Option(
    "framing", choice("lines", "length"), "lines", "a message ends with a newline, or has its length first"
)
LENGTH_BYTES = Option("lengthBytes", choice("1", "2", "4", "8"), "4", "bytes of a length")
LENGTH_ORDER: Option[Literal["big", "little"]] = Option(
    "lengthByteOrder", choice("big", "little"), "big", "order of the bytes of a length"
)
MESSAGE_BYTES = Option("maxMessageBytes", size(most="1g"), 1 << 20, "largest size of a message", shown="1m")
MESSAGE_TIMEOUT = Option(
    "messageTimeout", INTERVAL, 30_000_000, "how long a peer may take for one message", shown="30s"
)
SPOOL_BYTES = Option(
    "maxSpoolBytes", size(least="1m"), 1 << 30, "how much may wait to be read, before senders wait", shown="1g"
)
GREETING = Option(
    "greeting",
    TEXT,
    "",
    f"sent to a server when it has been connected to; `{LINES}` stands for how many lines the table has received, "
    f"`{LAST}` for the last of them",
    shown="nothing",
)
_MOST_GREETING = 4096
SOCKET_OPTIONS = OptionGroup(
    "Sockets",
    "Tables whose `path` is the address of sockets or standard input.",
    (FRAMING, LENGTH_BYTES, LENGTH_ORDER, MESSAGE_BYTES, MESSAGE_TIMEOUT, SPOOL_BYTES, GREETING, RETAIN_BYTES),
)


def check_socket(format_name: str, schema: Schema, options: Mapping[str, str]) -> None:
    """Check a table over sockets at CREATE TABLE; ``options`` have lower-case names.

    Raises
    ------
    TidemillError
        TM5020 for the path, TM5024 for a format, or a kind of table, that cannot be read from a socket, TM4003 for
        values of options, of which :func:`parse_inlet` checks the others.
    """
    parse_endpoints(options[PATH.key])
    if not len(schema):
        raise _cannot("its columns are not declared", "declare them: a socket has no sample to infer them from")
    format_ = lookup(format_name)
    if not has_lines(format_) and not isinstance(format_, RecordFormat):
        raise _cannot(f"USING {format_name}", "csv, json, debezium or another format of lines, native or frames")
    if STATIC.of(options):
        raise _cannot("static 'true'", "leave it out: a socket has no end")
    if format_name == "json" and MULTI_LINE.of(options):
        raise MULTI_LINE.bad("true", "each line of a message is a record")
    for name in (*CODEC_OPTIONS.given(options), *INFERENCE_OPTIONS.given(options)):
        raise _cannot(f"option {name}", "leave it out: it is for files")
    RETAIN_BYTES.of(options)


def parse_inlet(format_name: str, schema: Schema, options: Mapping[str, str]) -> InletOptions:
    """How messages of a table are received; ``schema`` is that of files. TM4003 for bad values."""
    boundary = message_boundary(_csv_options(options)) if format_name == "csv" else no_boundary
    most = MESSAGE_BYTES.of(options)
    records = records_of(lookup(format_name), schema, options)
    framing = _lines(options, most) if records is None else _records(records, options, most)
    timeout = MESSAGE_TIMEOUT.of(options) / 1e6
    if timeout <= 0:
        raise MESSAGE_TIMEOUT.bad(options[MESSAGE_TIMEOUT.key], "a time such as 30s, 500ms or 5 minutes")
    return InletOptions(framing, timeout, SPOOL_BYTES.of(options), boundary, _greeting(options, framing))


def _greeting(options: Mapping[str, str], framing: Framing | RowFraming | RecordFraming) -> str:
    greeting = GREETING.of(options)
    if not greeting:
        return ""
    endpoints = parse_endpoints(options[PATH.key])
    if any(e.listens or e.is_stdin for e in endpoints):
        raise GREETING.bad(greeting, "a path of servers that are connected to, such as tcp://host:port")
    if len(greeting.encode()) > _MOST_GREETING:
        raise GREETING.bad(f"{greeting[:20]}...", f"at most {_MOST_GREETING} bytes")
    asks = LINES in greeting or LAST in greeting
    if asks and (len(endpoints) > 1 or not isinstance(framing, Framing) or framing.kind != "lines"):
        raise GREETING.bad(greeting, f"one server that sends lines: {LINES} and {LAST} are of those received from it")
    return greeting


def _lines(options: Mapping[str, str], most: int) -> Framing:
    kind = FRAMING.of(options)
    for option in (LENGTH_BYTES, LENGTH_ORDER):
        if kind == "lines" and option.key in options:
            raise option.bad(options[option.key], "it needs framing 'length'")
    return Framing(kind, int(LENGTH_BYTES.of(options)), LENGTH_ORDER.of(options), most)


def _records(records: Records, options: Mapping[str, str], most: int) -> RowFraming | RecordFraming:
    """Framing of a format of bytes is its own."""
    for option in (FRAMING, LENGTH_BYTES, LENGTH_ORDER):
        if option.key in options:
            raise option.bad(options[option.key], "leave it out: the format itself says where a message ends")
    least = records.width if isinstance(records, RowWidth) else records.least
    if least > most:
        raise MESSAGE_BYTES.bad(str(most), f"at least {least}, which a row has")
    if isinstance(records, RowWidth):
        return RowFraming(records.width)
    return RecordFraming(records.width, "big" if records.big else "little", least, min(most, records.most))


def is_sized(format_name: str, schema: Schema, options: Mapping[str, str]) -> bool:
    """Whether rows can only be found from one before, by sizes in front of them; ``schema`` is that of files."""
    return isinstance(records_of(lookup(format_name), schema, options), SizeRules)


def history_wanted(again: Mapping[str, Callable[[], int]], tables: Collection[str], unit: str) -> list[str]:
    """For a new view, make retained parts of spools readable again until it has read them.

    Parameters
    ----------
    again : mapping
        For each table with a spool, a function that makes all of it readable again and gives how much was deleted.
    unit : str
        Of these amounts.

    Returns
    -------
    list of str
        Warnings about tables whose first rows were deleted (TM5027).
    """
    gone = {name: again[name]() for name in sorted(again.keys() & set(tables))}
    return [
        TidemillError(
            "TM5027",
            "a view begins without the oldest rows of a socket: they are not retained",
            got=f"{name}: the first {count:,} {unit} are gone",
            hint="retainBytes says how much of a spool is kept for views created later",
        ).message()
        for name, count in gone.items()
        if count
    ]


def _csv_options(options: Mapping[str, str]) -> dict[str, str]:
    known = lookup("csv").option_names
    return {k: v for k, v in options.items() if k in known}


def _cannot(got: str, hint: str) -> TidemillError:
    return TidemillError("TM5024", "such a table cannot be read from a socket", got=got, hint=hint)
