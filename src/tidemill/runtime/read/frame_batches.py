"""Rows of a DataFrame as Arrow batches, a partition at a time: the driver never holds more than one partition."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator

import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql.pandas.types import to_arrow_schema

from tidemill.runtime.read.numbered_frame import query_failed


class FrameBatches:
    """The batches of a DataFrame, in its order, read once. Spark jobs run while they are read, and end when cancelled.

    Attributes
    ----------
    schema : pyarrow.Schema
        Of the batches.
    """

    def __init__(self, frame: DataFrame, description: str) -> None:
        self._frame, self._description = frame, description
        self._group = f"tidemill-{uuid.uuid4()}"
        self.schema: pa.Schema = to_arrow_schema(frame.schema)

    def cancel(self) -> None:
        """End its jobs; reading fails with TM2016. May be called from another thread."""
        self._frame.sparkSession.sparkContext.cancelJobGroup(self._group)

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        """The batches.

        Raises
        ------
        TidemillError
            TM2016 when the query fails while it runs.
        """
        context = self._frame.sparkSession.sparkContext
        names = ("spark.jobGroup.id", "spark.job.description")
        try:
            context.setJobGroup(self._group, self._description)
            try:
                numbered = self._frame.toDF(*(f"c{i}" for i in range(len(self.schema))))  # names may be there twice
                rows = numbered.mapInArrow(_pack, "batch binary").toLocalIterator()  # its jobs stay in the group
            finally:
                for name in names:
                    context.setLocalProperty(name, None)
            for row in rows:
                yield from pa.ipc.open_stream(row[0])
        except (PySparkException, Py4JError, OSError, EOFError) as error:
            raise query_failed(self._frame.sparkSession, error) from error


def _pack(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, batch.schema) as writer:
            writer.write_batch(batch)
        yield pa.RecordBatch.from_arrays([pa.array([sink.getvalue().to_pybytes()], pa.binary())], ["batch"])
