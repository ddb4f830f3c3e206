"""Reads a chain of ``<size, bytes>`` records: a record begins where the one before ends, so a file is one split.

The split that begins at byte 0 owns all records, whatever its end; another owns none. Behind a size that cannot be
right nothing can be found again, so the rest of the file is one malformed record.
"""

from __future__ import annotations

# mypy: allow-untyped-defs
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
import numpy.typing as npt

from tidemill.formats.base import RowError, Rows
from tidemill.formats.rows.malformed import Mode, fail_fast
from tidemill.kernels.byte_masks import kernel

Bytes = npt.NDArray[np.uint8]
Places = npt.NDArray[np.int64]

WHOLE = 0
"""The bytes end where a record does, or within its size."""
OPEN = 1
"""The bytes end within a record."""
BAD = 2
"""A size that cannot be right."""

_MOST_RAW = 1024
_NOTHING = np.empty(0, np.uint8)
_NOTHING.flags.writeable = False
_NO_PLACES = np.empty(0, np.int64)


@dataclass(frozen=True)
class SizeRules:
    """How sizes are written.

    Attributes
    ----------
    width : int
        Bytes of a size: 1, 2, 4 or 8; they do not count themselves. Unsigned.
    big : bool
        The most significant byte comes first.
    least, most : int
        Bounds of a size that can be right.
    """

    width: int
    big: bool
    least: int
    most: int


@kernel
def walk_records(buf, width, big, least, most, starts, sizes):
    """Find the records of a buffer that begins with one.

    Parameters
    ----------
    buf : ndarray of uint8
    width, big, least, most
        See :class:`SizeRules`; ``least`` and ``most`` are uint64.
    starts, sizes : ndarray of int64
        Receive where the bytes of each record start, behind its size, and how many they are; with room for all.

    Returns
    -------
    count, stop, outcome : int
        Records found; the first byte behind them; ``WHOLE``, ``OPEN`` or ``BAD``.
    size : uint64
        Of the record at ``stop``, unless ``WHOLE``.
    """
    count = 0
    at = np.int64(0)
    total = np.int64(buf.size)
    while at + width <= total:
        size = np.uint64(0)
        for k in range(width):
            byte = np.uint64(buf[at + k])
            size = (size << np.uint64(8)) | byte if big else size | (byte << np.uint64(8 * k))
        if size < least or size > most:
            return count, at, BAD, size
        if at + width + np.int64(size) > total:
            return count, at, OPEN, size
        starts[count] = at + width
        sizes[count] = np.int64(size)
        count += 1
        at += width + np.int64(size)
    return count, at, WHOLE, np.uint64(0)


class RecordBuilder(Protocol):
    """Makes rows of whole records."""

    @property
    def mode(self) -> Mode:
        """What happens to malformed ones."""
        ...

    def build(self, data: Bytes, position: int, starts: Places, sizes: Places) -> Rows:
        """Rows of the records ``data[starts[i] : starts[i] + sizes[i]]``; byte 0 of ``data`` is at ``position``.

        Raises
        ------
        FormatError
            TM4020 for a malformed row in mode FAILFAST.
        """
        ...


class SizedSplitReader:
    """See :class:`tidemill.formats.base.SplitReader`.

    Malformed records, each the last of its file: ``bad_size`` (a size out of bounds; only the size is given of its
    bytes), ``truncated_record`` (the file ends within it; at most 1,024 bytes are given).
    """

    def __init__(self, builder: RecordBuilder, rules: SizeRules, *, start: int, end: int) -> None:
        self._builder = builder
        self._rules = rules
        self.read_from = start
        self.done = start > 0 or end <= 0
        self.quote_parity = 0
        self.assumed_in_quotes = False
        self._position = 0
        self._pending: list[Bytes] = []
        self._pending_size = 0
        self._wanted = 0

    def feed(self, buffer: bytes | memoryview, last: bool) -> Rows:
        """See :meth:`tidemill.formats.base.SplitReader.feed`."""
        view = np.frombuffer(buffer, np.uint8) if len(buffer) else _NOTHING
        if self.done:
            return self._builder.build(_NOTHING, 0, _NO_PLACES, _NO_PLACES)
        if self._pending_size + view.size < self._wanted and not last:
            self._keep(view)
            return self._builder.build(_NOTHING, 0, _NO_PLACES, _NO_PLACES)
        data = read_only(np.concatenate([*self._pending, view]) if self._pending_size else view)
        self._pending, self._pending_size = [], 0
        rules = self._rules
        room = data.size // max(rules.width + rules.least, 1) + 1
        starts, sizes = np.empty(room, np.int64), np.empty(room, np.int64)
        count, stop, outcome, size = walk_records(
            data, rules.width, rules.big, np.uint64(rules.least), np.uint64(rules.most), starts, sizes
        )
        rows = self._builder.build(data, self._position, starts[:count], sizes[:count])
        reason = "bad_size" if outcome == BAD else "truncated_record" if last and stop < data.size else None
        self.done = last or reason is not None
        if reason is not None:
            raw = data[stop : stop + (rules.width if outcome == BAD else _MOST_RAW)].tobytes()
            flaw = RowError(self._position + int(stop), None, reason, raw, True)
            fail_fast(self._builder.mode, [flaw])
            return replace(rows, errors=(*rows.errors, flaw))
        self._position += int(stop)
        self._wanted = rules.width + int(size) if outcome == OPEN else rules.width
        self._keep(data[stop:])
        return rows

    def _keep(self, rest: Bytes) -> None:
        if rest.size:
            self._pending.append(rest.copy())
            self._pending_size += rest.size


def read_only(view: Bytes) -> Bytes:
    """The same bytes, which kernels are compiled for only once."""
    found = view.view()
    found.flags.writeable = False
    return found
