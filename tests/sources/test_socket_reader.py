"""Real sockets read by one thread: what came is in the spool, message by message, whatever peers do."""

from __future__ import annotations

import contextlib
import errno
import os
import random
import resource
import socket
import struct
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tidemill.errors import TidemillError
from tidemill.sources.sockets.connections import Connection, ConnectionStatus
from tidemill.sources.sockets.endpoints import is_socket, parse_endpoints
from tidemill.sources.sockets.framing import Framing, RecordFraming, RowFraming
from tidemill.sources.sockets.inlet import Inlet, InletOptions
from tidemill.sources.sockets.reader import SocketReader
from tidemill.sources.sockets.spool import HEAD, Spool


class Place:
    """A table's inlet, read by a thread of its own."""

    def __init__(self, reader: SocketReader, directory: Path, path: str, **options: Any) -> None:
        self.reader = reader
        self.inlet = Inlet("t", Spool(directory), InletOptions(**options))
        reader.add(self.inlet, parse_endpoints(path), must_open=True)

    @property
    def port(self) -> int:
        """Where it listens."""
        return next(int(s.peer.rsplit(":", 1)[1]) for s in self.status() if s.state == "listening")

    def connect(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port))

    def status(self) -> list[ConnectionStatus]:
        return self.reader.status("t")

    def lines(self) -> list[bytes]:
        """The messages in the spool."""
        self.reader.flush()
        found = b"".join(s.path.read_bytes()[len(HEAD) : s.size] for s in self.inlet.spool.segments())
        assert found.endswith(b"\n") or not found
        return found.splitlines()

    def total(self, name: str) -> int:
        """A number of the status, of the places and connections that are not forgotten."""
        return sum(getattr(s, name) for s in self.status() if s.state != "closed")


@pytest.fixture
def open_place(tmp_path: Path) -> Iterator[Callable[..., Place]]:
    readers: list[SocketReader] = []

    def begin(path: str = "tcp+listen://127.0.0.1:0", **options: Any) -> Place:
        readers.append(SocketReader())
        return Place(readers[-1], tmp_path / "spool", path, **options)

    yield begin
    for reader in readers:
        reader.close()


