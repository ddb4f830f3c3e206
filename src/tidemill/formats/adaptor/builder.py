"""From messages to rows, by way of an adaptor's process."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidemill.formats.adaptor import pool
from tidemill.formats.adaptor.columns import Answer, BadAnswerError, answer_of, reason_of
from tidemill.formats.adaptor.process import EndedError, Process, Task
from tidemill.formats.base import RowError, Rows
from tidemill.formats.frames.rows import join_frames
from tidemill.formats.reading.several_feeds import concatenated
from tidemill.formats.records.sized_records import Bytes, Places
from tidemill.formats.rows.checked_columns import make_batch
from tidemill.formats.rows.malformed import Mode, fail_fast
from tidemill.formats.text.line_ends import BYTE_ORDER_MARK, CARRIAGE_RETURN, NEWLINE, PLAIN_LINES, LineRules
from tidemill.schema import Field

_MOST_MESSAGES = 4_096
_MOST_BYTES = 1 << 20
_MOST_ENDED = 3
_NO_ROWS = Answer(np.empty(0, np.int64), [], [], np.empty((0, 2), np.int64))


@dataclass
class AdaptorBuilder:
    """Makes rows of messages; see :class:`tidemill.formats.records.sized_records.RecordBuilder`. For one split.

    A batch in which the process ends is repeated message by message, so only those at which it ends are malformed.
    After three of them the rest of the split is recorded as malformed without being decoded: each costs its time limit.

    Attributes
    ----------
    fields : tuple of Field
        The needed columns in their order, then those that decide whether a row is kept.
    needed : int
        How many of them go into the batch.
    """

    task: Task
    fields: tuple[Field, ...]
    needed: int
    mode: Mode
    _ended: int = field(default=0, init=False)

    def build(self, data: Bytes, position: int, starts: Places, sizes: Places) -> Rows:
        """See :meth:`tidemill.formats.records.sized_records.RecordBuilder.build`; messages of no bytes do not count."""
        starts, sizes = starts[sizes > 0], sizes[sizes > 0]
        parts = [self._rows(data, position, starts[:0], sizes[:0], _NO_ROWS)]
        for low, high in _batches(sizes):
            at = low
            for found in self._decode(data, starts[low:high], sizes[low:high]):
                count = len(found.counts) if isinstance(found, Answer) else 1
                part = slice(at, at + count)
                if isinstance(found, Answer):
                    parts.append(self._rows(data, position, starts[part], sizes[part], found))
                else:
                    lost = _malformed(data, position, starts[at], sizes[at], None, found)
                    parts.append(self._rows(data, position, starts[:0], sizes[:0], _NO_ROWS, (lost,)))
                at += count
        rows = concatenated(parts)
        fail_fast(self.mode, rows.errors, "mend the file or the adaptor")
        return rows

    # -- the process --------------------------------------------------------------------------------

    def _decode(self, data: Bytes, starts: Places, sizes: Places) -> Iterator[Answer | str]:
        """Answers for all messages in their order; for one at which the process ended, the reason."""
        if self._ended < _MOST_ENDED:
            try:
                yield self._ask(data, starts, sizes)
                return
            except EndedError as error:
                if len(starts) == 1:
                    self._ended += 1
                    yield error.reason
                    return
        for i in range(len(starts)):
            if self._ended >= _MOST_ENDED:
                yield "adaptor_given_up"
                continue
            try:
                yield self._ask(data, starts[i : i + 1], sizes[i : i + 1])
            except EndedError as error:
                self._ended += 1
                yield error.reason

    def _ask(self, data: Bytes, starts: Places, sizes: Places) -> Answer:
        messages = np.empty(int(sizes.sum()), np.uint8)
        join_frames(data, starts, sizes, -1, messages, np.empty(starts.size, np.int64))
        process: Process = pool.take(self.task)
        found = process.decode(sizes.astype("<u4").tobytes(), messages.tobytes())
        try:
            answer = answer_of(found, len(sizes), self.fields)
        except BadAnswerError as error:
            raise process.give_up("adaptor_bad_answer") from error
        pool.give_back(self.task, process)
        return answer

    # -- rows ---------------------------------------------------------------------------------------

    def _rows(
        self,
        data: Bytes,
        position: int,
        starts: Places,
        sizes: Places,
        answer: Answer,
        lost: tuple[RowError, ...] = (),
    ) -> Rows:
        """Rows of decoded messages, without those that are dropped."""
        arrays = answer.arrays or [pa.array([], f.type) for f in self.fields]
        owners = np.repeat(np.arange(len(starts)), answer.counts)
        firsts = np.cumsum(answer.counts) - answer.counts
        within = np.minimum(np.arange(len(owners)) - firsts[owners], sizes[owners] - 1)
        kept = np.ones(len(owners), np.bool_)
        errors = [*lost]
        for message, text, line in answer.failed:
            where = f" (line {line} of the adaptor)" if line is not None else ""
            reason = f"adaptor_raised: {text}{where}"
            errors.append(_malformed(data, position, starts[message], sizes[message], None, reason))
        for place, row, reason in self._flaws(answer, arrays):
            column = self.fields[place]
            dropped = self.mode is Mode.DROPMALFORMED or not column.nullable
            kept[row] &= not dropped
            at = owners[row]
            errors.append(_malformed(data, position, starts[at], sizes[at], column.name, reason, dropped))
        errors.sort(key=lambda e: (e.position, e.column is not None))
        chosen = owners[kept]
        if not kept.all():
            mask = pa.array(kept)
            arrays = [a.filter(mask) for a in arrays]
        count = len(chosen)
        batch = make_batch(self.fields[: self.needed], arrays[: self.needed], count)
        positions = (position + starts[owners] + within)[kept].astype(np.int64)

        def raw(row: int) -> bytes:
            at = chosen[row]
            return data[starts[at] : starts[at] + sizes[at]].tobytes()

        return Rows(batch, count, positions, tuple(errors), raw)

    def _flaws(self, answer: Answer, arrays: Sequence[pa.Array[Any]]) -> Iterator[tuple[int, int, str]]:
        """Place, row and reason of each value that its column cannot hold, column by column."""
        for place, column in enumerate(self.fields):
            bad = answer.flaws[answer.flaws[:, 1] == place, 0]
            yield from ((place, int(row), reason_of(column.type)) for row in bad)
            if not column.nullable and arrays[place].null_count:
                absent = np.flatnonzero(arrays[place].is_null().to_numpy(zero_copy_only=False))
                yield from ((place, int(row), "null_in_not_null") for row in np.setdiff1d(absent, bad))


@dataclass(frozen=True)
class LineMessages:
    """Lines as messages, without their ends; see :class:`tidemill.formats.text.line_split.LineBuilder`."""

    inner: AdaptorBuilder

    @property
    def lines(self) -> LineRules:
        """Every newline ends one."""
        return PLAIN_LINES

    def build(self, data: Bytes, position: int, row_ends: int, quotes: bool, unterminated: bool) -> Rows:
        """See :meth:`tidemill.formats.text.line_split.LineBuilder.build`."""
        ends = np.flatnonzero(data == NEWLINE)
        if data.size and data[-1] != NEWLINE:
            ends = np.append(ends, data.size)
        starts = np.concatenate([np.zeros(1, np.int64), ends[:-1] + 1]) if ends.size else ends
        if position == 0 and data[: len(BYTE_ORDER_MARK)].tobytes() == BYTE_ORDER_MARK and starts.size:
            starts[0] = len(BYTE_ORDER_MARK)
        ends = ends - ((ends > starts) & (data[np.maximum(ends - 1, 0)] == CARRIAGE_RETURN)) if data.size else ends
        return self.inner.build(data, position, starts.astype(np.int64), (ends - starts).astype(np.int64))


def _batches(sizes: npt.NDArray[np.int64]) -> Iterator[tuple[int, int]]:
    """Ranges of messages with so many, and so many bytes, at most; one of more bytes is alone."""
    ends = np.cumsum(sizes)
    low = 0
    while low < len(sizes):
        before = int(ends[low - 1]) if low else 0
        high = int(np.searchsorted(ends, before + _MOST_BYTES, "right"))
        high = max(low + 1, min(high, low + _MOST_MESSAGES))
        yield low, high
        low = high


def _malformed(
    data: Bytes, position: int, start: int, size: int, column: str | None, reason: str, dropped: bool = True
) -> RowError:
    return RowError(position + int(start), column, reason, data[start : start + size].tobytes(), dropped)
