"""The server of the exchange over real connections."""

from __future__ import annotations

import asyncio
import random
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any

import numpy as np
import pytest
from test_exchange import Copy, random_requests, records

from tidemill.exchange import matching, rejections
from tidemill.exchange.exchange import Exchange, Instrument
from tidemill.exchange.server import ExchangeServer, Limits
from tidemill.exchange.wire import MESSAGE, OWN_BROKERS, REQUEST, Records, Role

Reader, Writer = asyncio.StreamReader, asyncio.StreamWriter
SECONDS = 60.0


def run(test: Callable[[], Awaitable[None]]) -> None:
    """Run a test in an event loop."""
    asyncio.run(asyncio.wait_for(test(), SECONDS))


@asynccontextmanager
async def served(keep: int = 1 << 20, **options: Any) -> AsyncIterator[ExchangeServer]:
    exchange = Exchange([Instrument("ACME"), Instrument("ZED")], clock=lambda: 500, keep=keep)
    async with ExchangeServer(exchange, port=0, **options) as server:
        yield server


async def connected(server: ExchangeServer, role: int) -> tuple[Reader, Writer]:
    """A client that the server knows; its writer must be kept, or the connection ends."""
    listeners = len(server._listeners)
    reader, writer = await asyncio.open_connection(*server.address)
    writer.write(struct.pack("<i", role))
    while Role(role).listens and len(server._listeners) == listeners:
        await asyncio.sleep(0.005)
    return reader, writer


async def lines_of(reader: Reader, count: int) -> list[str]:
    return [(await reader.readline()).decode().rstrip("\n") for _ in range(count)]


async def records_of(reader: Reader, count: int) -> Records:
    return np.frombuffer(await reader.readexactly(count * MESSAGE.itemsize), MESSAGE)


def test_two_clients_trade_and_a_listener_hears_it() -> None:
    async def test() -> None:
        async with served() as server:
            heard, _listens = await connected(server, Role.LISTENER)
            seller, to_seller = await connected(server, Role.INTERACTIVE)
            buyer, to_buyer = await connected(server, Role.INTERACTIVE)
            to_seller.write(b"41 0 7 S 10 100\n42 0 7 S 5 101 ACME limit\r\n")
            assert await lines_of(seller, 2) == ["41 1 7 S 10 100 ACME 0 10", "42 2 7 S 5 101 ACME 0 5"]
            to_buyer.write(b"9 0 8 B 12 101\n")
            assert await lines_of(buyer, 3) == [
                "9 3 8 B 12 101 ACME 0 12",
                "9 3 8 E 10 100 ACME 1 2",
                "9 3 8 F 2 101 ACME 2 0",
            ]
            assert await lines_of(seller, 2) == ["500 1 7 F 10 100 ACME 3 0", "500 2 7 E 2 101 ACME 3 3"]
            to_buyer.write(b"1 2 8 D 0 0\n2 77 8 D 0 0\nnonsense\n3 0 8 B 1 1 NONE\n")
            assert await lines_of(buyer, 4) == [
                "1 2 8 J TM9503 the order is another broker's",
                "2 77 8 J TM9502 there is no such order",
                "0 0 0 J TM9511 a line is no request",
                "3 0 0 J TM9512 there is no such symbol",
            ]
            to_seller.write(b"5 2 7 X 1 0\n6 2 7 D 0 0\n")
            assert await lines_of(seller, 2) == ["5 2 7 C 1 101 ACME 0 2", "6 2 7 D 2 101 ACME 0 0"]
            told = [line.split() for line in await lines_of(heard, 9)]
            assert "".join(words[3] for words in told) == "SSBFEEFCD"
            assert {words[0] for words in told} == {"500"}

    run(test)


