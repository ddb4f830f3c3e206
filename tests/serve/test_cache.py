"""The cache of results and changes: bounded in memory whatever it holds, and each value made once."""

from __future__ import annotations

import random
import threading
from collections import OrderedDict

import pyarrow as pa
import pytest

from tidemill.serve.stored.cache import Cache, table_bytes


def test_values_without_bytes_take_memory_too() -> None:
    cache = Cache(100_000)
    for number in range(10_000):
        assert cache.get(number, bytes, len) == b""
    assert 0 < cache.held_bytes <= 100_000
    assert cache.known(9_999)
    assert sum(map(cache.known, range(10_000))) < 1_000


def test_the_least_recently_used_goes_first(seed: int = 7) -> None:
    """Against a dictionary in order of use."""
    chance = random.Random(seed)
    cache = Cache(50_000)
    model: OrderedDict[int, int] = OrderedDict()
    per_entry = None
    for _ in range(5_000):
        key, made = chance.randrange(60), []
        size = 100 * key

        def make(key: int = key, made: list[int] = made, size: int = size) -> bytes:
            made.append(key)
            return bytes(size)

        assert len(cache.get(key, make, len)) == size
        per_entry = per_entry or cache.held_bytes - size
        assert bool(made) == (key not in model), f"seed {seed}"
        model[key] = size + per_entry
        model.move_to_end(key)
        while sum(model.values()) > 50_000:
            model.popitem(last=False)
        assert cache.held_bytes == sum(model.values())


def test_one_of_several_callers_makes_the_value() -> None:
    cache, made, given = Cache(1 << 20), [], []
    begun, go_on = threading.Event(), threading.Event()

    def make() -> bytes:
        made.append(1)
        begun.set()
        assert go_on.wait(10)
        return b"value"

    threads = [threading.Thread(target=lambda: given.append(cache.get("k", make, len))) for _ in range(8)]
    for thread in threads:
        thread.start()
    assert begun.wait(10)
    assert not cache.known("k")
    go_on.set()
    for thread in threads:
        thread.join()
    assert (given, made) == ([b"value"] * 8, [1])


def test_what_fails_is_raised_and_made_again() -> None:
    cache = Cache(1 << 20)

    def fail() -> bytes:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        cache.get("k", fail, len)
    assert cache.held_bytes == 0
    assert cache.get("k", lambda: b"yes", len) == b"yes"


def test_a_larger_value_is_given_and_not_kept() -> None:
    cache = Cache(1_000)
    assert len(cache.get("k", lambda: bytes(5_000), len)) == 5_000
    assert (cache.known("k"), cache.held_bytes) == (False, 0)


def test_a_small_table_is_more_than_its_values() -> None:
    table = pa.table({f"c{i}": [i] for i in range(10)})
    assert table_bytes(table) > 10 * table.nbytes
