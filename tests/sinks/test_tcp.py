"""Sinks over TCP: receivers that are slow, close, refuse, or acknowledge nothing."""

from __future__ import annotations

import json
import random
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from sinking import Counted, weighted

from waiting import wait_until


class Receiver:
    """Keeps the lines of all connections, and acknowledges each epoch when its end has come.

    Attributes
    ----------
    close_after : int or None
        Closes a connection, once, at the line after so many.
    silent : bool
        Acknowledges nothing.
    reading : threading.Event
        While it is not set, nothing is read.
    """

    def __init__(self, port: int = 0) -> None:
        self._listening = socket.create_server(("127.0.0.1", port))
        self.port = self._listening.getsockname()[1]
        self.lines: list[dict[str, Any]] = []
        self.connections = 0
        self.close_after: int | None = None
        self.silent = False
        self.reading = threading.Event()
        self.reading.set()
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listening.accept()
            except OSError:
                return
            self.connections += 1
            threading.Thread(target=self._read, args=(connection,), daemon=True).start()

    def _read(self, connection: socket.socket) -> None:
        with connection, connection.makefile("rb") as file:
            self.reading.wait(60)
            for text in file:
                line = json.loads(text)
                self.lines.append(line)
                if self.close_after is not None:
                    self.close_after -= 1
                    if self.close_after < 0:
                        self.close_after = None
                        return
                if "__end" in line and not self.silent:
                    connection.sendall(b"%d\n" % line["__epoch"])

    def rows(self) -> list[dict[str, Any]]:
        """The changes, without repeats: a receiver knows them by epoch and sequence."""
        found = {(r["__epoch"], r["__sequence"]): r for r in self.lines if "__sequence" in r}
        return list(found.values())

    def close(self) -> None:
        """Listen no more. A thread that accepts would take one more connection without the shutdown."""
        self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()


@contextmanager
def receiving() -> Iterator[Receiver]:
    receiver = Receiver()
    try:
        yield receiver
    finally:
        receiver.close()


def test_changes_arrive_although_the_receiver_closes(counted: Counted, seed: int) -> None:
    chance = random.Random(seed)
    with receiving() as receiver:
        options = f"path 'tcp://127.0.0.1:{receiver.port}', maxBackoff '20 ms'"
        counted.write([("a", 1), ('é\n"', 2)])
        counted.advance()
        counted.mill.sql(f"CREATE SINK s FROM v INTO tcp OPTIONS ({options})")
        for close_after in (None, 0, 2):
            receiver.close_after = close_after
            counted.change(chance)
            epoch = counted.advance()
            wait_until(lambda: counted.sink("s")["lag"] == 0)
            assert weighted(receiver.rows()) == counted.rows
        assert receiver.connections == 3
        ends = [(r["__epoch"], r["__end"], r["__rows"]) for r in receiver.lines if "__end" in r]
        assert [kind for _, kind, _ in ends] == ["snapshot", "changes", "changes", "changes"]
        assert [end[0] for end in ends] == sorted({end[0] for end in ends})
        assert counted.sink("s")["epoch"] == epoch
        assert counted.sink("s")["guarantee"] == "at least once"


def test_a_receiver_that_refuses_and_comes_back(counted: Counted) -> None:
    with receiving() as receiver:
        port = receiver.port
    counted.write([("a", 1)])
    counted.advance()
    counted.mill.sql(f"CREATE SINK s FROM v INTO tcp OPTIONS (path 'tcp://127.0.0.1:{port}', maxBackoff '20 ms')")
    wait_until(lambda: counted.sink("s")["state"] == "retrying")
    assert counted.sink("s")["error"].startswith("TM8211")
    counted.write([("b", 2)])
    counted.advance()
    assert counted.mill.read("v").num_rows == 2, "epochs go on"
    again = Receiver(port)
    wait_until(lambda: counted.sink("s")["state"] == "running" and counted.sink("s")["lag"] == 0)
    assert weighted(again.rows()) == counted.rows
    again.close()


def test_a_slow_receiver_slows_no_epoch(counted: Counted) -> None:
    """It reads nothing while epochs are sealed, and gets all of them afterwards."""
    with receiving() as receiver:
        receiver.reading.clear()
        counted.mill.sql(f"CREATE SINK s FROM v INTO tcp OPTIONS (path 'tcp://127.0.0.1:{receiver.port}')")
        counted.mill.sql(f"CREATE SINK j FROM v INTO json OPTIONS (path '{counted.place}/j')")
        for number in range(3):
            counted.write([("a", x) for x in range(number * 2000, number * 2000 + 2000)])
            while counted.mill.advance() is not None:
                pass
        counted.mill.checkpoint()
        assert counted.mill.read("v").num_rows == 6000
        wait_until(lambda: counted.sink("j")["lag"] == 0)
        assert counted.sink("s")["lag"] > 0
        assert not counted.mill.wait_for_sinks(0)
        receiver.reading.set()
        assert counted.mill.wait_for_sinks(30)
        assert weighted(receiver.rows()) == counted.rows


def test_a_receiver_that_acknowledges_nothing(counted: Counted) -> None:
    with receiving() as receiver:
        receiver.silent = True
        counted.write([("a", 1)])
        counted.advance()
        place = f"path 'tcp://127.0.0.1:{receiver.port}', receiverTimeout '100 ms', maxBackoff '20 ms'"
        counted.mill.sql(f"CREATE SINK s FROM v INTO tcp OPTIONS ({place})")
        counted.mill.sql(f"CREATE SINK b FROM v INTO tcp OPTIONS ({place}, acknowledge 'false')")
        wait_until(lambda: counted.sink("s")["state"] == "retrying" and counted.sink("b")["lag"] == 0)
        assert "acknowledge 'false'" in counted.sink("s")["error"]
        assert counted.sink("b")["guarantee"] == "best effort"
        assert counted.sink("b")["state"] == "running"


def test_a_mill_closes_beside_a_receiver_that_hangs(counted: Counted) -> None:
    with receiving() as receiver:
        receiver.silent = True
        counted.write([("a", 1)])
        counted.advance()
        counted.mill.sql(f"CREATE SINK s FROM v INTO tcp OPTIONS (path 'tcp://127.0.0.1:{receiver.port}')")
        wait_until(lambda: any("__end" in line for line in receiver.lines))
        counted.mill.sql("DROP SINK s")
        assert counted.sinks() == {}
