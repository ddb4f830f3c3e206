"""Finds the end of the last complete record; each begins with its size: compiled, and in plain Python."""

from __future__ import annotations

# mypy: allow-untyped-defs
import numpy as np

from tidemill.kernels.kernel import njit

_FEW_BYTES = 256
"""With fewer bytes plain Python is faster than the kernel."""

_kernel = njit(
    "Tuple((i8, i8, i8, u8))(Array(u1, 1, 'C', readonly=True), i8, b1, u8, u8)", nogil=True, error_model="numpy"
)

Cut = tuple[int, int, int, int]
"""Result for bytes that begin with a size:

the number of complete records; the offset after the last one; how many bytes from there on are needed to continue, 0
where the next size is out of bounds; and that size.
"""


def cut_records(data: bytes, width: int, big: bool, least: int, most: int) -> Cut:
    """Find the end of the last whole record.

    Parameters
    ----------
    width : int
        Bytes of a size: 1, 2, 4 or 8.
    big : bool
        The most significant byte of a size comes first.
    least, most : int
        Bounds of a size, which does not count itself.
    """
    if len(data) < _FEW_BYTES:
        return cut_records_plainly(data, width, big, least, most)
    found: Cut = _cut(np.frombuffer(data, np.uint8), width, big, least, most)
    return found


def cut_records_plainly(data: bytes, width: int, big: bool, least: int, most: int) -> Cut:
    """The same, record by record."""
    at = records = 0
    while len(data) - at >= width:
        size = int.from_bytes(data[at : at + width], "big" if big else "little")
        if not least <= size <= most:
            return records, at, 0, size
        end = at + width + size
        if end > len(data):
            return records, at, end - at, 0
        records += 1
        at = end
    return records, at, width, 0


@_kernel
def _cut(data, width, big, least, most):
    """As :data:`Cut` says."""
    total = data.size
    at, records = 0, 0
    while total - at >= width:
        size = np.uint64(0)
        for i in range(width):
            place = at + i if big else at + width - 1 - i
            size = (size << np.uint64(8)) | np.uint64(data[place])
        if size < least or size > most:
            return records, at, 0, size
        end = at + width + np.int64(size)
        if end > total:
            return records, at, end - at, np.uint64(0)
        records += 1
        at = end
    return records, at, width, np.uint64(0)
