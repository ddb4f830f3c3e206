"""Tables that Spark streams are written into, or rows posted, ``path 'ingest://'``: their options and checks.

The format is that of the files with rows that wait to be read: Parquet or Arrow, of posted rows also JSON or CSV.
"""

from __future__ import annotations

from collections.abc import Mapping

from tidemill.errors import TidemillError
from tidemill.formats.inference.options import INFERENCE_OPTIONS
from tidemill.formats.reading.codecs import CODEC_OPTIONS
from tidemill.options.kinds import SIZE
from tidemill.options.option import Option, OptionGroup
from tidemill.options.tables import ALLOW_APPENDS, ALLOW_OVERWRITES, FILE_ATTEMPTS, PATH, RETAIN_BYTES, STATIC
from tidemill.schema import Schema
from tidemill.sources.filters import FILTER_OPTIONS

INGEST = "ingest://"
"""The path of such a table."""

INGEST_SPOOL = Option("maxSpoolBytes", SIZE, 1 << 30, "how much may wait to be read, before a batch waits", shown="1g")
INGEST_OPTIONS = OptionGroup(
    "Spark streams and posted rows",
    "Tables with `path 'ingest://'`, which Spark streams are written into, or rows posted over HTTP.",
    (INGEST_SPOOL, RETAIN_BYTES),
)

STREAMED = ("arrow", "parquet")
"""Formats in which rows of Spark streams wait."""

_POSTED = ("json", "csv")
"""Formats of rows that are posted as they are."""

_OF_FILES = OptionGroup(
    "",
    "",
    (
        *CODEC_OPTIONS.options,
        *INFERENCE_OPTIONS.options,
        *FILTER_OPTIONS.options,
        ALLOW_OVERWRITES,
        ALLOW_APPENDS,
        FILE_ATTEMPTS,
    ),
)


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
    if options[PATH.key].strip().lower() != INGEST:
        raise _cannot(f"path '{options['path']}'", f"path '{INGEST}', with nothing behind it")
    if format_name not in (*STREAMED, *_POSTED):
        hint = f"USING {' or '.join(STREAMED)}; {' or '.join(_POSTED)} for rows that are posted"
        raise _cannot(f"USING {format_name}", hint)
    if not len(schema):
        raise _cannot("its columns are not declared", "declare them: there are no rows yet that they could come from")
    if STATIC.of(options):
        raise _cannot("static 'true'", "leave it out: a stream has no end")
    for name in _OF_FILES.given(options):
        raise _cannot(f"option {name}", "leave it out: it is for files that other programs write")
    for option in INGEST_OPTIONS.options:
        option.of(options)


def check_streamed(format_name: str) -> None:
    """TM5064 when rows of Spark streams cannot wait in a format."""
    if format_name not in STREAMED:
        raise _cannot(f"USING {format_name}", f"USING {' or '.join(STREAMED)}: in this rows wait to be read")


def not_ingested(path: str) -> TidemillError:
    """TM5064: the table has rows from elsewhere."""
    return _cannot(f"path '{path}'", f"a table with path '{INGEST}'")


def _cannot(got: str, hint: str) -> TidemillError:
    return TidemillError("TM5064", "Spark streams cannot be written into such a table", got=got, hint=hint)
