"""Tables whose files a queue tells of, through whole mills: restarts, secrets, options that change."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from queue_mill import BUCKET, Store

from tidemill.errors import TidemillError
from tidemill.mill import Mill
from tidemill.runtime.intake import queue_listener

SECRET = "wJalrXUtnFEMI-secret"


@pytest.fixture
def store(endpoint: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Store]:
    monkeypatch.setenv("AWS_ALLOW_HTTP", "true")
    monkeypatch.setattr(queue_listener, "WAIT_SECONDS", 1)
    made = Store(endpoint, hidden_seconds=5)
    yield made
    made.remove()


def add(store: Store, key: str, *numbers: int, told: bool = True) -> None:
    body = "".join(f"{n}\n" for n in numbers).encode()
    etag = store.put(key, body)
    if told:
        store.tell(store.event(key, body, etag))


def until(mill: Mill, expected: list[int]) -> None:
    end = time.monotonic() + 120
    while sorted(mill.read("v").column("k").to_pylist()) != expected:
        assert time.monotonic() < end, mill.warnings()
        mill.advance()
        time.sleep(0.02)


def test_a_mill_that_hears_of_its_files(
    mill_factory: Callable[..., Mill], store: Store, endpoint: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "tidemill")
    script = f"""CREATE TABLE t (k BIGINT) USING csv OPTIONS (path 's3://{BUCKET}/in/', useNotifications 'true',
      queueUrl '{store.url}', backfillInterval '1 hour', endpoint '{endpoint}', allowHttp 'true',
      region 'us-east-1', awsAccessKey 'AKIDEXAMPLE', awsSecretKey '{SECRET}');
    CREATE MATERIALIZED VIEW v AS SELECT k FROM t;"""
    add(store, "in/a", 1)
    mill = mill_factory()
    mill.script(script)
    until(mill, [1])
    add(store, "in/b", 2, 3)
    until(mill, [1, 2, 3])
    for _ in range(200):
        mill.advance()
        time.sleep(0.02)
        if not store.left():
            break
    assert store.left() == 0, "checkpoints are made in the background, and messages deleted after them"
    shown = [mill.sql(f"SHOW {kind}").collect() for kind in ("TABLES", "VIEWS")]
    shown += [mill.sql("DESCRIBE t").collect(), mill.explain_views(), mill.status(), mill.warnings()]
    mill.close()

    add(store, "in/c", 4)
    add(store, "in/lost", 9, told=False)
    mill = mill_factory()
    mill.script(script)
    until(mill, [1, 2, 3, 4])
    for _ in range(5):
        assert mill.advance() is None, "it is not time to list all again"
    with pytest.raises(TidemillError, match="TM5076") as caught:
        mill.sql(f"ALTER TABLE t SET OPTIONS (queueUrl '{store.url}-not')")
    shown.append(str(caught.value))
    mill.sql("ALTER TABLE t SET OPTIONS (backfillInterval '1 second')")
    until(mill, [1, 2, 3, 4, 9])
    add(store, "in/d", 5, told=False)
    for _ in mill.drain():
        pass
    until(mill, [1, 2, 3, 4, 5, 9])
    mill.close()
    assert store.left() == 0
    found = b"".join(p.read_bytes() for p in (tmp_path / "root").rglob("*") if p.is_file())
    assert SECRET.encode() not in found and b"AKIDEXAMPLE" not in found and b"queueurl" in found
    assert SECRET not in str(shown) and SECRET not in caplog.text
    mill = mill_factory()
    mill.script(script.replace("1 hour", "1 second"))
    mill.sql("DROP MATERIALIZED VIEW v")
    add(store, "in/e", 6)
    for _ in range(3):
        assert mill.advance() is None
    assert store.left() == 1, "no view reads the table"
    mill.sql("CREATE MATERIALIZED VIEW v AS SELECT k FROM t")
    while mill.advance() is not None:
        pass
    until(mill, [1, 2, 3, 4, 5, 6, 9])
    mill.sql("DROP MATERIALIZED VIEW v")
    mill.sql("DROP TABLE t")
    assert mill.advance() is None


def test_tables_that_cannot_hear(mill_factory: Callable[..., Mill], store: Store) -> None:
    mill = mill_factory()
    queue = f"useNotifications 'true', queueUrl '{store.url}'"
    for statement, number in (
        (f"CREATE TABLE t (k BIGINT PRIMARY KEY) USING csv OPTIONS (path 's3://{BUCKET}/in/', {queue})", "TM2039"),
        (f"CREATE STATIC TABLE t (k BIGINT) USING csv OPTIONS (path 's3://{BUCKET}/in/', {queue})", "TM2039"),
        (f"CREATE TABLE t (k BIGINT) USING csv OPTIONS (path '/data', {queue})", "TM4003"),
        (f"CREATE TABLE t (k BIGINT) USING csv OPTIONS (path 'tcp://localhost:1', {queue})", "TM4003"),
        (f"CREATE TABLE t (k BIGINT) USING csv OPTIONS (path 's3://{BUCKET}/in/', useNotification 'true')", "TM4005"),
    ):
        with pytest.raises(TidemillError, match=number):
            mill.sql(statement)
