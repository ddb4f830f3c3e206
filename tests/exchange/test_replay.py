"""Traces replayed beside clients' orders, under each policy."""

from __future__ import annotations

import asyncio
import gzip
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from plain_book import PlainBook

from tidemill.errors import TidemillError
from tidemill.exchange import matching
from tidemill.exchange.book import Request
from tidemill.exchange.exchange import Exchange, Instrument
from tidemill.exchange.feeds import run_replay
from tidemill.exchange.market import MarketRules, write_trace
from tidemill.exchange.matching import BOOKED, LIMIT, MARKET
from tidemill.exchange.policy import Policy
from tidemill.exchange.replay import BROKERS, FIRST_BROKER, FIRST_ID, Replay, TraceReader
from tidemill.exchange.server import ExchangeServer
from tidemill.exchange.wire import REQUEST, Records

REQUESTS = {"B": "B", "S": "S", "E": "E", "F": "F", "C": "X", "D": "D"}


def trace_in(directory: Path, messages: int, seed: int) -> Path:
    path = directory / "trace.csv"
    write_trace(path, messages, seed, MarketRules(resting=200))
    return path


def plain_requests(path: Path, type_: int) -> list[Request]:
    """What the lines of a trace ask for, read in plain Python."""
    found = []
    for line in path.read_text().splitlines():
        _, id_, action, volume, price = line.split(",")
        if action in REQUESTS and (action != "C" or int(volume)):
            broker = FIRST_BROKER + int(id_) % BROKERS
            found.append(Request(REQUESTS[action], broker, FIRST_ID + int(id_), int(volume), int(price), type_))
    return found


def client_request(letter: str, volume: int, price: int) -> Records:
    found = np.zeros(1, REQUEST)
    found["letter"], found["broker"], found["volume"], found["price"] = ord(letter), 7, volume, price
    return found


