"""What clients do wrong: bad requests, halves of messages, connections that end without a goodbye or read nothing."""

from __future__ import annotations

import base64
import contextlib
import json
import os
import random
import socket
from typing import Any

import httpx

from benchmarks.server_process import ServerProcess
from benchmarks.soak.error import SoakError
from benchmarks.soak.feeds import RESET

_BAD: tuple[tuple[str, str, dict[str, Any] | None], ...] = (
    ("POST", "/v1/sql", {"statement": "SELEC 1"}),
    ("POST", "/v1/sql", {"statement": "SELECT nothing FROM nowhere"}),
    ("POST", "/v1/sql", {"statement": "DROP VIEW nowhere"}),
    ("POST", "/v1/sql", {"statement": "DROP TABLE nowhere"}),
    ("POST", "/v1/sql", {"statement": "ALTER VIEW nowhere PAUSE"}),
    ("POST", "/v1/sql", {"statement": "ALTER TABLE nowhere SET OPTIONS (priority '2')"}),
    ("POST", "/v1/sql", {"statement": "CREATE MATERIALIZED VIEW w AS SELECT rand() AS r"}),
    ("POST", "/v1/sql", {"statement": "CREATE TABLE w (a INT) USING csvv OPTIONS (path '/nowhere')"}),
    ("POST", "/v1/sql", {"statement": "SELECT 1; SELECT 2"}),
    ("POST", "/v1/sql", {"statement": "SELECT * FROM csv.`/etc/passwd`"}),
    ("POST", "/v1/sql", {"statment": "SELECT 1"}),
    ("POST", "/v1/sql", None),
    ("POST", "/v1/queries", {"name": "w", "sql": "SELECT * FROM nowhere"}),
    ("POST", "/v1/queries", {"name": "", "sql": "SELECT 1"}),
    ("POST", "/v1/queries", {"name": "w", "sql": "SELECT 1 AS a", "properties": {"colour": "red"}}),
    ("POST", "/v1/readers", {"name": "w", "format": "csv", "path": "/nowhere", "address": "nowhere:1"}),
    ("POST", "/v1/readers", {"name": "w", "format": "csv", "path": "tcp://nowhere", "columns": "a INT"}),
    ("DELETE", "/v1/readers/nowhere", None),
    ("DELETE", "/v1/queries/nowhere", None),
    ("GET", "/v1/views/nowhere", None),
    ("GET", "/v1/views/nowhere/changes", None),
    ("GET", "/v1/results?views=", None),
    ("GET", "/v1/changes?views=nowhere,nobody", None),
    ("POST", "/v1/cursors", {"views": ["nowhere"]}),
    ("POST", "/v1/cursors", {"views": []}),
    ("POST", "/v1/cursors/nowhere/fetch", None),
    ("DELETE", "/v1/cursors/nowhere", None),
    ("PUT", "/v1/sql", None),
    ("GET", "/v1/nowhere", None),
)


def bad_request(server: ServerProcess, chance: random.Random) -> str:
    """A request that cannot be answered; what it was. SoakError unless the answer is 4xx with a number."""
    method, path, body = chance.choice(_BAD)
    found = httpx.request(method, f"{server.url}{path}", json=body, timeout=60)
    what = f"{method} {path} {json.dumps(body) if body else ''}"
    try:
        number = found.json()["number"]
    except (ValueError, KeyError, TypeError) as error:
        raise SoakError(f"{what}: status {found.status_code} without a number: {found.text[:300]}") from error
    if not 400 <= found.status_code < 500 or number == "TM8099":
        raise SoakError(f"{what}: status {found.status_code}, {found.text[:300]}")
    return f"{what}: {number}"


def _connect(port: int) -> socket.socket:
    return socket.create_connection(("127.0.0.1", port), timeout=10)


def reset(connection: socket.socket) -> None:
    """Close without a goodbye."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
    connection.close()


def half_message(server: ServerProcess, chance: random.Random, view: str) -> str:
    """Half of a request, frame or start-up message, and the connection ends; what it was."""
    kind = chance.choice(("request", "frame", "postgres", "flight", "events"))
    with contextlib.closing(_connect(server.ports[{"postgres": "pg", "flight": "flight"}.get(kind, "http")])) as opened:
        if kind == "request":
            opened.sendall(b'POST /v1/sql HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 500\r\n\r\n{"statement": "SEL')
        elif kind == "frame":
            opened.sendall(_upgrade())
            opened.recv(4096)
            text = json.dumps({"subscribe": 1, "views": [view]}).encode()
            opened.sendall(_masked(text))
            if chance.random() < 0.5:
                opened.recv(4096)
            opened.sendall(b"\x81\xfe\x01")
        elif kind == "postgres":
            start = b"user\0soak\0database\0tidemill\0\0"
            message = (len(start) + 8).to_bytes(4, "big") + (196608).to_bytes(4, "big") + start
            opened.sendall(chance.choice((message[:9], message + b"Q\0\0\1\0SELECT", os.urandom(40))))
        elif kind == "flight":
            opened.sendall(chance.choice((b"PRI * HTTP/2.0\r\n\r\nSM", os.urandom(64))))
        else:
            opened.sendall(f"GET /v1/views/{view}/changes HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode())
            opened.recv(chance.choice((1, 100, 10_000)))
        reset(opened)
    return kind


def never_reads(server: ServerProcess, views: list[str]) -> socket.socket:
    """A subscriber of views that reads nothing of what it is sent."""
    found = socket.socket()
    found.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    found.settimeout(10)
    found.connect(("127.0.0.1", server.ports["http"]))
    found.sendall(f"GET /v1/changes?views={','.join(views)} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode())
    return found


def _upgrade() -> bytes:
    key = base64.b64encode(os.urandom(16)).decode()
    return (
        "GET /v1/ws HTTP/1.1\r\nHost: 127.0.0.1\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        f"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: {key}\r\n\r\n"
    ).encode()


def _masked(text: bytes) -> bytes:
    """A text frame of a client; its mask is zero."""
    assert len(text) < 126
    return bytes([0x81, 0x80 | len(text), 0, 0, 0, 0]) + text
