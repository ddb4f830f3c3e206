"""Sinks into a webhook: one that answers 500, one that does not answer, signatures and secrets."""

from __future__ import annotations

import hashlib
import hmac
import json
import random
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from sinking import Counted, weighted

from tidemill.errors import TidemillError
from waiting import wait_until


class Hook(ThreadingHTTPServer):
    """Keeps what is posted to it; ``statuses`` are its next answers, then it answers 200.

    ``before`` is called before each answer; ``waiting`` are the paths of all requests.
    """

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.posted: list[tuple[dict[str, str], bytes]] = []
        self.statuses: list[int] = []
        self.waiting: list[str] = []
        self.before: Callable[[], object] = lambda: None
        self.url = f"http://127.0.0.1:{self.server_port}/hook"
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def messages(self) -> list[dict[str, Any]]:
        """What was answered with 200."""
        return [json.loads(body) for _, body in self.posted]


class _Handler(BaseHTTPRequestHandler):
    server: Hook

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.waiting.append(self.path)
        self.server.before()
        status = self.server.statuses.pop(0) if self.server.statuses else 200
        if status == 200:
            self.server.posted.append((dict(self.headers), body))
        self.send_response(status)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Nothing."""


@pytest.fixture
def hook() -> Iterator[Hook]:
    found = Hook()
    yield found
    found.shutdown()
    found.server_close()


def test_messages(counted: Counted, seed: int, hook: Hook) -> None:
    """Failures are repeated; messages are numbered within an epoch, and add up to the view."""
    chance = random.Random(seed)
    counted.write([(chance.choice("ab"), x) for x in range(7)])
    counted.advance()
    hook.statuses = [500, 503, 200, 429]
    options = f"url '{hook.url}', rowsPerMessage '3', maxBackoff '20 ms'"
    secrets = "bearerToken 'hunter2', signingKey 'key2', httpHeaders 'X-Team: a b; X-Other: c'"
    counted.mill.sql(f"CREATE SINK s FROM v INTO webhook OPTIONS ({options}, {secrets})")
    for _ in range(2):
        wait_until(lambda: counted.sink("s")["lag"] == 0)
        found = hook.messages()
        assert weighted(row for m in found for row in m["rows"]) == counted.rows
        counted.change(chance)
        counted.advance()
    first = [(m["kind"], m["epoch"], m["sequence"], m["last"]) for m in hook.messages()[:3]]
    assert first == [("snapshot", 1, 0, False), ("snapshot", 1, 1, False), ("snapshot", 1, 2, True)]
    assert {(m["sink"], m["view"]) for m in hook.messages()} == {("s", "v")}
    for headers, body in hook.posted:
        message = json.loads(body)
        assert headers["Authorization"] == "Bearer hunter2"
        assert (headers["X-Team"], headers["X-Other"]) == ("a b", "c")
        assert headers["X-Tidemill-Signature"] == f"sha256={hmac.new(b'key2', body, hashlib.sha256).hexdigest()}"
        assert headers["Idempotency-Key"].endswith(f"-{message['kind']}-{message['epoch']}-{message['sequence']}")


def test_a_webhook_that_fails_is_shown(counted: Counted, hook: Hook) -> None:
    counted.write([("a", 1)])
    counted.advance()
    hook.statuses = [500] * 1000
    counted.mill.sql(f"CREATE SINK s FROM v INTO webhook OPTIONS (url '{hook.url}', maxBackoff '20 ms')")
    counted.mill.sql("CREATE SINK u FROM v INTO webhook OPTIONS (url 'http://127.0.0.1:1/', maxBackoff '20 ms')")
    wait_until(lambda: all(s["state"] == "retrying" for s in counted.sinks().values()))
    assert counted.sink("s")["error"].startswith("TM8212")
    assert "500 Internal Server Error" in counted.sink("s")["error"]
    assert counted.sink("u")["error"].startswith("TM8212")
    hook.statuses.clear()
    counted.mill.sql("ALTER SINK s RESUME")
    wait_until(lambda: counted.sink("s")["state"] == "running" and counted.sink("s")["lag"] == 0)


def test_secrets_are_not_stored_and_are_given_again(counted: Counted, hook: Hook) -> None:
    statement = f"CREATE SINK s FROM v INTO webhook OPTIONS (url '{hook.url}', bearerToken 'hunter2')"
    counted.write([("a", 1)])
    counted.advance()
    counted.mill.sql(statement)
    assert counted.mill.wait_for_sinks(30)
    counted.mill.close()
    root = counted.place / "root"
    assert not any(b"hunter2" in path.read_bytes() for path in root.rglob("*") if path.is_file())
    counted.open()
    counted.mill.checkpoint()
    wait_until(lambda: counted.sink("s")["state"] == "failed")
    assert counted.sink("s")["error"].startswith("TM8217")
    assert "hunter2" not in str(counted.sinks())
    counted.write([("b", 2)])
    counted.advance()
    counted.mill.script(statement)
    wait_until(lambda: counted.sink("s")["state"] == "running" and counted.sink("s")["lag"] == 0)
    assert weighted(row for m in hook.messages() for row in m["rows"]) == counted.rows
    with pytest.raises(TidemillError) as caught:
        counted.mill.script(statement.replace("hunter2", "hunter\n"))
    assert caught.value.number == "TM4003"
    assert "hunter" not in str(caught.value)
    counted.mill.sql("ALTER SINK s UNSET OPTIONS (bearerToken)")
    counted.write([("c", 3)])
    counted.advance()
    wait_until(lambda: len(hook.posted) == 3)
    assert "Authorization" not in hook.posted[-1][0]
