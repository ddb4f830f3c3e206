"""Questions and their answers: a query at one snapshot, its columns, and its rows as they are asked for."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, suppress
from dataclasses import dataclass
from typing import Any

import duckdb
import pyarrow as pa
from sqlglot import exp

from tidemill.mill import Mill
from tidemill.plan.sql.numbered import deeply_nested
from tidemill.runtime.read.frame_batches import FrameBatches
from tidemill.runtime.read.snapshot import Snapshot
from tidemill.runtime.read.view_frame import query_views
from tidemill.runtime.spark.session import needing_java
from tidemill.serve.access.closed_statements import check_query
from tidemill.serve.postgres.catalogue.shown import Relation, relations_of
from tidemill.serve.postgres.catalogue.tables import DEFINITIONS, Seen, catalogue_table
from tidemill.serve.postgres.protocol.errors import not_supported
from tidemill.serve.postgres.query.choosing import SPARK, Choice, choose
from tidemill.serve.postgres.query.duckdb_engine import DuckDBEngine, EngineSession, look_up_definitions
from tidemill.serve.postgres.query.names import Named, bind_names
from tidemill.serve.postgres.query.output_names import name_outputs
from tidemill.serve.postgres.query.parameters import parameter_types, put_values
from tidemill.serve.postgres.query.parsing import fill_selections, parse_query, too_deep
from tidemill.serve.postgres.query.rewriting import rewrite, to_sql
from tidemill.serve.postgres.query.session_functions import Connection
from tidemill.serve.postgres.query.view_rows import ViewRows
from tidemill.serve.postgres.values.parameter_values import Value
from tidemill.serve.postgres.values.pg_types import PgType, of_arrow, of_duckdb

Columns = tuple[tuple[str, PgType], ...]
Started = Callable[[Callable[[], None]], None]
_BATCH_ROWS = 8_192


@dataclass(frozen=True)
class Viewpoint:
    """Where a statement stands: a sealed epoch, and what functions say of the connection."""

    snapshot: Snapshot
    known: Mapping[str, Relation]
    connection: Connection

    @property
    def zone(self) -> str:
        """The time zone of expressions: the mill's, whatever zone the connection shows."""
        return self.snapshot.catalog.time_zone


@dataclass(frozen=True)
class Parsed:
    """A query whose names are not bound, so that it keeps no snapshot.

    Attributes
    ----------
    tree : exp.Query
        Not to be changed: each use takes a copy.
    given : tuple of int
        The types of parameters that the client tells, 0 for those that it does not.
    no_columns : bool
        Whether the query asks for no column: its rows have one that is not given.
    """

    tree: exp.Query
    given: tuple[int, ...]
    no_columns: bool = False


@dataclass(frozen=True)
class Question:
    """A query whose names are bound at a viewpoint.

    Attributes
    ----------
    tree : exp.Query
        Not to be changed: each use takes a copy.
    parameters : tuple of PgType
        The types of ``$1`` and so on.
    """

    tree: exp.Query
    named: Named
    parameters: tuple[PgType, ...]
    viewpoint: Viewpoint
    no_columns: bool = False


class Answer:
    """Columns, and rows that are made when they are asked for. Whoever has it closes it, once.

    Attributes
    ----------
    columns : tuple
        Names and types; batches may have more columns behind these.
    cancel : callable
        Makes reading fail; may be called from another thread.
    """

    def __init__(
        self,
        columns: Columns,
        batches: Iterator[pa.RecordBatch],
        cancel: Callable[[], None] = lambda: None,
        close: Callable[[], None] = lambda: None,
    ) -> None:
        self.columns, self.cancel, self.close = columns, cancel, close
        self._batches = batches

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        return self._batches


