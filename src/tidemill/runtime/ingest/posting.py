"""Adds rows that somebody sends, as bytes of the table's format: each request once, and durable when it is answered.

The bytes become a file of the table as they are, which tasks read; so what is malformed in them is treated as in any
other file. They are kept with the batches of Spark streams, under the sender's name and number.
"""

from __future__ import annotations

import itertools
import re
import tempfile
import uuid
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa

from tidemill.errors import TidemillError
from tidemill.runtime.ingest.batches import IngestedTable
from tidemill.runtime.ingest.log import ONE_KEY, remove_all, too_much_waits, tried, unwritable
from tidemill.runtime.tables.table import Table
from tidemill.state.versions.objects import STAGED

CONTENT_TYPES = {
    "json": ("application/x-ndjson", "application/jsonl", "application/json"),
    "csv": ("text/csv",),
    "arrow": ("application/vnd.apache.arrow.stream",),
    "parquet": ("application/vnd.apache.parquet",),
}
"""What a request calls the bytes of a table's format; the first is the usual one."""

_NUMBERED = re.compile(r"(.+):(\d{1,18})")
_MOST_KEY = 200

_unnamed = (f"unnamed {uuid.uuid4().hex}", itertools.count())
"""The sender of what comes without a key: this process."""


class Posting:
    """Adds rows to one table.

    Parameters
    ----------
    table : callable
        Gives the table as it is now, or raises why nothing can be written into it.
    """

    def __init__(self, table: Callable[[], IngestedTable]) -> None:
        self._table = table

    def __call__(self, data: bytes, key: str | None = None, content_type: str = "") -> bool:
        """Add the rows of some bytes.

        Parameters
        ----------
        data : bytes
            Lines of JSON or CSV, a stream of Arrow, or a file of Parquet, as the table is ``USING``.
        key : str, optional
            What is sent again with the same key is there once. ``sender:7`` is remembered for ever, with all numbers
            of a sender; of other keys a table remembers the last 100,000.
        content_type : str
            What the sender says that the bytes are; empty if it says nothing.

        Returns
        -------
        bool
            Whether they were added; False when they are there already.

        Raises
        ------
        TidemillError
            TM5070 when too many bytes wait, TM5072 for bytes that are not what the table takes, TM5073 for a key that
            is none, TM5065 to TM5068 as for Spark streams.
        """
        target = self._table()
        data = _checked(target.table, data, content_type)
        sender, number = _sender(key)
        if target.log.has(sender, number):
            return False
        if target.waiting_bytes >= target.most_waiting:
            raise too_much_waits(target.table.name, target.waiting_bytes, target.most_waiting)
        folder = target.log.attempt()
        name = f"{folder}/{uuid.uuid4().hex}.{target.table.format}"
        try:
            _put(target, name, data)
            added = target.log.commit(sender, number, [name])
        except BaseException:
            tried(lambda: remove_all(target.log.objects, folder))
            raise
        if not added:
            tried(lambda: remove_all(target.log.objects, folder))
        return added


def _sender(key: str | None) -> tuple[str, int]:
    """Who sends, and a number of his. TM5073 for a key that is none."""
    if key is None:
        return _unnamed[0], next(_unnamed[1])
    if not key.strip() or len(key) > _MOST_KEY or not key.isprintable():
        raise TidemillError(
            "TM5073",
            "the key of a request is not understood",
            got=repr(key[:_MOST_KEY]),
            hint=f"1 to {_MOST_KEY} letters, digits and signs, such as sender:7",
        )
    found = _NUMBERED.fullmatch(key)
    return (f"sender {found[1]}", int(found[2])) if found else (f"{ONE_KEY}{key}", 0)


def _put(target: IngestedTable, name: str, data: bytes) -> None:
    """Put a file into the root, whole or not at all. TM5066 when that is not possible."""
    path = target.log.objects.path(name)
    place = None if path is None else path.parent
    try:
        if place is not None:
            place.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=place, prefix=".", suffix=STAGED) as staged:
            staged.write(data)
            staged.flush()
            target.log.objects.put(name, Path(staged.name))
    except OSError as error:
        raise unwritable(name, error) from error


def _checked(table: Table, data: bytes, content_type: str) -> bytes:
    """The bytes of a file of the table. TM5072 for bytes that it does not take, TM5068 for other columns."""
    taken = CONTENT_TYPES[table.format]
    plain = content_type.partition(";")[0].strip().lower()
    if plain and plain not in taken:
        raise _not_taken(f"{plain} for {table.name}, USING {table.format}", f"Content-Type: {' or '.join(taken)}")
    if not data:
        raise _not_taken(f"no bytes for {table.name}", "rows in the format of the table")
    return _arrow_file(table, data) if table.format == "arrow" else data


def _arrow_file(table: Table, data: bytes) -> bytes:
    """A stream of Arrow as a file with the columns of the table, by name."""
    schema = table.source().schema.to_arrow()
    sink = pa.BufferOutputStream()
    try:
        with pa.ipc.open_stream(data) as stream, pa.ipc.new_file(sink, schema) as file:
            given = {name.lower(): name for name in stream.schema.names}
            if given.keys() != {f.name.lower() for f in schema} or len(given) < len(stream.schema.names):
                raise TidemillError(
                    "TM5068",
                    "the columns of a batch are not those of the table",
                    got=f"{table.name}: {', '.join(stream.schema.names)}",
                    hint=f"the columns of the table: {', '.join(schema.names)}",
                )
            for batch in stream:
                columns = [batch.column(given[f.name.lower()]).cast(f.type) for f in schema]
                file.write_batch(pa.RecordBatch.from_arrays(columns, schema=schema))
    except (pa.ArrowException, ValueError) as error:
        raise _not_taken(f"{table.name}: {str(error).splitlines()[0]}", "a stream of Arrow with its columns") from error
    return bytes(sink.getvalue())


def _not_taken(got: str, hint: str) -> TidemillError:
    return TidemillError("TM5072", "these bytes are no rows that the table takes", got=got, hint=hint)