def test_listeners_keep_the_book_whenever_they_come(seed: int) -> None:
    """In records: from the beginning, from a snapshot, and from a number on; requests come in pieces."""

    async def test() -> None:
        chance = random.Random(seed)
        async with served(keep=200) as server:
            sender, writer = await connected(server, Role.BINARY_INTERACTIVE)
            reading = asyncio.create_task(sender.read())
            clients = [await connected(server, Role.BINARY_LISTENER)]
            for number in range(40):
                data = records([(0, r) for _, r in random_requests(chance, 20, 1, 20 * number)]).tobytes()
                cut = chance.randrange(len(data))
                writer.write(data[:cut])
                await writer.drain()
                await asyncio.sleep(0.001)
                writer.write(data[cut:])
                if number in (10, 25):
                    clients.append(await connected(server, Role.BINARY_LISTENER))
                    await _settled(server)
                    number_now = server.exchange.sequence(0)
                    asked = "snapshot ACME\n" if number == 10 else f"since ACME {number_now - 50}\n"
                    clients[-1][1].write(asked.encode())
            late = [(Copy(), reader) for reader, _ in clients]
            await _settled(server)
            last = server.exchange.sequence(0)
            book = server.exchange.books[0]
            for at, (copy, reader) in enumerate(late):
                if at == 2:
                    continue
                while copy.sequence < last:
                    copy.take(await records_of(reader, 1))
                for side in "BS":
                    mine = {i: o[3] for i, o in copy.orders.items() if o[0] == side}
                    assert mine == {o.id: o.volume for o in book.orders(side)}, f"seed {seed}"
            heard = [int((await records_of(late[2][1], 1))["sequence"][0])]
            while heard[-1] < last:
                heard.append(int((await records_of(late[2][1], 1))["sequence"][0]))
            assert set(range(heard[0], last + 1)) == set(heard)
            writer.close()
            await reading

    run(test)


async def _settled(server: ExchangeServer) -> None:
    """Wait until the server has nothing more to read, as far as can be told."""
    before = -1
    while before != server.exchange.sequence(0):
        before = server.exchange.sequence(0)
        await asyncio.sleep(0.1)


def test_orders_go_with_the_last_who_speaks_for_their_broker() -> None:
    async def test() -> None:
        async with served(cancel_on_disconnect=True) as server:
            heard, _listens = await connected(server, Role.LISTENER)
            one, to_one = await connected(server, Role.INTERACTIVE)
            two, to_two = await connected(server, Role.INTERACTIVE)
            to_one.write(b"1 0 7 B 10 100\n")
            await lines_of(one, 1)
            to_two.write(b"1 0 7 B 10 90\n")
            assert await lines_of(two, 1) == ["1 2 7 B 10 90 ACME 0 10"]
            assert await lines_of(one, 1) == ["500 2 7 B 10 90 ACME 0 10"], "it speaks for that broker, too"
            to_one.close()
            await asyncio.sleep(0.1)
            assert len(server.exchange.books[0]) == 2
            to_two.transport.abort()
            told = await lines_of(heard, 4)
            assert [line.split()[3] for line in told] == ["B", "B", "D", "D"]
            assert len(server.exchange.books[0]) == 0

    run(test)


def test_one_who_does_not_read_is_ended_and_nobody_waits_for_it() -> None:
    async def test() -> None:
        async with served(limits=Limits(waiting_bytes=100_000)) as server:
            deaf, to_deaf = await asyncio.open_connection(*server.address, limit=1024)
            to_deaf.write(struct.pack("<i", Role.LISTENER))
            while not server._listeners:
                await asyncio.sleep(0.005)
            sender, writer = await connected(server, Role.BINARY_INTERACTIVE)
            reading = asyncio.create_task(sender.read())
            request = np.zeros(1000, REQUEST)
            request["letter"], request["volume"], request["price"] = ord("B"), 1, np.arange(1, 1001)
            sent = 0
            while not server.dropped:
                writer.write(request.tobytes())
                await writer.drain()
                await asyncio.sleep(0.001)
                sent += 1
                assert sent < 2000
            other, to_other = await connected(server, Role.INTERACTIVE)
            to_other.write(b"3 0 9 S 1 5000\n")
            assert (await lines_of(other, 1))[0].startswith("3 ")
            assert server.dropped == 1
            with suppress(ConnectionError):
                while await deaf.read(1 << 16):  # what was on its way
                    pass
            writer.close()
            await reading

    run(test)


@pytest.mark.parametrize("role", [-1, 4, 1 << 30])
def test_who_is_nobody_is_told_so(role: int) -> None:
    async def test() -> None:
        async with served() as server:
            reader, writer = await asyncio.open_connection(*server.address)
            writer.write(struct.pack("<i", role))
            assert b"0 to 3" in await reader.read()
            assert server.clients == 0

    run(test)


