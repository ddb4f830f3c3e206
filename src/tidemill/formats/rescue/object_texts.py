"""JSON objects of names and texts, one for each row that has some.

Plain twin: ``json.dumps`` of a dict with ``ensure_ascii=False``, but for the blanks.
"""

from __future__ import annotations

# mypy: allow-untyped-defs
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidemill.formats.rows.malformed import check_size
from tidemill.formats.values.texts.texts import is_utf8
from tidemill.kernels.byte_masks import byte_at, item_at, kernel, put_item
from tidemill.kernels.columns import values_of

Bytes = npt.NDArray[np.uint8]
Longs = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Pieces:
    """Texts of one name or of many.

    Attributes
    ----------
    rows, fields : ndarray of int64, shape (pieces,)
        Which row each belongs to, and where it stands in it: no place is taken twice.
    data : ndarray of uint8
    starts, ends : ndarray of int64, shape (pieces,)
    """

    rows: Longs
    fields: Longs
    data: Bytes
    starts: Longs
    ends: Longs

    def only(self, chosen: npt.NDArray[np.bool_]) -> Pieces:
        """Some of them."""
        return Pieces(self.rows[chosen], self.fields[chosen], self.data, self.starts[chosen], self.ends[chosen])


def json_text(text: str) -> str:
    """A text as JSON, in UTF-8 where that can hold it."""
    found = json.dumps(text, ensure_ascii=False)
    return json.dumps(text) if any("\ud800" <= c <= "\udfff" for c in found) else found


def pieces_of(texts: pa.Array[Any], rows: Longs, fields: Longs) -> Pieces:
    """An array of strings or binaries as pieces, one for each value."""
    _, offsets, data = texts.buffers()
    places = values_of(offsets, np.int32)[texts.offset :][: len(texts) + 1].astype(np.int64)
    held = values_of(data, np.uint8) if data is not None else np.empty(0, np.uint8)
    return Pieces(rows, fields, held, places[:-1], places[1:])


def pieces_of_bytes(texts: Sequence[bytes], rows: Longs, fields: Longs) -> Pieces:
    """Some texts as pieces."""
    ends = np.cumsum([len(text) for text in texts], dtype=np.int64)
    starts = np.concatenate([np.zeros(1, np.int64), ends])[: len(texts)]
    return Pieces(rows, fields, np.frombuffer(b"".join(texts), np.uint8), starts, ends)


def write_objects(found: Sequence[Pieces], rows: int, names: Sequence[bytes]) -> pa.Array[Any]:
    """Objects by row, NULL for rows without a piece; bytes that are not UTF-8 become U+FFFD.

    Parameters
    ----------
    names : sequence of bytes
        Of each field, as JSON.
    """
    parts = [p for p in found if p.rows.size]
    if not parts:
        return pa.nulls(rows, pa.string())
    bases = np.cumsum([0, *(p.data.size for p in parts)])
    data = parts[0].data if len(parts) == 1 else np.concatenate([p.data for p in parts])
    row = np.concatenate([p.rows for p in parts])
    place = np.concatenate([p.fields for p in parts])
    starts = np.concatenate([p.starts + base for p, base in zip(parts, bases, strict=False)])
    ends = np.concatenate([p.ends + base for p, base in zip(parts, bases, strict=False)])
    after = (row[1:] > row[:-1]) | ((row[1:] == row[:-1]) & (place[1:] > place[:-1]))
    if not after.all():
        order = np.lexsort((place, row))
        row, place, starts, ends = row[order], place[order], starts[order], ends[order]
    sizes = np.empty(row.size, np.int64)
    if measure_texts(data, starts, ends, sizes):
        data = _replace_bad(data, starts, ends, sizes)
        measure_texts(data, starts, ends, sizes)
    name_data = np.frombuffer(b"".join(names), np.uint8)
    name_ends = np.cumsum([len(name) for name in names], dtype=np.int64)
    name_starts = np.concatenate([np.zeros(1, np.int64), name_ends])[:-1]
    # `{` or `,`, the name, a colon, two quotes, and the text; and `}` behind the last one.
    sizes += 4 + (name_ends - name_starts)[place]
    total = np.bincount(row, sizes, rows).astype(np.int64)
    total += total > 0
    check_size(int(total.sum()), 0)
    offsets = np.zeros(rows + 1, np.int32)
    np.cumsum(total, out=offsets[1:])
    out = np.empty(int(offsets[-1]), np.uint8)
    write_texts(data, row, place, starts, ends, name_data, name_starts, name_ends, offsets, out)
    validity = pa.py_buffer(np.packbits(total > 0, bitorder="little").data)
    return pa.Array.from_buffers(pa.string(), rows, [validity, pa.py_buffer(offsets.data), pa.py_buffer(out.data)])


