"""Matching of a simulated exchange: requests a second on one core, in batches and one at a time.

A million requests around a price, of which two in five delete an order. There is no peer: published figures of plain
Python are about 130,000 orders a second and core.
"""

from __future__ import annotations

import argparse
import statistics
import time

import numpy as np

from benchmarks.measuring import heading, table, verdict
from tidemill.exchange.book import Book
from tidemill.exchange.matching import Requests

GOAL = 300_000
"""Requests a second."""


def requests(count: int) -> Requests:
    """Orders whose prices cross now and then, and deletions of some of them."""
    random = np.random.default_rng(1)
    letter = np.where(random.random(count) < 0.5, ord("B"), ord("S")).astype(np.uint8)
    deleted = random.random(count) < 0.4
    ids = np.zeros(count, np.int64)
    ids[deleted] = np.maximum(1, np.arange(count)[deleted] * 6 // 10 - random.integers(0, 3000, int(deleted.sum())))
    away = random.exponential(300, count).astype(np.int64) - 20
    price = 100_000 + np.where(letter == ord("B"), -away, away)
    letter[deleted] = ord("D")
    nothing = np.zeros(count, np.int64)
    return Requests(letter, np.zeros(count, np.int8), ids, nothing, random.integers(1, 100, count), price)


def seconds(given: Requests, batch: int) -> float:
    """How long it takes to carry them out in a new book."""
    book, count = Book(), len(given.letter)
    begin = time.perf_counter()
    for at in range(0, count, batch):
        for _ in book.execute_batch(Requests(*(column[at : at + batch] for column in given))):
            pass
    return time.perf_counter() - begin


def main() -> None:
    """Measure and print."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--small", action="store_true", help="seconds; fewer requests")
    options.add_argument("--rounds", type=int, default=3)
    given = options.parse_args()
    count = 100_000 if given.small else 1_000_000
    heading(f"order_book: {count:,} requests, {given.rounds} rounds")
    seconds(requests(1000), 100)  # compiles
    rows, best = [], 0.0
    for batch in (count, 100, 1):
        part = requests(count if batch > 1 else count // 10)
        rate = statistics.median(len(part.letter) / seconds(part, batch) for _ in range(given.rounds))
        rows.append((f"{batch:,} at a time", rate))
        best = max(best, rate)
    table(("", "requests/s"), rows)
    verdict("order_book", best / GOAL, 1)


if __name__ == "__main__":
    main()