class Answering:
    """Answers queries of all connections.

    Parameters
    ----------
    mill : Mill
        Whose Spark session answers what is too large for DuckDB.
    engine : DuckDBEngine
    most_bytes : int
        What the views of a query have in their runs, at most, for DuckDB to answer it.
    spark_turn : callable
        Is entered for as long as Spark answers a query. Raises TM8024 when too many statements run.
    """

    def __init__(
        self, mill: Mill, engine: DuckDBEngine, most_bytes: int, spark_turn: Callable[[], AbstractContextManager[None]]
    ) -> None:
        self._mill, self._engine, self._most_bytes, self._spark_turn = mill, engine, most_bytes, spark_turn
        self._known: tuple[weakref.ref[Snapshot], Mapping[str, Relation]] | None = None

    def viewpoint(
        self, snapshot: Snapshot, database: str, user: str, process: int, settings: dict[str, str]
    ) -> Viewpoint:
        """A viewpoint at a snapshot."""
        kept = self._known
        if kept is None or kept[0]() is not snapshot:
            kept = self._known = weakref.ref(snapshot), relations_of(snapshot)
        connection = Connection(database, user, process, snapshot.version.epoch, settings, kept[1])
        return Viewpoint(snapshot, kept[1], connection)

    @staticmethod
    def parsed(text: str, given: Sequence[int]) -> Parsed:
        """A text as a query.

        Parameters
        ----------
        given : sequence of int
            The types of parameters that the client tells, 0 for those that it does not.

        Raises
        ------
        TidemillError
            TM8110, TM8111, TM8123 or TM8124 for what is wrong with it.
        """
        tree = parse_query(text)
        no_columns = fill_selections(tree)
        name_outputs(tree)
        return Parsed(tree, tuple(given), no_columns)

    @staticmethod
    def question(parsed: Parsed, viewpoint: Viewpoint) -> Question:
        """What a query asks at a viewpoint.

        Raises
        ------
        TidemillError
            TM2012, TM2036, TM8118, TM8121 or TM8124 for what is wrong with it; TM1030 and so on for a view that cannot
            be read.
        """
        tree = _copied(parsed.tree)
        named = bind_names(tree, viewpoint.known, viewpoint.snapshot.catalog.unknown)
        for name in named.views:
            _check_readable(viewpoint, name)
        parameters = parameter_types(tree, parsed.given, named, viewpoint.known)
        return Question(tree, named, parameters, viewpoint, parsed.no_columns)

    def columns(self, question: Question) -> Columns:
        """The columns of the answer, which is not computed. Errors as :meth:`answer`."""
        return () if question.no_columns else self._all_columns(question)

    def _all_columns(self, question: Question) -> Columns:
        tree, looks_up, choice = self._rewritten(question, None)
        if choice.engine == SPARK:
            return _columns_of(self._spark(tree, question).schema)
        session = self._session(question, looks_up)[0]
        try:
            return _duckdb_columns(session.connection.sql(to_sql(tree, "duckdb")))
        except duckdb.Error as error:
            raise self._engine.numbered(error) from error
        finally:
            session.close()

    def answer(self, question: Question, values: Sequence[Value], started: Started) -> Answer:
        """The answer to a question with the values of its parameters.

        Parameters
        ----------
        started : callable
            Is given what ends the work, as soon as there is any.

        Raises
        ------
        TidemillError
            TM8125 or TM2004 for what does not resolve, TM8126, TM2016 and TM8113 when it fails, also while rows are
            read; TM8024 when Spark would answer it and has too much to do.
        """
        tree, looks_up, choice = self._rewritten(question, values)
        if choice.engine == SPARK:
            found = self._from_spark(tree, question, started)
        else:
            found = self._from_duckdb(tree, question, looks_up, started)
        if question.no_columns:
            found.columns = ()
        return found

    def explain(self, question: Question) -> list[str]:
        """Which engine answers, why, and its plan."""
        tree, looks_up, choice = self._rewritten(question, None)
        lines = [f"{choice.engine} answers: {choice.why}", f"  views: {choice.rows:,} rows in their runs"]
        if choice.engine == SPARK:
            return [*lines, *to_sql(tree, "spark").splitlines()]
        session = self._session(question, looks_up)[0]
        try:
            found = session.connection.execute("EXPLAIN " + to_sql(tree, "duckdb")).fetchall()
        except duckdb.Error as error:
            raise self._engine.numbered(error) from error
        finally:
            session.close()
        return [*lines, *(line for _, plan in found for line in plan.splitlines())]

    def _rewritten(self, question: Question, values: Sequence[Value] | None) -> tuple[exp.Query, bool, Choice]:
        tree = _copied(question.tree)
        put_values(tree, question.parameters, values)
        choice = choose(tree, question.named.views, question.viewpoint.snapshot, self._most_bytes)
        if choice.engine == SPARK and question.named.catalogue:
            raise not_supported(
                f"{', '.join(sorted(question.named.catalogue))} beside views of {choice.bytes:,} bytes",
                "ask the catalogue and large views in queries of their own, or raise pg_duckdb_bytes",
            )
        return tree, rewrite(tree, question.viewpoint.connection), choice

    def _from_spark(self, tree: exp.Query, question: Question, started: Started) -> Answer:
        with ExitStack() as stack:
            stack.enter_context(self._spark_turn())
            found = self._spark(tree, question)
            started(found.cancel)
            return Answer(_columns_of(found.schema), iter(found), found.cancel, stack.pop_all().close)

    def _spark(self, tree: exp.Query, question: Question) -> FrameBatches:
        text = to_sql(tree, "spark")
        spark = self._mill.spark
        with needing_java(spark, "while a query was planned"), deeply_nested():
            check_query(self._mill, text)
            frame = query_views(spark, question.viewpoint.snapshot, text)
        return FrameBatches(frame, f"PostgreSQL: {text[:80]}")

    def _session(self, question: Question, looks_up: bool) -> tuple[EngineSession, dict[str, Any]]:
        """A session that sees what a question names."""
        at = question.viewpoint
        seen = Seen(at.snapshot, at.connection.database, at.connection.user, at.connection.settings)
        session = self._engine.session(at.zone)
        try:
            views: dict[str, Any] = {name: ViewRows(at.snapshot, name) for name in set(question.named.views)}
            for name in question.named.catalogue | ({DEFINITIONS} if looks_up else set()):
                views[name] = catalogue_table(name, seen)
            for name, rows in views.items():
                session.connection.register(name, rows)
            if looks_up:
                look_up_definitions(session)
        except BaseException:
            session.close()
            raise
        return session, views

    def _from_duckdb(self, tree: exp.Query, question: Question, looks_up: bool, started: Started) -> Answer:
        session, views = self._session(question, looks_up)
        try:
            started(session.interrupt)
            relation = session.connection.sql(to_sql(tree, "duckdb"))
            columns = _duckdb_columns(relation)
            reader = relation.to_arrow_reader(_BATCH_ROWS)
        except duckdb.Error as error:
            session.close()
            raise self._engine.numbered(error, views) from error
        except BaseException:
            session.close()
            raise
        batches = self._batches(reader, views)

        def close() -> None:
            batches.close()
            with suppress(duckdb.Error, OSError, pa.ArrowException):
                reader.close()
            session.close()

        return Answer(columns, batches, session.interrupt, close)

    def _batches(self, reader: pa.RecordBatchReader, views: dict[str, Any]) -> Generator[pa.RecordBatch, None, None]:
        try:
            yield from reader
        except duckdb.Error as error:
            raise self._engine.numbered(error, views) from error
        except (OSError, pa.ArrowException) as error:  # what the stream of Arrow makes of an error of DuckDB's
            raise self._engine.numbered(_as_duckdb(error), views) from error


