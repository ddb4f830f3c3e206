"""What clients send and what they make of the answers, without any input or output."""

from __future__ import annotations

import json
import ssl
import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal
from urllib.parse import quote, urlsplit

import pyarrow as pa

from tidemill.errors import TidemillError
from tidemill.serve.encoding.json_keys import rows_of

FRAMED = "application/vnd.tidemill.frames"
EPOCH_HEADER = "x-tidemill-epoch"
LOST = ("TM1036", "TM8010", "TM8013", "TM1031")
"""Numbers of errors behind which only a snapshot helps."""


@dataclass(frozen=True)
class Request:
    """An HTTP request below the address of a server."""

    method: str
    path: str
    params: Mapping[str, str] = field(default_factory=dict)
    body: Mapping[str, Any] | None = None
    content: bytes | None = None
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Change:
    """What one epoch changed in one view.

    Attributes
    ----------
    kind : str
        ``changes``; ``progress``: all changes up to ``epoch`` have been given; ``reset``: everything that was given
        is to be discarded, the rows of a newer epoch follow. The last two only where they were asked for.
    epoch : int
    view : str
        Its name; empty unless ``kind`` is ``changes``.
    table : pyarrow.Table
        The columns of the view, or those that were asked for, and int64 ``__weight``: +1 for a row that was added, -1
        for one that was removed. Without columns unless ``kind`` is ``changes``.
    initial : bool
        Whether these are the rows of the view at ``epoch``, that changes begin with.
    position : str
        Going on from here, everything that comes behind this is given.
    """

    kind: Literal["changes", "progress", "reset"]
    epoch: int
    view: str
    table: pa.Table
    initial: bool
    position: str


@dataclass(frozen=True)
class Wanted:
    """What a subscription asks for; see :meth:`tidemill.serve.client.client.Client.subscribe`."""

    views: tuple[str, ...]
    columns: str = "*"
    where: str | None = None
    durable: bool = False
    reset: bool = False

    def request(self, start: str) -> Request:
        """Follow from a start or position."""
        params = {"from": start, "format": "arrow", "durable": _flag(self.durable), "reset": _flag(self.reset)}
        if len(self.views) != 1:
            return Request("GET", "/v1/changes", {**params, "views": _listed(self.views)})
        params["columns"] = self.columns
        if self.where is not None:
            params["where"] = self.where
        return Request("GET", path_of("views", self.views[0], "changes"), params)


def path_of(kind: str, name: str, part: str = "") -> str:
    """The path of something that has a name, or of a part of it: ``/v1/views/a%2Fb/changes``."""
    encoded = name.replace(".", "%2E") if name in (".", "..") else quote(name, safe="")
    return f"/v1/{kind}/{encoded}" + (f"/{part}" if part else "")


def _listed(names: Sequence[str]) -> str:
    """Names as a parameter; one that could be taken for another list stands in backticks."""
    quoted = ("`" + n.replace("`", "``") + "`" if "," in n or "`" in n or n != n.strip() else n for n in names)
    return ",".join(quoted)


