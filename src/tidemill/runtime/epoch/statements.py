"""Executes SQL statements: those that read answer at once, those that change the mill take turns with its epochs."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from typing import TypeAlias

from pyspark.sql import DataFrame, SparkSession

from tidemill.errors import TidemillError, placed
from tidemill.plan.sql.numbered import numbered
from tidemill.plan.sql.statement_words import parse_reading
from tidemill.plan.sql.statements import (
    AlterSink,
    AlterTable,
    AlterView,
    CreateSink,
    CreateTable,
    CreateView,
    Describe,
    Drop,
    Explain,
    Query,
    Show,
    Source,
    Statement,
    split_script,
)
from tidemill.runtime.epoch.coordinator import Coordinator
from tidemill.runtime.epoch.submitted import Submitted
from tidemill.runtime.epoch.turns import Ticket
from tidemill.runtime.read.view_frame import query_views
from tidemill.runtime.spark.session import needing_java

Answer: TypeAlias = "DataFrame | str | None"
"""A DataFrame for SELECT, SHOW and DESCRIBE; text for EXPLAIN INCREMENTAL; None for statements that change the mill."""

Change: TypeAlias = CreateTable | AlterTable | CreateView | AlterView | CreateSink | AlterSink | Drop
_CHANGES = (CreateTable, AlterTable, CreateView, AlterView, CreateSink, AlterSink, Drop)
"""Statements that change the mill, and so take turns with its epochs."""


def _one(text: str) -> Source:
    """The one statement of a text. TM7001 when there are others, or none."""
    found = split_script(text)
    if len(found) != 1:
        raise TidemillError(
            "TM7001",
            "sql() takes one statement",
            got=f"{len(found)} statements",
            hint="use script() for several",
        )
    return found[0]


class Statements:
    """Executes statements; see the methods of the same names of :class:`tidemill.mill.Mill`.

    Parameters
    ----------
    spark : SparkSession
        Makes the DataFrames of answers.
    coordinator : callable
        Gives the coordinator; TM7012 once the mill is closed.
    give_back : callable
        Gives back the ticket of a submitted statement that was withdrawn.
    """

    def __init__(
        self, spark: SparkSession, coordinator: Callable[[], Coordinator], give_back: Callable[[Ticket], None]
    ) -> None:
        self._spark = spark
        self._coordinator = coordinator
        self._submitted = Submitted(give_back)

    def sql(self, text: str, timeout: float | None) -> Answer:
        """Execute one statement."""
        with needing_java(self._spark, "while a statement was executed"):
            return self._execute(_one(text), timeout=timeout)

    def submit(self, text: str) -> Future[Answer]:
        """Queue one statement."""
        coordinator, source = self._coordinator(), _one(text)
        changes = isinstance(numbered()(coordinator.catalyst.parse)(source), _CHANGES)
        ticket = coordinator.ticket() if changes else None

        def execute() -> Answer:
            with needing_java(self._spark, "while a statement was executed"):
                return self._execute(source)

        return self._submitted.add(ticket, partial(coordinator.turn, None), execute)

    def script(self, text: str) -> list[Answer]:
        """Execute several statements, and skip a CREATE of what exists. Errors name the statement's line."""
        results = []
        for done, source in enumerate(split_script(text)):
            where = f"in the statement on line {source.line}: {source.text.splitlines()[0][:80]}"
            if done:
                where += f"\n        statements before it that were executed: {done}"
            with placed(where), needing_java(self._spark, "while a statement was executed"):
                results.append(self._execute(source, repeatable=True))
        return results

    def close(self, error: TidemillError) -> None:
        """Fail submitted statements that have not begun."""
        self._submitted.close(error)

    @numbered()
    def _execute(self, source: Source, repeatable: bool = False, timeout: float | None = None) -> Answer:
        coordinator = self._coordinator()
        statement: Statement = coordinator.catalyst.parse(source)
        if isinstance(statement, _CHANGES):
            with coordinator.turn(timeout):
                if not (repeatable and coordinator.repeats(statement)):
                    self._change(statement)
            return None
        if isinstance(statement, Query):
            return self.query(statement.text, None, durable=False)
        return self._answer(statement, None, durable=False)

    def _change(self, statement: Change) -> None:
        coordinator = self._coordinator()
        match statement:
            case CreateTable():
                coordinator.create_table(statement)
            case AlterTable():
                coordinator.alter_table(statement)
            case CreateView():
                coordinator.create_view(statement)
            case AlterView():
                coordinator.alter_view(statement)
            case CreateSink():
                coordinator.create_sink(statement)
            case AlterSink():
                coordinator.alter_sink(statement)
            case Drop():
                coordinator.drop(statement.kind, statement.name, statement.if_exists)

    @numbered()
    def query(self, text: str, epoch: int | None, durable: bool) -> DataFrame:
        """Answer one statement that reads, at the newest epoch or another one."""
        self._coordinator()  # a closed mill is an error before a text that is no query
        answer = self._answer(parse_reading(text), epoch, durable)
        return self._spark.createDataFrame([(answer,)], "plan string") if isinstance(answer, str) else answer

    def _answer(
        self, statement: Query | Show | Describe | Explain, epoch: int | None, durable: bool
    ) -> DataFrame | str:
        coordinator = self._coordinator()
        match statement:
            case Explain(query):
                return coordinator.explain(query)
            case Show(kind):
                return self._spark.createDataFrame(coordinator.snapshot().show(kind))
            case Describe(name):
                return self._spark.createDataFrame(coordinator.snapshot().describe(name))
            case Query(text):
                with needing_java(self._spark, "while a query was planned"):
                    snapshot = coordinator.snapshot(durable)
                    return query_views(self._spark, snapshot, text, epoch, coordinator.view_frame)
