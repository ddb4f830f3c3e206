"""Generated traces: the same everywhere, and like those of an exchange."""

from __future__ import annotations

import hashlib
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from tidemill.exchange.trace import ACTIONS, TICK, Trace, generate, main

DIGEST = "4aa8c9bb7c0e679b"


def replayed(trace: Trace) -> tuple[dict[int, tuple[int, str, int]], int]:
    """Live orders (volume, side, price) after all messages, and the largest number of them at any time."""
    live: dict[int, tuple[int, str, int]] = {}
    most = 0
    columns = (trace.id, trace.action, trace.volume, trace.price)
    for number, code, volume, price in zip(*(c.tolist() for c in columns), strict=True):
        action = ACTIONS[code]
        if action in "BS":
            assert number not in live, "an id is used once"
            assert volume > 0 and price > 0 and price % TICK == 0
            live[number] = (volume, action, price)
        elif action in "EFD":
            left, side, paid = live.pop(number)
            if action == "E":
                assert 0 < volume <= left
                assert price == 0
                if volume < left:
                    live[number] = (left - volume, side, paid)
            else:
                assert (volume, price) == ((left, 0) if action == "F" else (0, 0))
        most = max(most, len(live))
    return live, most


def test_a_trace_is_the_same_everywhere() -> None:
    """A digest, so that another machine or version of NumPy that differs is noticed."""
    text = generate(20_000, seed=7).lines()
    assert hashlib.sha256(text.encode()).hexdigest()[:16] == DIGEST
    assert generate(20_000, seed=8).lines() != text


def test_the_mix_is_that_of_a_real_day() -> None:
    trace = generate(100_000, seed=3)
    counts = Counter(ACTIONS[a] for a in trace.action.tolist())
    shares = {letter: counts[letter] / len(trace) for letter in ACTIONS}
    assert shares == pytest.approx(
        {"B": 0.24, "S": 0.333, "D": 0.337, "E": 0.077, "T": 0.0127, "C": 0.00136, "X": 0.0, "F": 0.0}, abs=0.02
    )
    assert counts["C"] and counts["T"]
    live, _ = replayed(trace)
    assert len({(side, price) for _, side, price in live.values()}) > 1000, "levels"
    assert (np.diff(trace.t) >= 0).all()
    assert (np.diff(trace.t) == 0).mean() > 0.3, "ties are frequent"


@pytest.mark.parametrize("resting", [10, 1000, 10_000])
def test_resting_orders(resting: int) -> None:
    live, most = replayed(generate(60_000, seed=1, resting=resting))
    assert len(live) == pytest.approx(resting, rel=0.3, abs=8)
    assert most < 1.5 * resting + 20


def test_rare_letters_appear_in_a_long_trace() -> None:
    counts = np.bincount(generate(500_000, seed=2, resting=5000).action, minlength=len(ACTIONS))
    assert (counts > 0).all()


@pytest.mark.parametrize("messages", [0, 1, 2, 300])
def test_short_traces(messages: int) -> None:
    trace = generate(messages, seed=5, resting=3)
    assert len(trace) == messages == trace.lines().count("\n")
    replayed(trace)


def test_command(tmp_path: Path) -> None:
    assert main([str(tmp_path / "out.csv"), "--messages", "500", "--seed", "4", "--resting", "20"]) == 0
    assert (tmp_path / "out.csv").read_text() == generate(500, 4, 20).lines()
    with pytest.raises(SystemExit):
        main([str(tmp_path / "out.csv"), "--resting", "0"])