class Frames:
    """Takes bytes apart into the parts that a server put behind their lengths."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def parts(self, data: bytes) -> Iterator[bytes]:
        """The parts that some more bytes complete."""
        self._buffer += data
        at = 0
        while len(self._buffer) - at >= 4:
            (length,) = struct.unpack_from("<I", self._buffer, at)
            if len(self._buffer) - at - 4 < length:
                break
            yield bytes(self._buffer[at + 4 : at + 4 + length])
            at += 4 + length
        del self._buffer[:at]


class ChangeReader:
    """Makes changes of the bytes of a subscription."""

    def __init__(self) -> None:
        self._frames = Frames()
        self._head: dict[str, Any] | None = None

    def changes(self, data: bytes) -> Iterator[Change]:
        """The changes that some more bytes complete. Raises the error that ends the subscription."""
        for part in self._frames.parts(data):
            if self._head is not None:
                head, self._head = self._head, None
                yield _change("changes", head, table_of(part).replace_schema_metadata(None))
                continue
            head = json.loads(part)
            kind = head["kind"]
            if kind == "changes":
                self._head = head
            elif kind == "error":
                raise error_of(head)
            elif kind in ("progress", "reset"):
                yield _change(kind, head, _NOTHING)


_NOTHING = pa.table({})


def _change(kind: Literal["changes", "progress", "reset"], head: Mapping[str, Any], table: pa.Table) -> Change:
    view, epoch = str(head.get("view", "")), int(head.get("epoch", 0))
    return Change(kind, epoch, view, table, bool(head.get("initial")), str(head.get("position", "")))


def table_of(stream: bytes) -> pa.Table:
    """The rows of an Arrow IPC stream."""
    return pa.ipc.open_stream(stream).read_all()


def error_of(described: Mapping[str, Any]) -> TidemillError:
    """The error that a server describes."""
    return TidemillError(*(str(described.get(k, "")) for k in ("number", "what", "got", "hint")))


def error_in(status: int, body: bytes, url: str) -> TidemillError:
    """The error in an answer. TM8030 when whoever answers is no Tidemill server."""
    try:
        described = json.loads(body)
        if str(described["number"]).startswith("TM"):
            return error_of(described)
    except (ValueError, KeyError, TypeError):
        pass  # not in our form: reported below
    got = f"{url}: status {status}: {body[:80]!r}"
    return TidemillError("TM8030", "this is no Tidemill server", got=got, hint="check the address and port")


def address(url: str) -> str:
    """The URL of a server without a slash at its end. TM8030 when it is none of HTTP."""
    try:
        asked = urlsplit(url)
        known = asked.scheme in ("http", "https") and bool(asked.hostname)
    except ValueError:  # what stands between brackets is no address
        known = False
    if not known:
        got = f"{url[:100]}: not an http:// or https:// URL"
        raise TidemillError(
            "TM8030", "this is no Tidemill server", got=got, hint="http://HOST:PORT of `tidemill serve`"
        )
    return url.rstrip("/")


def trusted(verify: bool | str) -> bool | ssl.SSLContext:
    """How the certificate of a server is verified. TM8033 for certificates that cannot be used.

    Parameters
    ----------
    verify : bool or str
        True for the authorities that this machine trusts, False to verify nothing; a file of certificates in PEM, or
        a directory of them as OpenSSL names them.
    """
    if isinstance(verify, bool):
        return verify
    try:
        directory = Path(verify).is_dir()
        return ssl.create_default_context(cafile=None if directory else verify, capath=verify if directory else None)
    except OSError as error:  # every error of TLS is one
        raise TidemillError(
            "TM8033",
            "the certificates to verify the server with cannot be used",
            got=f"{verify}: {'no certificate in PEM' if isinstance(error, ssl.SSLError) else error.strerror}",
            hint="a file in PEM with the certificate of the server's authority, or True",
        ) from error


def unreachable(url: str, error: Exception) -> TidemillError:
    """TM8031: a server does not answer."""
    hint = "is `tidemill serve` running there? views and cursors continue where they were"
    if "CERTIFICATE_VERIFY_FAILED" in str(error):
        hint = "verify='FILE' with the certificate of the server's authority; for commands SSL_CERT_FILE=FILE"
    elif "WRONG_VERSION_NUMBER" in str(error):
        hint = "this address is not encrypted: http:// in place of https://"
    return TidemillError(
        "TM8031", "the server does not answer", got=f"{url}: {error or type(error).__name__}", hint=hint
    )


def statement(text: str, timeout: float | None, epoch: int | None) -> Request:
    """Execute a statement."""
    body: dict[str, Any] = {"statement": text, **({} if epoch is None else {"epoch": epoch})}
    if timeout is not None:
        body["timeout"] = timeout
    return Request("POST", "/v1/sql", {"format": "arrow"}, body)


def add_rows(table: str, rows: bytes | str | pa.Table | Sequence[Mapping[str, Any]], key: str | None) -> Request:
    """Rows for a table: bytes or text in its format, an Arrow table, or dictionaries, which become lines of JSON."""
    headers = {} if key is None else {"Idempotency-Key": key}
    if isinstance(rows, pa.Table):
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, rows.schema) as stream:
            stream.write_table(rows)
        content, headers["Content-Type"] = bytes(sink.getvalue()), "application/vnd.apache.arrow.stream"
    elif isinstance(rows, bytes | str):
        content = rows.encode() if isinstance(rows, str) else rows
    else:
        content = b"".join(json.dumps(row, ensure_ascii=False).encode() + b"\n" for row in rows)
        headers["Content-Type"] = "application/x-ndjson"
    return Request("POST", path_of("readers", table, "rows"), content=content, headers=headers)


def read(name: str, epoch: int | None, columns: str, where: str | None) -> Request:
    """Read a view."""
    params = {"format": "arrow", "columns": columns}
    if epoch is not None:
        params["epoch"] = str(epoch)
    if where is not None:
        params["where"] = where
    return Request("GET", path_of("views", name), params)


def look_up(name: str, on: Sequence[str], keys: pa.RecordBatch, epoch: int | None) -> Request:
    """Ask for the rows of a view with some keys."""
    params = {"format": "arrow", **({} if epoch is None else {"epoch": str(epoch)})}
    return Request("POST", path_of("views", name, "lookup"), params, {"on": list(on), "keys": rows_of(keys)})


def read_all(names: Sequence[str], epoch: int | None) -> Request:
    """Read several views at one epoch."""
    params = {"format": "arrow", "views": _listed(names)}
    return Request("GET", "/v1/results", {**params, **({} if epoch is None else {"epoch": str(epoch)})})


def tables_in(body: bytes) -> tuple[int, dict[str, pa.Table]]:
    """The epoch and tables of an answer to :func:`read_all`."""
    head, *parts = Frames().parts(body)
    described = json.loads(head)
    return int(described["epoch"]), dict(zip(described["views"], map(table_of, parts), strict=True))


def open_cursor(wanted: Wanted, start: str) -> Request:
    """Open a cursor."""
    body: dict[str, Any] = {"views": list(wanted.views), "start": start, "columns": wanted.columns}
    body |= {"where": wanted.where, "durable": wanted.durable}
    return Request("POST", "/v1/cursors", {}, body)


def fetch(cursor: str, rows: int, after: str | None, wait: float) -> Request:
    """Fetch rows of a cursor."""
    params = {"rows": str(rows), "wait": str(wait), "format": "arrow"}
    return Request(
        "POST", path_of("cursors", cursor, "fetch"), {**params, **({} if after is None else {"after": after})}
    )


@dataclass(frozen=True)
class Fetched:
    """What a cursor gave.

    Attributes
    ----------
    changes : tuple of Change
        In order; empty when there was nothing.
    epoch : int
        Everything up to this epoch has been given.
    up_to_date : bool
        Whether nothing more was there.
    position : str
        Behind all of it; give it back as ``after`` to have what follows again.
    """

    changes: tuple[Change, ...]
    epoch: int
    up_to_date: bool
    position: str


def fetched_in(body: bytes) -> Fetched:
    """The answer to :func:`fetch`."""
    head, *parts = Frames().parts(body)
    described = json.loads(head)
    changes = []
    for table in map(table_of, parts):
        named = {k.decode(): v.decode() for k, v in (table.schema.metadata or {}).items()}
        table = table.replace_schema_metadata(None)
        initial = named.get("initial") == "true"
        changes.append(Change("changes", int(named["epoch"]), named["view"], table, initial, described["position"]))
    return Fetched(tuple(changes), described["epoch"], described["up_to_date"], described["position"])


def _flag(value: bool) -> str:
    return "true" if value else "false"
