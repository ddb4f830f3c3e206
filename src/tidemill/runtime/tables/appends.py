"""Tables whose files may grow at their end: the option ``allowAppends``, and which tables can have it."""

from __future__ import annotations

from collections.abc import Mapping

from tidemill.errors import TidemillError
from tidemill.formats.base import has_lines
from tidemill.formats.reading.codecs import parse_codec_options
from tidemill.formats.registry import lookup
from tidemill.options.tables import ALLOW_APPENDS, ALLOW_OVERWRITES, STATIC


def check_appends(format_name: str, options: Mapping[str, str], local: bool) -> None:
    """Whether such a table can be: its rows are lines of files that are not compressed, of a file system.

    Raises
    ------
    TidemillError
        TM4003 for a value that is neither true nor false, TM2038 for another table.
    """
    if not ALLOW_APPENDS.of(options):
        return
    for present, what, hint in (
        (
            not local,
            "its files are in an object store, or come otherwise",
            "an object is written whole: allowOverwrites",
        ),
        (not has_lines(lookup(format_name)), f"USING {format_name}", "csv, json or another format of lines"),
        (options.get("multiline", "").lower() == "true", "multiLine 'true'", "rows that are lines"),
        ("linesep" in options, "lineSep", "lines that end with a newline"),
        (ALLOW_OVERWRITES.of(options), "allowOverwrites 'true'", "one of the two"),
        (STATIC.of(options), "static 'true'", "a static table is complete before anything that is joined with it"),
        (parse_codec_options(options).of("x.csv") is not None, "compression", "files that are not compressed"),
    ):
        if present:
            raise TidemillError(
                "TM2038", "a table with allowAppends cannot be of this kind", got=what, hint=f"it needs: {hint}"
            )
