"""Views as Spark DataFrames: rows are read from state files in Spark tasks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import reduce

import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark.errors import ParseException, PySparkException
from pyspark.sql import DataFrame, SparkSession

from tidemill.errors import TidemillError
from tidemill.plan.catalyst.analyser import analysis_error, parse_error
from tidemill.plan.catalyst.frames import check_reads
from tidemill.plan.sql.numbered import overflowed
from tidemill.plan.sql.statements import Source, unquoted_name
from tidemill.runtime.read.file_status import FILES_SCHEMA, file_parts
from tidemill.runtime.read.numbered_frame import adopted, query_failed
from tidemill.runtime.read.snapshot import Snapshot, tables_of
from tidemill.runtime.tables.suffixes import ERRORS_SUFFIX
from tidemill.schema import Schema, quoted
from tidemill.state.store.store import RunStore, partition_vnodes
from tidemill.state.versions.version import Run
from tidemill.task.dataflow.read_view import reader_of, view_parts
from tidemill.task.program import ReadPlan

_ROWS_PER_PARTITION = 250_000
_ROWS_PER_BATCH = 65_536


def view_frame(spark: SparkSession, snapshot: Snapshot, name: str, epoch: int | None = None) -> DataFrame:
    """A view at a sealed epoch (the newest by default).

    The DataFrame stays on that epoch however often it is evaluated. Errors as :meth:`Snapshot.read`.
    """
    if name in snapshot.socket_names():
        return spark.createDataFrame(snapshot.connections(name))
    snapshot.check_readable(name, epoch)
    if name in snapshot.file_names():
        parts = file_parts(snapshot.file_names()[name])
        frames = [_frame(spark, snapshot, plan, epoch, FILES_SCHEMA, shaped) for plan, shaped in parts]
        return pinning(reduce(DataFrame.unionAll, frames), snapshot)
    plan = snapshot.plan(name, epoch)
    return pinning(_frame(spark, snapshot, plan, epoch, plan.schema), snapshot)


def _frame(
    spark: SparkSession,
    snapshot: Snapshot,
    plan: ReadPlan,
    epoch: int | None,
    schema: Schema,
    shaped: Callable[[pa.Table], pa.Table] | None = None,
) -> DataFrame:
    runs = snapshot.runs(plan, epoch)
    rows = sum(r.rows for r in runs)
    partitions = max(1, min(spark.sparkContext.defaultParallelism * 4, rows // _ROWS_PER_PARTITION))
    reader = _Reader(snapshot.store, plan, runs, partitions, shaped)
    numbers = spark.range(0, partitions, 1, partitions)
    return numbers.mapInArrow(reader.read, schema.all_nullable().to_ddl())


def pinning(frame: DataFrame, *kept: Snapshot) -> DataFrame:
    """The frame, which keeps snapshots, and so the files that it reads, for as long as it exists.

    So do frames that are made of it. Errors while it is evaluated are numbered.
    """
    return adopted(frame, kept)


def query_views(
    spark: SparkSession,
    snapshot: Snapshot,
    text: str,
    epoch: int | None = None,
    frame_of: Callable[[SparkSession, Snapshot, str, int | None], DataFrame] = view_frame,
) -> DataFrame:
    """Any Spark SQL over the views of a snapshot, all at one epoch, in a session of its own.

    ``frame_of`` makes the DataFrame of a view; only views that the text mentions are asked for.

    Raises
    ------
    TidemillError
        TM2001 and TM2004 when the query cannot be parsed or resolved, TM2036 when it reads a table, TM2024 when it
        writes.
    """
    session = spark.newSession()
    session.conf.set("spark.sql.session.timeZone", snapshot.catalog.time_zone)
    check_reads(session, text)
    at = snapshot.version.epoch if epoch is None else epoch
    names = [name for name in snapshot.catalog.views if snapshot.readable_at(name, at)]
    names += [t.name for t in snapshot.catalog.tables.values() if t.readable and t.created_at_epoch <= at]
    names_of_tables = (t + ERRORS_SUFFIX for t in snapshot.catalog.tables)
    for name in [*names, *snapshot.socket_names(), *snapshot.file_names(), *names_of_tables]:
        if name.replace("`", "``") in text.lower():
            frame_of(session, snapshot, name, epoch).createOrReplaceTempView(quoted(name))
    try:
        return pinning(session.sql(text), snapshot)
    except PySparkException as error:
        missing = unquoted_name((error.getMessageParameters() or {}).get("relationName", ""))
        if missing in snapshot.catalog.views:
            snapshot.check_readable(missing, at)  # says why it cannot be read
        if isinstance(error, ParseException):
            found = parse_error(error, Source(text))
            if overflowed(error):
                raise found from error
        else:
            found = analysis_error(error, text)
            found.got += f", {found.hint}" if found.hint else ""
        initialising = ", ".join(snapshot.initialising)
        waiting = f"; still initialising: {initialising}" if initialising else ""
        hint = f"views: {', '.join(names) or 'none'}{waiting}"
        if missing in snapshot.catalog.tables:
            raise snapshot.catalog.only_read_through_views(missing) from error
        raise TidemillError(found.number, found.what, got=found.got, hint=hint) from error


def fetch(frame: DataFrame) -> pa.Table:
    """The rows of a query.

    Raises
    ------
    TidemillError
        TM2016 when the query fails while it runs, for example by a division by zero.
    """
    try:
        rows: pa.Table = frame.toArrow()
        return rows
    except (PySparkException, Py4JError, OSError, EOFError) as error:
        raise query_failed(frame.sparkSession, error) from error


@dataclass(frozen=True)
class _Reader:
    store: RunStore
    plan: ReadPlan
    runs: tuple[Run, ...]
    partitions: int
    shaped: Callable[[pa.Table], pa.Table] | None = None

    def read(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The rows of the vnodes of each partition number."""
        for batch in batches:
            for partition in batch.column(0).to_numpy().tolist():
                low, high = partition_vnodes(partition, self.partitions)
                reader = reader_of(self.plan.table, self.store.open_range(self.runs, low, high))
                single = self.plan.single and partition == 0
                for delta in view_parts(self.plan, reader, single_row=single):
                    for table in tables_of(self.plan, delta, _ROWS_PER_BATCH):
                        yield from (table if self.shaped is None else self.shaped(table)).to_batches()
