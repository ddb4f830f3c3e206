"""Turns are taken in the order of asking."""

from __future__ import annotations

import random
import threading
from concurrent.futures import Future, ThreadPoolExecutor

import pytest

from tidemill.errors import TidemillError
from tidemill.runtime.epoch.turns import Ticket, Turns

SECONDS = 60.0


def take(turns: Turns, ticket: Ticket, done: list[int], number: int) -> None:
    with turns.turn(SECONDS, ticket):
        done.append(number)


def test_order_is_that_of_tickets(seed: int) -> None:
    """Whichever thread comes first; tickets that were given back are passed over."""
    rng = random.Random(seed)
    for _ in range(50):
        turns, done = Turns("a root"), []
        tickets = [turns.ticket() for _ in range(rng.randrange(1, 12))]
        back = {i for i in range(len(tickets)) if rng.random() < 0.3}
        numbers = list(range(len(tickets)))
        rng.shuffle(numbers)
        with ThreadPoolExecutor(len(tickets)) as threads:
            waiting: list[Future[None]] = []
            for number in numbers:
                if number in back:
                    turns.give_back(tickets[number])
                else:
                    waiting.append(threads.submit(take, turns, tickets[number], done, number))
            for one in waiting:
                one.result(SECONDS)
        assert done == [i for i in range(len(tickets)) if i not in back]


def test_one_at_a_time_and_again_within(seed: int) -> None:
    rng = random.Random(seed)
    turns, inside, most = Turns("a root"), [0], [0]

    def work(depth: int) -> None:
        for _ in range(100):
            with turns.turn() as outermost:
                assert outermost
                inside[0] += 1
                most[0] = max(most[0], inside[0])
                for _ in range(depth):
                    with turns.turn(0.0) as again:
                        assert not again
                    with turns.turn_if_free() as mine:
                        assert mine
                inside[0] -= 1

    with ThreadPoolExecutor(4) as threads:
        for worker in [threads.submit(work, rng.randrange(3)) for _ in range(4)]:
            worker.result(SECONDS)
    assert most == [1]


def test_time_is_up() -> None:
    turns = Turns("a root")
    with ThreadPoolExecutor(1) as threads, turns.turn():
        with pytest.raises(TidemillError, match="TM7014"):
            threads.submit(lambda: turns.turn(0.0).__enter__()).result(SECONDS)
        assert not threads.submit(lambda: turns.turn_if_free().__enter__()).result(SECONDS)
    with turns.turn(0.0) as outermost:  # nobody is left in the queue
        assert outermost


def test_the_last_turn_sends_others_away() -> None:
    turns = Turns("a root")
    ticket, done = turns.ticket(), threading.Event()
    turns.give_back(ticket)
    with ThreadPoolExecutor(2) as threads:
        with turns.turn():
            waiting = threads.submit(lambda: turns.turn(SECONDS).__enter__())
            while not turns._waiting:
                done.wait(0.001)

            def end() -> bool:
                with turns.last_turn() as first:
                    return first

            ending = threads.submit(end)
            with pytest.raises(TidemillError, match=r"TM7012(.|\n)*a root"):
                waiting.result(SECONDS)
            assert not ending.done()
        assert ending.result(SECONDS)
        assert not threads.submit(end).result(SECONDS)
    with pytest.raises(TidemillError, match="TM7012"), turns.turn():
        pass
