"""What tasks that stay exchange: files in memory, and Arrow Flight between hosts."""

from __future__ import annotations

import random
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pyarrow.flight as flight
import pytest

from tidemill.runtime.job import exchange_file
from tidemill.runtime.job.exchange_file import ExchangeFile, TooLargeError
from tidemill.runtime.job.exchange_server import Exchange, ExchangeServer
from tidemill.runtime.job.resident_host import OVER, EpochHost
from tidemill.runtime.spark.messages import LostError, receive, send


def test_records_come_as_they_went(seed: int) -> None:
    chance = random.Random(seed)
    records = [(chance.randrange(5), chance.randbytes(chance.choice((0, 1, 100, 300_000)))) for _ in range(60)]
    file = ExchangeFile()
    file.write(iter(records))
    slices = file.slices()
    assert set(slices) == {target for target, _ in records}
    for target, some in slices.items():
        found = [bytes(data) for _, data in exchange_file.read([some])]
        assert found == [data for to, data in records if to == target], f"seed {seed}"
    both = [bytes(d) for _, d in exchange_file.read([slices[t] for t in sorted(slices)])]
    assert Counter(both) == Counter(data for _, data in records)
    file.close()


def test_records_come_from_other_hosts_as_they_went(seed: int) -> None:
    """By Arrow Flight, those of several files and of this host in one order."""
    chance, secret = random.Random(seed), "s" * 16
    server, exchange = ExchangeServer("127.0.0.1", secret), Exchange("here", secret)
    expected: list[bytes] = []
    slices, files = [], []
    for _ in range(6):
        file, host = ExchangeFile(), chance.choice(("here", "there"))
        files.append(file)
        server.add(file)
        sizes = [chance.choice((0, 1, 100, 700_000)) for _ in range(chance.choice((1, 8)))]
        records = [(chance.randrange(2), chance.randbytes(size)) for size in sizes] + [(0, b"last")]
        file.write(records)
        slices.append(file.slices(host, server.address)[0])
        expected += [data for to, data in records if to == 0]
    assert [data for _, data in exchange.read(slices)] == expected, f"seed {seed}"
    there = replace(slices[0], host="there")
    stranger = Exchange("here", "another")
    with pytest.raises(OSError, match="not one of the tasks"):
        list(stranger.read([there]))
    server.remove(files[0])
    with pytest.raises(OSError, match="no such file"):
        list(exchange.read([there]))
    server.shutdown()
    with pytest.raises(OSError, match="cannot be fetched"):
        list(exchange.read([replace(slices[1], host="there")]))
    for file in files:
        file.close()
    exchange.close()
    stranger.close()


def test_what_is_no_ticket_is_refused() -> None:
    server = ExchangeServer("127.0.0.1", "s" * 16)
    client = flight.connect(server.address)
    for ticket in (
        b"",
        b"\xff",
        b"[" * 100_000,
        b"{}",
        b"[1, 2, 3]",
        b"[null, null, null]",
        b'["ssssssssssssssss", 1, [[1]]]',
    ):
        with pytest.raises(flight.FlightUnauthenticatedError):
            client.do_get(flight.Ticket(ticket)).read_all()
    client.close()
    server.shutdown()


def test_what_does_not_fit_into_memory_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exchange_file, "MOST_BYTES", 3 << 20)
    file = ExchangeFile()
    with pytest.raises(TooLargeError, match="3 MiB"):
        file.write((0, bytes(1 << 20)) for _ in range(4))
    file.close()


def test_files_are_gone_with_their_process() -> None:
    """Another process has no file to read, and says so."""
    code = (
        "from tidemill.runtime.job.exchange_file import ExchangeFile\n"
        "file = ExchangeFile(); file.write([(0, b'data')])\n"
        "some = file.slices()[0]; print(some.process, some.descriptor, some.inode, flush=True); input()\n"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdin=-1, stdout=-1, text=True) as other:
        assert other.stdout is not None
        process, descriptor, inode = map(int, other.stdout.readline().split())
        some = exchange_file.Slices(process, descriptor, inode, ((0, 8),))
        assert [bytes(d) for _, d in exchange_file.read([some])] == [b"data"]
        with pytest.raises(OSError, match="another file"):
            list(exchange_file.read([replace(some, inode=inode + 1)]))
        other.kill()
        other.wait()
        end = time.monotonic() + 10
        while Path(f"/proc/{process}/fd").exists() and time.monotonic() < end:
            time.sleep(0.01)
        with pytest.raises(OSError, match=str(process)):
            list(exchange_file.read([some]))


def test_files_are_let_go_when_the_epoch_is_over(tmp_path: Path) -> None:
    """In this process, over a pair of sockets: the host answers, and holds no file behind the end."""
    ours, theirs = socket.socketpair()
    host = EpochHost()
    before = len(list(Path("/proc/self/fd").iterdir()))
    thread = threading.Thread(target=lambda: _serve_until_the_end(host, theirs))
    thread.start()
    host._files[0, 0] = ExchangeFile()
    assert len(list(Path("/proc/self/fd").iterdir())) == before + 1
    send(ours, OVER, b"")
    send(ours, b"E", b"no pickle")
    kind, said = receive(ours)
    assert (kind, b"Unpickling" in said) == (b"X", True)
    assert len(list(Path("/proc/self/fd").iterdir())) == before
    host._files[0, 0] = ExchangeFile()
    ours.close()
    thread.join(10)
    assert not thread.is_alive()
    assert host._files == {}
    theirs.close()


def _serve_until_the_end(host: EpochHost, connection: socket.socket) -> None:
    with pytest.raises(LostError):
        host.serve(connection)
