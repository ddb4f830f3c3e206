"""Requests as statements: what HTTP can ask for means what the statement means."""

from __future__ import annotations

from tidemill.errors import TidemillError
from tidemill.plan.sql.sent_text import Sent
from tidemill.serve.http.models import QueryBody, ReaderBody, Value


def create_table(body: ReaderBody) -> tuple[str, tuple[Sent, ...]]:
    """CREATE TABLE for a reader, and where its columns are in it. TM8019 for a connection that is none."""
    if (body.path is None) == (body.address is None):
        raise TidemillError(
            "TM8019",
            "a reader has one connection",
            got="both a path and an address" if body.path is not None else "neither a path nor an address",
            hint="a `path` (file, glob or URL), or an `address` HOST:PORT to connect to",
        )
    path = body.path if body.path is not None else f"tcp://{body.address}"
    options = ", ".join(f"{_name(k)} {_text(v)}" for k, v in {**body.options, "path": path}.items())
    text = f"CREATE TABLE {_name(body.name)}"
    sent: tuple[Sent, ...] = ()
    if body.columns is not None:
        text += " ("
        sent = (Sent("`columns`", body.columns, len(text)),)
        text += f"{body.columns})"
    return f"{text} USING {body.format} OPTIONS ({options})", sent


def create_view(body: QueryBody) -> tuple[str, tuple[Sent, ...]]:
    """CREATE MATERIALIZED VIEW for a query, and where its SQL is in it."""
    replace = "OR REPLACE " * body.replace
    given = ", ".join(f"{_text(k)} = {_text(v)}" for k, v in body.properties.items())
    properties = f" TBLPROPERTIES ({given})" if given else ""
    head = f"CREATE {replace}MATERIALIZED VIEW {_name(body.name)}{properties} AS "
    return head + body.sql, (Sent("`sql`", body.sql, len(head)),)


def _name(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def _text(value: Value) -> str:
    """A value as a literal of a text: ``true`` and ``1.5`` as SQL writes them."""
    value = str(value).lower() if isinstance(value, bool) else str(value)
    return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"
