"""The events of the log: each is declared once, and docs/logs.md is written from the declarations.

``python -m tidemill.serve.logs.events > docs/logs.md`` writes the page.
"""

from __future__ import annotations

import logging
import textwrap
from collections.abc import Mapping
from dataclasses import dataclass, field

LEVELS = {"debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}
"""The levels by name, the least important first."""

FORMATS = ("text", "json")
"""How the lines of a stream are written."""


@dataclass(frozen=True)
class Event:
    """What an entry of the log is about.

    Parameters
    ----------
    message : str
        For people; names of fields in braces are replaced by their values.
    fields : mapping
        Name to meaning. A field without a value is left out of an entry.
    per_second : int
        Most entries in a second, for what clients can cause without end; 0 for all. The next entry has the number of
        those that were left out as the field ``suppressed``.
    """

    name: str
    level: str
    message: str
    meaning: str
    fields: Mapping[str, str] = field(default_factory=dict)
    per_second: int = 0


_CALLER = {
    "protocol": "`http`, `flight` or `postgresql`",
    "client": "address of the client",
    "role": "role of its token",
}
_ERROR = {
    "number": "number of the error: see errors.md",
    "what": "what is wrong, without values",
    "got": "what was found; left out where it could have values of rows or of statements",
}
_OFTEN = 20

SERVER_STARTED = Event(
    "server.started",
    "info",
    "serving {root} at epoch {epoch}",
    "The server listens, and epochs run.",
    {"root": "the root", "epoch": "newest sealed epoch", "addresses": "protocol to URL", "version": "of Tidemill"},
)
CERTIFICATE_EXPIRES = Event(
    "certificate.expires",
    "warning",
    "the certificate is valid until {until}",
    "Fewer than 14 days are left. Noted when the server starts, and every day: a new certificate is used from the next "
    "start on.",
    {"until": "when it expires, ISO 8601 in UTC"},
)
SERVER_STOPPING = Event("server.stopping", "info", "stopping", "A signal came: connections are ended.")
JAVA_ENDED = Event(
    "java.ended",
    "error",
    "Java has ended",
    "Spark's Java process was killed, or had too little memory. The server ends with exit code 1; started again, it "
    "continues from its last checkpoint.",
)
SERVER_STOPPED = Event(
    "server.stopped",
    "info",
    "stopped; epoch {epoch} is durable",
    "The newest epoch is durable, and the process is about to end.",
    {"epoch": "newest sealed epoch"},
)
STATEMENT_EXECUTED = Event(
    "statement.executed",
    "info",
    "{kind} {name} took {milliseconds} ms",
    "A statement has changed tables, views or sinks.",
    {
        "kind": "the statement's first words, such as `CREATE VIEW`",
        "name": "of the table, view or sink",
        "milliseconds": "with the wait for its turn",
        **_CALLER,
    },
)
QUERY_EXECUTED = Event(
    "query.executed",
    "debug",
    "{kind} took {milliseconds} ms",
    "A statement that reads was answered, or began to be.",
    {"kind": "its first word", "milliseconds": "until its rows began", **_CALLER},
)
REQUEST_ANSWERED = Event(
    "request.answered",
    "debug",
    "{method} {route}: {status} in {milliseconds} ms",
    "A request over HTTP was answered, or its answer began.",
    {
        "method": "of HTTP",
        "route": "pattern of the path",
        "status": "of HTTP",
        "milliseconds": "until the answer began",
        **_CALLER,
    },
)
REQUEST_FAILED = Event(
    "request.failed",
    "warning",
    "{request} failed with {number}: {what}",
    "A request or statement was answered with an error.",
    {
        "request": "method and pattern of the path; `statement` or the call of Flight",
        "statement": "kind and name, if it was one",
        "status": "of HTTP",
        **_ERROR,
        **_CALLER,
    },
    _OFTEN,
)
REQUEST_BROKEN = Event(
    "request.broken",
    "error",
    "{request} met {error}",
    "A request met an error that has no number (its client got TM8099): please report it.",
    {
        "request": "as of `request.failed`",
        "error": "class of the error; its text could have values of rows",
        "place": "functions and lines that it was raised through, the innermost last",
        **_CALLER,
    },
    _OFTEN,
)
CONNECTION_REFUSED = Event(
    "connection.refused",
    "warning",
    "a client was refused: {number}: {what}",
    "A client was not let in: no token or password, another host, another origin, too many requests or connections.",
    {"protocol": _CALLER["protocol"], "client": _CALLER["client"], **_ERROR},
    _OFTEN,
)
EPOCH_SEALED = Event(
    "epoch.sealed",
    "debug",
    "epoch {epoch}: {rows} rows in {milliseconds} ms",
    "An epoch was sealed.",
    {
        "epoch": "its number",
        "rows": "admitted",
        "bytes": "of input",
        "milliseconds": "from admission to seal",
        "backfilled": "rows of history",
        "malformed": "rows with anything malformed",
    },
)
EPOCH_SLOW = Event(
    "epoch.slow",
    "warning",
    "epoch {epoch} took {milliseconds} ms",
    "An epoch took longer than `--slow-epoch-seconds`.",
    {
        "epoch": "its number",
        "milliseconds": "of all of it",
        "admit": "milliseconds of this phase",
        "run": "milliseconds of this phase",
        "seal": "milliseconds of this phase",
        "rows": "admitted",
    },
)
EPOCHS_ENDED = Event(
    "epochs.ended",
    "error",
    "epochs have ended with {number}: {what}",
    "An error has ended the epochs: views are as of the last sealed one, and `/readyz` gives 503.",
    {"epoch": "newest sealed epoch", **_ERROR},
)
VIEW_FAILED = Event(
    "view.failed",
    "error",
    "view {view} cannot be read: {number}: {what}",
    "A row has made a view fail: until it is gone, or for good.",
    {"view": "its name", "epoch": "in which it failed", **_ERROR},
)
MILL_WARNING = Event(
    "mill.warning",
    "warning",
    "{number}: {what}",
    "Something went wrong and is tried again, such as a checkpoint or a file that cannot be read.",
    _ERROR,
)
CHECKPOINT_WRITTEN = Event(
    "checkpoint.written",
    "debug",
    "epoch {epoch} is durable",
    "A checkpoint has made epochs durable. One that fails is a `mill.warning`.",
    {"epoch": "newest durable epoch", "bytes": "of state that were uploaded", "milliseconds": "of the checkpoint"},
)
SINK_FAILED = Event(
    "sink.failed",
    "warning",
    "sink {sink} is {state}: {number}: {what}",
    "A sink cannot deliver; `retrying` continues by itself, `failed` waits for ALTER SINK.",
    {"sink": "its name", "state": "as SHOW SINKS shows it", **_ERROR},
)
SINK_RECOVERED = Event(
    "sink.recovered", "info", "sink {sink} delivers again", "A sink that failed delivers again.", {"sink": "its name"}
)
LIBRARY_MESSAGE = Event(
    "library.message",
    "warning",
    "{logger}: {text}",
    "A line that Uvicorn, asyncio, OpenTelemetry or a module of Tidemill writes to Python's `logging`; its own level.",
    {"logger": "who wrote it", "text": "the line", "place": "of an error, as of `request.broken`"},
    5 * _OFTEN,
)
LOG_LOST = Event(
    "log.lost",
    "warning",
    "{count} lines were not written: standard error was not read fast enough",
    "Whoever reads standard error was too slow: lines were left out, so that the server did not have to wait.",
    {"count": "lines that were left out"},
)

EVENTS = tuple(value for value in dict(globals()).values() if isinstance(value, Event))
"""All of them, in the order of this file."""


_PAGE = """# Logs

<!-- Written by `python -m tidemill.serve.logs.events`; a test compares it with the declarations. -->

`tidemill serve` writes a line for each event to standard error; the banner with its addresses goes to standard output.

```
tidemill serve --root DIR --log-format json --log-level debug --slow-epoch-seconds 5
```

- `--log-format text`, the default, is for people: time in UTC, level, event, message, further fields. `json` gives
  one object a line: `{"number", "time", "level", "event", "message", "fields"}`.
- `--log-level` is the least important level that is noted: `debug`, `info` (the default), `warning` or `error`.
- Lines of Uvicorn and other libraries go through the same formatter. They are never noted at level *debug*, at which
  they would write what clients send.
- Whoever reads standard error slowly does not delay the server: up to 10,000 lines wait, further ones are left out and
  counted.

The newest 2,000 entries are kept in memory. `GET /v1/logs?after=N&level=LEVEL&limit=N` gives them as a list, oldest
first: without `after` the newest ones, with it the first ones behind that number. It needs the role *admin*, since
entries name clients, files and requests of others. Numbers begin at 1 with the server and have no gaps, but for
levels below `level`, and entries that are no longer kept.

A program that embeds a server adds handlers of Python's `logging` to `service.server_log.logger`; the attribute
`entry` of a record is the entry.

## What is never in the log

Neither the text of statements nor values of rows, tokens, passwords, the values of options with secrets, user and
password of a URL, or what follows `?` in one. Of an error there are its number and the constant sentence of
[errors](errors.md); what was found is there as `got` only for errors of roots, sources, settings and limits. Of an
error without a number there are its class and the functions that it was raised through.

## Events

Events that clients can cause without end have a limit of entries in a second; the next entry says in the field
`suppressed` how many were left out.

"""


def logs_page() -> str:
    """docs/logs.md."""
    lines = []
    for event in EVENTS:
        often = f" At most {event.per_second} a second." if event.per_second else ""
        text = f"Level *{event.level}*. {event.meaning}{often}"
        lines += [f"### `{event.name}`", "", *textwrap.wrap(text, 118, break_on_hyphens=False), ""]
        if event.fields:
            lines += ["| field | meaning |", "|---|---|"]
            lines += [f"| `{name}` | {meaning} |" for name, meaning in event.fields.items()]
            lines.append("")
    return _PAGE + "\n".join(lines)


if __name__ == "__main__":
    print(logs_page(), end="")
