"""A seeded generator of an exchange's message trace, one line ``t,id,action,volume,price`` each.

Orders arrive around a price that wanders and is drawn back, live for a while, are executed in part, and go. ``t`` is
in ms since midnight, prices are in 1/10,000 dollar. Actions: B and S add an order, E executes a part of one, F the
rest, D deletes one, C cancels a part, X is a cross, T a trade of an order that was never shown. D has neither volume
nor price, E, F and C have no price.

A trace is decided by its arguments alone: PCG64's raw words and integer arithmetic are the same on every machine and
in every version of NumPy.

    python -m tidemill.exchange.trace trace.csv --messages 2630000 --seed 1 --resting 100000
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path

import numpy as np
import numpy.typing as npt

from tidemill.exchange.chance import Chance, Ints

ACTIONS = "BSEFDXCT"
OPENING = 34_200_000
"""9:30 in ms."""
TICK = 100
"""Smallest price step in 1/10,000 dollar."""

_MEAN_PRICE = 275_000
_GAP = 8_900
"""Mean time between messages in microseconds: a session of 6.5 hours has 2.63 million."""
_PLACES = 1 << 20
"""Places between the arrivals of two orders."""
_SHARE_OF_BUYS = (24, 57)
_ONE_EXECUTION, _TWO_EXECUTIONS = 120, 15
"""Orders in a thousand that are executed once, and twice."""
_TRADES, _CANCELS, _CROSSES, _FULL = 22_800, 1_800, 20, 20
"""Per million orders: T, C and X beside them, and F instead of D."""
_SIZES = np.array([100] * 10 + [200] * 3 + [300, 400, 500, 500, 1000, 2000, 5000], np.int64)


@dataclass(frozen=True)
class Trace:
    """Messages in order; ``action`` is an index into ``ACTIONS``."""

    t: Ints
    id: Ints
    action: Ints
    volume: Ints
    price: Ints

    def __len__(self) -> int:
        return len(self.t)

    def lines(self, start: int = 0, stop: int | None = None) -> str:
        """Messages ``start`` to ``stop - 1`` as text, every line ended."""
        part = slice(start, stop)
        letters = [ACTIONS[a] for a in self.action[part].tolist()]
        columns = (self.t[part].tolist(), self.id[part].tolist(), letters, self.volume[part].tolist())
        rows = zip(*columns, self.price[part].tolist(), strict=True)
        return "".join([f"{t},{i},{a},{v},{p}\n" for t, i, a, v, p in rows])

    def write(self, path: Path) -> None:
        """Write all lines to a file."""
        with path.open("w") as file:
            for start in range(0, len(self), 1 << 18):
                file.write(self.lines(start, start + (1 << 18)))


def generate(messages: int, seed: int = 0, resting: int | None = None) -> Trace:
    """A trace.

    Parameters
    ----------
    messages : int
        How many messages.
    seed : int
        Another seed gives another trace.
    resting : int, optional
        About how many orders are live once the book is full, which takes some messages more than twice as many.
        A fifth of the messages by default, which gives the mix of a real day: B 24 %, S 33 %, D 34 %, E 8 %. With
        fewer, more of the messages are deletions.

    Returns
    -------
    Trace
    """
    chance = Chance(seed)
    live = max(1, messages // 5 if resting is None else resting)
    # One order arrives a step, so that the mean lifetime in steps is the number of live orders.
    arrival = np.arange(messages, dtype=np.int64) * _PLACES
    ids = 1_000 + np.cumsum(1 + chance.below(4, messages))
    buys = chance.below(_SHARE_OF_BUYS[1], messages) < _SHARE_OF_BUYS[0]
    size = _sizes(chance, messages)
    price = _prices(chance, buys)
    half = np.maximum(4, chance.long_tailed(live * (_PLACES // 2), messages))
    first, second, left = _executions(chance, size)
    executed = arrival + 1 + chance.below(1 << 30, messages) % (half - 1)
    again = arrival + half + chance.below(1 << 30, messages) % (half - 1)
    end = arrival + 2 * half
    kind = np.where(chance.below(1_000_000, messages) < _FULL, ACTIONS.index("F"), ACTIONS.index("D"))
    nothing = np.zeros(messages, np.int64)
    parts = [
        (arrival, ids, np.where(buys, ACTIONS.index("B"), ACTIONS.index("S")), size, price),
        _picked(first > 0, executed, ids, _same("E", messages), first, nothing),
        _picked(second > 0, again, ids, _same("E", messages), second, nothing),
        _picked(left > 0, end, ids, kind, np.where(kind == ACTIONS.index("F"), left, 0), nothing),
    ]
    for letter, share, shown in (("T", _TRADES, price), ("C", _CANCELS, nothing), ("X", _CROSSES, price)):
        chosen = chance.below(1_000_000, messages) < share
        # A trade or cross has an id that no order has; a partial cancel is of a live order.
        names = ids if letter == "C" else ids - 1_000_000_000
        parts.append(_picked(chosen, arrival + 1 + half // 2, names, _same(letter, messages), 1 + size // 2, shown))
    times, *columns = (np.concatenate(c) for c in zip(*parts, strict=True))
    order = np.argsort(times, kind="stable")[:messages]
    # Messages come in bursts, so that many have the same time.
    gaps = chance.long_tailed(2 * _GAP, messages) * chance.below(2, messages)
    clock = OPENING + np.cumsum(gaps) // 1000
    ident, action, volume, shown = (c[order] for c in columns)
    return Trace(clock, np.abs(ident), action, volume, shown)


def _same(letter: str, count: int) -> Ints:
    return np.full(count, ACTIONS.index(letter), np.int64)


def _picked(chosen: npt.NDArray[np.bool_], *columns: Ints) -> tuple[Ints, ...]:
    return tuple(c[chosen] for c in columns)


def _sizes(chance: Chance, count: int) -> Ints:
    """Mostly round lots."""
    round_lots = _SIZES[chance.below(len(_SIZES), count)]
    odd = 1 + chance.below(99, count)
    return np.where(chance.below(20, count) == 0, odd, round_lots)


def _prices(chance: Chance, buys: npt.NDArray[np.bool_]) -> Ints:
    """On either side of a mean-reverting walk, near it as a rule and now and then far off."""
    count = len(buys)
    steps = chance.below(2 * TICK + 1, count) - TICK
    start = _MEAN_PRICE << 8
    walk = accumulate(
        steps.tolist(), lambda at, step: at + (step << 8) - ((at - start) >> 13), initial=start
    )  # fixed point with 8 bits
    middle = (np.fromiter(walk, np.int64, count + 1)[1:] >> 8) // TICK
    near = 1 + chance.long_tailed(40, count)
    far = 1 + chance.below(2500, count)
    distance = np.where(chance.below(10, count) == 0, far, near)
    return np.maximum(1, np.where(buys, middle - distance, middle + distance)) * TICK


def _executions(chance: Chance, size: Ints) -> tuple[Ints, Ints, Ints]:
    """Volumes of a first and second execution (0: none) and what is left after them."""
    count = len(size)
    draw = chance.below(1000, count)
    once = draw < _ONE_EXECUTION + _TWO_EXECUTIONS
    twice = draw < _TWO_EXECUTIONS
    filled = chance.below(3, count) == 0
    part = np.where((filled & ~twice) | (size == 1), size, 1 + chance.below(np.maximum(1, size - 1), count))
    first = np.where(once, part, 0)
    left = size - first
    part = np.where(filled | (left == 1), left, 1 + chance.below(np.maximum(1, left - 1), count))
    second = np.where(twice & (left > 0), part, 0)
    return first, second, left - second


def main(arguments: Sequence[str] | None = None) -> int:
    """Write a trace to a file; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tidemill.exchange.trace", description="Write a message trace.")
    parser.add_argument("out", type=Path, metavar="OUT", help="file to write")
    parser.add_argument("--messages", type=int, default=100_000, help="number of messages (default: 100,000)")
    parser.add_argument("--seed", type=int, default=0, help="another seed gives another trace")
    parser.add_argument("--resting", type=int, help="orders that are live at a time (default: a fifth of the messages)")
    given = parser.parse_args(arguments)
    if given.messages < 0 or (given.resting is not None and given.resting < 1):
        parser.error("--messages must not be negative, --resting must be positive")
    generate(given.messages, given.seed, given.resting).write(given.out)
    return 0


if __name__ == "__main__":
    sys.exit(main())
