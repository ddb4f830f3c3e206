"""What of a text may stand in a log: neither secrets nor values of rows."""

from __future__ import annotations

import re
import traceback
from pathlib import Path

from tidemill.errors import TidemillError, without_secrets

_MOST_CHARACTERS = 2_000
_SCHEME = r"\b[a-zA-Z][a-zA-Z0-9+.\-]{0,30}://"
_REPLACED = (
    (re.compile(rf"({_SCHEME})[^/\s'\"]*@"), r"\1***@"),
    (re.compile(rf"({_SCHEME}[^\s'\"?#]*)[?#][^\s'\"]*"), r"\1?***"),
    (re.compile(r"(?i)\b(bearer|basic)\s+[^\s'\",]+"), r"\1 ***"),
    (
        re.compile(
            r"(?i)\b([\w.-]{0,40}(?:password|passwd|secret|token|api_?key|access_?key|signature|credential)[\w.-]{0,40})"
            r"(['\"]?\s*[=:]\s*)(?!\*\*\*)('[^']*'|\"[^\"]*\"|[^\s,;]+)"
        ),
        r"\1\2***",
    ),
)
"""User and password of a URL, what follows its path, credentials of HTTP, and values beside a name of a secret."""

_SHOWN = ("TM1", "TM5", "TM6", "TM7", "TM80")
_HIDDEN = ("TM1020", "TM1021", "TM7008", "TM7013", "TM8016", "TM8018", "TM8040", "TM8041")
"""Of errors of these ranges, without these numbers, ``got`` is about files and settings. Those of other ones (SQL,
expressions, formats, PostgreSQL's protocol, targets of sinks) may quote statements and rows, and so may the text of
an error that they pass on.
"""

_MESSAGE = re.compile(r"(?s)(?P<number>TM\d{4}): (?P<what>[^\n]*)(?:\n  got:  (?P<got>.*?)(?=\n  hint: |\Z))?")


def redacted(text: str) -> str:
    """A text with ``***`` in the place of secrets, cut where it is very long."""
    if len(text) > _MOST_CHARACTERS:
        text = text[:_MOST_CHARACTERS] + "..."
    text = without_secrets(text)
    for pattern, by in _REPLACED:
        text = pattern.sub(by, text)
    return text


def error_fields(error: BaseException | None) -> dict[str, str]:
    """Fields of an event for an error: ``number``, ``what`` and, where it has no values of rows, ``got``."""
    if error is None:
        return {}
    if not isinstance(error, TidemillError):
        return {"number": "TM8099", "what": type(error).__name__}
    found = {"number": error.number, "what": error.what}
    return {**found, "got": error.got} if error.got and _may_show(error.number) else found


def message_fields(message: str) -> dict[str, str]:
    """As :func:`error_fields`, for the message of an error as text."""
    match = _MESSAGE.match(message)
    if match is None:
        return {"what": message.splitlines()[0] if message else ""}
    found = {"number": match["number"], "what": match["what"]}
    return {**found, "got": match["got"]} if match["got"] and _may_show(match["number"]) else found


def _may_show(number: str) -> bool:
    return number.startswith(_SHOWN) and number not in _HIDDEN


def place_of(error: BaseException) -> str:
    """Files, lines and functions that an error was raised through, without its text and without values."""
    frames = traceback.extract_tb(error.__traceback__)
    return " > ".join(f"{Path(f.filename).name}:{f.lineno} {f.name}" for f in frames[-12:])
