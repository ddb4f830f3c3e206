"""From native rows to Arrow arrays: strided views and byte swaps, no loop over rows in Python."""

from __future__ import annotations

# mypy: allow-untyped-defs
import struct
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidemill.formats.base import RowError, Rows
from tidemill.formats.native.layout import SIZE_BYTES, Layout, Place
from tidemill.formats.records.sized_records import Bytes, Places
from tidemill.formats.rows.checked_columns import make_batch
from tidemill.formats.rows.malformed import Flaw, Mode, check_size, fail_fast, first_bad_byte
from tidemill.formats.text.line_ends import NO_BYTE
from tidemill.formats.values.field_text import BAD_UTF8, BAD_VALUE, NULL, VALID
from tidemill.formats.values.texts.texts import SLACK, copy_texts
from tidemill.formats.values.times.times import FIRST_MICROS, LAST_MICROS, MICROS_PER_DAY
from tidemill.kernels.byte_masks import kernel
from tidemill.schema import TIMESTAMP, TIMESTAMP_NTZ

_NO_TEXT = np.empty(0, np.uint8)
_TIMES = {
    pa.date32(): (FIRST_MICROS // MICROS_PER_DAY, LAST_MICROS // MICROS_PER_DAY, "bad_date"),
    TIMESTAMP: (FIRST_MICROS, LAST_MICROS, "bad_timestamp"),
    TIMESTAMP_NTZ: (FIRST_MICROS, LAST_MICROS, "bad_timestamp_ntz"),
}
"""First and last value of a type, and the reason why another one is malformed: the years 1 to 9999."""
Status = npt.NDArray[np.uint8]


@kernel
def gather_fields(buf, starts, width, out):
    """Copy ``width`` bytes from each of ``starts`` to ``out``, one behind the other; all lie within ``buf``."""
    cursor = 0
    for row in range(starts.size):
        at = starts[row]
        for k in range(width):
            out[cursor] = buf[at + k]
            cursor += 1


@kernel
def strip_zeros(buf, starts, width, ends):
    """Where each field of ``width`` bytes ends when zeros at its end do not count."""
    for row in range(starts.size):
        end = starts[row] + width
        while end > starts[row] and buf[end - 1] == 0:
            end -= 1
        ends[row] = end


@dataclass(frozen=True)
class _Buffer:
    """Rows whose bodies begin at ``starts``; with ``stride`` at ``0, stride, 2 * stride, ...`` of the buffer."""

    data: Bytes
    starts: Places
    stride: int | None

    def field(self, offset: int, dtype: np.dtype[Any]) -> npt.NDArray[Any]:
        """The values of a field, in native byte order and one behind the other."""
        count = self.starts.size
        if not count:
            return np.empty(0, dtype.newbyteorder("="))
        if self.stride is not None:
            strided: npt.NDArray[Any] = np.ndarray((count,), dtype, self.data, offset, (self.stride,))
        else:
            raw = np.empty(count * dtype.itemsize, np.uint8)
            gather_fields(self.data, self.starts + offset, dtype.itemsize, raw)
            strided = raw.view(dtype)
        return strided.astype(dtype.newbyteorder("="), copy=True)


@dataclass(frozen=True)
class NativeBuilder:
    """Makes rows of whole native rows.

    Attributes
    ----------
    places : tuple of Place
        The needed columns in the order of the output, then those that decide whether a row is kept.
    needed : int
        How many of ``places`` go into the batch.
    """

    layout: Layout
    places: tuple[Place, ...]
    needed: int

    @property
    def mode(self) -> Mode:
        """What happens to malformed rows."""
        return self.layout.mode

    def rows_of(self, data: Bytes, position: int) -> Rows:
        """Rows of fixed width; ``data`` is a whole number of them, from ``position`` in the file on."""
        width = self.layout.fixed
        starts = np.arange(data.size // width, dtype=np.int64) * width
        return self._build(_Buffer(data, starts, width), position, starts, np.full(starts.size, width, np.int64))

    def build(self, data: Bytes, position: int, starts: Places, sizes: Places) -> Rows:
        """See :meth:`tidemill.formats.records.sized_records.RecordBuilder.build`; sizes are at least
        ``layout.fixed``."""
        return self._build(_Buffer(data, starts, None), position, starts - SIZE_BYTES, sizes)

    def _build(self, buffer: _Buffer, position: int, begins: Places, sizes: Places) -> Rows:
        check_size(buffer.data.size, position)
        flaws: list[Flaw] = []
        arrays = []
        for place in self.places:
            null = self._nulls(buffer, place)
            array, status, reasons = self._column(buffer, sizes, place, null)
            arrays.append(array)
            field = place.field
            for code, reason in reasons.items():
                for row in np.flatnonzero(status == code):
                    reason_ = reason if field.nullable else "null_in_not_null"
                    flaws.append(Flaw(int(row), place.ordinal, field.name, reason_, not field.nullable))
            if not field.nullable:
                for row in np.flatnonzero(null):
                    flaws.append(Flaw(int(row), place.ordinal, field.name, "null_in_not_null", True))
        ends = buffer.starts + sizes
        positions = begins + position
        if not flaws:
            return self._rows(arrays, positions, (), lambda row: _raw(buffer, begins, ends, row))
        dropped = {f.row for f in flaws if f.drops or self.mode is Mode.DROPMALFORMED}
        errors = tuple(
            RowError(
                int(positions[f.row]),
                f.column,
                f.reason,
                _raw(buffer, begins, ends, f.row),
                f.row in dropped,
                position + self._place(buffer, int(sizes[f.row]), f),
            )
            for f in sorted(flaws, key=lambda f: (f.row, f.ordinal))
        )
        fail_fast(self.mode, errors)
        kept = np.array([r for r in range(positions.size) if r not in dropped], np.int64)
        if dropped:
            arrays = [array.take(kept) for array in arrays]
        return self._rows(arrays, positions[kept], errors, lambda row: _raw(buffer, begins, ends, int(kept[row])))

    def _place(self, buffer: _Buffer, size: int, flaw: Flaw) -> int:
        """Offset of a flaw: the first byte of its field, or of its text that is not UTF-8."""
        place = next(p for p in self.places if p.ordinal == flaw.ordinal)
        start = int(buffer.starts[flaw.row])
        body = buffer.data[start : start + size].tobytes()
        if place.field.type != pa.string() or (self.layout.bitmap and body[flaw.ordinal // 8] >> flaw.ordinal % 8 & 1):
            return start + place.offset
        begin, length = place.offset, place.width
        if place.variable:
            begin, length = struct.unpack_from(">II" if self.layout.big else "<II", body, place.offset)
            if begin < self.layout.fixed or begin + length > size:
                return start + place.offset
        text = body[begin : begin + length]
        return start + begin + first_bad_byte(text if place.variable else text.rstrip(b"\0"))

    def _rows(self, arrays: list[Any], positions: Places, errors: tuple[RowError, ...], raw: Any) -> Rows:
        count = positions.size
        batch = make_batch([p.field for p in self.places[: self.needed]], arrays[: self.needed], count)
        return Rows(batch, count, positions, errors, raw)

    def _nulls(self, buffer: _Buffer, place: Place) -> npt.NDArray[np.bool_]:
        if not self.layout.bitmap:
            return np.zeros(buffer.starts.size, np.bool_)
        bits = buffer.field(place.ordinal // 8, np.dtype(np.uint8))
        return (bits >> np.uint8(place.ordinal % 8) & np.uint8(1)).astype(np.bool_)

    def _column(
        self, buffer: _Buffer, sizes: Places, place: Place, null: npt.NDArray[np.bool_]
    ) -> tuple[Any, Status, dict[int, str]]:
        """The array of a column, what became of each row, and the reasons by outcome."""
        type_ = place.field.type
        status = np.where(null, np.uint8(NULL), np.uint8(VALID))
        if type_ in (pa.string(), pa.binary()):
            return self._texts(buffer, sizes, place, null)
        values: npt.NDArray[Any]
        reasons: dict[int, str] = {}
        if type_ == pa.bool_():
            found = buffer.field(place.offset, np.dtype(np.uint8))
            status[(found > 1) & ~null] = BAD_VALUE
            values, reasons = np.packbits(found == 1, bitorder="little"), {BAD_VALUE: "bad_bool"}
        elif pa.types.is_decimal128(type_):
            values = self._decimals(buffer, place)
            status[_too_long(values, type_.precision) & ~null] = BAD_VALUE
            reasons = {BAD_VALUE: "bad_decimal"}
        else:
            kind = "f" if pa.types.is_floating(type_) else "i"
            values = buffer.field(place.offset, self._dtype(kind, place.width))
            if type_ in _TIMES:
                first, last, reason = _TIMES[type_]
                status[((values < first) | (values > last)) & ~null] = BAD_VALUE
                reasons = {BAD_VALUE: reason}
        valid = _validity(status)
        return pa.Array.from_buffers(type_, status.size, [valid, pa.py_buffer(values.data)]), status, reasons

    def _dtype(self, kind: str, width: int) -> np.dtype[Any]:
        return np.dtype(f"{'>' if self.layout.big else '<'}{kind}{width}")

    def _decimals(self, buffer: _Buffer, place: Place) -> npt.NDArray[np.int64]:
        """Low and high halves of 128-bit integers."""
        out = np.empty((buffer.starts.size, 2), np.int64)
        if place.width < 16:
            out[:, 0] = buffer.field(place.offset, self._dtype("i", place.width))
            out[:, 1] = out[:, 0] >> 63
        else:
            low, high = (8, 0) if self.layout.big else (0, 8)
            out[:, 0] = buffer.field(place.offset + low, self._dtype("i", 8))
            out[:, 1] = buffer.field(place.offset + high, self._dtype("i", 8))
        return out

    def _texts(
        self, buffer: _Buffer, sizes: Places, place: Place, null: npt.NDArray[np.bool_]
    ) -> tuple[Any, Status, dict[int, str]]:
        count = buffer.starts.size
        outside = np.zeros(count, np.bool_)
        if place.variable:
            offsets = buffer.field(place.offset, self._dtype("u", 4)).astype(np.int64)
            lengths = buffer.field(place.offset + 4, self._dtype("u", 4)).astype(np.int64)
            outside = (offsets < self.layout.fixed) | (offsets + lengths > sizes)
            starts = buffer.starts + offsets
            ends = starts + lengths
        else:
            starts = buffer.starts + place.offset
            ends = starts + place.width
            if place.field.type == pa.string():
                ends = np.empty(count, np.int64)
                strip_zeros(buffer.data, starts, place.width, ends)
        missing = null | outside
        starts = np.where(missing, 0, starts).astype(np.int32)
        ends = np.where(missing, -1, ends).astype(np.int32)
        # Each value lies in its row, so together they are no longer than the buffer.
        total = int(np.subtract(ends, starts, dtype=np.int64)[~missing].sum())
        out = np.empty(total + SLACK, np.uint8)
        bounds = np.empty(count + 1, np.int32)
        status = np.empty(count, np.uint8)
        utf8 = place.field.type == pa.string()
        copy_texts(buffer.data, starts, ends, NO_BYTE, 0, _NO_TEXT, utf8, True, out, 0, bounds, status)
        status[(status == NULL) & ~missing] = VALID  # an empty value is no NULL here
        status[outside & ~null] = BAD_VALUE
        buffers = [_validity(status), pa.py_buffer(bounds.data), pa.py_buffer(out[: bounds[-1]].data)]
        array = pa.Array.from_buffers(place.field.type, count, buffers)
        return array, status, {BAD_UTF8: "bad_utf8", BAD_VALUE: "bad_offset"}


def _raw(buffer: _Buffer, begins: Places, ends: Places, row: int) -> bytes:
    return buffer.data[begins[row] : ends[row]].tobytes()


def _validity(status: Status) -> pa.Buffer | None:
    if not status.any():
        return None
    return pa.py_buffer(np.packbits(status == VALID, bitorder="little").data)


def _too_long(values: npt.NDArray[np.int64], precision: int) -> npt.NDArray[np.bool_]:
    """Whether 128-bit integers (low, high) have more than so many digits."""
    most = 10**precision - 1
    low, high = values[:, 0].astype(np.uint64), values[:, 1]
    above_high, above_low = most >> 64, np.uint64(most & (2**64 - 1))
    below_high, below_low = -most >> 64, np.uint64(-most & (2**64 - 1))
    above = (high > above_high) | ((high == above_high) & (low > above_low))
    below = (high < below_high) | ((high == below_high) & (low < below_low))
    return np.asarray(above | below)
