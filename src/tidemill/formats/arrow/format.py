"""Arrow IPC files: columns are matched and cast, not parsed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from io import IOBase
from typing import IO, cast

import pyarrow as pa

from tidemill.formats.base import Rows
from tidemill.formats.columnar.rows import (
    COLUMNAR_OPTIONS,
    ColumnChoice,
    column_choice,
    in_bounds,
    unreadable,
    validate_columnar,
)
from tidemill.schema import Schema

_HINT = "an IPC file (or Feather V2), not a stream; write it again, or leave it out with a glob"


class ArrowFormat:
    """Rows of Arrow IPC files, in the order of the file. Columns, types and modes as in Parquet files.

    **Splits.** A file is one split: where its record batches lie, and how many rows those before have, is known only
    to who reads them. The position of a row is its number in the file.
    """

    name = "arrow"
    option_names = COLUMNAR_OPTIONS.keys

    def validate(self, schema: Schema, options: Mapping[str, str]) -> None:
        """See :meth:`tidemill.formats.base.Format.validate`."""
        validate_columnar(schema, options)

    def reads_whole_files(self, schema: Schema, options: Mapping[str, str]) -> bool:
        """See :class:`tidemill.formats.base.WholeFiles`."""
        return True

    def reader(self, schema: Schema, options: Mapping[str, str], needed: Sequence[str]) -> ArrowReader:
        """See :meth:`tidemill.formats.base.Format.reader`."""
        return ArrowReader(column_choice(schema, options, needed))


class ArrowReader:
    """See :class:`tidemill.formats.base.FileRowReader`."""

    def __init__(self, choice: ColumnChoice) -> None:
        self._choice = choice

    def rows(self, file: IO[bytes], *, start: int, end: int, file_size: int) -> Iterator[Rows]:
        """See :meth:`tidemill.formats.base.FileRowReader.rows`; a split from byte 0 on owns all rows.

        Raises
        ------
        FormatError
            TM4041 for a damaged file, TM4042 to TM4044 for columns that do not fit, TM4020 in mode FAILFAST.
        """
        if start > 0 or end <= 0 < file_size:
            return
        with unreadable("arrow", _HINT):
            schema = _opened(file).schema
            columns = self._choice.of(schema)
            chosen = [schema.get_field_index(name) for name in columns.names] or _smallest(schema)
            file.seek(0)
            batches = _opened(file, pa.ipc.IpcReadOptions(included_fields=chosen, use_threads=False))
            count = batches.num_record_batches
        first = 0
        for number in range(count):
            with unreadable("arrow", _HINT):
                batch = batches.get_batch(number)
                batch.validate(full=True)
            for part in in_bounds(batch):
                yield columns.rows(part, first)
                first += part.num_rows


def file_schema(file: IO[bytes]) -> pa.Schema:
    """The columns of a file, from its footer. TM4041 for a damaged file."""
    with unreadable("arrow", _HINT):
        return _opened(file).schema


def _opened(file: IO[bytes], options: pa.ipc.IpcReadOptions | None = None) -> pa.ipc.RecordBatchFileReader:
    return pa.ipc.open_file(cast("IOBase", file), options=options)


def _smallest(schema: pa.Schema) -> list[int]:
    """The column to read when none is needed, so that damage is found though rows are only counted."""
    widths = [f.type.bit_width if pa.types.is_primitive(f.type) else 1 << 20 for f in schema]
    return [widths.index(min(widths))] if widths else []
