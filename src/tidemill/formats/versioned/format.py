"""Data files of Delta and Iceberg tables: Parquet, and what their table says of them besides."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import IO, Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidemill.connectors.iceberg.options import ICEBERG_OPTIONS
from tidemill.connectors.versioned.data_file import DataFile, Reading
from tidemill.errors import FormatError
from tidemill.formats.base import Rows
from tidemill.formats.columnar.rows import (
    COLUMNAR_OPTIONS,
    ColumnChoice,
    column_choice,
    unreadable,
    validate_columnar,
)
from tidemill.formats.parquet.format import ParquetReader
from tidemill.objectstore.connection import CONNECTION_OPTIONS
from tidemill.schema import Field, Schema, type_to_ddl

DELTA, ICEBERG = "delta", "iceberg"
VERSIONED = frozenset({DELTA, ICEBERG})


class DeltaFormat:
    """Rows of the data files of Delta tables, which are Parquet.

    As :class:`tidemill.formats.parquet.format.ParquetFormat` says.

    Partition columns are not in the files. Their values come from the log, with the file; TM4043 for one that the
    declared type cannot hold.
    """

    name = DELTA
    option_names = COLUMNAR_OPTIONS.keys | CONNECTION_OPTIONS.keys

    def validate(self, schema: Schema, options: Mapping[str, str]) -> None:
        """See :meth:`tidemill.formats.base.Format.validate`."""
        validate_columnar(schema, options)

    def reader(self, schema: Schema, options: Mapping[str, str], needed: Sequence[str]) -> DataFileReader:
        """See :meth:`tidemill.formats.base.Format.reader`."""
        return DataFileReader(column_choice(schema, options, needed))


class IcebergFormat(DeltaFormat):
    """Rows of the data files of Iceberg tables, which are Parquet.

    As :class:`tidemill.formats.parquet.format.ParquetFormat` says, but for how columns are found: by the identifiers
    that the table has given them, so that files from before a column was renamed have it, too.
    """

    name = ICEBERG
    option_names = COLUMNAR_OPTIONS.keys | CONNECTION_OPTIONS.keys | ICEBERG_OPTIONS.keys


@dataclass(frozen=True)
class DataFileReader:
    """See :class:`tidemill.formats.base.FileRowReader`."""

    choice: ColumnChoice

    def rows(self, file: IO[bytes], *, start: int, end: int, file_size: int) -> Iterator[Rows]:
        """See :meth:`tidemill.formats.base.FileRowReader.rows`; the file is a :class:`DataFile`."""
        data = cast("DataFile", file)
        fields = {field.name.lower(): field for field in self.choice.schema}
        constants = {
            fields[name.lower()].name: _value(fields[name.lower()], text)
            for name, text in data.beside.partition.items()
            if name.lower() in fields
        }
        ids = {fields[n.lower()].name: id_ for n, id_ in data.beside.ids.items() if n.lower() in fields}
        names = {
            fields[n.lower()].name: tuple(others) for n, others in data.beside.names.items() if n.lower() in fields
        }
        choice = replace(self.choice, constants=constants, ids=ids, names=names)
        reading = data.beside.reading
        if reading is Reading.CHANGES:
            choice = replace(choice, schema=Schema((*choice.schema, _CHANGE)), needed=(*choice.needed, _CHANGE.name))
        for rows in ParquetReader(choice).rows(data.stream, start=start, end=end, file_size=file_size):
            if reading is Reading.CHANGES:
                yield _changes(rows)
            elif reading is Reading.REMOVED:
                yield replace(rows, weights=np.full(rows.count, -1, np.int64))
            else:
                yield rows


_CHANGE = Field("_change_type", pa.string())
_WEIGHTS = {"insert": 1, "update_postimage": 1, "delete": -1, "update_preimage": -1}
"""What a row of change data is, by Delta's protocol."""


def _changes(rows: Rows) -> Rows:
    """Rows of a file of change data, whose last column says what they are. TM4041 for another word there."""
    kinds = rows.batch.column(rows.batch.num_columns - 1)
    places = pc.index_in(kinds, pa.array(list(_WEIGHTS)))
    if places.null_count:
        with unreadable("change data", "write it again; the files of its version are read in its place"):
            raise ValueError(f"{_CHANGE.name} {kinds.filter(pc.is_null(places))[0].as_py()!r}")
    batch = rows.batch.select(range(rows.batch.num_columns - 1))
    return replace(rows, batch=batch, weights=np.array(list(_WEIGHTS.values()), np.int64)[places.to_numpy()])


def _value(field: Field, text: str | None) -> pa.Scalar[Any]:
    """A partition's value as the declared type has it."""
    try:
        return pc.cast(pa.scalar(text, pa.string()), field.type)
    except pa.ArrowException as error:
        raise FormatError(
            "TM4043",
            f"a value of the column {field.name!r} cannot be held by the type that is declared",
            got=f"{type_to_ddl(field.type)}: {text}",
            hint="declare a type that holds all values of the partition column",
        ) from error
