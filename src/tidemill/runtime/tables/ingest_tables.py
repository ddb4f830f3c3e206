"""Tables that Spark streams are written into, ``path 'ingest://'``: which these can be, and what their rows look like.

The format says what a mill keeps the rows in until it has read them: Parquet or Arrow files.
"""

from __future__ import annotations

from collections.abc import Mapping

from tidemill.errors import TidemillError
from tidemill.formats.inference.options import INFERENCE_OPTIONS
from tidemill.formats.options import flag, parse_size
from tidemill.formats.reading.codecs import CODEC_OPTIONS
from tidemill.runtime.tables.socket_tables import parse_retained
from tidemill.schema import Schema
from tidemill.sources.filters import FILTER_OPTIONS

INGEST = "ingest://"
"""The path of such a table."""

INGEST_OPTIONS = frozenset({"maxspoolbytes", "retainbytes"})
"""Options that they share with pushed streams, in lower case."""

_FORMATS = ("arrow", "parquet")
_OF_FILES = CODEC_OPTIONS | INFERENCE_OPTIONS | FILTER_OPTIONS | {"allowoverwrites", "allowappends", "fileattempts"}


def is_ingested(path: str) -> bool:
    """Whether a table's path says that Spark streams are written into it."""
    return path.strip().lower().startswith(INGEST)


def check_ingested(format_name: str, schema: Schema, options: Mapping[str, str]) -> None:
    """Check such a table at CREATE TABLE; ``options`` have lower-case names.

    Raises
    ------
    TidemillError
        TM5064 for a format, or a kind of table, that cannot be written into; TM4003 for values of options.
    """
    if options["path"].strip().lower() != INGEST:
        raise _cannot(f"path '{options['path']}'", f"path '{INGEST}', with nothing behind it")
    if format_name not in _FORMATS:
        raise _cannot(f"USING {format_name}", f"USING {' or '.join(_FORMATS)}: in this rows wait to be read")
    if not len(schema):
        raise _cannot("its columns are not declared", "declare them: there are no rows yet that they could come from")
    if flag(options, "static"):
        raise _cannot("static 'true'", "leave it out: a stream has no end")
    for name in sorted(options.keys() & _OF_FILES):
        raise _cannot(f"option {name}", "leave it out: it is for files that somebody else writes")
    parse_waiting(options)
    parse_retained(options)


def parse_waiting(options: Mapping[str, str]) -> int:
    """How many bytes of batches may wait to be read. TM4003 for a bad value."""
    return parse_size("maxSpoolBytes", options.get("maxspoolbytes", "1g"))


def not_ingested(path: str) -> TidemillError:
    """TM5064: the table has rows from elsewhere."""
    return _cannot(f"path '{path}'", f"a table with path '{INGEST}'")


def _cannot(got: str, hint: str) -> TidemillError:
    return TidemillError("TM5064", "Spark streams cannot be written into such a table", got=got, hint=hint)
