"""Views as streams of Arrow batches that DuckDB reads, each time from the beginning."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from tidemill.runtime.read.snapshot import Snapshot
from tidemill.serve.postgres.catalogue.shown import columns_of
from tidemill.serve.postgres.values.plain_arrays import plain

_ROWS = 16_384


class ViewRows:
    """The rows of a view at a snapshot, which it keeps. Any number of readers may read at once.

    Attributes
    ----------
    failure : Exception or None
        What reading has failed with: DuckDB tells the text of it only.
    """

    def __init__(self, snapshot: Snapshot, name: str) -> None:
        self._snapshot, self._name = snapshot, name
        self._schema = pa.schema([pa.field(f.name, _stored(f.type)) for f in columns_of(snapshot, name)])
        self.failure: Exception | None = None

    def __arrow_c_schema__(self) -> Any:
        return self._schema.__arrow_c_schema__()

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        reader = pa.RecordBatchReader.from_batches(self._schema, self._batches())
        return reader.__arrow_c_stream__(requested_schema)  # type: ignore[no-untyped-call]

    def _batches(self) -> Iterator[pa.RecordBatch]:
        try:
            for part in self._snapshot.read_parts(self._name):
                for batch in part.to_batches(max_chunksize=_ROWS):
                    columns = [
                        c if c.type == f.type else plain(c) for c, f in zip(batch.columns, self._schema, strict=True)
                    ]
                    yield pa.RecordBatch.from_arrays(columns, schema=self._schema)
        except Exception as error:
            self.failure = error
            raise


def _stored(type_: pa.DataType) -> pa.DataType:
    """The type as DuckDB understands it: intervals with months and days."""
    return pa.month_day_nano_interval() if pa.types.is_duration(type_) else type_