def test_bad_lines_end_a_client_in_the_end() -> None:
    async def test() -> None:
        async with served() as server:
            reader, writer = await connected(server, Role.INTERACTIVE)
            writer.write(b"x" * 1000)
            assert (await lines_of(reader, 1))[0].split()[4] == "TM9513"
            writer.write(b"y" * 1000 + b"\n5 0 1 B 1 1\n")
            assert (await lines_of(reader, 1)) == ["5 1 1 B 1 1 ACME 0 1"], "it goes on behind the end of the line"
            writer.write(b"bad\n" * 200)
            said = (await reader.read()).decode().splitlines()
            assert len(said) == 100 and all("TM9511" in line for line in said)

    run(test)


def test_listeners_do_not_trade() -> None:
    async def test() -> None:
        async with served() as server:
            reader, writer = await connected(server, Role.LISTENER)
            writer.write(b"1 0 7 B 10 100\nsince ACME x\nsnapshot NONE\nsnapshot ZED\nsince ACME 5\n")
            said = await lines_of(reader, 3)
            assert [line.split()[4] for line in said] == ["TM9512", "TM9514", "TM9512"]
            assert server.exchange.sequence(0) == 0

    run(test)


def test_random_bytes_end_nothing(seed: int) -> None:
    """Connections that send anything and go at any time; the exchange goes on for others."""

    async def test() -> None:
        chance = random.Random(seed)
        async with served(cancel_on_disconnect=True) as server:
            for _ in range(150):
                _, writer = await asyncio.open_connection(*server.address)
                if chance.random() < 0.8:
                    writer.write(struct.pack("<i", chance.randrange(4)))
                for _ in range(chance.randrange(4)):
                    good = random_requests(chance, 3, 3, 50)
                    writer.write(chance.choice((chance.randbytes(300), records(good).tobytes(), b"1 0 7 B 1 1\n" * 3)))
                    await asyncio.sleep(0)
                writer.transport.abort() if chance.random() < 0.5 else writer.close()
            reader, writer = await connected(server, Role.INTERACTIVE)
            writer.write(b"3 0 4000000000 S 1 1000000\n")
            assert (await lines_of(reader, 1))[0].startswith("3 ")
            for book in server.exchange.books:
                bids, asks = book.levels("B", 1), book.levels("S", 1)
                assert not bids or not asks or bids[0].price < asks[0].price

    run(test)


def test_there_is_a_limit_of_clients() -> None:
    async def test() -> None:
        async with served(limits=Limits(clients=3)) as server:
            kept = [await connected(server, Role.INTERACTIVE) for _ in range(3)]
            while server.clients < 3:
                await asyncio.sleep(0.005)
            reader, _fourth = await asyncio.open_connection(*server.address)
            with suppress(ConnectionError):
                assert await reader.read() == b"", "it is ended, with a reset or without"
            kept[0][1].write(b"3 0 1 S 1 1\n")
            assert await lines_of(kept[0][0], 1) == ["3 1 1 S 1 1 ACME 0 1"]

    run(test)


async def traced(server: ExchangeServer, line: bytes) -> tuple[Reader, Writer]:
    reader, writer = await asyncio.open_connection(*server.address)
    writer.write(line)
    return reader, writer


def test_a_trace_goes_on_behind_any_message(seed: int) -> None:
    """Of one symbol, a line for each message, to clients that come, go and come again."""

    async def test() -> None:
        chance = random.Random(seed)
        async with served() as server:
            sender, writer = await connected(server, Role.BINARY_INTERACTIVE)
            reading = asyncio.create_task(sender.read())
            whole, _stays = await traced(server, b"trace ACME\n")
            taken: list[str] = []
            for number in range(12):
                requests = [(chance.randrange(2), r) for _, r in random_requests(chance, 30, 1, 30 * number)]
                some, leaves = await traced(server, f"trace ACME {len(taken)}\r\n".encode())
                writer.write(records(requests).tobytes())
                await _settled(server)
                last = server.exchange.sequence(0)
                taken += await lines_of(some, chance.randint(0, last - len(taken)))
                leaves.close()
            some, _last = await traced(server, f"trace ACME {len(taken)}\n".encode())
            taken += await lines_of(some, last - len(taken))
            assert taken == await lines_of(whole, last), f"seed {seed}"
            messages = server.exchange.since(0, 0)
            assert taken == [f"{m['time']},{m['id']},{chr(m['letter'])},{m['volume']},{m['price']}" for m in messages]
            assert server.exchange.sequence(1) > 0, "the other symbol traded, too"
            reading.cancel()

    run(test)


