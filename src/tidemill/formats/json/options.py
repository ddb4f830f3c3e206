"""Options of JSON under Spark's names, and which part of a record each column is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tidemill.errors import nearest
from tidemill.formats.options import ZONE_OPTION, bad_option, flag, positive, time_patterns
from tidemill.formats.rows.malformed import Mode, parse_mode
from tidemill.formats.values.columns.columns import TimePatterns
from tidemill.schema import Schema

FIELD_PREFIX = "field."
"""``field.<column>`` is the path of a column in a record."""

_ONLY = {
    "allowcomments": ("allowComments", False, "comments are malformed"),
    "allowunquotedfieldnames": ("allowUnquotedFieldNames", False, "names need quotes"),
    "allowsinglequotes": ("allowSingleQuotes", False, "texts and names need double quotes"),
    "allownumericleadingzeros": ("allowNumericLeadingZeros", False, "numbers do not begin with 0"),
    "allowbackslashescapinganycharacter": (
        "allowBackslashEscapingAnyCharacter",
        False,
        "only the escapes of JSON are understood",
    ),
    "allowunquotedcontrolchars": ("allowUnquotedControlChars", False, "control characters in texts need an escape"),
    "allownonnumericnumbers": ("allowNonNumericNumbers", True, "NaN and Infinity are always understood"),
    "primitivesasstring": ("primitivesAsString", False, "declare the columns as STRING"),
    "prefersdecimal": ("prefersDecimal", False, "declare the columns as DECIMAL"),
}
"""Options of Spark's with one value that is understood: their names, that value, what to do instead."""

OPTION_NAMES = frozenset(
    {
        "mode",
        "multiline",
        "dateformat",
        "timestampformat",
        "timestampntzformat",
        ZONE_OPTION,
        "encoding",
        "charset",
        "linesep",
        "maxnestingdepth",
    }
    | _ONLY.keys()
    | {FIELD_PREFIX + "*"}
)

DEFAULT_MAX_DEPTH = 1000
_MOST_DEPTH = 100_000


@dataclass(frozen=True)
class JsonOptions:
    """The options of one table.

    Attributes
    ----------
    multi_line : bool or None
        Whether records may span lines and lie in arrays; None leaves it to the first byte of each file.
    mode : Mode
    patterns : TimePatterns
    max_depth : int
        Objects and arrays may lie within one another so deep.
    paths : mapping of int to tuple of str
        For columns, by their place in the schema, that are not the field of their name.
    """

    multi_line: bool | None
    mode: Mode
    patterns: TimePatterns
    max_depth: int
    paths: Mapping[int, tuple[str, ...]]


def parse_options(schema: Schema, options: Mapping[str, str]) -> JsonOptions:
    """Check the options of a table; names count in any case.

    Raises
    ------
    TidemillError
        TM4003 for a value that is wrong or not supported.
    """
    given = {name.lower(): value for name, value in options.items()}
    for lowered, (name, wanted, hint) in _ONLY.items():
        if flag(given, name, wanted) != wanted:
            raise bad_option(name, given[lowered], f"not supported: {hint}")
    for name in ("encoding", "charset"):
        if given.get(name, "utf-8").lower() not in ("utf-8", "utf8"):
            raise bad_option(name, given[name], "only UTF-8 is supported")
    if given.get("linesep", "\n") not in ("\n", "\\n"):
        raise bad_option("lineSep", given["linesep"], "only \\n is supported; a \\r before it is white space")
    depth = positive(given, "maxNestingDepth", DEFAULT_MAX_DEPTH)
    if depth > _MOST_DEPTH:
        raise bad_option("maxNestingDepth", str(depth), f"at most {_MOST_DEPTH}")
    return JsonOptions(
        multi_line=flag(given, "multiLine") if "multiline" in given else None,
        mode=parse_mode(given),
        patterns=time_patterns(given),
        max_depth=depth,
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
