"""A small HTTP proxy in front of an S3 endpoint that does what it is told to the requests it sees."""

from __future__ import annotations

import http.client
import socket
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlparse


@dataclass(frozen=True)
class Request:
    """What a client asks for; ``path`` with its query, names of headers in lower case."""

    method: str
    path: str
    headers: dict[str, str]


@dataclass
class Answer:
    """What goes back; ``cut`` announced bytes of the body are not sent, ``delay`` seconds pass first.

    Status 0 closes the connection without a word.
    """

    status: int
    body: bytes
    headers: dict[str, str] = field(default_factory=dict)
    cut: int = 0
    delay: float = 0.0


Rule = Callable[[Request, Callable[[], Answer]], Answer]
"""Makes the answer to a request, perhaps with that of the endpoint behind."""


def s3_error(status: int, code: str) -> Answer:
    """An error as S3 words it, with what must never be shown."""
    body = f"<Error><Code>{code}</Code><AWSAccessKeyId>KEYKEY</AWSAccessKeyId><Message>m</Message></Error>"
    return Answer(status, body.encode(), {"Content-Type": "application/xml"})


class S3Proxy:
    """Answers on a free port of loopback. ``rule`` may be changed at any time; ``requests`` has all that came."""

    def __init__(self, endpoint: str) -> None:
        self.requests: list[Request] = []
        self.rule: Rule = lambda _, forward: forward()
        behind = urlparse(endpoint).netloc
        proxy = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def _answer(self) -> None:
                request = Request(self.command, self.path, {k.lower(): v for k, v in self.headers.items()})
                proxy.requests.append(request)
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))

                def forward() -> Answer:
                    connection = http.client.HTTPConnection(behind, timeout=30)
                    connection.request(self.command, self.path, body, dict(self.headers))
                    response = connection.getresponse()
                    kept = {k: v for k, v in response.getheaders() if k.lower() not in _HOP}
                    found = Answer(response.status, response.read(), kept)
                    if self.command == "HEAD":
                        found.headers["Content-Length"] = response.headers.get("Content-Length", "0")
                    connection.close()
                    return found

                answer = proxy.rule(request, forward)
                time.sleep(answer.delay)
                if not answer.status:
                    self.connection.shutdown(socket.SHUT_RDWR)
                    self.close_connection = True
                    return
                self.send_response(answer.status)
                for name, value in answer.headers.items():
                    self.send_header(name, value)
                if self.command != "HEAD":
                    self.send_header("Content-Length", str(len(answer.body)))
                self.end_headers()
                if self.command != "HEAD":
                    self.wfile.write(answer.body[: max(0, len(answer.body) - answer.cut)])
                if answer.cut:
                    self.wfile.flush()
                    self.connection.shutdown(socket.SHUT_RDWR)
                    self.close_connection = True

            do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = _answer  # noqa: N815

            def log_message(self, *_: object) -> None:
                """Silence."""

            def handle(self) -> None:
                try:
                    super().handle()
                except (ConnectionError, TimeoutError):  # a client that went away, which is what is being tried
                    self.close_connection = True

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    def of(self, method: str, part: str = "") -> list[Request]:
        """The requests of a method whose paths contain something."""
        return [r for r in self.requests if r.method == method and part in r.path]

    def asked(self, method: str = "", part: str = "") -> list[Request]:
        """The different requests, in order: one that the client repeated because an answer came late counts once."""
        found = {(r.method, r.path, r.headers.get("range")): r for r in reversed(self.requests)}
        return [r for r in reversed(found.values()) if method in ("", r.method) and part in r.path]

    def close(self) -> None:
        """Stop answering."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


_HOP = ("content-length", "connection", "transfer-encoding", "keep-alive", "server", "date")


def failing(times: int, answer: Callable[[Callable[[], Answer]], Answer], part: str = "") -> Rule:
    """A rule that spoils the first so many requests whose paths contain something, and lets the others through."""
    left = [times]
    lock = threading.Lock()

    def rule(request: Request, forward: Callable[[], Answer]) -> Answer:
        with lock:
            spoil = left[0] > 0 and part in request.path
            left[0] -= spoil
        return answer(forward) if spoil else forward()

    return rule
