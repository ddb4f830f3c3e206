"""Batches of rows as COPY gives them: in the formats text, csv and binary, all rows of a batch at once."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from tidemill.serve.postgres.values.data_rows import cells_of, messages, parts_of
from tidemill.serve.postgres.values.pg_types import PgType
from tidemill.serve.postgres.values.text_cells import text_cells
from tidemill.task.functions.columns.compute import buffer, pc

_SIGNATURE = b"PGCOPY\n\xff\r\n\0" + struct.pack("!ii", 0, 0)
_TRAILER = struct.pack("!h", -1)
_HEAD = np.dtype([("kind", "S1"), ("length", ">i4")])
_ESCAPES = {"\\": "\\\\", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\v": "\\v"}


@dataclass(frozen=True)
class CopyFormat:
    """How COPY writes rows.

    Attributes
    ----------
    kind : str
        ``text``, ``csv`` or ``binary``; what follows is for the first two, or for csv alone.
    forced : tuple of str
        Columns whose values stand in quotes whatever they are, in lower case; ``*`` for all.
    """

    kind: str = "text"
    delimiter: str = "\t"
    null: str = "\\N"
    header: bool = False
    quote: str = '"'
    escape: str = '"'
    forced: tuple[str, ...] = ()

    @property
    def is_binary(self) -> bool:
        """Whether values are those of the send functions."""
        return self.kind == "binary"


def copy_rows(
    batches: Iterator[pa.RecordBatch], columns: Sequence[tuple[str, PgType]], given: CopyFormat, zone: str
) -> Iterator[tuple[int, Sequence[memoryview | bytes]]]:
    """CopyData messages, one for each row, header and trailer.

    Parameters
    ----------
    batches : iterator of RecordBatch
        Rows; what lies behind the columns is left out.
    zone : str
        Whose clock texts show.

    Yields
    ------
    int, sequence of bytes
        A number of rows, and their messages in parts of some megabytes, unless one row is longer. Of each batch once.
    """
    make = _binary if given.is_binary else _texts
    yield from make(batches, columns, given, zone)


def _binary(
    batches: Iterator[pa.RecordBatch], columns: Sequence[tuple[str, PgType]], _: CopyFormat, zone: str
) -> Iterator[tuple[int, Sequence[memoryview | bytes]]]:
    types = [t for _, t in columns]
    head = _SIGNATURE
    for batch in batches:
        for part in parts_of(batch) if batch.num_rows else ():
            data = memoryview(messages(b"d", cells_of(part, types, [True] * len(types), zone), part.num_rows))
            if head:  # it comes in the message of the first row
                end = 1 + struct.unpack_from("!i", data, 1)[0]
                yield part.num_rows, (_message(head + data[5:end]), data[end:])
                head = b""
            else:
                yield part.num_rows, (data,)
    yield 0, (_message(head + _TRAILER),)


def _message(content: bytes) -> bytes:
    return b"d" + struct.pack("!i", len(content) + 4) + content


def _texts(
    batches: Iterator[pa.RecordBatch], columns: Sequence[tuple[str, PgType]], given: CopyFormat, zone: str
) -> Iterator[tuple[int, Sequence[memoryview | bytes]]]:
    write = _quoted if given.kind == "csv" else _escaped
    alone = len(columns) == 1
    if given.header:
        names = [write(pa.array([name], pa.string()), given, False, alone)[0].as_py() for name, _ in columns]
        yield 0, (_message((given.delimiter.join(names) + "\n").encode()),)
    forced = ["*" in given.forced or name.lower() in given.forced for name, _ in columns]
    for batch in batches:
        for part in parts_of(batch) if batch.num_rows else ():
            cells = [
                write(text_cells(column, zone), given, force, alone).fill_null(given.null)
                for column, force in zip(part.columns, forced, strict=False)
            ]
            yield part.num_rows, (memoryview(_lines(cells, given.delimiter, part.num_rows)),)


def _lines(cells: Sequence[pa.Array[Any]], delimiter: str, rows: int) -> pa.Buffer:
    """A message for each row: its cells with delimiters between, and the end of a line."""
    length = np.full(rows, 4 + max(1, len(cells)), np.int64)
    for cell in cells:
        length += pc.binary_length(cell).to_numpy()
    head = np.empty(rows, _HEAD)
    head["kind"], head["length"] = b"d", length
    ends = np.arange(rows + 1, dtype=np.int32) * np.int32(_HEAD.itemsize)
    heads = pa.Array.from_buffers(pa.binary(), rows, [None, buffer(ends), buffer(head)])
    pieces: list[Any] = []
    for number, cell in enumerate(cells):
        pieces += [delimiter.encode()] * bool(number) + [cell.cast(pa.binary())]
    joined = pc.binary_join_element_wise(heads, *pieces, b"\n", b"")
    data = joined.buffers()[2]
    return pa.py_buffer(b"") if data is None else data.slice(0, int(length.sum()) + rows)


def _escaped(texts: pa.Array[Any], given: CopyFormat, _forced: bool, _alone: bool) -> pa.Array[Any]:
    """Texts with a backslash before what would end a value or a line."""
    escapes = {**_ESCAPES, **({} if given.delimiter in _ESCAPES else {given.delimiter: f"\\{given.delimiter}"})}
    if not _any(texts, _one_of(*escapes)):
        return texts
    for character, escape in escapes.items():
        texts = pc.replace_substring(texts, character, escape)
    return texts


def _quoted(texts: pa.Array[Any], given: CopyFormat, forced: bool, alone: bool) -> pa.Array[Any]:
    """Texts in quotes where they have a delimiter, a quote or an end of line, or look like NULL."""
    if forced:
        return _in_quotes(texts, given)
    needed = pc.or_(
        pc.match_substring_regex(texts, _one_of(given.delimiter, given.quote, "\r", "\n")), pc.equal(texts, given.null)
    )
    if alone:
        needed = pc.or_(needed, pc.equal(texts, "\\."))  # which would end the rows of COPY FROM
    if not pc.any(needed).as_py():
        return texts
    return pc.if_else(needed.fill_null(False), _in_quotes(texts, given), texts)


def _in_quotes(texts: pa.Array[Any], given: CopyFormat) -> pa.Array[Any]:
    for character in dict.fromkeys((given.escape, given.quote)):
        texts = pc.replace_substring(texts, character, given.escape + character)
    return pc.binary_join_element_wise(given.quote, texts, given.quote, "")


def _any(texts: pa.Array[Any], pattern: str) -> bool:
    return bool(pc.any(pc.match_substring_regex(texts, pattern)).as_py())


def _one_of(*characters: str) -> str:
    return "[" + "".join(f"\\x{ord(c):02x}" for c in dict.fromkeys(characters)) + "]"