def _replace_bad(data: Bytes, starts: Longs, ends: Longs, sizes: Longs) -> Bytes:
    """The bytes with texts behind them that replace those that are not UTF-8; changes where they lie."""
    texts = [data]
    size = data.size
    for piece in np.flatnonzero(sizes < 0).tolist():
        text = data[starts[piece] : ends[piece]].tobytes().decode("utf-8", "replace").encode()
        texts.append(np.frombuffer(text, np.uint8))
        starts[piece], ends[piece] = size, size + len(text)
        size += len(text)
    return np.concatenate(texts)


def _written() -> tuple[Bytes, Bytes]:
    """How many bytes each byte is written as, and the letter behind the backslash where these are two."""
    sizes, letters = np.ones(256, np.uint8), np.zeros(256, np.uint8)
    sizes[:32] = 6
    for byte, letter in zip(b'"\\\b\f\n\r\t', b'"\\bfnrt', strict=True):
        sizes[byte], letters[byte] = 2, letter
    return sizes, letters


_SIZES, _LETTERS = _written()


@kernel
def measure_texts(data, starts, ends, sizes):
    """How many bytes texts have with the escapes of JSON; -1 for one that is not UTF-8. Returns how many are not."""
    bad = 0
    for piece in range(starts.size):
        start, end = item_at(starts, piece), item_at(ends, piece)
        size = np.int64(0)
        high = np.int64(0)
        for at in range(start, end):
            c = byte_at(data, at)
            size += byte_at(_SIZES, c)
            high |= c
        if high & 0x80 and not is_utf8(data, start, end):
            size = np.int64(-1)
            bad += 1
        put_item(sizes, piece, size)
    return bad


@kernel
def write_texts(data, rows, fields, starts, ends, name_data, name_starts, name_ends, offsets, out):
    """Write objects.

    Parameters
    ----------
    data, starts, ends
        The texts, valid UTF-8.
    rows, fields : ndarray of int64, shape (pieces,)
        In this order ascending.
    name_data, name_starts, name_ends
        The names of fields, as they are written.
    offsets : ndarray of int32
        Where each row's object begins and ends.
    out : ndarray of uint8
    """
    cursor = np.int64(0)
    for piece in range(rows.size):
        row, field = rows[piece], fields[piece]
        begins = piece == 0 or rows[piece - 1] != row
        if begins:
            cursor = np.int64(offsets[row])
        out[cursor] = 0x7B if begins else 0x2C
        cursor += 1
        for at in range(name_starts[field], name_ends[field]):
            out[cursor] = name_data[at]
            cursor += 1
        out[cursor] = 0x3A
        out[cursor + 1] = 0x22
        cursor += 2
        for at in range(starts[piece], ends[piece]):
            c = byte_at(data, at)
            size = byte_at(_SIZES, c)
            if size == 1:
                out[cursor] = c
            else:
                out[cursor] = 0x5C
                out[cursor + 1] = byte_at(_LETTERS, c)
                if size == 6:
                    out[cursor + 1] = 0x75
                    out[cursor + 2] = 0x30
                    out[cursor + 3] = 0x30
                    out[cursor + 4] = 0x30 + (c >> 4)
                    out[cursor + 5] = (c & 15) + (0x30 if c & 15 < 10 else 0x57)
            cursor += size
        out[cursor] = 0x22
        cursor += 1
        if piece + 1 == rows.size or rows[piece + 1] != row:
            out[cursor] = 0x7D


@kernel
def gather(data, starts, ends):
    """Pieces of a buffer behind one another."""
    total = np.int64(0)
    for i in range(starts.size):
        total += ends[i] - starts[i]
    out = np.empty(total, np.uint8)
    cursor = np.int64(0)
    for i in range(starts.size):
        length = ends[i] - starts[i]
        out[cursor : cursor + length] = data[starts[i] : ends[i]]
        cursor += length
    return out