def _copied(tree: exp.Query) -> exp.Query:
    try:
        return tree.copy()
    except RecursionError as error:
        raise too_deep() from error


def _as_duckdb(error: Exception) -> duckdb.Error:
    """The error of DuckDB's that an error of Arrow's tells of."""
    text = str(error)
    for words, kind in (
        ("INTERRUPT Error", duckdb.InterruptException),
        ("Interrupted", duckdb.InterruptException),
        ("Out of Memory Error", duckdb.OutOfMemoryException),
        ("Conversion Error", duckdb.ConversionException),
        ("Out of Range Error", duckdb.OutOfRangeException),
        ("INTERNAL Error", duckdb.InternalException),
    ):
        if words in text:
            return kind(text)
    return duckdb.Error(text)


def _check_readable(viewpoint: Viewpoint, name: str) -> None:
    """TM2036, TM1030 and so on for what cannot be read."""
    if not viewpoint.known[name].readable:
        raise viewpoint.snapshot.catalog.only_read_through_views(name)
    viewpoint.snapshot.check_readable(name, None)


def _columns_of(schema: pa.Schema) -> Columns:
    return tuple((f.name, of_arrow(f.type)) for f in schema)


def _duckdb_columns(relation: duckdb.DuckDBPyRelation) -> Columns:
    found = []
    for name, type_ in zip(relation.columns, relation.types, strict=True):
        known = of_duckdb(type_)
        if known is None:
            raise not_supported(f"column {name} of type {type_}", "cast it to text")
        found.append((name, known))
    return tuple(found)


def rows_answer(tables: Iterator[pa.Table]) -> Answer:
    """An answer of tables that are there already; at least one."""
    first = next(tables)

    def batches() -> Iterator[pa.RecordBatch]:
        yield from first.to_batches(max_chunksize=_BATCH_ROWS)
        for table in tables:
            yield from table.to_batches(max_chunksize=_BATCH_ROWS)

    return Answer(_columns_of(first.schema), batches())


def texts_answer(name: str, lines: Sequence[str]) -> Answer:
    """An answer of one column of texts."""
    return rows_answer(iter((pa.table({name: pa.array(lines, pa.string())}),)))
