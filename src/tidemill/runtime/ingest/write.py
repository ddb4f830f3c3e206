"""Writes the batches of a Spark stream into a table: ``foreachBatch(mill.ingest("t"))``.

Executors write the rows of their partitions as files in the root and return the names to the driver. Then one object
makes these files a batch of the table. An attempt that fails leaves files that are never read.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, functions

from tidemill.errors import TidemillError
from tidemill.runtime.ingest.batch_writer import WRITTEN, BatchWriter
from tidemill.runtime.ingest.batches import IngestedTable
from tidemill.runtime.ingest.log import remove_all, too_much_waits, tried
from tidemill.runtime.tables.table import Table
from tidemill.schema import nullable_type, type_from_spark, type_to_ddl

_QUERY = "sql.streaming.queryId"
_POLL_SECONDS = 0.05


class Ingest:
    """The function that ``foreachBatch`` calls. It adds each batch of a query once, however often it is called.

    Parameters
    ----------
    table : callable
        Gives the table as it is now, or raises why it cannot be written into.
    query : str or None
        Whose batches these are; None for the query that calls.
    timeout : float
        Seconds to wait while too many bytes wait to be read.
    """

    def __init__(self, table: Callable[[], IngestedTable], query: str | None, timeout: float) -> None:
        self._table = table
        self._query = query
        self._timeout = timeout

    def __call__(self, frame: DataFrame, batch: int) -> int:
        """Add the rows of a batch.

        Returns
        -------
        int
            The rows that were added; 0 when the batch is there already.

        Raises
        ------
        TidemillError
            TM5065 and TM5066 when the root cannot be read or written (by executors: within TM5071), TM5071 when Spark
            gave up or was stopped, TM5067 for a table that is dropped meanwhile, TM5068 for columns that are not those
            of the table, TM5069 when no query calls and none is named, TM5070 when too many bytes wait. The batch is
            not in the table then, or the next call finds it there.
        """
        query = self._query or frame.sparkSession.sparkContext.getLocalProperty(_QUERY)
        if not query:
            raise TidemillError(
                "TM5069",
                "a batch has to be of a query",
                got=f"batch {batch}, outside of foreachBatch",
                hint='name who writes: mill.ingest("t", query="load of today")(frame, number)',
            )
        target = self._table()
        chosen = _chosen(frame, target.table)
        if target.log.has(query, batch):
            return 0
        target = self._when_there_is_room()
        folder = target.log.attempt()
        writer = BatchWriter(target.log.objects, folder, target.table.format, target.table.source().schema.to_arrow())
        try:
            # collect() would give a part of the names, without an error, when Java ends meanwhile
            found = chosen.mapInArrow(writer, WRITTEN).toArrow().to_pylist()
        except (PySparkException, Py4JError, OSError, EOFError) as error:
            _remove(target, folder)
            raise _not_written(target.table, error) from None  # Spark's trace, of hundreds of lines, says no more
        except BaseException:
            _remove(target, folder)
            raise
        if target.log.commit(query, batch, sorted(row["name"] for row in found)):
            return sum(row["rows"] for row in found)
        _remove(target, folder)
        return 0

    def _when_there_is_room(self) -> IngestedTable:
        """The table, once its waiting bytes are below ``maxSpoolBytes``."""
        deadline = time.monotonic() + self._timeout
        while True:
            target = self._table()
            if target.waiting_bytes < target.most_waiting:
                return target
            if time.monotonic() >= deadline:
                raise too_much_waits(target.table.name, target.waiting_bytes, target.most_waiting)
            time.sleep(_POLL_SECONDS)


def _not_written(table: Table, error: Exception) -> TidemillError:
    """TM5071, or the numbered error that an executor raised."""
    text = str(error)
    numbered = re.search(r"(TM\d{4}: .*)(?:\n  got:  (.*))?", text)
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return TidemillError(
        "TM5071",
        "a batch of a Spark stream could not be written",
        got=f"{table.name}: "
        + (" ".join(filter(None, numbered.groups())) if numbered else (lines or [repr(error)])[0]),
        hint="it is not in the table; start the query again: it continues with this batch",
    )


def _remove(target: IngestedTable, folder: str) -> None:
    """Delete the files of a failed attempt; files that remain are deleted when a mill opens the root a day later."""
    tried(lambda: remove_all(target.log.objects, folder))


def _chosen(frame: DataFrame, table: Table) -> DataFrame:
    """The columns of a table, by name in any case, in its order.

    Raises
    ------
    TidemillError
        TM5068 for a column that is missing, of another type, there twice or not one of the table's.
    """
    given: dict[str, list[str]] = {}
    for name in frame.columns:
        given.setdefault(name.lower(), []).append(name)
    types = {f.name: f.dataType for f in frame.schema.fields}
    wanted = table.source().schema
    for field in wanted:
        names = given.pop(field.name.lower(), [])
        if len(names) != 1:
            raise _other_columns(
                table,
                f"{'no column' if not names else 'several columns'} {field.name}",
                f"the frame has {', '.join(frame.columns)}",
            )
        found = type_from_spark(types[names[0]].jsonValue())
        if nullable_type(found) != nullable_type(field.type):
            declared = type_to_ddl(field.type)
            raise _other_columns(
                table,
                f"{names[0]} {type_to_ddl(found)}, declared {declared}",
                f"CAST({names[0]} AS {declared.upper()}) in the query",
            )
    if given:
        extra = ", ".join(name for names in given.values() for name in names)
        raise _other_columns(table, f"{extra}: no column of the table", "select the columns of the table in the query")
    return frame.select(*(functions.col(f"`{f.name.replace('`', '``')}`").alias(f.name) for f in wanted))


def _other_columns(table: Table, got: str, hint: str) -> TidemillError:
    return TidemillError(
        "TM5068", "the columns of a batch are not those of the table", got=f"{table.name}: {got}", hint=hint
    )
