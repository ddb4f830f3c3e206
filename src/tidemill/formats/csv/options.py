"""Options of CSV under Spark's names, checked and brought into the form that the kernels take."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass

from tidemill.formats.options import ZONE_OPTION, bad_option, flag, positive, time_patterns
from tidemill.formats.rows.malformed import Mode, parse_mode
from tidemill.formats.text.delimiters import Delimiters
from tidemill.formats.text.line_ends import NO_BYTE, PLAIN_LINES, LineRules
from tidemill.formats.values.columns.chosen import OVERRIDE_OPTIONS
from tidemill.formats.values.columns.columns import TimePatterns
from tidemill.formats.values.field_text import TRIM_LEADING, TRIM_TRAILING

_ONLY = {
    "emptyvalue": ("emptyValue", ("",), "set nullValue or nullValues: then an empty text in quotes is not NULL"),
    "ignoresurroundingspaces": (
        "ignoreSurroundingSpaces",
        (),
        "it is ignoreLeadingWhiteSpace and ignoreTrailingWhiteSpace",
    ),
    "unescapedquotehandling": (
        "unescapedQuoteHandling",
        ("STOP_AT_DELIMITER",),
        "what stands behind a closing quote makes a field malformed; see mode",
    ),
    "enforceschema": ("enforceSchema", ("false",), "with header true, columns are found by name"),
    "maxcharspercolumn": ("maxCharsPerColumn", ("-1",), "there is no such limit; maxColumns limits columns"),
}
"""Options of Spark's and others' with few values that are understood: their names, these values, what to do instead."""

OPTION_NAMES = frozenset(
    {
        "header",
        "sep",
        "delimiter",
        "quote",
        "escape",
        "chartoescapequoteescaping",
        "nullvalue",
        "nullvalues",
        "nanvalue",
        "positiveinf",
        "negativeinf",
        "comment",
        "mode",
        "dateformat",
        "timestampformat",
        "timestampntzformat",
        ZONE_OPTION,
        "ignoreleadingwhitespace",
        "ignoretrailingwhitespace",
        "encoding",
        "linesep",
        "maxcolumns",
        "multiline",
    }
    | _ONLY.keys()
    | OVERRIDE_OPTIONS
)

DEFAULT_MAX_COLUMNS = 20480


@dataclass(frozen=True)
class CsvOptions:
    """The options of one table.

    Attributes
    ----------
    header : bool
        The first line names the columns.
    separator, quote, comment : int
        ASCII codes; ``NO_BYTE`` for a quote or comment that is switched off, and for a separator of several bytes.
    null_text : bytes
        What stands for NULL, as an empty field without quotes does.
    trim : int
        Sum of ``TRIM_LEADING`` and ``TRIM_TRAILING``.
    mode : Mode
    patterns : TimePatterns
    max_columns : int
        Most columns that a table or header may have.
    delimiters : Delimiters or None
        Separators, line ends and quotes that the one-byte rule does not cover; None when it does.
    null_texts : tuple of bytes
        Everything that stands for NULL, ``null_text`` first.
    not_finite : tuple of (bytes, bytes)
        Further names of numbers that are not finite, and what each means.
    multi_line : bool
        A line end inside quotes is data; else every line end ends a row, and a quote that it leaves open is text.
    """

    header: bool
    separator: int
    quote: int
    comment: int
    null_text: bytes
    trim: int
    mode: Mode
    patterns: TimePatterns
    max_columns: int
    delimiters: Delimiters | None = None
    null_texts: tuple[bytes, ...] = (b"",)
    not_finite: tuple[tuple[bytes, bytes], ...] = ()
    multi_line: bool = True

    @property
    def lines(self) -> LineRules | Delimiters:
        """What decides where lines end."""
        if not self.multi_line:
            return PLAIN_LINES if self.general.strips_return else self.plain_lines
        return self.delimiters or LineRules(self.separator, self.quote, self.trim & TRIM_LEADING)

    @property
    def plain_lines(self) -> Delimiters:
        """Every line end ends a row."""
        return Delimiters(b"", self.general.row_end, NO_BYTE, NO_BYTE, 0)

    @property
    def general(self) -> Delimiters:
        """The same, in the form that covers everything."""
        return self.delimiters or Delimiters(
            bytes([self.separator]), b"\n", self.quote, NO_BYTE, self.trim & TRIM_LEADING
        )


def parse_options(options: Mapping[str, str]) -> CsvOptions:
    """Check the options of a table; names count in any case.

    Raises
    ------
    TidemillError
        TM4003 for a value that is wrong or not supported.
    """
    given = {name.lower(): value for name, value in options.items()}
    for lowered, (spark_name, understood, hint) in _ONLY.items():
        if lowered in given and given[lowered].lower() not in (u.lower() for u in understood):
            raise bad_option(spark_name, given[lowered], f"not supported: {hint}")
    trim = TRIM_LEADING * flag(given, "ignoreLeadingWhiteSpace") + TRIM_TRAILING * flag(
        given, "ignoreTrailingWhiteSpace"
    )
    delimiters, comment = _delimiters(given, trim & TRIM_LEADING)
    if given.get("encoding", "utf-8").lower() not in ("utf-8", "utf8"):
        raise bad_option("encoding", given["encoding"], "only UTF-8 is supported")
    null_texts = _null_texts(given, delimiters)
    multi_line = flag(given, "multiLine", True)
    if not multi_line and _overlap(delimiters.separator, delimiters.row_end):
        raise bad_option("multiLine", "false", "the end of sep must not be the beginning of lineSep: which one counts?")
    one_byte = len(delimiters.separator) == 1 and delimiters.separator.isascii()
    plain = one_byte and delimiters.row_end == b"\n" and delimiters.escape == NO_BYTE
    return CsvOptions(
        header=flag(given, "header"),
        separator=delimiters.separator[0] if one_byte else NO_BYTE,
        quote=delimiters.quote,
        comment=comment,
        null_text=null_texts[0],
        trim=trim,
        mode=parse_mode(given),
        patterns=time_patterns(given),
        max_columns=positive(given, "maxColumns", DEFAULT_MAX_COLUMNS),
        delimiters=None if plain else delimiters,
        null_texts=null_texts,
        not_finite=tuple((given[name].encode(), meaning) for name, meaning in _NOT_FINITE.items() if given.get(name)),
        multi_line=multi_line,
    )


def _overlap(first: bytes, second: bytes) -> bool:
    """Whether the end of one text is the beginning of another."""
    return any(second.startswith(first[i:]) for i in range(len(first)))


_NOT_FINITE = {"nanvalue": b"NaN", "positiveinf": b"Infinity", "negativeinf": b"-Infinity"}


def _delimiters(given: Mapping[str, str], leading: int) -> tuple[Delimiters, int]:
    """Separator, line end, quote and escape, and the comment character."""
    if "sep" in given and "delimiter" in given and given["sep"] != given["delimiter"]:
        raise bad_option("delimiter", given["delimiter"], "sep and delimiter are the same option: give one of them")
    name = "sep" if "sep" in given else "delimiter"
    separator = _bytes(name, given.get(name, ","), _MOST_SEPARATOR)
    row_end = _bytes("lineSep", given.get("linesep", "\n"), _MOST_ROW_END)
    quote = _character("quote", given.get("quote", '"')) if given.get("quote", '"') else NO_BYTE
    if quote != NO_BYTE and chr(quote) in "0123456789+-.tfniTFNI":
        raise bad_option("quote", given["quote"], "a number, NaN, Infinity, true or false must not begin with it")
    comment = _character("comment", given["comment"]) if given.get("comment") else NO_BYTE
    escape = NO_BYTE
    if "escape" in given and (given["escape"] or quote != NO_BYTE):
        escape = _character("escape", given["escape"])
        if escape == quote or quote == NO_BYTE:
            escape = NO_BYTE  # a doubled quote, or nothing to escape
    _check_escape_of_escape(given, escape)
    used = {code for code in (quote, escape, comment) if code != NO_BYTE}
    if len(used) < sum(code != NO_BYTE for code in (quote, escape, comment)) or used & set(separator):
        raise bad_option(name, given.get(name, ","), "separator, quote, escape and comment must differ")
    if used & set(row_end):
        raise bad_option("lineSep", given["linesep"], "it must not hold the quote, the escape or the comment character")
    if separator in row_end or row_end in separator or (b"\r" in separator and row_end == b"\n"):
        raise bad_option(name, given.get(name, ","), "separator and lineSep must not contain one another")
    return Delimiters(separator, row_end, quote, escape, leading), comment


def _check_escape_of_escape(given: Mapping[str, str], escape: int) -> None:
    name = "charToEscapeQuoteEscaping"
    text = given.get(name.lower())
    if text is not None and (escape == NO_BYTE or _unescaped(name, text) != bytes([escape])):
        raise bad_option(name, text, "only the escape character itself is supported")


def _null_texts(given: Mapping[str, str], delimiters: Delimiters) -> tuple[bytes, ...]:
    """What stands for NULL: ``nullValue``, and what ``nullValues`` lists."""
    if "nullvalues" not in given:
        return (given.get("nullvalue", "").encode(),)
    text = given["nullvalues"]
    try:
        listed = json.loads(text)
    except ValueError:
        listed = None
    if not isinstance(listed, list) or not listed or not all(isinstance(marker, str) for marker in listed):
        raise bad_option("nullValues", text, 'a JSON array of texts, such as ["", "NA"]')
    if delimiters.quote != NO_BYTE and any(chr(delimiters.quote) in marker for marker in listed):
        raise bad_option("nullValues", text, "a marker does not hold the quote character")
    markers = [given["nullvalue"], *listed] if "nullvalue" in given else listed
    return tuple(dict.fromkeys(marker.encode() for marker in markers))


_MOST_SEPARATOR = 64
_MOST_ROW_END = 128
_ESCAPE = re.compile(rb"\\(?:([\\trnbf'\"])|u([0-9a-fA-F]{4})|x([0-9a-fA-F]{2})|)")
_ESCAPED = {b"t": b"\t", b"r": b"\r", b"n": b"\n", b"b": b"\b", b"f": b"\f"}


def _unescaped(name: str, text: str) -> bytes:
    """The bytes that a text with Spark's escapes spells; a backslash alone is itself."""

    def one(match: re.Match[bytes]) -> bytes:
        if match[1]:
            return _ESCAPED.get(match[1], match[1])
        if match[2]:
            return chr(int(match[2], 16)).encode("utf-8", "replace")
        if match[3]:
            return bytes([int(match[3], 16)])
        raise bad_option(name, text, "what stands behind a \\ is one of t r n b f ' \" \\ uXXXX xXX")

    return b"\\" if text == "\\" else _ESCAPE.sub(one, text.encode("utf-8", "replace"))


def _bytes(name: str, text: str, most: int) -> bytes:
    """One or more bytes."""
    found = _unescaped(name, text)
    if not 0 < len(found) <= most or b"\0" in found:
        raise bad_option(name, text, f"1 to {most} bytes, none of them 0; \\t stands for a tab")
    return found


def _character(name: str, text: str) -> int:
    character = _unescaped(name, text)
    if len(character) != 1 or not character.isascii() or character in b"\n\r\0":
        raise bad_option(name, text, "one ASCII character, no line end; \\t stands for a tab")
    return character[0]