def test_what_went_before_may_be_more_than_a_client_may_leave_unread() -> None:
    async def test() -> None:
        count = 30_000
        async with served(limits=Limits(waiting_bytes=1 << 16)) as server:
            requests = np.zeros(count, REQUEST)
            requests["letter"], requests["volume"], requests["price"] = ord("B"), 1, 7
            server.execute(requests)
            tracer, _one = await traced(server, b"trace ACME 10\n")
            heard, ask = await connected(server, Role.BINARY_LISTENER)
            ask.write(b"since ACME 0\n")
            await asyncio.sleep(0.5)  # neither reads
            server.execute(requests[:5])
            assert server.dropped == 0
            assert (await lines_of(tracer, count + 5 - 10))[-1].split(",")[1] == str(count + 5)
            assert (await records_of(heard, count + 5))["sequence"].tolist() == list(range(1, count + 6))

    run(test)


def test_a_trace_that_cannot_go_on() -> None:
    """What is said has no line end, so that nobody takes it for a message."""

    async def test() -> None:
        async with served(keep=10) as server:
            requests = np.zeros(50, REQUEST)
            requests["letter"], requests["volume"], requests["price"] = ord("S"), 1, 7
            server.execute(requests)
            for line, said in (
                (b"trace ACME 51\n", b"there is no message 51: the newest one is 50"),
                (b"trace ACME 3\n", b"are not kept any more"),
                (b"trace ACME 50 500,50,S,1,8\n", b"message 50 is another one: this exchange was started anew"),
                (b"trace ACME 45 500,50,S,1,7\n", b"message 45 is another one"),
                (b"trace ACME 50 a b\n", b"a symbol of this exchange"),
                (b"trace NONE\n", b"a symbol of this exchange"),
                (b"trace ACME -1\n", b"trace SYMBOL [NUMBER [LINE]]"),
                (b"trace ACME 99999999999999999999999\n", b"trace SYMBOL [NUMBER [LINE]]"),
                (b"track\n", b"trace SYMBOL [NUMBER [LINE]]"),
                (b"trace\n", b"trace SYMBOL [NUMBER [LINE]]"),
            ):
                reader, _writer = await traced(server, line)
                told = await reader.read()
                assert said in told and not told.endswith(b"\n"), line
            reader, _writer = await traced(server, b"trace ACME 50\n")
            behind, _stays = await traced(server, b"trace ACME 50 500,50,S,1,7\n")
            server.execute(requests[:1])
            assert (await lines_of(reader, 1)) == (await lines_of(behind, 1)) == ["500,51,S,1,7"]

    run(test)


def test_lines_of_listeners_that_are_nothing() -> None:
    """Also those that are blank for some and not for others, and numbers of any length; a tracer sends one line."""

    async def test() -> None:
        async with served() as server:
            heard, ask = await connected(server, Role.LISTENER)
            ask.write(b"since ACME " + b"9" * 200 + b"\n\x1c\nsince ACME \xc2\xb2\nsnapshot\nsince ACME 0 0\n")
            numbers = [line.split()[4] for line in await lines_of(heard, 5)]
            assert numbers == ["TM9514", "TM9514", "TM9514", "TM9514", "TM9514"]
            ask.write(b"snapshot NONE\n" + b"snapshot ACME\nend\n" * 300)  # good ones between the others
            assert (await lines_of(heard, 301))[0].split()[4] == "TM9512"
            tracer, writer = await traced(server, b"trace ACME " + b"0" * 5000)
            assert b"one line" in await tracer.read()
            writer.close()
            tracer, writer = await traced(server, b"trace ACME\ntrace ACME\n")
            assert b"one line" in await tracer.read()
            writer.close()

    run(test)