def until(condition: Callable[[], bool], seconds: float = 120.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not come about"
        time.sleep(0.005)


def test_many_connections_with_bytes_cut_anywhere(open_place: Callable[..., Place], seed: int) -> None:
    """Rows of connections are never mixed, and those of one come in their order."""
    chance = random.Random(seed)
    place = open_place()
    sent = [[f"{c},{n},{'x' * chance.randrange(30)}".encode() for n in range(100)] for c in range(40)]
    waiting = {place.connect(): b"".join(m + b"\n" for m in messages) for messages in sent}
    while waiting:
        connection = chance.choice(list(waiting))
        size = chance.choice((1, 3, 17, 400, 9000))
        connection.sendall(waiting[connection][:size])
        waiting[connection] = waiting[connection][size:]
        if not waiting[connection]:
            connection.close()
            del waiting[connection]
    until(lambda: place.total("messages") == 4000)
    got = place.lines()
    for number, messages in enumerate(sent):
        assert [m for m in got if m.startswith(b"%d," % number)] == messages
    assert len(got) == 4000 and place.total("errors") == 0


def test_lengths_and_peers_that_break_off(open_place: Callable[..., Place]) -> None:
    place = open_place(framing=Framing("length", most=100))
    good, half, bad = place.connect(), place.connect(), place.connect()
    good.sendall(b"\0\0\0\2hi")
    half.sendall(b"\0\0\0\2ho\0\0\0\5wor")
    half.close()
    bad.sendall(b"\0\0\0\2ha\xff\xff\xff\xffgarbage")
    until(lambda: place.total("errors") == 2)
    assert bad.recv(1) == b""  # it is closed
    good.sendall(b"\0\0\0\2he")
    until(lambda: place.total("messages") == 4)
    assert sorted(place.lines()) == [b"ha", b"he", b"hi", b"ho"]
    told = {s.last_error for s in place.status() if s.state == "closed"}
    assert len(told) == 2 and any("7 bytes" in t for t in told) and any("maxMessageBytes" in t for t in told)
    good.close()


def test_a_peer_that_sends_half_a_message_and_hangs(open_place: Callable[..., Place]) -> None:
    place = open_place(message_timeout=0.3)
    slow, good = place.connect(), place.connect()
    slow.sendall(b"whole\nhal")
    good.sendall(b"a\n")
    assert slow.recv(1) == b""
    good.sendall(b"b\n")
    until(lambda: place.total("messages") == 3)
    assert place.lines() == [b"whole", b"a", b"b"] or sorted(place.lines()) == [b"a", b"b", b"whole"]
    assert "messageTimeout" in next(s.last_error for s in place.status() if s.state == "closed")


def test_resets_are_counted_and_others_go_on(open_place: Callable[..., Place]) -> None:
    place = open_place()
    rude, good = place.connect(), place.connect()
    rude.sendall(b"x\ny")
    until(lambda: place.total("messages") == 1)
    rude.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    rude.close()
    until(lambda: place.total("errors") >= 1)
    good.sendall(b"z\n")
    until(lambda: place.lines() == [b"x", b"z"])


def test_long_lines_are_left_out(open_place: Callable[..., Place]) -> None:
    place = open_place(framing=Framing(most=10))
    connection = place.connect()
    connection.sendall(b"short\n" + b"l" * 200_000 + b"\nafter\n")
    until(lambda: place.total("messages") == 2)
    assert place.lines() == [b"short", b"after"] and place.total("errors") == 1


def test_a_client_connects_again(open_place: Callable[..., Place]) -> None:
    """It waits for a server, loses it within a message, and finds the next one at the same place."""
    with socket.create_server(("127.0.0.1", 0)) as first:
        port = first.getsockname()[1]
    place = open_place(f"tcp://127.0.0.1:{port}")
    until(lambda: place.status()[0].state == "waiting" and place.status()[0].errors > 0)
    refused = place.status()[0].errors
    for number in range(3):
        with socket.create_server(("127.0.0.1", port)) as server:
            peer, _ = server.accept()
            peer.sendall(b"message %d\nhalf" % number)
            until(lambda count=number: place.total("messages") == count + 1)  # type: ignore[misc]
            peer.close()
            until(lambda: place.status()[0].state != "connected")
    assert place.lines() == [b"message 0", b"message 1", b"message 2"]
    (row,) = place.status()
    assert row.errors >= refused + 3


def test_a_client_says_how_far_it_has_come(open_place: Callable[..., Place], tmp_path: Path) -> None:
    """After the loss of a connection, and in another process: a server that keeps its lines goes on there."""
    sent = [b"line %d\n" % number for number in range(2000)]

    def has(place: Place, lines: list[bytes]) -> bool:
        return place.lines() == [line[:-1] for line in lines]

    with socket.create_server(("127.0.0.1", 0)) as server:
        path, place = f"tcp://127.0.0.1:{server.getsockname()[1]}", None
        for begin, end, rest in ((0, 3, b""), (3, 7, b"lin"), (7, 7, b""), (7, 1500, b"line 1"), (1500, 2000, b"")):
            if place is None or begin == 7:
                if place is not None:
                    place.reader.close()
                place = open_place(path, greeting="from {lines} after {last} of {it}\0")
            peer, _ = server.accept()
            with peer:
                last = f"line {begin - 1}" if begin else ""
                greeting = f"from {begin} after {last} of {{it}}\0".encode()
                assert peer.recv(100) == greeting
                peer.sendall(b"".join(sent[begin:end]) + rest)
            until(partial(has, place, sent[:end]))
        assert place is not None and place.inlet.spool.lines == len(sent)


def test_a_server_that_refuses_to_go_on_is_quoted_and_asked_less_and_less_often(
    open_place: Callable[..., Place],
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        place = open_place(f"tcp://127.0.0.1:{server.getsockname()[1]}", greeting="from {lines}")
        for number in range(5):
            peer, _ = server.accept()
            with peer:
                assert peer.recv(100) == b"from 0"
                peer.sendall(b"there is no message 0")
            until(lambda count=number: place.total("errors") == count + 1)  # type: ignore[misc]
        (row,) = place.status()
        assert row.last_error.endswith("were left out: there is no message 0")
        assert (place.lines(), row.messages) == ([], 0)
        (connection,) = place.reader._tables["t"].connections
        assert connection.pauses >= 5


def test_names_are_resolved_and_bad_ones_told(open_place: Callable[..., Place]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        place = open_place(f"tcp://localhost:{server.getsockname()[1]},tcp://no-such-host.invalid:1")
        peer, _ = server.accept()
        with peer:
            peer.sendall(b"a\n")
            until(lambda: place.lines() == [b"a"])
        until(lambda: any(s.errors and "no-such-host" in s.last_error for s in place.status()))


def test_unix_sockets(open_place: Callable[..., Place], tmp_path: Path) -> None:
    path, other = str(tmp_path / "in.sock"), str(tmp_path / "out.sock")
    with socket.socket(socket.AF_UNIX) as stale:
        stale.bind(path)  # as a process that was killed leaves it
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(other)
        server.listen()
        place = open_place(f"unix+listen://{path},unix://{other}")
        peer, _ = server.accept()
        with socket.socket(socket.AF_UNIX) as client, peer:
            client.connect(path)
            client.sendall(b"to it\n")
            peer.sendall(b"from it\n")
            until(lambda: sorted(place.lines()) == [b"from it", b"to it"])
    place.reader.close()
    assert not Path(path).exists()


def test_back_pressure(open_place: Callable[..., Place]) -> None:
    """A spool that nobody reads lets the sender wait, and once it is read goes on; nothing is lost."""
    place = open_place(most_unread=1 << 20)
    connection = place.connect()
    line, count = b"x" * 999 + b"\n", 20_000
    sender = threading.Thread(target=lambda: [connection.sendall(line * 100) for _ in range(count // 100)])
    sender.start()
    until(lambda: any(s.state == "paused" for s in place.status()))
    for _ in range(5):
        place.reader.flush()  # the thread that reads has turned once more
    assert sender.is_alive()
    assert place.inlet.unread < (1 << 20) + (1 << 19)
    while sender.is_alive() or place.total("messages") < count:
        place.inlet.consumed = place.inlet.spool.end
        time.sleep(0.005)
    sender.join()
    connection.close()
    assert Counter(place.lines()) == {line[:-1]: count}


def test_a_full_disk_lets_senders_wait(open_place: Callable[..., Place], monkeypatch: pytest.MonkeyPatch) -> None:
    place = open_place()
    connection = place.connect()
    connection.sendall(b"a\n")
    until(lambda: place.lines() == [b"a"])
    append = place.inlet.spool.append

    def full(_: bytes) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(place.inlet.spool, "append", full)
    connection.sendall(b"b\n")
    until(lambda: "No space" in place.inlet.error)
    until(lambda: any(s.state == "paused" for s in place.status()))
    connection.sendall(b"c\n")
    monkeypatch.setattr(place.inlet.spool, "append", append)
    until(lambda: place.lines() == [b"a", b"b", b"c"])
    assert place.inlet.error == ""


def test_messages_that_the_format_does_not_end_close_their_segment(open_place: Callable[..., Place]) -> None:
    place = open_place(boundary=lambda data: data.find(b"!\n") + 2 or -1 if b"!\n" in data else -1)
    connection = place.connect()
    connection.sendall(b"a\nb!\nc\nd!\ne!\n")
    until(lambda: place.total("messages") == 5)
    assert place.lines() == [b"a", b"b!", b"c", b"d!", b"e!"]
    assert [s.path.read_bytes()[len(HEAD) :] for s in place.inlet.spool.segments()] == [b"a\nb!\n", b"c\nd!\n", b"e!\n"]


def test_standard_input(open_place: Callable[..., Place], tmp_path: Path) -> None:
    """A pipe, and a file, which no selector takes; what has no newline at the end is a message, too."""
    kept = os.dup(0)
    try:
        read, write = os.pipe()
        os.dup2(read, 0)
        place = open_place("stdin://")
        os.write(write, b"a\nb\nla")
        os.write(write, b"st")
        os.close(write)
        until(lambda: place.status()[0].state == "ended")
        assert place.lines() == [b"a", b"b", b"last"] and place.status()[0].errors == 0
        place.reader.close()
        os.close(read)
        (tmp_path / "file").write_bytes(b"x\n" * 100_000)
        file = os.open(tmp_path / "file", os.O_RDONLY)
        os.dup2(file, 0)
        os.close(file)
        place = open_place("stdin://")
        until(lambda: place.status()[0].state == "ended")
        assert len(place.lines()) == 100_003
    finally:
        os.dup2(kept, 0)
        os.close(kept)


@pytest.mark.parametrize("framing", [RowFraming(5), RecordFraming(1, "big", 0, 9)])
def test_standard_input_that_ends_within_a_record(
    open_place: Callable[..., Place], framing: RowFraming | RecordFraming
) -> None:
    """Half a record is left out, and counted: its format does not read it."""
    kept = os.dup(0)
    try:
        read, write = os.pipe()
        os.dup2(read, 0)
        os.close(read)
        place = open_place("stdin://", framing=framing)
        os.write(write, b"\4abcd\4ef")
        os.write(write, b"gh\4ab")
        os.close(write)
        until(lambda: place.status()[0].state == "ended")
        (status,) = place.status()
        assert (status.messages, status.errors) == (2, 1) and "3 bytes were left out" in status.last_error
        place.reader.flush()
        (segment,) = place.inlet.spool.segments()
        assert segment.path.read_bytes() == HEAD + b"\4abcd\4efgh"
    finally:
        os.dup2(kept, 0)
        os.close(kept)


def test_many_idle_sockets_cost_no_time(open_place: Callable[..., Place], monkeypatch: pytest.MonkeyPatch) -> None:
    """One that speaks among 1,500 that do not; then all speak."""
    place = open_place()
    port, idle = place.port, []
    allowed = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(4096, allowed[1]), allowed[1]))
    with contextlib.ExitStack() as stack:
        stack.callback(resource.setrlimit, resource.RLIMIT_NOFILE, allowed)
        for _ in range(1500):
            idle.append(stack.enter_context(socket.create_connection(("127.0.0.1", port))))
        until(lambda: len(place.status()) == 1501)
        looked_at: list[Connection] = []
        read = SocketReader._read
        with monkeypatch.context() as patch:
            patch.setattr(SocketReader, "_read", lambda self, c: (looked_at.append(c), read(self, c))[1])
            for number in range(50):
                idle[7].sendall(b"%d\n" % number)
                until(lambda: place.total("messages") == number + 1)  # noqa: B023
        assert len(looked_at) == 50 and len(set(map(id, looked_at))) == 1, "nobody looks at those that do not speak"
        for number, connection in enumerate(idle):
            connection.sendall(b"n %d\n" % number)
        until(lambda: place.total("messages") == 1550)
        assert sorted(m for m in place.lines() if m[:1] == b"n") == sorted(b"n %d" % n for n in range(1500))
    until(lambda: len(place.status()) == 1)
    assert place.total("messages") == 1550


def test_a_place_that_is_taken(open_place: Callable[..., Place], tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        with pytest.raises(TidemillError, match=r"TM5021: .*\n.*Address already in use"):
            open_place(f"tcp+listen://127.0.0.1:{port}")
        reader = SocketReader()
        inlet = Inlet("t", Spool(tmp_path / "later"), InletOptions())
        reader.add(inlet, parse_endpoints(f"tcp+listen://127.0.0.1:{port}"), must_open=False)
        until(lambda: reader.status("t")[0].errors > 0)
    until(lambda: reader.status("t")[0].state == "listening")
    reader.close()


def test_only_one_table_reads_standard_input(open_place: Callable[..., Place], tmp_path: Path) -> None:
    kept, (read, write) = os.dup(0), os.pipe()
    os.dup2(read, 0)
    try:
        place = open_place("stdin://")
        other = Inlet("u", Spool(tmp_path / "u"), InletOptions())
        with pytest.raises(TidemillError, match=r"TM5021: .*\n.*stdin"):
            place.reader.add(other, parse_endpoints("stdin://"), must_open=True)
        place.reader.close()
    finally:
        os.dup2(kept, 0)
        for file in (kept, read, write):
            os.close(file)


def test_what_nobody_foresaw_is_raised(open_place: Callable[..., Place], monkeypatch: pytest.MonkeyPatch) -> None:
    place = open_place()
    monkeypatch.setattr(place.inlet, "put", lambda _: 1 / 0)
    with place.connect() as connection:
        connection.sendall(b"a\n")
        with pytest.raises(TidemillError, match=r"TM5022: .*\n.*ZeroDivisionError"):
            until(lambda: bool(place.status()) and False)


@pytest.mark.parametrize(
    "path",
    [
        "tcp://host", "tcp://host:x", "tcp://host:0", "tcp://:5", "tcp://u@host:5", "tcp://host:5/x", "tcp://host:99999",
        "tcp://host:5?x=1", "unix://relative", "unix:///" + "x" * 108, "stdin://x", "tcp://a:1,file:///x",
        "tcp://a:1,tcp://a:1", "stdin://,stdin://",
    ],
)  # fmt: skip
def test_bad_paths(path: str) -> None:
    assert is_socket(path)
    with pytest.raises(TidemillError, match="TM5020"):
        parse_endpoints(path)


def test_paths() -> None:
    found = parse_endpoints("tcp://[::1]:5, TCP+LISTEN://0.0.0.0:0,unix:///a%20b,stdin://")
    assert [(e.address, e.listens) for e in found] == [
        (("::1", 5), False),
        (("0.0.0.0", 0), True),
        ("/a b", False),
        ("", False),
    ]
    assert not is_socket("/data/tcp") and not is_socket("s3://bucket/x")
