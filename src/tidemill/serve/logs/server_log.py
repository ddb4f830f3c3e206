"""The log of one server."""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Mapping
from typing import Any, TextIO

from tidemill.errors import TidemillError
from tidemill.serve.logs.caller import CALLER
from tidemill.serve.logs.entry import Entry
from tidemill.serve.logs.events import FORMATS, LEVELS, LIBRARY_MESSAGE, LOG_LOST, REQUEST_BROKEN, Event
from tidemill.serve.logs.redaction import place_of, redacted
from tidemill.serve.logs.writer import Writer

_LIBRARIES = ("tidemill", "uvicorn", "asyncio", "opentelemetry")
"""Loggers of Python's whose lines are entries, too."""


class ServerLog:
    """Entries of events: the newest in memory, and lines on a stream. All methods may be called from any thread.

    Entries go through ``logger``, one of Python's ``logging``, so a program that embeds a server can add handlers of
    its own; the attribute ``entry`` of a record is the :class:`~tidemill.serve.logs.entry.Entry`.

    Parameters
    ----------
    level : str
        Of the least important events that are noted: ``debug``, ``info``, ``warning`` or ``error``.
    kept : int
        Entries in memory.
    """

    def __init__(self, level: str = "info", kept: int = 2_000) -> None:
        check(level, FORMATS[0])
        self.logger = logging.Logger("tidemill.server", LEVELS[level])
        self.logger.addHandler(_Keeping(self))
        self._lock = threading.RLock()  # entries are kept in the order of their numbers
        self._entries: deque[Entry] = deque(maxlen=kept)
        self._number = 0
        self._rates: dict[str, list[int]] = {}
        self._writer: Writer | None = None
        self._others = _Others(self)
        for name in _LIBRARIES:
            logging.getLogger(name).addHandler(self._others)

    @property
    def library_level(self) -> int:
        """The level for loggers of libraries: never debug, at which they would write the data of their clients."""
        return logging.INFO if self.logger.level <= logging.DEBUG else logging.WARNING

    def write_to(self, stream: TextIO, format_: str) -> None:
        """Also write a line for each entry from now on, as ``text`` or ``json``. TM8320 for another format."""
        check("info", format_)
        line = Entry.as_json if format_ == "json" else Entry.as_text
        self._writer = Writer(stream, line, lambda count: self._entry(LOG_LOST, LOG_LOST.level, {"count": count}))

    def notes(self, event: Event) -> bool:
        """Whether entries of an event are noted at this level."""
        return self.logger.isEnabledFor(LEVELS[event.level])

    def note(self, event: Event, **fields: Any) -> None:
        """Note what has happened; ``fields`` are those that the event declares, None for one without a value.

        Who asked is added.
        """
        if self.notes(event):
            self._note(event, event.level, fields)

    def broken(self, request: str, error: BaseException) -> None:
        """Note that a request met an error without a number. Its text is not noted, as it may have values of rows.

        Nothing is noted of a library that reports the same error again.
        """
        error.tidemill_noted = True  # type: ignore[attr-defined]
        self.note(REQUEST_BROKEN, request=request, error=type(error).__name__, place=place_of(error))

    def _note(self, event: Event, level: str, fields: dict[str, Any]) -> None:
        suppressed = self._suppressed(event)
        if suppressed is None:
            return
        caller = CALLER.get()
        if caller is not None:
            fields = {**{k: v for k, v in caller.fields().items() if k in event.fields}, **fields}
        assert fields.keys() <= event.fields.keys(), f"{event.name} does not declare {fields.keys()}"
        if suppressed:
            fields["suppressed"] = suppressed
        with self._lock:
            entry = self._entry(event, level, fields)
            self.logger.log(LEVELS[level], "%s", entry.message, extra={"entry": entry}, stacklevel=3)

    def _suppressed(self, event: Event) -> int | None:
        """How many entries of an event were left out before this one; None when this one is left out, too."""
        if not event.per_second:
            return 0
        second = int(time.monotonic())
        with self._lock:
            rate = self._rates.setdefault(event.name, [second, 0, 0])
            if rate[0] != second:
                rate[:2] = [second, 0]
            rate[1] += 1
            if rate[1] > event.per_second:
                rate[2] += 1
                return None
            suppressed, rate[2] = rate[2], 0
            return suppressed

    def _entry(self, event: Event, level: str, fields: Mapping[str, Any]) -> Entry:
        plain = {name: _safe(value) for name, value in fields.items() if value not in (None, "")}
        message = event.message.format_map(_Shown(plain)).strip()
        with self._lock:
            self._number += 1
            return Entry(self._number, time.time(), level, event.name, " ".join(message.split()), plain)

    def keep(self, entry: Entry) -> None:
        """Keep an entry in memory, and have it written; called while entries are made one at a time."""
        self._entries.append(entry)
        if self._writer is not None:
            self._writer.take(entry)

    def other(self, record: logging.LogRecord) -> None:
        """Note a line of a library, without the text of an exception."""
        fields: dict[str, Any] = {"logger": record.name, "text": record.getMessage().splitlines()[0][:500]}
        if record.exc_info and record.exc_info[1] is not None:
            error = record.exc_info[1]
            if getattr(error, "tidemill_noted", False):
                return  # the request that met it has an entry already
            fields |= {"text": f"{fields['text']} ({type(error).__name__})", "place": place_of(error)}
        level = next((n for n, number in reversed(LEVELS.items()) if record.levelno >= number), "debug")
        if self.logger.isEnabledFor(LEVELS[level]):
            self._note(LIBRARY_MESSAGE, level, fields)

    def entries(self, after: int | None = None, level: str = "debug", limit: int = 500) -> list[Entry]:
        """Entries that are kept, oldest first.

        Parameters
        ----------
        after : int, optional
            The first ``limit`` entries behind this number; without it the newest ``limit``.
        level : str
            Of the least important ones that are given.
        """
        with self._lock:
            kept = list(self._entries)
        found = [e for e in kept if LEVELS[e.level] >= LEVELS[level] and e.number > (after or 0)]
        return found[-limit:] if after is None else found[:limit]

    def close(self) -> None:
        """Write what waits, and take no more lines of libraries."""
        for name in _LIBRARIES:
            logging.getLogger(name).removeHandler(self._others)
        if self._writer is not None:
            self._writer.close()
            self._writer = None


def check(level: str, format_: str) -> None:
    """TM8320 for a level or a format that there is not."""
    for given, known in ((level, tuple(LEVELS)), (format_, FORMATS)):
        if given not in known:
            raise TidemillError(
                "TM8320", "there is no such level or format of the log", got=given, hint=f"one of {', '.join(known)}"
            )


class _Keeping(logging.Handler):
    def __init__(self, log: ServerLog) -> None:
        super().__init__()
        self._log = log

    def emit(self, record: logging.LogRecord) -> None:
        """Keep the entry of a record."""
        self._log.keep(record.entry)  # type: ignore[attr-defined]


class _Others(logging.Handler):
    def __init__(self, log: ServerLog) -> None:
        super().__init__()
        self._log = log

    def emit(self, record: logging.LogRecord) -> None:
        """Note a line of a library."""
        self._log.other(record)


class _Shown(dict[str, Any]):
    """Values for a message; an empty text for what an entry does not have."""

    def __missing__(self, key: str) -> str:
        return ""


def _safe(value: Any) -> Any:
    """A value without secrets; numbers are rounded to a tenth."""
    if isinstance(value, str):
        return redacted(value)
    if isinstance(value, float):
        return round(value, 1)
    if isinstance(value, Mapping):
        return {str(k): _safe(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_safe(v) for v in value]
    return value
