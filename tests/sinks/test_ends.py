"""How deliveries end and begin again: a mill that is closed, receivers that hang, views that fail, targets that go."""

from __future__ import annotations

import random
import shutil
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from sinking import Counted, plain, weighted
from test_file_sinks import json_rows, parquet_rows
from test_webhook import Hook, hook

from mill_factory import MillFactory
from tidemill.errors import TidemillError
from tidemill.runtime.sinks import deliveries
from waiting import wait_until

__all__ = ["hook"]


@pytest.fixture
def deaf() -> Iterator[socket.socket]:
    """Listens, and answers nothing; ``connected`` are its clients."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield listening


def test_closing_takes_what_became_durable_meanwhile(counted: Counted, hook: Hook) -> None:
    """Also when a message is on its way at that moment."""
    go_on = threading.Event()
    hook.before = go_on.wait
    counted.mill.sql(f"CREATE SINK s FROM v INTO webhook OPTIONS (url '{hook.url}')")
    counted.write([("a", 1)])
    counted.mill.advance()
    counted.mill.checkpoint()
    (worker,) = counted.mill._coordinator.deliveries._workers.values()
    wait_until(lambda: bool(hook.waiting))
    counted.write([("b", 2)])
    counted.mill.advance()
    closing = threading.Thread(target=counted.mill.close)
    closing.start()
    wait_until(lambda: worker._finishing)
    go_on.set()
    closing.join()
    assert weighted(row for m in hook.messages() for row in m["rows"]) == counted.rows


@pytest.mark.parametrize("target", ["webhook", "tcp"])
def test_closing_does_not_wait_for_a_receiver_that_hangs(
    counted: Counted, deaf: socket.socket, target: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deliveries, "_LAST_SECONDS", 0.1)
    host, port = deaf.getsockname()
    options = {
        "webhook": f"url 'http://{host}:{port}/', deliveryTimeout '1 hour'",
        "tcp": f"path 'tcp://{host}:{port}', receiverTimeout '1 hour'",
    }
    counted.mill.sql(f"CREATE SINK s FROM v INTO {target} OPTIONS ({options[target]})")
    counted.write([("a", 1)])
    counted.mill.advance()
    counted.mill.checkpoint()
    with deaf.accept()[0] as connection:
        connection.recv(1)
        (worker,) = counted.mill._coordinator.deliveries._workers.values()
        closing = threading.Thread(target=counted.mill.close, daemon=True)
        closing.start()
        closing.join(60)
        assert not closing.is_alive() and not worker.is_alive()


def test_epochs_before_a_view_fails_are_delivered(counted: Counted, tmp_path: Path) -> None:
    """Also by targets that take several epochs at a time."""
    counted.mill.sql("CREATE MATERIALIZED VIEW q AS SELECT k, 10 DIV x AS y FROM t")
    counted.mill.sql(f"CREATE SINK d FROM q INTO delta OPTIONS (path '{tmp_path}/d')")
    counted.write([("a", 1)])
    counted.advance()
    counted.mill.sql("ALTER SINK d PAUSE")
    for row in (("b", 2), ("c", 5), ("z", 0)):
        counted.write([row])
        counted.advance()
    counted.mill.sql("ALTER SINK d RESUME")
    wait_until(lambda: counted.sink("d")["state"] == "waiting")
    assert counted.sink("d")["error"].startswith("TM1039")
    found = weighted(DeltaTable(tmp_path / "d").to_pyarrow_table().to_pylist())
    assert found == {("a", 10): 1, ("b", 5): 1, ("c", 2): 1}
    counted.write([], [("z", 0)])
    counted.advance()
    wait_until(lambda: counted.sink("d")["lag"] == 0)
    assert weighted(DeltaTable(tmp_path / "d").to_pyarrow_table().to_pylist()) == found


def test_a_sink_that_begins_late_begins_with_all_rows(mill_factory: MillFactory, seed: int, tmp_path: Path) -> None:
    """Nothing is missing at a target that has nothing yet, however many epochs have gone."""
    chance = random.Random(seed)
    counted = Counted(mill_factory, tmp_path, history_epochs=2)
    (tmp_path / "s").write_text("in the way")
    counted.mill.sql(f"CREATE SINK s FROM v INTO json OPTIONS (path '{tmp_path}/s/x', maxBackoff '20 ms')")
    for _ in range(6):
        counted.change(chance)
        counted.advance()
    assert counted.sink("s")["state"] == "retrying"
    (tmp_path / "s").unlink()
    wait_until(lambda: counted.sink("s")["lag"] == 0)
    counted.change(chance)
    counted.advance()
    assert weighted(json_rows(tmp_path / "s" / "x")) == counted.rows
    assert counted.sink("s")["error"] == ""


@pytest.mark.parametrize("target", ["json", "delta"])
@pytest.mark.parametrize("with_directory", [True, False])
def test_a_target_that_is_removed_meanwhile(
    counted: Counted, seed: int, tmp_path: Path, target: str, with_directory: bool
) -> None:
    """The mill runs on: what it writes next is no table of changes without the rows before."""
    chance = random.Random(seed)
    for name, on_gap in (("stops", "error"), ("goes", "snapshot")):
        place = f"path '{tmp_path}/{name}', onGap '{on_gap}', maxBackoff '50 ms'"
        counted.mill.sql(f"CREATE SINK {name} FROM v INTO {target} OPTIONS ({place})")
    counted.write([("a", 1), ("b", 2)])
    counted.advance()
    counted.change(chance)
    counted.advance()
    for name in ("stops", "goes"):
        shutil.rmtree(tmp_path / name)
        if not with_directory:
            (tmp_path / name).mkdir()
    counted.change(chance)
    counted.mill.advance()
    counted.mill.checkpoint()
    wait_until(lambda: counted.sink("stops")["state"] == "failed")
    assert counted.sink("stops")["error"].startswith("TM8218")
    wait_until(lambda: counted.sink("goes")["lag"] == 0)
    counted.mill.sql("ALTER SINK stops SET OPTIONS (onGap 'snapshot')")
    wait_until(lambda: counted.sink("stops")["lag"] == 0)
    counted.change(chance)
    counted.advance()
    for name in ("stops", "goes"):
        if target == "json":
            assert weighted(json_rows(tmp_path / name)) == counted.rows
        else:
            assert weighted(DeltaTable(tmp_path / name).to_pyarrow_table().to_pylist()) == counted.rows


@pytest.mark.parametrize("target", ["parquet", "delta"])
def test_a_target_that_was_removed(counted: Counted, seed: int, tmp_path: Path, target: str) -> None:
    """Changes alone would not add up to the view: it is an error, or all rows are written again."""
    chance = random.Random(seed)

    def rows(name: str) -> object:
        if target == "parquet":
            return weighted(parquet_rows(tmp_path / name))
        return weighted(DeltaTable(tmp_path / name).to_pyarrow_table().to_pylist())

    for name, on_gap in (("stops", "error"), ("goes", "snapshot")):
        place = f"path '{tmp_path}/{name}', onGap '{on_gap}'"
        counted.mill.sql(f"CREATE SINK {name} FROM v INTO {target} OPTIONS ({place})")
    counted.mill.sql(f"CREATE SINK whole FROM n INTO {target} OPTIONS (path '{tmp_path}/whole', mode 'snapshot')")
    counted.write([("a", 1)])
    counted.advance()
    counted.mill.close()
    for name in ("stops", "goes", "whole"):
        shutil.rmtree(tmp_path / name)
    counted.open()
    counted.change(chance)
    counted.advance()
    wait_until(lambda: counted.sink("stops")["state"] == "failed")
    assert counted.sink("stops")["error"].startswith("TM8218")
    assert rows("goes") == counted.rows
    files = (
        DeltaTable(tmp_path / "whole").file_uris() if target == "delta" else [tmp_path / "whole" / "snapshot.parquet"]
    )
    whole = [row for file in files for row in pq.read_table(file).to_pylist()]
    assert plain(whole) == counted.sums
    counted.mill.sql("ALTER SINK stops RESUME")
    wait_until(lambda: counted.sink("stops")["state"] == "failed")
    counted.mill.sql("ALTER SINK stops SET OPTIONS (onGap 'snapshot')")
    wait_until(lambda: counted.sink("stops")["lag"] == 0)
    assert rows("stops") == counted.rows


def test_the_only_file_of_a_snapshot_was_removed(counted: Counted, tmp_path: Path) -> None:
    """It is written again at the next opening, though no row has changed."""
    counted.mill.sql(f"CREATE SINK s FROM n INTO parquet OPTIONS (path '{tmp_path}/s', mode 'snapshot')")
    counted.write([("a", 1), ("b", 2)])
    counted.advance()
    counted.mill.close()
    (tmp_path / "s" / "snapshot.parquet").unlink()
    counted.open()
    counted.advance()
    assert plain(pq.read_table(tmp_path / "s" / "snapshot.parquet").to_pylist()) == counted.sums


def test_sinks_that_were_dropped_are_forgotten(counted: Counted, tmp_path: Path) -> None:
    for i in range(5):
        counted.mill.sql(f"CREATE SINK s FROM v INTO json OPTIONS (path '{tmp_path}/s{i}')")
        counted.mill.sql("ALTER SINK s PAUSE")
        counted.mill.sql("ALTER SINK s RESUME")
        counted.mill.sql("DROP SINK s")
    found = counted.mill._coordinator.deliveries
    wait_until(lambda: not any(w.is_alive() for w in found._ending.values()))
    counted.mill.sql(f"CREATE SINK s FROM v INTO json OPTIONS (path '{tmp_path}/last')")
    assert not found._ending and len(found._positions) <= 1


@pytest.mark.parametrize("taken", [True, False])
def test_an_answer_without_an_end(counted: Counted, deaf: socket.socket, taken: bool) -> None:
    """So much of it is read, and no more."""
    host, number = deaf.getsockname()
    counted.mill.sql(f"CREATE SINK s FROM v INTO webhook OPTIONS (url 'http://{host}:{number}/?key=hidden')")
    counted.write([("a", 1)])
    counted.mill.advance()
    counted.mill.checkpoint()
    status = b"HTTP/1.1 200 OK" if taken else b"HTTP/1.1 500 no"
    with deaf.accept()[0] as connection:
        connection.recv(1 << 16)
        connection.sendall(status + b"\r\n\r\n")
        with pytest.raises(OSError):
            for _ in range(1000):
                connection.sendall(b"x" * (1 << 20))
    state = "running" if taken else "retrying"
    wait_until(lambda: counted.sink("s")["state"] == state)
    assert counted.sink("s")["location"] == f"http://{host}:{number}/?..."
    assert taken or ("500 no: xxx" in counted.sink("s")["error"] and len(counted.sink("s")["error"]) < 600)
    assert "hidden" not in str(counted.sink("s"))


URLS = (
    "http://h:99999/",
    "http://h:0/",
    "http://[bad/",
    "http://h/\x01",
    "https://",
    "http://u:p@h/",
    "h",
    "http://h/#x",
)


@pytest.mark.parametrize("url", URLS)
def test_urls_that_are_none(counted: Counted, url: str) -> None:
    with pytest.raises(TidemillError) as caught:
        counted.mill.sql(f"CREATE SINK s FROM v INTO webhook OPTIONS (url '{url}')")
    assert caught.value.number == "TM8207" and "p@" not in caught.value.message()
