"""The simulated exchange over TCP: from an order to its execution, and a feed with 500 listeners.

The exchange is a process of its own, ``tidemill exchange serve``. One client leaves orders, another takes them one by
one: the time is from sending its order to having the execution. Then listeners connect, each in records, and requests
come at a rate; the time is from sending a request to the moment at which the last listener has its message. There is no
peer: the numbers say what strategies and tables may expect.
"""

from __future__ import annotations

import argparse
import selectors
import socket
import statistics
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import numpy as np

from benchmarks.measuring import heading, table
from tidemill.exchange.wire import MESSAGE, REQUEST, Role

_PRICE = 1000


@contextmanager
def served(*options: str) -> Iterator[tuple[str, int]]:
    """The address of an exchange."""
    command = [sys.executable, "-m", "tidemill", "exchange", "serve", "--port", "0", *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield "127.0.0.1", int(process.stdout.readline().rpartition(":")[2])
        finally:
            process.terminate()


def connected(address: tuple[str, int], role: Role) -> socket.socket:
    """A client."""
    found = socket.create_connection(address, timeout=60)
    found.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    found.sendall(struct.pack("<i", role))
    return found


def request(letter: str, broker: int, volume: int) -> bytes:
    """An order at the one price."""
    found = np.zeros(1, REQUEST)
    found["letter"], found["broker"], found["volume"], found["price"] = ord(letter), broker, volume, _PRICE
    return found.tobytes()


def received(client: socket.socket, messages: int) -> np.ndarray:  # type: ignore[type-arg]
    """The next messages."""
    data = bytearray()
    while len(data) < messages * MESSAGE.itemsize:
        part = client.recv(messages * MESSAGE.itemsize - len(data))
        if not part:
            raise RuntimeError("the exchange has ended the connection")
        data += part
    return np.frombuffer(bytes(data), MESSAGE)


def order_to_fill(address: tuple[str, int], count: int) -> list[float]:
    """Seconds from each order to its execution."""
    taken = []
    with connected(address, Role.BINARY_INTERACTIVE) as maker, connected(address, Role.BINARY_INTERACTIVE) as taker:
        buy = request("B", 2, 1)
        for _ in range(count):
            maker.sendall(request("S", 1, 1))
            received(maker, 1)
            begin = time.perf_counter()
            taker.sendall(buy)
            found = received(taker, 2)
            taken.append(time.perf_counter() - begin)
            if bytes(found["letter"]) != b"BF":
                raise RuntimeError(f"no execution but {bytes(found['letter'])!r}")
            received(maker, 1)
    return taken


def feed(address: tuple[str, int], listeners: int, rate: int, seconds: float) -> tuple[list[float], int]:
    """Seconds from each request until the last listener has its message, and how many messages were heard."""
    with ExitStack() as stack, selectors.DefaultSelector() as selector:
        for _ in range(listeners):
            client = stack.enter_context(connected(address, Role.BINARY_LISTENER))
            client.setblocking(False)
            selector.register(client, selectors.EVENT_READ)
        time.sleep(1.0)
        sender = stack.enter_context(connected(address, Role.BINARY_INTERACTIVE))
        sender.setblocking(False)
        selector.register(sender, selectors.EVENT_READ, "sender")
        order, count = request("B", 3, 1), int(rate * seconds)
        sent: list[float] = []
        last = [0.0] * count
        heard = dict.fromkeys(range(listeners), 0)
        places = {key.fd: at for at, key in enumerate(k for k in selector.get_map().values() if k.data is None)}
        bytes_of = [0] * listeners
        begin = time.perf_counter()
        while min(heard.values()) < count and time.perf_counter() - begin < seconds + 30:
            now = time.perf_counter()
            if len(sent) < count and now - begin >= len(sent) / rate:
                sender.send(order)
                sent.append(now)
            for key, _ in selector.select(0.0005):
                data = key.fileobj.recv(1 << 16)  # type: ignore[union-attr]
                if key.data is None:
                    at = places[key.fd]
                    bytes_of[at] += len(data)
                    whole, now = bytes_of[at] // MESSAGE.itemsize, time.perf_counter()
                    for number in range(heard[at], whole):
                        last[number] = max(last[number], now)
                    heard[at] = whole
    return [end - start for start, end in zip(sent, last)], sum(heard.values())


def main() -> None:
    """Measure and print."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--small", action="store_true", help="seconds; fewer orders and listeners")
    options.add_argument("--listeners", type=int, default=500)
    given = options.parse_args()
    count, listeners, seconds = (500, 20, 2.0) if given.small else (10_000, given.listeners, 20.0)
    heading(f"exchange_feed: {count:,} orders, {listeners} listeners")
    rows = []
    with served() as address:
        order_to_fill(address, 200)
        rows.append(("order to execution", *_shown(order_to_fill(address, count)), count))
    for rate in (10, 50):
        with served() as address:
            taken, heard = feed(address, listeners, rate, seconds)
            if heard != listeners * int(rate * seconds):
                raise RuntimeError(f"{heard:,} messages were heard")
            rows.append((f"{rate} requests/s to the last of {listeners}", *_shown(taken), heard))
    table(("", "p50 ms", "p99 ms", "messages"), rows)


def _shown(taken: list[float]) -> tuple[float, float]:
    found = [1000 * each for each in sorted(taken)]
    return statistics.median(found), found[min(len(found) - 1, int(len(found) * 0.99))]


if __name__ == "__main__":
    main()
