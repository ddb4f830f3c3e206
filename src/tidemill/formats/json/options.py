"""Options of JSON under Spark's names, and which part of a record each column is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tidemill.errors import nearest
from tidemill.formats.rows.malformed import MODE, Mode
from tidemill.formats.values.columns.columns import TimePatterns
from tidemill.formats.values.columns.time_options import TIME_OPTIONS, time_patterns
from tidemill.options.kinds import FLAG, TEXT, number, only
from tidemill.options.option import Option, OptionGroup, bad_option, lowered
from tidemill.schema import Schema

FIELD_PREFIX = "field."


def _unsupported(name: str, always: str, instead: str) -> Option[object]:
    return Option(name, only(always, instead=instead), always == "true", f"of Spark's; {always} alone")


_ONLY = (
    _unsupported("allowComments", "false", "comments are malformed"),
    _unsupported("allowUnquotedFieldNames", "false", "names need quotes"),
    _unsupported("allowSingleQuotes", "false", "texts and names need double quotes"),
    _unsupported("allowNumericLeadingZeros", "false", "numbers do not begin with 0"),
    _unsupported("allowBackslashEscapingAnyCharacter", "false", "only the escapes of JSON are understood"),
    _unsupported("allowUnquotedControlChars", "false", "control characters in texts need an escape"),
    _unsupported("allowNonNumericNumbers", "true", "NaN and Infinity are always understood"),
    _unsupported("primitivesAsString", "false", "declare the columns as STRING"),
    _unsupported("prefersDecimal", "false", "declare the columns as DECIMAL"),
)
"""Options of Spark's with one value that is supported."""

_UTF8 = only("UTF-8", "utf8", instead="only UTF-8 is supported")
_FIXED: tuple[Option[object], ...] = (
    Option("encoding", _UTF8, "UTF-8", "UTF-8 alone"),
    Option("charset", _UTF8, "UTF-8", "another name of `encoding`"),
    Option(
        "lineSep",
        only("\n", "\\n", instead="only \\n is supported; a \\r before it is white space"),
        "\n",
        "what ends a record: a newline alone",
        shown="`\\n`",
    ),
    *_ONLY,
)
MULTI_LINE = Option(
    "multiLine",
    FLAG,
    None,
    "records may span lines and lie in arrays",
    shown="decided by the beginning of each file",
)
MAX_DEPTH = Option(
    "maxNestingDepth", number(1, 100_000), 1000, "how deep objects and arrays may lie within one another"
)
FIELD = Option(FIELD_PREFIX + "*", TEXT, None, "the path of a column in a record: `field.city` `address/city`")

JSON_OPTIONS = OptionGroup(
    "JSON",
    "Tables `USING json`. `mode`, `rescuedDataColumn` and `schemaEvolutionMode` are described below.",
    (MODE, MULTI_LINE, *TIME_OPTIONS, MAX_DEPTH, FIELD, *_FIXED),
)


@dataclass(frozen=True)
class JsonOptions:
    """The options of one table.

    Attributes
    ----------
    multi_line : bool or None
        Whether records may span lines and lie in arrays; None leaves it to the beginning of each file.
    mode : Mode
    patterns : TimePatterns
    max_depth : int
        Greatest depth of nested objects and arrays.
    paths : mapping of int to tuple of str
        For columns, by their place in the schema, that are not the field of their name.
    """

    multi_line: bool | None
    mode: Mode
    patterns: TimePatterns
    max_depth: int
    paths: Mapping[int, tuple[str, ...]]


def parse_options(schema: Schema, options: Mapping[str, str]) -> JsonOptions:
    """Check the options of a table; names are case-insensitive.

    Raises
    ------
    TidemillError
        TM4003 for a value that is wrong or not supported.
    """
    given = lowered(options)
    for option in _FIXED:
        option.of(given)
    return JsonOptions(
        multi_line=MULTI_LINE.of(given),
        mode=MODE.of(given),
        patterns=time_patterns(given),
        max_depth=MAX_DEPTH.of(given),
        paths=_paths(schema, given),
    )


def _paths(schema: Schema, given: Mapping[str, str]) -> dict[int, tuple[str, ...]]:
    names = [name.lower() for name in schema.names]
    paths = {}
    for option, text in given.items():
        if not option.startswith(FIELD_PREFIX):
            continue
        column = option.removeprefix(FIELD_PREFIX)
        if column not in names:
            raise bad_option(option, text, f"there is no such column; {nearest(column, schema.names)}")
        parts = text.removeprefix("/").split("/")
        if not all(parts):
            raise bad_option(option, text, "names joined by /, such as 'address/city'; ~1 is a / in a name, ~0 a ~")
        paths[names.index(column)] = tuple(part.replace("~1", "/").replace("~0", "~") for part in parts)
    return paths