@pytest.mark.parametrize("policy", Policy)
def test_books_of_a_policy(policy: Policy, tmp_path: Path, seed: int) -> None:
    """Against plain books: of the trace with clients, of the trace alone, and one of clients beside it."""
    path = trace_in(tmp_path, 3000, seed)
    exchange = Exchange([Instrument("ACME", 100)], clock=lambda: 7)
    replay = Replay(exchange, 0, policy)
    historic = PlainBook(100, 1)
    live = historic if policy is Policy.ALL else PlainBook(100, 1)
    live.halted = policy is Policy.REPLAY
    requests, described, done = plain_requests(path, BOOKED), PlainBook(1, 1), 0

    def follow(request: Request) -> None:
        """Carry out a request of the trace, in the plain book that its orders are in."""
        if policy is not Policy.ALL:
            historic.execute([request])
            return
        described.execute([request])
        if request.letter in "BS":
            historic.execute([replace(request, type=LIMIT if request.price else MARKET)])
            return
        ours, theirs = ({o.id: o.left for o in book.orders}.get(request.id, 0) for book in (historic, described))
        if ours > theirs:
            historic.execute([replace(request, letter=request.letter.replace("F", "E"), volume=ours - theirs)])

    for rows in TraceReader(path):
        for at in range(0, len(rows), 50):
            part = rows.part(at, at + 50)
            replay.learn(exchange.replay(replay.made(part), replay.apart).messages, len(part))
            for request in requests[done : done + len(part)]:
                follow(request)
            done += len(part)
            bid = max((o.price for o in historic.orders if o.side == "B"), default=100)
            letter, volume, price = "BS"[at // 50 % 2], 1 + at % 300, max(100, bid - bid % 100 + 100 * (at % 3 - 1))
            exchange.execute(client_request(letter, volume, price))
            live.execute([Request(letter, 7, 0, volume, price)])
    assert done == len(requests) == replay.requests
    books = [historic] if live is historic else [historic, live]
    expected = sorted((o.id, o.side, o.price, o.left) for book in books for o in book.orders)
    assert sorted((o.id, o.side, o.price, o.volume) for o in exchange.orders(0)) == expected, f"seed {seed}"
    assert replay.rejected == 0
    assert any(o.owner == 7 for o in exchange.orders(0)) == (policy is not Policy.REPLAY)


@pytest.mark.parametrize("policy", Policy)
def test_a_trace_alone_gives_the_book_that_it_describes(policy: Policy, tmp_path: Path, seed: int) -> None:
    path = trace_in(tmp_path, 4000, seed)
    lines = path.read_text().splitlines()
    last = lines[-1].split(",")[0]  # some of what one request caused may be cut off
    path.write_text("".join(f"{line}\n" for line in lines if line.split(",")[0] != last))
    described = PlainBook(1, 1)
    described.execute(plain_requests(path, BOOKED))
    exchange = Exchange([Instrument("ACME", 100)])
    replay = Replay(exchange, 0, policy)
    for rows in TraceReader(path):
        exchange.replay(replay.made(rows), replay.apart)
    expected = sorted((o.id, o.left) for o in described.orders)
    assert sorted((o.id, o.volume) for o in exchange.orders(0)) == expected, f"seed {seed}"


def test_a_trace_that_only_tells_of_orders_that_rested(tmp_path: Path) -> None:
    """Who took them is not in it; a client takes a part before."""
    path = tmp_path / "trace.csv"
    path.write_text("1,1,S,300,100\n2,2,S,50,100\n3,1,E,100,0\n4,1,C,120,0\n5,2,F,50,0\n")
    exchange = Exchange([Instrument("ACME")])
    replay, left = Replay(exchange), []
    (rows,) = TraceReader(path)
    for at in range(len(rows)):
        exchange.replay(replay.made(rows.part(at, at + 1)))
        if at == 1:
            exchange.execute(client_request("B", 40, 100))
        left.append({o.id - FIRST_ID: o.volume for o in exchange.orders(0)})
    assert left == [{1: 300}, {1: 260, 2: 50}, {1: 200, 2: 50}, {1: 80, 2: 50}, {1: 80}]


def test_clients_are_no_trace() -> None:
    """They cannot execute orders, give them numbers, or book them without meeting any."""
    exchange = Exchange([Instrument("ACME")])
    exchange.execute(client_request("S", 5, 10))
    for letter in "EF":
        request = client_request(letter, 5, 10)
        request["id"] = 1
        assert exchange.execute(request).messages["rejected"].tolist() == [matching.UNKNOWN_REQUEST]
    request = client_request("B", 5, 10)
    request["type"] = BOOKED
    assert exchange.execute(request).messages["rejected"].tolist() == [matching.BAD_TYPE]
    request = client_request("B", 5, 9)
    request["id"] = 77
    assert exchange.execute(request).messages["id"].tolist() == [2]


def test_the_times_of_a_trace(tmp_path: Path) -> None:
    """At its own speed a message does not come before its time; ten times as fast takes a tenth of that."""
    path = tmp_path / "trace.csv.gz"
    with gzip.open(path, "wt") as file:
        file.writelines(f"{1000 + 40 * number},{number},B,10,100\n" for number in range(20))

    async def took(speed: float) -> float:
        loop = asyncio.get_running_loop()
        server = ExchangeServer(Exchange([Instrument("ACME")]), port=0)
        begin = loop.time()
        await run_replay(server, Replay(server.exchange), TraceReader(path), speed)
        assert len(list(server.exchange.orders(0))) == 20
        return loop.time() - begin

    assert asyncio.run(took(1.0)) >= 0.76
    assert asyncio.run(took(10.0)) >= 0.076


def test_rows_that_are_none(tmp_path: Path) -> None:
    path = tmp_path / "trace.csv"
    good = "5,1,B,10,100\n6,2,T,1,1\n7,3,X,1,1\n8,1,C,4,0\n"
    bad = "x,1,B,10,100\n5,-4,B,10,100\n5,1,Q,10,100\n5,1,B,10\n,,,,\n5,99999999999999999999,B,1,1\n"
    path.write_text(good + bad + "9,1,D,0,0\n")
    reader = TraceReader(path)
    rows = [row for found in reader for row in zip(found.t.tolist(), map(chr, found.letter.tolist()))]
    assert rows == [(5, "B"), (8, "X"), (9, "D")]
    assert reader.malformed == 6
    with pytest.raises(TidemillError, match="TM4020"):
        list(TraceReader(path, "FAILFAST"))
    path.write_text(good + "5,-4,B,10,100\n")
    with pytest.raises(TidemillError, match="TM4020"):
        list(TraceReader(path, "failfast"))
    with pytest.raises(TidemillError, match="TM4003"):
        TraceReader(path, "sometimes")
