"""Checksums of pages, by the library's function and by the compiled one, against zlib."""

from __future__ import annotations

import random
import zlib

import pytest

from tidemill.kernels import crc32


@pytest.mark.parametrize("library", [True, False])
def test_checksums_of_pages(library: bool, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    if not library:
        monkeypatch.setattr(crc32, "crc32_function", lambda: crc32.compiled_crc32().address)
    chance = random.Random(seed)
    for page in (1, 3, 8, 31, 64, 4096):
        for size in (0, 1, page - 1, page, 5 * page + 2):
            data = chance.randbytes(size)
            expected = [zlib.crc32(data[at : at + page]) for at in range(0, size - page + 1, page)]
            assert crc32.crc32_of_pages(data, page).tolist() == expected
