"""A schema registry on a free port of loopback, as far as serializers and readers of Confluent's client ask it.

The API is https://docs.confluent.io/platform/current/schema-registry/develop/api.html.
"""

from __future__ import annotations

import base64
import json
import re
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class SchemaRegistry:
    """Schemas by number and by subject, in memory.

    Attributes
    ----------
    url : str
    asked : list of str
        Paths of requests, in order.
    down : bool
        Whether all requests are answered with 503.
    garbage : dict of int to bytes
        What is sent, with status 200, for the schemas of some numbers.
    proxied : bytes
        What is sent, with status 200, for all requests; empty for answers of a registry.
    user_info : str
        What requests must give as user and password; empty for all.
    """

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.down = False
        self.garbage: dict[int, bytes] = {}
        self.proxied = b""
        self.user_info = ""
        self.schemas: dict[int, dict[str, Any]] = {}
        self._subjects: dict[str, list[int]] = {}
        registry = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self._answer(None)

            def do_POST(self) -> None:
                self._answer(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))

            def _answer(self, given: Any) -> None:
                status, body = registry._answer(self.path, given, self.headers.get("Authorization", ""))
                data = body if isinstance(body, bytes) else json.dumps(body).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/vnd.schemaregistry.v1+json")
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *_: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    def register(self, subject: str, schema: Any, references: list[dict[str, Any]] | None = None) -> int:
        """The number of a schema, which is the newest of a subject then."""
        text = schema if isinstance(schema, str) else json.dumps(schema)
        given = {"schema": text, "references": references or []}
        number = next((n for n, s in self.schemas.items() if s == given), len(self.schemas) + 1)
        self.schemas[number] = given
        self._subjects.setdefault(subject, []).append(number)
        return number

    def _answer(self, path: str, given: Any, authorization: str) -> tuple[int, Any]:
        self.asked.append(path)
        if self.down:
            return 503, {"error_code": 50301, "message": "down"}
        if self.user_info and authorization != "Basic " + base64.b64encode(self.user_info.encode()).decode():
            return 401, {"error_code": 40101, "message": f"not you: {authorization}"}
        path = path.partition("?")[0]
        if self.proxied:
            return 200, self.proxied
        if path == "/schemas/types":
            return 200, ["JSON", "PROTOBUF", "AVRO"]
        if found := re.fullmatch(r"/schemas/ids/(\d+)", path):
            if int(found[1]) in self.garbage:
                return 200, self.garbage[int(found[1])]
            schema = self.schemas.get(int(found[1]))
            return (404, {"error_code": 40403, "message": "Schema not found"}) if schema is None else (200, schema)
        if found := re.fullmatch(r"/subjects/([^/]+)/versions/(\w+)", path):
            numbers = self._subjects.get(found[1], [])
            version = len(numbers) if found[2] == "latest" else int(found[2])
            if not 0 < version <= len(numbers):
                return 404, {"error_code": 40401, "message": "Subject not found"}
            number = numbers[version - 1]
            return 200, {"subject": found[1], "version": version, "id": number, **self.schemas[number]}
        found = re.fullmatch(r"/subjects/([^/]+)(?:/versions)?", path)
        if found is None:  # such as what later registries associate with a topic
            return 404, {"error_code": 404, "message": "HTTP 404 Not Found"}
        return 200, {"id": self.register(found[1], given["schema"]), "subject": found[1], "version": 1, **given}

    def close(self) -> None:
        """Stop answering."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
