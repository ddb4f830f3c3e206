"""Options of CSV under Spark's names, checked and brought into the form that the kernels take."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

import numpy as np
import numpy.typing as npt

from tidemill.errors import TidemillError, nearest
from tidemill.formats.csv.index import NO_BYTE
from tidemill.formats.values.columns import TimePatterns
from tidemill.formats.values.field_text import TRIM_LEADING, TRIM_TRAILING
from tidemill.formats.values.time_pattern import NO_PATTERN, compile_pattern

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


class Mode(Enum):
    """What happens to a malformed row."""

    PERMISSIVE = "PERMISSIVE"
    DROPMALFORMED = "DROPMALFORMED"
    FAILFAST = "FAILFAST"


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


def parse_options(options: Mapping[str, str]) -> CsvOptions:
    """Check the options of a table; names count in any case.

    Raises
    ------
    TidemillError
        TM4003 for a value that is wrong or not supported.
    """
    given = {name.lower(): value for name, value in options.items()}
    if "sep" in given and "delimiter" in given and given["sep"] != given["delimiter"]:
        raise _bad("delimiter", given["delimiter"], "sep and delimiter are the same option: give one of them")
    name = "sep" if "sep" in given else "delimiter"
    separator = _character(name, given.get(name, ","))
    quote_text = given.get("quote", '"')
    quote = _character("quote", quote_text) if quote_text else NO_BYTE
    comment = _character("comment", given["comment"]) if given.get("comment") else NO_BYTE
    if separator in (quote, comment) or (quote == comment != NO_BYTE):
        raise _bad(name, given.get(name, ","), "separator, quote and comment must differ")
    if "escape" in given and given["escape"] != (chr(quote) if quote != NO_BYTE else ""):
        raise _bad("escape", given["escape"], "not supported yet: only a doubled quote stands for a quote")
    if given.get("encoding", "utf-8").lower() not in ("utf-8", "utf8"):
        raise _bad("encoding", given["encoding"], "only UTF-8 is supported")
    if given.get("linesep", "\n") not in ("\n", "\\n"):
        raise _bad("lineSep", given["linesep"], "only \\n is supported; a \\r before it is taken off")
    return CsvOptions(
        header=_flag(given, "header"),
        separator=separator,
        quote=quote,
        comment=comment,
        null_text=given.get("nullvalue", "").encode(),
        trim=TRIM_LEADING * _flag(given, "ignoreLeadingWhiteSpace")
        + TRIM_TRAILING * _flag(given, "ignoreTrailingWhiteSpace"),
        mode=_mode(given.get("mode", "PERMISSIVE")),
        patterns=TimePatterns(_pattern(given, "dateFormat"), _pattern(given, "timestampFormat")),
        max_columns=_positive(given, "maxColumns", DEFAULT_MAX_COLUMNS),
    )


def _bad(name: str, value: str, hint: str) -> TidemillError:
    return TidemillError("TM4003", f"bad value of option {name}", got=repr(value), hint=hint)


def _character(name: str, text: str) -> int:
    text = "\t" if text == "\\t" else text
    if len(text) != 1 or not text.isascii() or text in "\n\r\0":
        raise _bad(name, text, "one ASCII character, no line end; \\t stands for a tab")
    return ord(text)


def _flag(given: Mapping[str, str], name: str) -> bool:
    text = given.get(name.lower(), "false")
    if text.lower() not in ("true", "false"):
        raise _bad(name, text, "true or false")
    return text.lower() == "true"


def _mode(text: str) -> Mode:
    if text.upper() not in Mode.__members__:
        raise _bad("mode", text, nearest(text, Mode.__members__))
    return Mode[text.upper()]


def _positive(given: Mapping[str, str], name: str, default: int) -> int:
    text = given.get(name.lower(), str(default))
    if not (text.isascii() and text.isdigit() and int(text) > 0):
        raise _bad(name, text, "a positive integer")
    return int(text)


def _pattern(given: Mapping[str, str], name: str) -> npt.NDArray[np.int32]:
    text = given.get(name.lower())
    if text is None:
        return NO_PATTERN
    try:
        return compile_pattern(text)
    except ValueError as error:
        raise _bad(
            name, text, f"{error}; supported: yyyy MM dd HH mm ss S..., other characters, 'quoted text'"
        ) from error
