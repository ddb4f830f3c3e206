"""Reading the options of formats: names count in any case, a bad value is TM4003."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from tidemill.connectors.registry import options_of_all
from tidemill.errors import TidemillError, nearest
from tidemill.formats.values.columns.columns import TimePatterns
from tidemill.formats.values.times.time_pattern import NO_PATTERN, TimePattern, compile_pattern
from tidemill.formats.values.times.time_zones import zone_names
from tidemill.objectstore.connection import SPELT_CONNECTION
from tidemill.objectstore.queue_options import NOTIFICATION_OPTIONS, SPELT_NOTIFICATIONS
from tidemill.zones import UTC, is_utc


def bad_option(name: str, value: str, hint: str) -> TidemillError:
    """TM4003."""
    return TidemillError("TM4003", f"bad value of option {name}", got=repr(value), hint=hint)


def flag(given: Mapping[str, str], name: str, default: bool = False) -> bool:
    """``true`` or ``false``, in any case; names of ``given`` are in lower case."""
    text = given.get(name.lower(), str(default))
    if text.lower() not in ("true", "false"):
        raise bad_option(name, text, "true or false")
    return text.lower() == "true"


def positive(given: Mapping[str, str], name: str, default: int) -> int:
    """A positive integer."""
    text = given.get(name.lower(), str(default))
    if not (text.isascii() and text.isdigit() and int(text) > 0):
        raise bad_option(name, text, "a positive integer")
    return int(text)


def parse_size(name: str, text: str) -> int:
    """A count or a size such as ``1000``, ``64k``, ``16m`` or ``1g``, in bytes.

    Raises
    ------
    TidemillError
        TM4003 when it is not a positive number.
    """
    factors = {"k": 1 << 10, "m": 1 << 20, "g": 1 << 30}
    lowered = text.strip().lower().removesuffix("b")
    factor = factors.get(lowered[-1:], 1)
    digits = lowered[:-1] if factor > 1 else lowered
    if not (digits.isascii() and digits.isdigit()) or int(digits) == 0:
        raise TidemillError(
            "TM4003",
            f"bad value for option {name}",
            got=text,
            hint="a positive number, with k, m or g for bytes",
        )
    return int(digits) * factor


_SPELT = {
    name.lower(): name
    for name in (
        "allowAppends", "allowBackslashEscapingAnyCharacter", "allowComments", "allowNonNumericNumbers",
        "allowNumericLeadingZeros", "allowOverwrites", "allowSingleQuotes", "allowUnquotedControlChars",
        "allowUnquotedFieldNames", "bufferSize",
        "cleanSource", "cleanSource.retentionDuration", "sourceArchiveDir",
        "charToEscapeQuoteEscaping", "dateFormat", "dateFormat.*", "emptyValue", "enforceSchema", "errorsPath",
        "failOnMissing", "fileAttempts", "framing", "ignoreLeadingWhiteSpace", "ignoreSurroundingSpaces",
        "ignoreTrailingWhiteSpace",
        "inferColumnTypes", "inferTimestamp", "insertOnly", "lengthByteOrder", "lengthBytes", "lineSep",
        "maxBytesPerTrigger", "maxCharsPerColumn", "maxColumns", "maxConcurrentReads", "maxDecompressedRatio",
        "maxErrorRatio", "maxErrors", "maxFilesPerTrigger", "maxMessageBytes", "maxNestingDepth", "maxPartitionBytes",
        "maxRowsPerTrigger", "maxSpoolBytes", "messageTimeout", "metadataColumn", "modifiedAfter", "modifiedBefore",
        "multiLine", "nanValue", "negativeInf", "nullValue", "nullValues", "numberOfRows", "opColumn", "opDelete",
        "opInsert", "pathGlobFilter", "positiveInf", "prefersDecimal", "primitivesAsString", "readMode",
        "recursiveFileLookup", "rescuedDataColumn", "retainBytes", "rowsPerSecond",
        "schemaEvolutionMode", "schemaHints", "schemaInferenceSampleBytes", "schemaInferenceSampleFiles",
        "stateLocation",
        "timeZone", "timestampFormat", "timestampFormat.*", "timestampNTZFormat", "timestampUnit",
        "unescapedQuoteHandling",
        "watermarkDelay", *SPELT_CONNECTION, *SPELT_NOTIFICATIONS,
    )
}  # fmt: skip
"""Names of options as they are written; others are in lower case."""

TABLE_OPTIONS = frozenset(
    {
        "path",
        "opcolumn",
        "opinsert",
        "opdelete",
        "maxfilespertrigger",
        "maxbytespertrigger",
        "maxrowspertrigger",
        "allowoverwrites",
        "allowappends",
        "fileattempts",
        "watermark",
        "watermarkdelay",
        "static",
        "broadcast",
        "maxerrors",
        "maxerrorratio",
        "metadatacolumn",
        *NOTIFICATION_OPTIONS,
    }
)
"""Options of the tables of a mill, of which no format is told."""


def check_options(name: str, given: Iterable[str], known: Collection[str]) -> None:
    """TM4005 for an option that does not exist; names in any case. A known one may end in ``*``: all that begin so."""
    families = tuple(option.removesuffix("*") for option in known if option.endswith("*"))
    for option in given:
        if option.lower() not in known and not option.lower().startswith(families):
            spelt = {**options_of_all(), **_SPELT}
            hint = nearest(option, [spelt.get(known_name, known_name) for known_name in known])
            raise TidemillError("TM4005", f"unknown option for a table USING {name}", got=option, hint=hint)


def check_own_options(name: str, given: Iterable[str], known: Collection[str]) -> None:
    """:func:`check_options` for who reads without a mill: what only its tables have is TM4005, too."""
    for option in given:
        if option.lower() in TABLE_OPTIONS - set(known):
            raise TidemillError(
                "TM4005",
                f"unknown option for a table USING {name}",
                got=option,
                hint=f"{_SPELT.get(option.lower(), option)} is for the tables of a mill; leave it out",
            )
    check_options(name, given, known)


def time_pattern(given: Mapping[str, str], name: str) -> TimePattern:
    """A compiled ``dateFormat`` or ``timestampFormat``; ``NO_PATTERN`` when it is not given.

    Raises
    ------
    TidemillError
        TM4003 for a pattern that Spark refuses, or that is not understood here.
    """
    text = given.get(name.lower())
    if text is None:
        return NO_PATTERN
    try:
        pattern = compile_pattern(text)
        zone_names(pattern.zones)
    except ValueError as error:
        raise bad_option(
            name, text, f"{error}; a pattern of Spark's, such as dd/MM/yyyy HH:mm:ss[.SSS][XXX], with text in quotes"
        ) from error
    return pattern


def time_patterns(given: Mapping[str, str]) -> TimePatterns:
    """``dateFormat``, ``timestampFormat``, ``timestampNTZFormat`` and ``timeZone`` of a table.

    Errors as :func:`time_pattern`.
    """
    without_zone = time_pattern(given, "timestampNTZFormat") if "timestampntzformat" in given else None
    patterns = time_pattern(given, "dateFormat"), time_pattern(given, "timestampFormat"), without_zone
    return TimePatterns(*patterns, zone=_zone(given))


ZONE_OPTION = "timezone"
"""What a table's ``timeZone`` is called here: that of timestamps whose texts have none."""


def _zone(given: Mapping[str, str]) -> str | None:
    """``timeZone`` of a table; None for UTC."""
    text = given.get(ZONE_OPTION, UTC)
    try:
        return None if is_utc(text) else text
    except TidemillError as error:
        raise bad_option("timeZone", text, error.hint) from error
