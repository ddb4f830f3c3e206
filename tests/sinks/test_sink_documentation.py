"""The statements and the receiver of ``docs/sinks.md``."""

from __future__ import annotations

import re
import socketserver
import threading
from pathlib import Path
from typing import Any

import duckdb
from sinking import Counted, weighted

from tidemill.sinks.registry import TARGETS
from waiting import wait_until

TEXT = (Path(__file__).parents[2] / "docs" / "sinks.md").read_text()


def test_statements_and_the_receiver(counted: Counted, tmp_path: Path, monkeypatch: Any) -> None:
    """The webhook of the page does not exist, which is shown; all others get the view."""
    monkeypatch.setenv("NO_PROXY", "*")
    found: dict[str, Any] = {}
    kept: dict[int, list[dict[str, Any]]] = {}
    (code,) = re.findall(r"^```python\n(.*?)^```", TEXT, re.MULTILINE | re.DOTALL)
    exec(code, found)
    found["keep"] = kept.setdefault
    server = socketserver.ThreadingTCPServer(("127.0.0.1", 0), found["Receiver"])
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    (block,) = re.findall(r"^```sql\n(.*?)^```", TEXT, re.MULTILINE | re.DOTALL)
    block = block.replace("/data", str(tmp_path)).replace("127.0.0.1:7001", f"127.0.0.1:{server.server_address[1]}")
    block = block.replace("https://hooks.example/", "http://127.0.0.1:1/").replace("FROM spending", "FROM v")
    creating, altering = block.split("ALTER SINK feed PAUSE;")
    counted.write([("a", 1), ("b", 2)])
    counted.advance()
    counted.mill.script(creating)
    counted.write([("c", 3)], [("a", 1)])
    counted.advance()
    wait_until(lambda: {n for n, s in counted.sinks().items() if s["lag"]} == {"alerts"})
    assert counted.sink("alerts")["error"].startswith("TM8212")
    assert weighted(row for rows in kept.values() for row in rows) == counted.rows
    (query,) = re.findall(r"^SELECT.*$", TEXT, re.MULTILINE)
    query = query.replace("customer, amount", "k, x").replace("out/", f"{tmp_path}/out/")
    assert sorted(duckdb.sql(query).fetchall()) == [("b", 2), ("c", 3)]
    counted.mill.script("ALTER SINK feed PAUSE;" + altering)
    assert "feed" not in counted.sinks()
    server.shutdown()
    server.server_close()


def test_every_target_is_documented() -> None:
    assert all(f"`{name}`" in TEXT for name in TARGETS)
