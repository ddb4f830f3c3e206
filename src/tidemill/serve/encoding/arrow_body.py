"""Rows in the body of a request, as an Arrow stream from whom nothing is known."""

from __future__ import annotations

import struct

import pyarrow as pa

from tidemill.errors import TidemillError

ARROW = "application/vnd.apache.arrow.stream"


def rows_in(body: bytes) -> pa.RecordBatch:
    """The rows of an Arrow stream, whose buffers have been checked.

    Batches must not be compressed, nor columns be dictionaries: a small body cannot become many rows.

    Raises
    ------
    TidemillError
        TM8011 for what is no such stream.
    """
    try:
        reader = pa.ipc.MessageReader.open_stream(pa.BufferReader(body))
        schema = pa.ipc.read_schema(reader.read_next_message())
        found = [_batch(message, schema, len(body)) for message in reader]
    except (pa.ArrowException, OSError, EOFError, ValueError, StopIteration, struct.error) as error:
        raise TidemillError(
            "TM8011",
            "the request has not the right form",
            got=f"body: {' '.join(str(error).split())[:200] or 'empty'}",
            hint=f"an Arrow IPC stream ({ARROW}) without compression and dictionaries",
        ) from error
    batches = pa.Table.from_batches(found, schema).combine_chunks().to_batches()
    return batches[0] if batches else pa.RecordBatch.from_pylist([], schema=schema)


def _batch(message: pa.ipc.Message, schema: pa.Schema, most: int) -> pa.RecordBatch:
    if message.type != "record batch":
        raise ValueError(f"a message of the type {message.type}")
    if _is_compressed(message.metadata.to_pybytes()):
        raise ValueError("a compressed batch")
    batch = pa.ipc.read_record_batch(message, schema)
    batch.validate(full=True)
    if batch.num_rows > 8 * most:  # a column of NULLs has no buffers
        raise ValueError(f"{batch.num_rows} rows in {most} bytes")
    return batch


def _is_compressed(metadata: bytes) -> bool:
    """Whether the header of a batch, in FlatBuffers, has the field ``compression``.

    ``Message.header`` is field 2, ``RecordBatch.compression`` field 3:
    https://github.com/apache/arrow/blob/main/format/Message.fbs
    """
    (root,) = struct.unpack_from("<I", metadata, 0)
    at = root + _field(metadata, root, 2)
    (header,) = struct.unpack_from("<I", metadata, at)
    return _field(metadata, at + header, 3) > 0


def _field(metadata: bytes, table: int, number: int) -> int:
    """Where a field is, from the beginning of its table; 0 when it is not there."""
    (back,) = struct.unpack_from("<i", metadata, table)
    entries = table - back
    (size,) = struct.unpack_from("<H", metadata, entries)
    at = 4 + 2 * number
    return int(struct.unpack_from("<H", metadata, entries + at)[0]) if at < size else 0