def test_brokers_of_the_exchange_itself_are_not_those_of_clients() -> None:
    async def test() -> None:
        async with served(cancel_on_disconnect=True) as server:
            market = np.zeros(1, REQUEST)
            market["letter"], market["volume"], market["price"], market["broker"] = ord("B"), 5, 7, OWN_BROKERS + 3
            server.execute(market)
            reader, writer = await connected(server, Role.BINARY_INTERACTIVE)
            requests = np.repeat(market, 2)
            requests["letter"], requests["id"], requests["time"] = ord("D"), 1, 9
            requests["broker"][1] = 4
            writer.write(requests.tobytes())
            found = await records_of(reader, 2)
            assert found["rejected"].tolist() == [rejections.OWN_BROKER, matching.NOT_OWNER]
            text, to_text = await connected(server, Role.INTERACTIVE)
            to_text.write(f"1 1 {OWN_BROKERS + 3} D 0 0\n".encode())
            assert "TM9511" in (await lines_of(text, 1))[0]
            for one in (writer, to_text):
                one.close()
            while server.clients:
                await asyncio.sleep(0.01)
            assert len(list(server.exchange.orders(0))) == 1

    run(test)


def test_a_batch_larger_than_what_may_wait_reaches_who_reads() -> None:
    async def test() -> None:
        async with served(limits=Limits(waiting_bytes=1 << 16)) as server:
            heard, _writer = await connected(server, Role.BINARY_LISTENER)
            requests = np.zeros(20_000, REQUEST)
            requests["letter"], requests["volume"], requests["price"] = ord("B"), 1, 7
            server.execute(requests)
            assert (await records_of(heard, 20_000))["sequence"][-1] == 20_000
            assert server.dropped == 0

    run(test)


def test_thousands_come_trade_and_go(seed: int) -> None:
    """Orders come in pieces, some clients vanish within one; each order that was answered rests once, and no other."""
    count = 2000
    chance = random.Random(seed)

    async def client(server: ExchangeServer, at: int, answered: dict[int, int]) -> None:
        reader, writer = await asyncio.open_connection(*server.address)
        orders = np.zeros(3, REQUEST)
        orders["letter"], orders["broker"], orders["volume"] = matching.BUY, at, 10
        orders["time"], orders["price"] = range(3), 100 + at % 50
        data = struct.pack("<i", Role.BINARY_INTERACTIVE) + orders.tobytes()
        vanishes = chance.random() < 0.3
        data = data[: -chance.randrange(1, REQUEST.itemsize)] if vanishes else data
        cuts = sorted(chance.sample(range(1, len(data)), 3))
        for begin, end in zip([0, *cuts], [*cuts, len(data)]):
            writer.write(data[begin:end])
            await asyncio.sleep(0)
        for id_ in (await records_of(reader, 2 if vanishes else 3))["id"].tolist():
            answered[id_] = at
        writer.transport.abort() if vanishes or chance.random() < 0.5 else writer.close()

    async def test() -> None:
        answered: dict[int, int] = {}
        async with served() as server:
            for begin in range(0, count, 200):
                await asyncio.gather(*(client(server, at, answered) for at in range(begin, begin + 200)))
            while server.clients:
                await asyncio.sleep(0.005)
            resting = server.exchange.snapshot(0)
            assert dict(zip(resting["id"].tolist(), resting["broker"].tolist())) == answered, f"seed {seed}"
            assert len(answered) > 2 * count and not server._speakers

    run(test)


def test_a_thousand_who_vanish_at_once_leave_no_orders() -> None:
    async def test() -> None:
        async with served(cancel_on_disconnect=True) as server:
            clients = []
            for at in range(1000):
                reader, writer = await connected(server, Role.INTERACTIVE)
                writer.write(f"1 0 {at} B 10 {100 + at % 7}\n2 0 {at} S 10 {200 + at % 7}\n".encode())
                clients.append((reader, writer))
            for reader, _ in clients:
                await lines_of(reader, 2)
            assert len(server.exchange.snapshot(0)) == 2000
            stays, to_stays = await connected(server, Role.INTERACTIVE)
            to_stays.write(b"1 0 5000 B 10 50\n")
            await lines_of(stays, 1)
            for _, writer in clients:
                writer.transport.abort()
            while server.clients > 1:
                await asyncio.sleep(0.005)
            assert server.exchange.snapshot(0)["broker"].tolist() == [5000]

    run(test)
