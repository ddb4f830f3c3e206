"""From messages to rows: the values of a batch are read together, and other columns are taken by message."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import IO, TYPE_CHECKING, Any, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidemill.connectors.kafka.partitions import UNIT
from tidemill.formats.base import RowError, Rows
from tidemill.formats.payloads.values import Values, texts_of, without
from tidemill.formats.rows.checked_columns import make_batch
from tidemill.formats.rows.malformed import Mode, fail_fast
from tidemill.kernels.columns import column
from tidemill.schema import TIMESTAMP, Field

if TYPE_CHECKING:
    from tidemill.connectors.kafka.messages import Messages, PartitionFile

_NO_OFFSETS = np.empty(0, np.int64)
_NO_BYTES = np.empty(0, np.uint8)
_LAST_MILLISECOND = 253_402_300_799_999
"""Of the year 9999."""


@dataclass(frozen=True)
class KafkaReader:
    """See :class:`tidemill.formats.base.FileRowReader`.

    Attributes
    ----------
    fields : sequence of Field
        The columns that are needed, in order.
    parts : mapping
        Of those that are parts of a message, which ones.
    required : mapping
        Columns whose part of a message must be there, with that part.
    values : Values or None
        Makes rows of values; without it there is one row for each message.
    mode : Mode
    """

    fields: Sequence[Field]
    parts: Mapping[str, str]
    required: Mapping[str, tuple[str, Field]]
    values: Values | None
    mode: Mode

    def rows(self, file: IO[bytes], *, start: int, end: int, file_size: int) -> Iterator[Rows]:
        """See :meth:`tidemill.formats.base.FileRowReader.rows`; the file is a :class:`PartitionFile`."""
        partition = cast("PartitionFile", file)
        first, last = (partition.begin + -(-at // UNIT) for at in (start, end))  # rounded up
        for messages in partition.messages(first, last):
            rows = self._lost(messages.lost) if messages.lost is not None else self._rows(partition, messages)
            fail_fast(self.mode, rows.errors, "mend what writes the messages")
            yield rows

    def _lost(self, lost: tuple[int, int]) -> Rows:
        raw = f"offsets {lost[0]} to {lost[1] - 1}".encode()
        empty = make_batch(self._schema, [pa.array([], f.type) for f in self.fields], 0)
        return Rows(empty, 0, _NO_OFFSETS, (RowError(lost[0], None, "lost_messages", raw, True),))

    @property
    def _schema(self) -> pa.Schema:
        return pa.schema([pa.field(f.name, f.type, f.nullable) for f in self.fields])

    def _rows(self, partition: PartitionFile, messages: Messages) -> Rows:
        """The rows of a batch of messages, without those of which a required part is missing."""
        if self.values is None:
            numbers = np.arange(messages.offsets.size)
            rows = Rows(make_batch([], [], numbers.size), numbers.size, messages.offsets, ())
        else:
            rows, numbers = _of_values(self.values, messages)
        made = _Parts(partition, messages)
        dropped, errors = np.zeros(messages.offsets.size, np.bool_), list(rows.errors)
        for name, (part, field) in self.required.items():
            missing = made.array(part, field.type).is_null().to_numpy(False)
            errors += made.flaws(np.flatnonzero(missing & ~dropped), name, "null_in_not_null", dropped=True)
            dropped |= missing
        arrays, order = [], {name: i for i, name in enumerate(rows.batch.schema.names)}
        for field in self.fields:
            if field.name not in self.parts:
                arrays.append(rows.batch.column(order[field.name]))
                continue
            part = self.parts[field.name]
            arrays.append(made.array(part, field.type).take(column(numbers)))
            if made.bad_texts.get(part, _NO_OFFSETS).size and field.name not in self.required:
                drops = self.mode is not Mode.PERMISSIVE
                errors += made.flaws(made.bad_texts[part], field.name, "bad_utf8", dropped=drops)
                dropped[made.bad_texts[part]] |= drops
        rows = replace(rows, batch=make_batch(self._schema, arrays, rows.count), errors=tuple(errors))
        return without(rows, dropped[numbers]) if dropped.any() else rows


def _of_values(maker: Values, messages: Messages) -> tuple[Rows, npt.NDArray[np.int64]]:
    """Rows of the values, and the number of the message of each. Positions are offsets."""
    values, first = messages.values, messages.values.offset
    buffers: list[Any] = values.buffers()
    _, bounds, held = buffers
    ends = np.frombuffer(bounds, np.int64)[first : first + len(values) + 1] if bounds else np.zeros(1, np.int64)
    data = np.frombuffer(held, np.uint8) if held else _NO_BYTES
    made, offsets = maker.rows(data, 0, ends[:-1], np.diff(ends)), messages.offsets
    wrong = zip(made.rows.errors, made.of_errors.tolist(), strict=True)
    errors = tuple(replace(e, position=int(offsets[m]), at=None) for e, m in wrong)
    return replace(made.rows, positions=offsets[made.messages], errors=errors), made.messages


class _Parts:
    """Columns of a batch of messages, made when they are asked for; one value for each message.

    Attributes
    ----------
    bad_texts : dict
        By ``key`` or ``value``, the numbers of messages that have one which is not UTF-8, where a STRING was declared.
    """

    def __init__(self, partition: PartitionFile, messages: Messages) -> None:
        self._partition = partition
        self._messages = messages
        self._arrays: dict[tuple[str, pa.DataType], pa.Array[Any]] = {}
        self.bad_texts: dict[str, npt.NDArray[np.int64]] = {}

    def array(self, part: str, type_: pa.DataType) -> pa.Array[Any]:
        """The part of each message, as a type."""
        if (part, type_) not in self._arrays:
            self._arrays[part, type_] = self._made(part, type_)
        return self._arrays[part, type_]

    def _made(self, part: str, type_: pa.DataType) -> pa.Array[Any]:
        messages, count = self._messages, len(self._messages.offsets)
        match part:
            case "topic":
                return pa.repeat(pa.scalar(self._partition.topic), count)
            case "partition":
                return pa.array(np.full(count, self._partition.number), type_)
            case "offset":
                return column(messages.offsets)
            case "timestamp":
                times = messages.times()[0]
                bad = (times < 0) | (times > _LAST_MILLISECOND)
                return pa.array(np.where(bad, 0, times) * 1000, pa.int64(), mask=bad).cast(TIMESTAMP)
            case "timestampType":
                return pa.array(messages.times()[1], pa.int32())
            case "headers":
                return messages.headers()
        found: Any = messages.keys() if part == "key" else messages.values.cast(pa.binary())
        return self._text(part, found) if type_ == pa.string() else found

    def _text(self, part: str, found: pa.BinaryArray) -> pa.Array[Any]:
        """Bytes as texts, NULL where they are none."""
        array, bad = texts_of(found)
        if bad.size:
            self.bad_texts[part] = bad
        return array

    def flaws(self, numbers: npt.NDArray[np.int64], name: str, reason: str, dropped: bool) -> list[RowError]:
        """What is wrong with some messages."""
        offsets, found = self._messages.offsets, self._messages.found
        return [RowError(int(offsets[i]), name, reason, found[i].value() or b"", dropped) for i in numbers.tolist()]
