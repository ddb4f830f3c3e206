"""What the commands do when a server answers in place of the root's files."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pyarrow as pa

from tidemill.cli.query.output import shown_in
from tidemill.errors import TidemillError
from tidemill.serve.stored.addresses import served_at

if TYPE_CHECKING:
    from tidemill.serve.client.client import Client

TOKEN_VARIABLE = "TIDEMILL_TOKEN"


def server_for(root: str | None, server: str | None) -> Client | None:
    """A client of the server that was named, or of the one that serves a root on this machine; None for neither.

    The token is that of the environment variable TIDEMILL_TOKEN.

    Raises
    ------
    TidemillError
        TM7030 unless exactly one of the two is given; as :func:`~tidemill.serve.client.client.connect`.
    """
    if (root is None) == (server is None):
        got = "neither --root nor --server" if root is None else "both --root and --server"
        raise TidemillError("TM7030", "where the views are is not clear", got=got, hint="--root DIR, or --server URL")
    found = None if root is None else served_at(root)
    if server is None and found is None:
        return None
    from tidemill.serve.client.client import connect  # with it comes all that HTTP needs

    token = os.environ.get(TOKEN_VARIABLE)
    if server is not None:
        return connect(server, token)
    assert found is not None
    return connect(found["http"], token, verify=False)


def answer(client: Client, statement: str, epoch: int | None) -> Iterator[pa.Table] | str | None:
    """What a statement gives: rows, in the time zone of the mill, the text of a plan, or nothing."""
    found = client.sql(statement, epoch=epoch)
    if found is None or isinstance(found, str):
        return found
    return iter((shown_in(found.to_arrow(), client.status()["time_zone"]),))


def follow(client: Client, view: str, from_epoch: int) -> Iterator[tuple[int, pa.Table]]:
    """Changes of a view, on and on, in the time zone of the mill; 0 begins with its rows."""
    zone = client.status()["time_zone"]
    for change in client.subscribe(view, start=from_epoch or "snapshot", reconnect=10):
        yield change.epoch, shown_in(change.table, zone)


def plan(client: Client, query: str) -> str:
    """The incremental plan of a view, by its name, or of a query."""
    from tidemill.serve.client.protocol import path_of

    names = {view["name"] for view in client.status()["views"]}
    if query.strip().lower() in names:
        return str(client.request("GET", path_of("queries", query.strip().lower(), "plan"))["plan"])
    return str(client.sql(f"EXPLAIN INCREMENTAL {query}"))
