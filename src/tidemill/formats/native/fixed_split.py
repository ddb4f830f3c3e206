"""Reads one split of a file whose rows all have the same width."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tidemill.formats.base import RowError, Rows
from tidemill.formats.native.rows import NativeBuilder
from tidemill.formats.records.sized_records import Bytes, read_only
from tidemill.formats.rows.malformed import fail_fast

_NOTHING = read_only(np.empty(0, np.uint8))


class FixedSplitReader:
    """See :class:`tidemill.formats.base.SplitReader`; where rows begin is known without a look at the bytes."""

    def __init__(self, builder: NativeBuilder, width: int, *, start: int, end: int) -> None:
        self._builder = builder
        self._width = width
        self.read_from = -(-start // width) * width
        self._end = -(-end // width) * width
        self.done = self.read_from >= end
        self.quote_parity = 0
        self.assumed_in_quotes = False
        self._position = self.read_from
        self._pending: Bytes = _NOTHING

    def feed(self, buffer: bytes | memoryview, last: bool) -> Rows:
        """See :meth:`tidemill.formats.base.SplitReader.feed`."""
        if self.done:
            return self._builder.rows_of(_NOTHING, self._position)
        view = np.frombuffer(buffer, np.uint8) if len(buffer) else _NOTHING
        data = np.concatenate([self._pending, view]) if self._pending.size else view
        data = data[: self._end - self._position]
        whole = data.size - data.size % self._width
        rows = self._builder.rows_of(read_only(data[:whole]), self._position)
        self._position += whole
        self._pending = data[whole:].copy()
        self.done = last or self._position >= self._end
        if last and self._pending.size:
            flaw = RowError(self._position, None, "truncated_row", self._pending.tobytes(), True)
            fail_fast(self._builder.mode, [flaw])
            return replace(rows, errors=(*rows.errors, flaw))
        return rows
