"""Pages of a file that are checked on first use, against zlib and a set of those that were touched."""

from __future__ import annotations

import random
import zlib

import numpy as np
import pyarrow as pa
import pytest

from tidemill.errors import TidemillError
from tidemill.state.runs.pages import Pages, checksums

_PAGE = 64


def _damaged(why: str) -> TidemillError:
    return TidemillError("TM1011", why)


def pages_of(data: bytes, crcs: bytes | None = None) -> Pages:
    found = checksums([data], _PAGE) if crcs is None else crcs
    return Pages(pa.py_buffer(data), _PAGE, pa.py_buffer(found), zlib.crc32(found), _damaged)


def test_what_is_checked_and_what_is_damaged(seed: int) -> None:
    """A range with a damaged page fails as often as it is checked; all others are checked once."""
    chance = random.Random(seed)
    for _ in range(200):
        size = chance.randrange(1, 20 * _PAGE)
        whole = bytearray(chance.randbytes(size))
        crcs = checksums([bytes(whole[:100]), bytes(whole[100:])], _PAGE)
        expected = [zlib.crc32(whole[at : at + _PAGE]) for at in range(0, size, _PAGE)]
        assert np.frombuffer(crcs, "<u4").tolist() == expected
        bad = {at // _PAGE for at in (chance.randrange(size) for _ in range(chance.randrange(3)))}
        for page in bad:
            whole[chance.randrange(page * _PAGE, min(size, (page + 1) * _PAGE))] ^= chance.randrange(1, 256)
        pages, touched = pages_of(bytes(whole), crcs), set[int]()
        assert pages.damage() == sorted(bad)
        for _ in range(30):
            start, end = sorted(chance.randrange(size + 1) for _ in range(2))
            asked = set(range(start // _PAGE, -(-end // _PAGE))) if start < end else set()
            if asked & bad:
                first = min(asked & bad)
                with pytest.raises(TidemillError, match=f"bytes {first * _PAGE} to"):
                    pages.check(start, end)
                touched |= {page for page in asked if page < first}
            else:
                pages.check(start, end)
                touched |= asked
            assert pages.checked_bytes == len(touched) * _PAGE
            assert pages.complete == (len(touched) == len(expected))


def test_threads_that_count_a_page_twice_or_not_at_all() -> None:
    """The number of pages that are left may be wrong then; the pages themselves are asked in the end."""
    pages = pages_of(bytes(range(256)) * 4)
    pages.check(0, 3 * _PAGE)
    pages._left[0] = 0
    assert not pages.complete
    pages.check(0, 1024)
    pages._left[0] = 5
    asked = 0
    while not pages.complete:
        asked += 1
        assert asked < 1000
