"""A webhook: every message is the JSON body of a POST, and has arrived when the answer is 2xx."""

from __future__ import annotations

import hashlib
import hmac
import json
import re
import socket
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import pyarrow as pa

from tidemill.errors import TidemillError
from tidemill.options.kinds import INTERVAL, TEXT, number
from tidemill.options.option import Option, OptionGroup
from tidemill.schema import Schema
from tidemill.sinks import json_lines
from tidemill.sinks.messages import Message, messages
from tidemill.sinks.options import CHANGES
from tidemill.sinks.target import AT_LEAST_ONCE, Changes, Identity, TargetKind, bad_location

if TYPE_CHECKING:
    import httpx

URL = Option("url", TEXT, None, "where messages are posted: http:// or https://, without a user")
ROWS_PER_MESSAGE = Option("rowsPerMessage", number(1, 100_000), 1000, "most rows of one message")
REQUEST_TIMEOUT = Option(
    "deliveryTimeout", INTERVAL, 30_000_000, "how long one request may take", shown="30 seconds", alterable=True
)
BEARER = Option("bearerToken", TEXT, None, "sent as `Authorization: Bearer`", alterable=True, secret=True)
HEADERS = Option(
    "httpHeaders", TEXT, None, "more headers, `Name: value`, with `;` between them", alterable=True, secret=True
)
SIGNING_KEY = Option(
    "signingKey",
    TEXT,
    None,
    "key of the header `X-Tidemill-Signature`, `sha256=` and the HMAC of the body in hexadecimal digits",
    alterable=True,
    secret=True,
)
_HEADER = re.compile(r"\s*([!#$%&'*+.^_`|~0-9A-Za-z-]+)\s*:\s*([\x20-\x7e]*?)\s*")
_SHOWN = 200
_MOST_ANSWER = 64 << 10
"""Bytes of an answer that are read: those of an endless one are not."""
_CONNECTED = ("connection.connect_tcp.complete", "connection.start_tls.complete")
"""Steps of a request, as httpx's extension ``trace`` names them, after which there is a new socket."""


class WebhookTarget:
    """Posts messages one after the other. After a failure it goes on with the one that failed."""

    combines = False

    def __init__(self, sink: Identity, options: Mapping[str, str]) -> None:
        self._sink, self._url = sink, options[URL.key]
        self._rows = ROWS_PER_MESSAGE.of(options)
        self._key = SIGNING_KEY.of(options)
        self._seconds = REQUEST_TIMEOUT.of(options) / 1e6
        self._headers = {
            "Content-Type": "application/json",
            "Accept-Encoding": "identity",
            **dict(_headers(HEADERS.of(options) or "")),
        }
        if (token := BEARER.of(options)) is not None:
            self._headers["Authorization"] = f"Bearer {token}"
        self._shown = shown_url(self._url)
        self._client: httpx.Client | None = None
        self._socket: socket.socket | None = None
        self._aborted = False
        self._taken = (-1, False, -1)
        """Epoch, whether it is a snapshot, and number of the last message that was taken."""

    def position(self, begun: bool) -> int | None:
        """Unknown: receivers are not asked."""
        return None

    def snapshot(self, epoch: int, parts: Iterable[pa.Table]) -> None:
        """Post all rows."""
        self._post_all(messages(epoch, parts, self._rows, snapshot=True))

    def changes(self, changes: Sequence[Changes]) -> None:
        """Post the changes of each epoch."""
        for change in changes:
            self._post_all(messages(change.epoch, (change.table,), self._rows, snapshot=False))

    def _post_all(self, found: Iterable[Message]) -> None:
        for message in found:
            epoch, snapshot, sequence = self._taken
            if (epoch, snapshot) != (message.epoch, message.snapshot) or message.sequence > sequence:
                self._post(message)
                self._taken = message.epoch, message.snapshot, message.sequence

    def _post(self, message: Message) -> None:
        import httpx  # not by who only reads a catalogue

        sink = self._sink
        head = {
            "sink": sink.name,
            "id": sink.id,
            "view": sink.view,
            "kind": "snapshot" if message.snapshot else "changes",
            "epoch": message.epoch,
            "sequence": message.sequence,
            "last": message.last,
        }
        rows = json_lines.objects(message.rows, sink.time_zone, ",")
        body = json.dumps(head, ensure_ascii=False)[:-1].encode() + b', "rows": [' + rows + b"]}"
        headers = {"Idempotency-Key": f"{sink.id}-{head['kind']}-{message.epoch}-{message.sequence}"}
        if self._key is not None:
            headers["X-Tidemill-Signature"] = f"sha256={hmac.new(self._key.encode(), body, hashlib.sha256).hexdigest()}"
        if self._client is None:
            self._client = httpx.Client(timeout=self._seconds, headers=self._headers)
        try:
            with self._client.stream(
                "POST", self._url, content=body, headers=headers, extensions={"trace": self._trace}
            ) as answer:
                text = _beginning(answer)
        except httpx.HTTPError as error:
            raise _failed(f"{self._shown}: {type(error).__name__}: {error}") from error
        if not answer.is_success:
            shown = " ".join(text[:_SHOWN].split())
            raise _failed(f"{self._shown}: {answer.status_code} {answer.reason_phrase}: {shown}")

    def _trace(self, step: str, about: Mapping[str, Any]) -> None:
        """Note the socket of a new connection, for :meth:`abort`."""
        if step in _CONNECTED:
            self._socket = about["return_value"].get_extra_info("socket")
            if self._aborted:
                self.abort()

    def close(self) -> None:
        """Close the connection."""
        client, self._client = self._client, None
        if client is not None:
            client.close()

    def abort(self) -> None:
        """Shut the connection down."""
        self._aborted = True
        connection = self._socket
        if connection is not None:
            try:
                socket.socket.shutdown(connection, socket.SHUT_RDWR)  # that of ssl.SSLSocket would write first
            except OSError:
                return  # it is closed already


