"""Sets of file names in little memory: their bytes, and about 12 more for each, without Python objects.

Names are found by 64-bit hashes and compared in full, so that no name is mistaken for another.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Ints = npt.NDArray[np.int64]

_LOOSE = 1 << 12
"""Names are packed when more than this many are loose, or more than this fraction of all."""
_LOOSE_SHARE = 64


class PackedTexts:
    """Texts by number, in the order in which they were added; they can be read once packed."""

    def __init__(self) -> None:
        self._chunks: list[pa.StringArray] = []
        self._starts: list[int] = [0]
        self._loose: list[str] = []

    def __len__(self) -> int:
        return self._starts[-1] + len(self._loose)

    def append(self, texts: Sequence[str]) -> None:
        """Add texts at the end."""
        self._loose += texts
        if len(self._loose) > _LOOSE:
            self.pack()

    def pack(self) -> None:
        """Pack the loose ones."""
        if self._loose:
            self._chunks.append(_packed(self._loose))
            self._starts.append(len(self))
            self._loose = []

    @property
    def all(self) -> pa.ChunkedArray[Any]:
        """All texts, not copied."""
        return pa.chunked_array(self._chunks, pa.string())

    def take(self, numbers: Ints) -> pa.Array[Any]:
        """The texts of the given numbers, in their order."""
        if not len(numbers):
            return pa.array([], pa.string())
        chunk_of = np.searchsorted(np.array(self._starts), numbers, side="right") - 1
        order = np.argsort(chunk_of, kind="stable")
        chunks, begins = np.unique(chunk_of[order], return_index=True)
        ends = [*begins[1:].tolist(), len(order)]
        pieces = [
            self._chunks[chunk].take(pa.array(numbers[order[begin:end]] - self._starts[chunk]))
            for chunk, begin, end in zip(chunks.tolist(), begins.tolist(), ends, strict=True)
        ]
        back = np.empty(len(order), np.int64)
        back[order] = np.arange(len(order))
        texts: pa.Array[Any] = pa.concat_arrays(pieces).take(pa.array(back))
        return texts


class PackedNames:
    """A set of names. Each has a number: how many were added before it."""

    def __init__(self) -> None:
        self.texts = PackedTexts()
        self._hashes: Ints = np.empty(0, np.int64)
        self._numbers: npt.NDArray[np.uint32] = np.empty(0, np.uint32)
        self._loose: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self.texts) + len(self._loose)

    def add(self, names: Sequence[str]) -> list[int]:
        """Add names that are not in the set; returns the index in ``names`` of each that was added."""
        new: list[int] = []
        for place, number in enumerate(self.find(names).tolist()):
            if number < 0 and names[place] not in self._loose:
                self._loose[names[place]] = len(self)
                new.append(place)
        if len(self._loose) > max(_LOOSE, len(self) // _LOOSE_SHARE):
            self.pack()
        return new

    def find(self, names: Sequence[str]) -> Ints:
        """The numbers of names, -1 for those not in the set."""
        found = np.fromiter((self._loose.get(name, -1) for name in names), np.int64, len(names))
        if not len(self._hashes) or not len(names):
            return found
        hashes = _hashes(names)
        at = np.searchsorted(self._hashes, hashes)
        left = np.flatnonzero(found < 0)
        given = pa.array(names, pa.string())
        while len(left):
            left = left[at[left] < len(self._hashes)]
            left = left[self._hashes[at[left]] == hashes[left]]
            if not len(left):
                break
            numbers = self._numbers[at[left]].astype(np.int64)
            same = pc.equal(self.texts.take(numbers), given.take(pa.array(left))).to_numpy(zero_copy_only=False)
            found[left[same]] = numbers[same]
            left = left[~same]
            at[left] += 1  # another name has the same hash
        return found

    def pack(self) -> None:
        """Pack the loose ones."""
        names = list(self._loose)
        numbers = np.arange(len(self.texts), len(self), dtype=np.uint32)
        self._loose = {}
        self.texts.append(names)
        self.texts.pack()
        hashes = np.concatenate([self._hashes, _hashes(names)])
        order = np.argsort(hashes, kind="stable")
        self._hashes, self._numbers = hashes[order], np.concatenate([self._numbers, numbers])[order]


def _hashes(names: Sequence[str]) -> Ints:
    return np.fromiter(map(hash, names), np.int64, len(names))


def _packed(texts: Sequence[str]) -> pa.StringArray:
    """An array whose buffers have no spare capacity: those that Arrow builds take up to twice as much."""
    data = [text.encode() for text in texts]
    offsets = np.zeros(len(data) + 1, np.int32)
    np.cumsum(np.fromiter(map(len, data), np.int32, len(data)), out=offsets[1:])
    return pa.StringArray.from_buffers(len(data), pa.py_buffer(offsets.data), pa.py_buffer(b"".join(data)))
