"""The word by which merging compares keys first."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from tidemill.state.keys import Keys
from tidemill.state.merge import _first_words

shape = st.tuples(st.binary(max_size=6), st.integers(0, 3), st.binary(max_size=12), st.integers(0, 9))


@settings(max_examples=300, deadline=None)
@given(
    shape=shape,
    count=st.integers(0, 60),
    spare=st.integers(0, 20),
    even=st.booleans(),
    seed=st.integers(0, 2**32),
)
def test_words_order_like_keys(
    shape: tuple[bytes, int, bytes, int], count: int, spare: int, even: bool, seed: int
) -> None:
    """Keys of one length or of several, constant and varying bytes, with and without bytes behind them."""
    head, first, middle, second = shape
    random = np.random.default_rng(seed)
    items = []
    for _ in range(count):
        tail = random.bytes(second if even else int(random.integers(0, second + 1)))
        items.append(head + random.bytes(first) + middle + tail)
    offsets = np.concatenate([[3], 3 + np.cumsum([len(item) for item in items], dtype=np.int64)]).astype(np.int64)
    keys = Keys(offsets, np.frombuffer(b"abc" + b"".join(items) + b"\xff" * spare, np.uint8))
    words = _first_words(keys.offsets, keys.data).tolist()
    order = sorted(range(count), key=lambda i: items[i])
    assert all(words[a] <= words[b] for a, b in pairwise(order))
    if even and first + second <= 8:
        assert len(set(words)) == len(set(items))
