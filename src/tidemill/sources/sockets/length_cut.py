"""Converts messages with their length in front to lines: compiled, and in plain Python."""

from __future__ import annotations

# mypy: allow-untyped-defs
import numpy as np

from tidemill.kernels.kernel import njit

_FEW_BYTES, _LONG_MESSAGE = 256, 1024
"""With fewer bytes, or longer messages, plain Python is faster than the kernel."""

_FEW_TO_COPY = 32

_kernel = njit(
    "Tuple((i8, i8, i8, i8, u8))(Array(u1, 1, 'C', readonly=True), i8, b1, i8, Array(u1, 1, 'C'))",
    nogil=True,
    error_model="numpy",
)


Cut = tuple[bytes, int, int, int, int]
"""Result for bytes that begin with a length:

the complete messages, each with a newline at its end (added where it is missing); their number; the offset after the
last one; how many bytes from there on are needed to continue, 0 where the next message is longer than allowed; and the
length of that message.
"""


def cut_lengths(data: bytes, width: int, big: bool, most: int) -> Cut:
    """Cut bytes into messages.

    Parameters
    ----------
    width : int
        Bytes of a number: 1, 2, 4 or 8.
    big : bool
        The most significant byte of a number comes first.
    most : int
        The length of the longest message.
    """
    first = int.from_bytes(data[:width], "big" if big else "little")
    if first + width == len(data) and first <= most:  # one whole message, as they mostly come
        return (data[width:] if data.endswith(b"\n", width) else data[width:] + b"\n"), 1, len(data), width, 0
    if len(data) < _FEW_BYTES or first > _LONG_MESSAGE:
        return cut_lengths_plainly(data, width, big, most)
    out = np.empty(len(data), np.uint8)
    messages, at, written, need, length = _cut(np.frombuffer(data, np.uint8), width, big, most, out)
    return out[:written].tobytes(), messages, at, need, length


def cut_lengths_plainly(data: bytes, width: int, big: bool, most: int) -> Cut:
    """The same, message by message."""
    found: list[bytes] = []
    at = messages = 0
    need, length = width, 0
    while len(data) - at >= width:
        length = int.from_bytes(data[at : at + width], "big" if big else "little")
        if length > most:
            need = 0
            break
        begin, end = at + width, at + width + length
        if end > len(data):
            need = end - at
            break
        found.append(data[begin:end])
        if not data.endswith(b"\n", begin, end):
            found.append(b"\n")
        messages += 1
        at = end
    return b"".join(found), messages, at, need, 0 if need else length


@_kernel
def _cut(data, width, big, most, out):
    """Messages, behind the last of them, bytes written, bytes needed, and the length of one that is too long."""
    size = data.size
    at, written, messages = 0, 0, 0
    while size - at >= width:
        length = np.uint64(0)
        for i in range(width):
            place = at + i if big else at + width - 1 - i
            length = (length << np.uint64(8)) | np.uint64(data[place])
        if length > np.uint64(most):
            return messages, at, written, 0, length
        begin = at + width
        end = begin + np.int64(length)
        if end > size:
            return messages, at, written, end - at, np.uint64(0)
        if end - begin > _FEW_TO_COPY:
            out[written : written + end - begin] = data[begin:end]
        else:
            for i in range(np.uintp(end - begin)):
                out[np.uintp(written) + i] = data[np.uintp(begin) + i]
        written += end - begin
        if end == begin or data[end - 1] != 10:
            out[written] = 10
            written += 1
        messages += 1
        at = end
    return messages, at, written, width, np.uint64(0)
