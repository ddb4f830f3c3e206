"""Options of CSV under Spark's names, checked and brought into the form that the kernels take."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass

from tidemill.formats.rows.malformed import MODE, Mode
from tidemill.formats.text.delimiters import Delimiters
from tidemill.formats.text.line_ends import NO_BYTE, PLAIN_LINES, LineRules
from tidemill.formats.values.columns.chosen import COLUMN_OPTIONS
from tidemill.formats.values.columns.columns import TimePatterns
from tidemill.formats.values.columns.time_options import TIME_OPTIONS, time_patterns
from tidemill.formats.values.field_text import TRIM_LEADING, TRIM_TRAILING
from tidemill.options.kinds import FLAG, POSITIVE, TEXT, only
from tidemill.options.option import Option, OptionGroup, lowered

HEADER = Option("header", FLAG, False, "the first line names the columns")
SEPARATOR = Option("sep", TEXT, ",", "what separates fields: 1 to 64 bytes, `\\t` for a tab")
DELIMITER = Option("delimiter", TEXT, ",", "another name of `sep`")
QUOTE = Option("quote", TEXT, '"', "the character around fields; empty for none")
ESCAPE = Option("escape", TEXT, "", "the character before a quote within quotes", shown="the quote, doubled")
ESCAPE_OF_ESCAPE = Option("charToEscapeQuoteEscaping", TEXT, None, "only the escape character itself is supported")
NULL_VALUE = Option("nullValue", TEXT, "", "the text that means NULL", shown="the empty text")
NULL_VALUES = Option("nullValues", TEXT, None, 'all texts that mean NULL: a JSON array such as `["", "NA"]`')
NAN_VALUE = Option("nanValue", TEXT, "", "a further name of NaN")
POSITIVE_INF = Option("positiveInf", TEXT, "", "a further name of Infinity")
NEGATIVE_INF = Option("negativeInf", TEXT, "", "a further name of -Infinity")
COMMENT = Option("comment", TEXT, "", "lines that begin with this character are left out")
LEADING = Option("ignoreLeadingWhiteSpace", FLAG, False, "white space before a field is no part of it")
TRAILING = Option("ignoreTrailingWhiteSpace", FLAG, False, "white space behind a field is no part of it")
ENCODING = Option("encoding", only("UTF-8", "utf8", instead="only UTF-8 is supported"), "UTF-8", "UTF-8 alone")
LINE_SEP = Option("lineSep", TEXT, "\n", "what ends a row: 1 to 128 bytes", shown="`\\n`")
MAX_COLUMNS = Option("maxColumns", POSITIVE, 20480, "most columns that a table or header may have")
MULTI_LINE = Option("multiLine", FLAG, True, "a line end within quotes is data; with `false` each line is a row")

_ONLY: tuple[Option[object], ...] = (
    Option(
        "emptyValue",
        only("", instead="set nullValue or nullValues: then an empty text in quotes is not NULL"),
        "",
        "of Spark's; empty alone",
    ),
    Option(
        "ignoreSurroundingSpaces",
        only(instead="it is ignoreLeadingWhiteSpace and ignoreTrailingWhiteSpace"),
        None,
        "of others; not supported",
    ),
    Option(
        "unescapedQuoteHandling",
        only("STOP_AT_DELIMITER", instead="what stands behind a closing quote makes a field malformed; see mode"),
        "STOP_AT_DELIMITER",
        "of Spark's; its default alone",
    ),
    Option(
        "enforceSchema",
        only("false", instead="with header true, columns are found by name"),
        False,
        "of Spark's; columns are found by the names of a header",
    ),
    Option(
        "maxCharsPerColumn",
        only("-1", instead="there is no such limit; maxColumns limits columns"),
        -1,
        "of Spark's; there is no limit",
    ),
)
"""Options of Spark's and others' with few values that are supported, or none."""

CSV_OPTIONS = OptionGroup(
    "CSV",
    "Tables `USING csv`. `mode`, `rescuedDataColumn` and `schemaEvolutionMode` are described below.",
    (
        HEADER,
        SEPARATOR,
        DELIMITER,
        QUOTE,
        ESCAPE,
        ESCAPE_OF_ESCAPE,
        NULL_VALUE,
        NULL_VALUES,
        NAN_VALUE,
        POSITIVE_INF,
        NEGATIVE_INF,
        COMMENT,
        MODE,
        *TIME_OPTIONS,
        LEADING,
        TRAILING,
        ENCODING,
        LINE_SEP,
        MAX_COLUMNS,
        MULTI_LINE,
        *COLUMN_OPTIONS,
        *_ONLY,
    ),
)


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
        The text that means NULL, as an empty field without quotes does.
    trim : int
        Sum of ``TRIM_LEADING`` and ``TRIM_TRAILING``.
    mode : Mode
    patterns : TimePatterns
    max_columns : int
        Most columns that a table or header may have.
    delimiters : Delimiters or None
        Separators, line ends and quotes that the one-byte rule does not cover; None when it does.
    null_texts : tuple of bytes
        All texts that mean NULL, ``null_text`` first.
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
    """Check the options of a table; names are case-insensitive.

    Raises
    ------
    TidemillError
        TM4003 for a value that is wrong or not supported.
    """
    given = lowered(options)
    for option in (*_ONLY, ENCODING):
        option.of(given)
    trim = TRIM_LEADING * LEADING.of(given) + TRIM_TRAILING * TRAILING.of(given)
    delimiters, comment = _delimiters(given, trim & TRIM_LEADING)
    null_texts = _null_texts(given, delimiters)
    multi_line = MULTI_LINE.of(given)
    if not multi_line and _overlap(delimiters.separator, delimiters.row_end):
        raise MULTI_LINE.bad("false", "the end of sep must not be the beginning of lineSep: which one counts?")
    one_byte = len(delimiters.separator) == 1 and delimiters.separator.isascii()
    plain = one_byte and delimiters.row_end == b"\n" and delimiters.escape == NO_BYTE
    return CsvOptions(
        header=HEADER.of(given),
        separator=delimiters.separator[0] if one_byte else NO_BYTE,
        quote=delimiters.quote,
        comment=comment,
        null_text=null_texts[0],
        trim=trim,
        mode=MODE.of(given),
        patterns=time_patterns(given),
        max_columns=MAX_COLUMNS.of(given),
        delimiters=None if plain else delimiters,
        null_texts=null_texts,
        not_finite=tuple((text.encode(), meaning) for o, meaning in _NOT_FINITE.items() if (text := o.of(given))),
        multi_line=multi_line,
    )


def _overlap(first: bytes, second: bytes) -> bool:
    """Whether the end of one text is the beginning of another."""
    return any(second.startswith(first[i:]) for i in range(len(first)))


_NOT_FINITE = {NAN_VALUE: b"NaN", POSITIVE_INF: b"Infinity", NEGATIVE_INF: b"-Infinity"}


def _delimiters(given: Mapping[str, str], leading: int) -> tuple[Delimiters, int]:
    """Separator, line end, quote and escape, and the comment character."""
    option = SEPARATOR if SEPARATOR.key in given else DELIMITER
    separator = _bytes(option, option.of(given), _MOST_SEPARATOR)
    if DELIMITER.of(given) != option.of(given) and DELIMITER.key in given:
        raise DELIMITER.bad(DELIMITER.of(given), "sep and delimiter are the same option: give one of them")
    row_end = _bytes(LINE_SEP, LINE_SEP.of(given), _MOST_ROW_END)
    quote = _character(QUOTE, QUOTE.of(given)) if QUOTE.of(given) else NO_BYTE
    if quote != NO_BYTE and chr(quote) in "0123456789+-.tfniTFNI":
        raise QUOTE.bad(QUOTE.of(given), "a number, NaN, Infinity, true or false must not begin with it")
    comment = _character(COMMENT, COMMENT.of(given)) if COMMENT.of(given) else NO_BYTE
    escape = NO_BYTE
    if ESCAPE.key in given and (ESCAPE.of(given) or quote != NO_BYTE):
        escape = _character(ESCAPE, ESCAPE.of(given))
        if escape == quote or quote == NO_BYTE:
            escape = NO_BYTE  # a doubled quote, or nothing to escape
    _check_escape_of_escape(given, escape)
    used = {code for code in (quote, escape, comment) if code != NO_BYTE}
    if len(used) < sum(code != NO_BYTE for code in (quote, escape, comment)) or used & set(separator):
        raise option.bad(option.of(given), "separator, quote, escape and comment must differ")
    if used & set(row_end):
        raise LINE_SEP.bad(LINE_SEP.of(given), "it must not hold the quote, the escape or the comment character")
    if separator in row_end or row_end in separator or (b"\r" in separator and row_end == b"\n"):
        raise option.bad(option.of(given), "separator and lineSep must not contain one another")
    return Delimiters(separator, row_end, quote, escape, leading), comment


def _check_escape_of_escape(given: Mapping[str, str], escape: int) -> None:
    text = ESCAPE_OF_ESCAPE.of(given)
    if text is not None and (escape == NO_BYTE or _unescaped(ESCAPE_OF_ESCAPE, text) != bytes([escape])):
        raise ESCAPE_OF_ESCAPE.bad(text, "only the escape character itself is supported")


def _null_texts(given: Mapping[str, str], delimiters: Delimiters) -> tuple[bytes, ...]:
    """The texts that mean NULL: ``nullValue``, and what ``nullValues`` lists."""
    text = NULL_VALUES.of(given)
    if text is None:
        return (NULL_VALUE.of(given).encode(),)
    try:
        listed = json.loads(text)
    except ValueError:
        listed = None
    if not isinstance(listed, list) or not listed or not all(isinstance(marker, str) for marker in listed):
        raise NULL_VALUES.bad(text, 'a JSON array of texts, such as ["", "NA"]')
    if delimiters.quote != NO_BYTE and any(chr(delimiters.quote) in marker for marker in listed):
        raise NULL_VALUES.bad(text, "a marker does not hold the quote character")
    markers = [NULL_VALUE.of(given), *listed] if NULL_VALUE.key in given else listed
    return tuple(dict.fromkeys(marker.encode() for marker in markers))


_MOST_SEPARATOR = 64
_MOST_ROW_END = 128
_ESCAPE = re.compile(rb"\\(?:([\\trnbf'\"])|u([0-9a-fA-F]{4})|x([0-9a-fA-F]{2})|)")
_ESCAPED = {b"t": b"\t", b"r": b"\r", b"n": b"\n", b"b": b"\b", b"f": b"\f"}


def _unescaped(option: Option[object], text: str) -> bytes:
    """The bytes that a text with Spark's escapes spells; a backslash alone is itself."""

    def one(match: re.Match[bytes]) -> bytes:
        if match[1]:
            return _ESCAPED.get(match[1], match[1])
        if match[2]:
            return chr(int(match[2], 16)).encode("utf-8", "replace")
        if match[3]:
            return bytes([int(match[3], 16)])
        raise option.bad(text, "what stands behind a \\ is one of t r n b f ' \" \\ uXXXX xXX")

    return b"\\" if text == "\\" else _ESCAPE.sub(one, text.encode("utf-8", "replace"))


def _bytes(option: Option[object], text: str, most: int) -> bytes:
    """One or more bytes."""
    found = _unescaped(option, text)
    if not 0 < len(found) <= most or b"\0" in found:
        raise option.bad(text, f"1 to {most} bytes, none of them 0; \\t is a tab")
    return found


def _character(option: Option[object], text: str) -> int:
    character = _unescaped(option, text)
    if len(character) != 1 or not character.isascii() or character in b"\n\r\0":
        raise option.bad(text, "one ASCII character, no line end; \\t is a tab")
    return character[0]
