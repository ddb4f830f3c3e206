"""From messages to rows: the payloads of a batch are read together, and other columns are taken by message."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from tidemill.connectors.mqtt.records import HEAD, QOS_BITS, RETAIN_BIT
from tidemill.formats.base import RowError, Rows
from tidemill.formats.frames.rows import join_frames
from tidemill.formats.payloads.values import Values, texts_of, without
from tidemill.formats.records.sized_records import Bytes, Places
from tidemill.formats.rows.checked_columns import make_batch
from tidemill.formats.rows.malformed import Mode
from tidemill.kernels.columns import column
from tidemill.schema import TIMESTAMP, Field

_NONE = np.empty(0, np.int64)


@dataclass(frozen=True)
class MqttBuilder:
    """See :class:`tidemill.formats.records.sized_records.RecordBuilder`.

    Attributes
    ----------
    fields : sequence of Field
        The columns that are needed, in order, and behind them those that decide whether a row is kept.
    needed : int
        How many are needed.
    parts : mapping
        Of the fields that are parts of a message, which ones.
    values : Values or None
        Makes rows of payloads; without it there is one row for each message.
    mode : Mode
    """

    fields: Sequence[Field]
    needed: int
    parts: Mapping[str, str]
    values: Values | None
    mode: Mode

    def build(self, data: Bytes, position: int, starts: Places, sizes: Places) -> Rows:
        """See :meth:`tidemill.formats.records.sized_records.RecordBuilder.build`."""
        found = _Messages(data, starts, sizes)
        if self.values is None:
            numbers = np.arange(starts.size)
            rows = Rows(make_batch([], [], starts.size), starts.size, starts + position, (), found.payload)
        else:
            made = self.values.rows(data, position, found.payloads, found.payload_sizes)
            rows, numbers = made.rows, made.messages
        arrays, errors, order = [], list(rows.errors), {n: i for i, n in enumerate(rows.batch.schema.names)}
        dropped = np.zeros(rows.count, np.bool_)
        for field in self.fields:
            if field.name not in self.parts:
                arrays.append(rows.batch.column(order[field.name]))
                continue
            array, bad = found.array(self.parts[field.name], field.type)
            arrays.append(array.take(column(numbers)))
            drops = not field.nullable or self.mode is not Mode.PERMISSIVE
            dropped[bad] |= drops  # only of payloads, whose rows are the messages
            for i in bad.tolist():
                errors.append(RowError(int(starts[i]) + position, field.name, "bad_utf8", found.payload(i), drops))
        kept = np.flatnonzero(~dropped)
        chosen = [array.take(column(kept)) if dropped.any() else array for array in arrays[: self.needed]]
        schema = pa.schema([pa.field(f.name, f.type, f.nullable) for f in self.fields[: self.needed]])
        if not dropped.any():
            return replace(rows, batch=make_batch(schema, chosen, rows.count), errors=tuple(errors))
        return replace(without(rows, dropped), batch=make_batch(schema, chosen, kept.size), errors=tuple(errors))


class _Messages:
    """Messages of a buffer, and columns of them, one value for each.

    Attributes
    ----------
    payloads, payload_sizes : ndarray of int64
        Where each payload lies in the buffer.
    """

    def __init__(self, data: Bytes, starts: Places, sizes: Places) -> None:
        self._data, self._topics = data, starts + HEAD.itemsize
        head = data[starts[:, None] + np.arange(HEAD.itemsize)]
        self._heads = np.ascontiguousarray(head).view(HEAD).reshape(starts.size)
        self._topic_sizes = self._heads["topic"].astype(np.int64)
        self.payloads = self._topics + self._topic_sizes
        self.payload_sizes = sizes - HEAD.itemsize - self._topic_sizes

    def payload(self, number: int) -> bytes:
        """The payload of a message."""
        start = int(self.payloads[number])
        return self._data[start : start + int(self.payload_sizes[number])].tobytes()

    def array(self, part: str, type_: pa.DataType) -> tuple[pa.Array[Any], Places]:
        """A part of each message, and the numbers of those where it is not UTF-8."""
        match part:
            case "topic":
                return texts_of(self._bytes(self._topics, self._topic_sizes))
            case "qos":
                return pa.array((self._heads["flags"] & QOS_BITS).astype(np.int32), pa.int32()), _NONE
            case "retain":
                return pa.array((self._heads["flags"] & RETAIN_BIT) > 0), _NONE
            case "received":
                return pa.array(self._heads["received"].astype(np.int64), pa.int64()).cast(TIMESTAMP), _NONE
        found = self._bytes(self.payloads, self.payload_sizes)
        return texts_of(found) if type_ == pa.string() else (found, _NONE)

    def _bytes(self, starts: Places, sizes: Places) -> pa.BinaryArray:
        """Parts of the buffer."""
        joined, places = np.empty(int(sizes.sum()), np.uint8), np.empty(starts.size + 1, np.int64)
        join_frames(self._data, starts, sizes, -1, joined, places[:-1])
        places[-1] = joined.size
        buffers = [None, pa.py_buffer(places.data), pa.py_buffer(joined.data)]
        found: Any = pa.LargeBinaryArray.from_buffers(pa.large_binary(), starts.size, buffers)
        array: pa.BinaryArray = found.cast(pa.binary())
        return array
