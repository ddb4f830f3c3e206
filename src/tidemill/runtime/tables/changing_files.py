"""Tables whose files change: ``allowOverwrites`` and ``allowAppends``, and the tables that cannot have them."""

from __future__ import annotations

from collections.abc import Mapping

from tidemill.errors import TidemillError
from tidemill.formats.base import has_lines
from tidemill.formats.reading.codecs import parse_codec_options
from tidemill.formats.registry import lookup
from tidemill.formats.rescue.options import EVOLUTION, Evolution
from tidemill.options.tables import ALLOW_APPENDS, ALLOW_OVERWRITES, STATIC, WATERMARK

_STATIC = "a static table is complete before anything that is joined with it"


def check_overwrites(options: Mapping[str, str], overwritable: bool, keyed: bool, pushed: bool) -> None:
    """Check a table whose files change: by the option ``allowOverwrites``, or as those of a Delta table do.

    Raises
    ------
    TidemillError
        TM4003 for a value that is neither true nor false, TM2037 for a table that cannot have it.
    """
    if not (ALLOW_OVERWRITES.of(options) or overwritable):
        return
    for present, what, hint in (
        (keyed, "a PRIMARY KEY, or a format that needs one", "a file of messages is read once, in its order"),
        (pushed, "a socket", "what has come over a socket does not change any more"),
        (STATIC.of(options), "static 'true'", _STATIC),
        (
            WATERMARK.key in options,
            f"watermark '{WATERMARK.of(options)}'",
            "rows of a new version could be late, and so be missing where those of the version before were taken out",
        ),
        (
            EVOLUTION.of(options) is Evolution.ADD,
            "schemaEvolutionMode 'addNewColumns'",
            "rows are kept with the columns they were read with; schemaEvolutionMode 'rescue' keeps new ones as text",
        ),
    ):
        if present:
            raise TidemillError(
                "TM2037",
                "a table whose files change cannot be of this kind",
                got=what,
                hint=f"leave one of the two out: {hint}",
            )


def check_appends(format_name: str, options: Mapping[str, str], local: bool) -> None:
    """Check the option ``allowAppends``: rows must be lines of uncompressed files of a file system.

    Raises
    ------
    TidemillError
        TM4003 for a value that is neither true nor false, TM2038 for a table that cannot have it.
    """
    if not ALLOW_APPENDS.of(options):
        return
    compressed = parse_codec_options(options).of("x.csv") is not None
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
        (STATIC.of(options), "static 'true'", _STATIC),
        (compressed, "compression", "files that are not compressed"),
    ):
        if present:
            raise TidemillError(
                "TM2038", "a table with allowAppends cannot be of this kind", got=what, hint=f"it needs: {hint}"
            )
