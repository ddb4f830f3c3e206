"""Messages that the server sends, as bytes."""

from __future__ import annotations

import struct
from collections.abc import Sequence

from tidemill.errors import TidemillError
from tidemill.serve.postgres.protocol.errors import sql_state
from tidemill.serve.postgres.values.pg_types import PgType

PARSE_COMPLETE = b"1\0\0\0\4"
BIND_COMPLETE = b"2\0\0\0\4"
CLOSE_COMPLETE = b"3\0\0\0\4"
NO_DATA = b"n\0\0\0\4"
EMPTY_QUERY = b"I\0\0\0\4"
PORTAL_SUSPENDED = b"s\0\0\0\4"
COPY_DONE = b"c\0\0\0\4"
AUTHENTICATED = b"R\0\0\0\x08\0\0\0\0"
ASK_FOR_PASSWORD = b"R\0\0\0\x08\0\0\0\3"
_MOST_SHOWN = 2000


def _message(kind: bytes, content: bytes) -> bytes:
    return kind + struct.pack("!i", len(content) + 4) + content


def _text(text: str) -> bytes:
    return text.replace("\0", "").encode(errors="replace") + b"\0"


def parameter_status(name: str, value: str) -> bytes:
    """A parameter that the client keeps."""
    return _message(b"S", _text(name) + _text(value))


def key_data(process: int, secret: int) -> bytes:
    """What a client shows to cancel a statement."""
    return _message(b"K", struct.pack("!iI", process, secret))


def ready(status: str) -> bytes:
    """ReadyForQuery: ``I`` idle, ``T`` in a transaction, ``E`` in one that has failed."""
    return _message(b"Z", status.encode())


def command_complete(tag: str) -> bytes:
    """A statement has been executed."""
    return _message(b"C", _text(tag))


def negotiate(minor: int, options: Sequence[str]) -> bytes:
    """The newest minor version of the protocol here, and options of a client that mean nothing here."""
    return _message(b"v", struct.pack("!ii", minor, len(options)) + b"".join(map(_text, options)))


def row_description(columns: Sequence[tuple[str, PgType]], binary: Sequence[bool]) -> bytes:
    """Names, types and formats of the columns of a result."""
    parts = [struct.pack("!H", len(columns))]
    for (name, type_), as_binary in zip(columns, binary, strict=True):
        parts.append(_text(name) + struct.pack("!ihihih", 0, 0, type_.oid, type_.size, type_.modifier, as_binary))
    return _message(b"T", b"".join(parts))


def copy_out(binary: bool, columns: int) -> bytes:
    """CopyOutResponse: rows of COPY follow, in the format text (or csv) or binary."""
    return _message(b"H", struct.pack(f"!bh{columns}h", binary, columns, *[binary] * columns))


def parameter_description(types: Sequence[PgType]) -> bytes:
    """The types of the parameters of a prepared statement."""
    return _message(b"t", struct.pack("!H", len(types)) + b"".join(struct.pack("!i", t.oid) for t in types))


def error(problem: TidemillError, severity: str = "ERROR") -> bytes:
    """ErrorResponse: number and what as the message, got as the detail, and the hint."""
    fields = [("S", severity), ("V", severity), ("C", sql_state(problem)), ("M", f"{problem.number}: {problem.what}")]
    fields += [(k, v[:_MOST_SHOWN]) for k, v in (("D", problem.got), ("H", problem.hint)) if v]
    return _message(b"E", b"".join(k.encode() + _text(v) for k, v in fields) + b"\0")


def notice(text: str, state: str = "00000") -> bytes:
    """NoticeResponse: a warning."""
    fields = (("S", "WARNING"), ("V", "WARNING"), ("C", state), ("M", text))
    return _message(b"N", b"".join(k.encode() + _text(v) for k, v in fields) + b"\0")
