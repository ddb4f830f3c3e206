"""An entry of the log, as JSON and as a line of text."""

from __future__ import annotations

import datetime
import json
import re
from dataclasses import dataclass
from typing import Any

_PLAIN = re.compile(r"[\w./:@%+,*{}\[\]<>~-]+")


@dataclass(frozen=True)
class Entry:
    """One entry.

    Attributes
    ----------
    number : int
        From 1, without gaps, for as long as the server runs.
    at : float
        Seconds since 1970.
    level, event, message : str
        Name of the level and of the event; the text for people.
    fields : dict
        Values of the event's fields.
    """

    number: int
    at: float
    level: str
    event: str
    message: str
    fields: dict[str, Any]

    def shown(self) -> dict[str, Any]:
        """The entry as an object of JSON; the time is ISO 8601 in UTC, with milliseconds."""
        return {
            "number": self.number,
            "time": _time(self.at),
            "level": self.level,
            "event": self.event,
            "message": self.message,
            "fields": self.fields,
        }

    def as_json(self) -> str:
        """One line of JSON."""
        return json.dumps(self.shown(), separators=(",", ":"))

    def as_text(self) -> str:
        """One line for people; characters that a terminal would act on are escaped."""
        more = "".join(f" {k}={_value(v)}" for k, v in _flat(self.fields).items() if str(v) not in self.message)
        return f"{_time(self.at)} {self.level.upper():7} {self.event}: {_printable(self.message)}{more}"


def _time(at: float) -> str:
    moment = datetime.datetime.fromtimestamp(at, datetime.UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _flat(fields: dict[str, Any]) -> dict[str, Any]:
    """Fields with ``name.key`` in the place of objects."""
    found: dict[str, Any] = {}
    for name, value in fields.items():
        found |= {f"{name}.{k}": v for k, v in value.items()} if isinstance(value, dict) else {name: value}
    return found


def _value(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value)
    return text if _PLAIN.fullmatch(text) else _printable(json.dumps(text, ensure_ascii=False))


def _printable(text: str) -> str:
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
