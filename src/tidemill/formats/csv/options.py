"""Options of CSV under Spark's names, checked and brought into the form that the kernels take."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tidemill.formats.line_ends import NO_BYTE, LineRules
from tidemill.formats.malformed import Mode, parse_mode
from tidemill.formats.options import bad_option, flag, positive, time_pattern
from tidemill.formats.values.columns import TimePatterns
from tidemill.formats.values.field_text import TRIM_LEADING, TRIM_TRAILING

OPTION_NAMES = frozenset(
    {
        "header",
        "sep",
        "delimiter",
        "quote",
        "escape",
        "nullvalue",
        "comment",
        "mode",
        "dateformat",
        "timestampformat",
        "ignoreleadingwhitespace",
        "ignoretrailingwhitespace",
        "encoding",
        "linesep",
        "maxcolumns",
    }
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
        ASCII codes; ``NO_BYTE`` for a quote or comment that is switched off.
    null_text : bytes
        What stands for NULL, as an empty field without quotes does.
    trim : int
        Sum of ``TRIM_LEADING`` and ``TRIM_TRAILING``.
    mode : Mode
    patterns : TimePatterns
    max_columns : int
        Most columns that a table or header may have.
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

    @property
    def lines(self) -> LineRules:
        """What decides where lines end."""
        return LineRules(self.separator, self.quote, self.trim & TRIM_LEADING)


def parse_options(options: Mapping[str, str]) -> CsvOptions:
    """Check the options of a table; names count in any case.

    Raises
    ------
    TidemillError
        TM4003 for a value that is wrong or not supported.
    """
    given = {name.lower(): value for name, value in options.items()}
    if "sep" in given and "delimiter" in given and given["sep"] != given["delimiter"]:
        raise bad_option("delimiter", given["delimiter"], "sep and delimiter are the same option: give one of them")
    name = "sep" if "sep" in given else "delimiter"
    separator = _character(name, given.get(name, ","))
    quote_text = given.get("quote", '"')
    quote = _character("quote", quote_text) if quote_text else NO_BYTE
    comment = _character("comment", given["comment"]) if given.get("comment") else NO_BYTE
    if separator in (quote, comment) or (quote == comment != NO_BYTE):
        raise bad_option(name, given.get(name, ","), "separator, quote and comment must differ")
    if "escape" in given and given["escape"] != (chr(quote) if quote != NO_BYTE else ""):
        raise bad_option("escape", given["escape"], "not supported yet: only a doubled quote stands for a quote")
    if given.get("encoding", "utf-8").lower() not in ("utf-8", "utf8"):
        raise bad_option("encoding", given["encoding"], "only UTF-8 is supported")
    if given.get("linesep", "\n") not in ("\n", "\\n"):
        raise bad_option("lineSep", given["linesep"], "only \\n is supported; a \\r before it is taken off")
    return CsvOptions(
        header=flag(given, "header"),
        separator=separator,
        quote=quote,
        comment=comment,
        null_text=given.get("nullvalue", "").encode(),
        trim=TRIM_LEADING * flag(given, "ignoreLeadingWhiteSpace")
        + TRIM_TRAILING * flag(given, "ignoreTrailingWhiteSpace"),
        mode=parse_mode(given),
        patterns=TimePatterns(time_pattern(given, "dateFormat"), time_pattern(given, "timestampFormat")),
        max_columns=positive(given, "maxColumns", DEFAULT_MAX_COLUMNS),
    )


def _character(name: str, text: str) -> int:
    text = "\t" if text == "\\t" else text
    if len(text) != 1 or not text.isascii() or text in "\n\r\0":
        raise bad_option(name, text, "one ASCII character, no line end; \\t stands for a tab")
    return ord(text)