def shown_url(url: str) -> str:
    """A URL as it is shown: what is behind ``?`` may be a secret."""
    return re.sub(r"\?.*", "?...", url, flags=re.DOTALL)


def _beginning(answer: httpx.Response) -> str:
    found = bytearray()
    for part in answer.iter_raw():
        found += part
        if len(found) >= _MOST_ANSWER:
            break
    return found.decode(errors="replace")


def _failed(got: str) -> TidemillError:
    return TidemillError(
        "TM8212",
        "the webhook did not take a message",
        got=got,
        hint="it must answer 2xx; the message is sent again after a pause",
    )


def _headers(text: str) -> list[tuple[str, str]]:
    found = []
    for part in filter(str.strip, text.split(";")):
        match = _HEADER.fullmatch(part)
        if match is None:
            raise HEADERS.bad(text, "'Name: value', with ';' between several")
        found.append((match[1], match[2]))
    return found


def _resolved(text: str) -> str:
    import httpx

    shown = text.partition("://")[0][:_SHOWN]  # the rest may have secrets
    try:
        url, _ = urlsplit(text), httpx.URL(text)
        shown = f"{url.scheme}://{url.hostname or ''}"
        taken = url.scheme in ("http", "https") and bool(url.hostname) and url.username is None and not url.fragment
        taken = taken and (url.port is None or url.port > 0)
    except (ValueError, httpx.InvalidURL):
        taken = False
    if not taken:
        raise bad_location(
            "webhook", "url", shown, "http://host/path or https://host/path; use bearerToken for secrets"
        )
    return text


def _check(options: Mapping[str, str], schema: Schema) -> None:
    token = BEARER.of(options)
    if token is not None and re.fullmatch(r"[\x21-\x7e]+", token) is None:
        raise BEARER.bad(token, "characters of ASCII without spaces")
    _headers(HEADERS.of(options) or "")


WEBHOOK = TargetKind(
    "webhook",
    OptionGroup(
        "Sinks into a webhook",
        "Sinks `INTO webhook`.",
        (URL, ROWS_PER_MESSAGE, REQUEST_TIMEOUT, BEARER, HEADERS, SIGNING_KEY),
    ),
    URL,
    (CHANGES,),
    _check,
    _resolved,
    WebhookTarget,
    lambda _: AT_LEAST_ONCE,
    shown_url,
    library="httpx",
    tried="a server of Python's standard library",
)
