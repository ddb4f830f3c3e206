"""SET, RESET and SHOW."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from tidemill.errors import TidemillError
from tidemill.serve.postgres.query.answering import Answer, rows_answer, texts_answer
from tidemill.serve.postgres.session.settings import REPORTED, ConnectionSettings
from tidemill.serve.postgres.session.statements import Statement

_SPELT = {name.lower(): name for name in REPORTED}
_EPOCH = "tidemill.epoch"


def set_from(statement: Statement, settings: ConnectionSettings) -> None:
    """Carry out ``SET [SESSION | LOCAL] name = value``, and the other forms of it.

    Errors as :meth:`ConnectionSettings.set`; TM8123 for what is none of these.
    """
    words = statement.words
    rest, written = list(words[1:]), list(statement.written[1:])
    local = rest[:1] == ["LOCAL"]
    if rest[:1] in (["SESSION"], ["LOCAL"]) and rest[1:2] not in (["CHARACTERISTICS"], ["AUTHORIZATION"]):
        rest, written = rest[1:], written[1:]
    if rest[:1] in (["TRANSACTION"], ["SESSION"], ["ROLE"], ["CONSTRAINTS"], ["AUTHORIZATION"]):
        return  # all transactions read one epoch, and none writes
    if rest[:2] == ["TIME", "ZONE"]:
        name, values = "timezone", written[2:]
    elif rest[:1] == ["NAMES"]:
        name, values = "client_encoding", written[1:]
    elif len(rest) > 2 and rest[1] in ("=", "TO"):
        name, values = written[0], written[2:]
    else:
        raise TidemillError(
            "TM8123", "the SQL of the query cannot be parsed", got=" ".join(words)[:80], hint="SET name = value"
        )
    value = _joined(values)
    settings.set(
        name, None if value.upper() == "DEFAULT" or (name == "timezone" and value.upper() == "LOCAL") else value, local
    )


def _joined(words: Sequence[str]) -> str:
    """``ISO, MDY`` of its tokens; a sign belongs to its number."""
    text = ""
    for word in words:
        text += word if not text or word == "," or text[-1:] in "-+" else f" {word}"
    return text


def reset_from(words: Sequence[str], settings: ConnectionSettings) -> None:
    """Carry out ``RESET name`` or ``RESET ALL``."""
    if words[1:] == ("ALL",):
        settings.reset_all()
        return
    settings.set(_name(words), None)


def _name(words: Sequence[str]) -> str:
    rest = tuple(words[1:])
    known = {
        ("TIME", "ZONE"): "timezone",
        ("TRANSACTION", "ISOLATION", "LEVEL"): "transaction_isolation",
        ("SESSION", "AUTHORIZATION"): "session_authorization",
    }
    return known.get(rest) or "".join(rest).lower()


def shown_name(words: Sequence[str]) -> str:
    """The name of the column that SHOW gives."""
    name = _name(words)
    return _SPELT.get(name, name)


def shown(words: Sequence[str], settings: ConnectionSettings, epoch: int) -> Answer:
    """The answer to ``SHOW name`` or ``SHOW ALL``. TM8119 for a setting that there is not."""
    if tuple(words[1:]) == ("ALL",):
        values = {**settings.values(), _EPOCH: str(epoch)}
        names = [_SPELT.get(n, n) for n in sorted(values)]
        empty = [""] * len(names)
        table = pa.table({"name": names, "setting": [values[n] for n in sorted(values)], "description": empty})
        return rows_answer(iter((table,)))
    name = _name(words)
    return texts_answer(shown_name(words), [str(epoch) if name == _EPOCH else settings.get(name)])
