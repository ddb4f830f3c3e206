"""The mill loses what was not durable while sockets are read, goes back in its process, and counts each row once."""

from __future__ import annotations

import random
import socket
import threading
import time
from collections import Counter
from functools import partial
from pathlib import Path

import pytest

from local_jobs import local
from mill_factory import MillFactory
from tidemill.mill import Mill
from tidemill.runtime.spools import spools
from tidemill.sources.sockets.spool import Spool
from tidemill.state.store import store as run_store

SENDERS, ROWS = 3, 4000


def lose_the_buffer(mill: Mill) -> None:
    """As when the host that had it is gone."""
    store = mill.snapshot().store
    for name in mill.snapshot().version.files():
        if name.endswith(".run"):
            store.path(name).unlink()
    run_store._open.clear()


def send(port: int, sender: int, seed: int) -> None:
    """Rows cut anywhere, with pauses."""
    chance = random.Random(seed + sender)
    data = b"".join(b"%d,%d\n" % (sender, n) for n in range(ROWS))
    with socket.create_connection(("127.0.0.1", port)) as connection:
        while data:
            size = chance.randrange(1, 900)
            connection.sendall(data[:size])
            data = data[size:]
            time.sleep(chance.choice((0, 0.01, 0.05)))


@pytest.mark.parametrize("retained", ["0", "1g"])
def test_rows_over_sockets_count_once(
    mill_factory: MillFactory, monkeypatch: pytest.MonkeyPatch, seed: int, retained: str
) -> None:
    """With parts of the spool that are deleted as soon as they are durable, and with all of it."""
    monkeypatch.setattr(spools, "Spool", partial(Spool, segment_bytes=3000))
    chance = random.Random(seed)
    mill = local(mill_factory(checkpoint_seconds=1e9, checkpoint_epochs=10**9, epoch_bytes=4000))
    mill.script(f"""
        CREATE TABLE t (c INT, n INT) USING csv OPTIONS (path 'tcp+listen://127.0.0.1:0', retainBytes '{retained}');
        CREATE MATERIALIZED VIEW v AS SELECT c, n FROM t;
        CREATE MATERIALIZED VIEW sums AS SELECT c, COUNT(*) AS k, SUM(n) AS s FROM t GROUP BY c;
        CREATE MATERIALIZED VIEW sizes AS SELECT k, COUNT(*) AS n FROM sums GROUP BY k;
    """)
    (place,) = mill.read("t__status").to_pylist()
    port = int(place["peer"].rsplit(":", 1)[1])
    senders = [threading.Thread(target=send, args=(port, number, seed)) for number in range(SENDERS)]
    for sender in senders:
        sender.start()
    own = socket.create_connection(("127.0.0.1", port))
    went_back = 0
    while any(sender.is_alive() for sender in senders) or mill.backlog():
        for _ in range(chance.randrange(1, 4)):
            mill.advance()
        turn = chance.random() if went_back else 0.3
        if turn < 0.3:
            mill.checkpoint()
        elif turn < 0.6 and mill.epoch > mill.durable_epoch:
            lose_the_buffer(mill)
            own.sendall(b"%d,%d\n" % (SENDERS, went_back))  # it is noticed when there is something to do
            went_back += 1
            for _ in range(1000):
                if len(mill._coordinator.rollbacks) == went_back:
                    break
                if mill.advance() is None:
                    time.sleep(0.01)
            assert len(mill._coordinator.rollbacks) == went_back
    assert went_back
    own.close()
    expected = [(c, n) for c in range(SENDERS) for n in range(ROWS)]
    expected += [(SENDERS, n) for n in range(went_back)]
    assert Counter(tuple(r.values()) for r in mill.read("v").to_pylist()) == Counter(expected)
    sums = sorted(tuple(r.values()) for r in mill.read("sums").to_pylist())
    assert sums[:SENDERS] == [(c, ROWS, ROWS * (ROWS - 1) // 2) for c in range(SENDERS)]
    assert {r["k"]: r["n"] for r in mill.read("sizes").to_pylist()} == {ROWS: SENDERS, went_back: 1}
    spool = Path(mill._coordinator.arrivals._inlets["t"].spool.directory)
    left = sum(p.stat().st_size for p in spool.glob("*.segment"))
    sent = sum(len(f"{c},{n}\n") for c, n in expected)
    assert left < sent if retained == "0" else left >= sent
