"""The formats of results over HTTP: media types, and tables as bytes."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.csv

from tidemill.errors import TidemillError, nearest
from tidemill.serve.encoding import json_rows
from tidemill.serve.encoding.csv_cells import csv_cells
from tidemill.zones import UTC

if TYPE_CHECKING:
    from typing_extensions import Buffer


@dataclass(frozen=True)
class Format:
    """How rows are written.

    Attributes
    ----------
    media_type : str
    body : callable
        Of tables of one schema, at least one, and a time zone: the bytes, part by part, without the epoch.
    head : callable
        Of the epoch: what comes before.
    """

    media_type: str
    body: Callable[[Iterable[pa.Table], str], Iterable[bytes]]
    head: Callable[[int], bytes] = lambda _: b""


def _csv(tables: Iterable[pa.Table], time_zone: str = UTC) -> Iterator[bytes]:
    """A header line, then rows; NULL is an empty field, an empty text is quoted, floats have full precision."""
    options = pyarrow.csv.WriteOptions(include_header=True, quoting_style="needed")
    for i, table in enumerate(tables):
        sink = pa.BufferOutputStream()
        pyarrow.csv.write_csv(csv_cells(table, time_zone), sink, options)
        options = pyarrow.csv.WriteOptions(include_header=False, quoting_style="needed")
        if table.num_rows or not i:
            yield sink.getvalue().to_pybytes()


class _Parts(io.RawIOBase):
    """A file whose content is taken away while it is written."""

    def __init__(self) -> None:
        super().__init__()
        self.parts: list[bytes] = []

    def write(self, data: Buffer, /) -> int:
        """Append some bytes."""
        self.parts.append(bytes(data))
        return len(self.parts[-1])

    def writable(self) -> bool:
        """Whether it can be written to."""
        return True

    def take(self) -> bytes:
        """What was written since the last call."""
        found, self.parts = b"".join(self.parts), []
        return found


def _arrow(tables: Iterable[pa.Table], time_zone: str = UTC) -> Iterator[bytes]:
    """An Arrow IPC stream."""
    parts = iter(tables)
    first = next(parts)
    sink = _Parts()
    with pa.ipc.new_stream(pa.PythonFile(sink, "w"), first.schema) as writer:
        for part in chain((first,), parts):
            writer.write_table(part)
            yield sink.take()
    yield sink.take()


FORMATS = {
    "json": Format(json_rows.MEDIA_TYPE, json_rows.body, json_rows.head),
    "csv": Format("text/csv; charset=utf-8", _csv),
    "arrow": Format("application/vnd.apache.arrow.stream", _arrow),
}


def format_of(name: str) -> Format:
    """A format by its name. TM7002 when there is none."""
    if name not in FORMATS:
        raise TidemillError("TM7002", "unknown output format", got=name[:40], hint=nearest(name, FORMATS))
    return FORMATS[name]
