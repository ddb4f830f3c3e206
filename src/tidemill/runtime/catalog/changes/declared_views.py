"""Views declared by functions: which reads which, found by calling them.

A function is called until everything it reads is known: when it asks for a view that is declared but not
resolved yet, that one is resolved first and the function is called again. So the order of definition does not
matter, and no function may do more than build a query.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

from pyspark.errors import AnalysisException, ParseException, PySparkException
from pyspark.sql import DataFrame, SparkSession

from tidemill.errors import TidemillError, nearest, placed
from tidemill.plan.catalyst.analyser import Catalyst, analysis_error
from tidemill.plan.catalyst.frames import unreadable_frame
from tidemill.plan.catalyst.sessions import active_session, without_temporary_views
from tidemill.plan.sql.numbered import overflowed, too_deep
from tidemill.plan.sql.statements import unquoted_name
from tidemill.runtime.catalog.catalog import Catalog
from tidemill.schema import quoted

_T = TypeVar("_T")
_NOT_FOUND = "TABLE_OR_VIEW_NOT_FOUND"


@dataclass(frozen=True)
class DeclaredView:
    """A view as declared.

    ``query`` is SQL, or a function that returns SQL or a DataFrame; ``place`` says where it stands, for errors.
    """

    name: str
    query: Callable[[], object] | str
    place: str
    properties: Mapping[str, str] = field(default_factory=dict)


def add_declared_view(declared: dict[str, DeclaredView], view: DeclaredView) -> None:
    """One more. TM7020 when there is one of this name."""
    if view.name in declared:
        raise TidemillError(
            "TM7020",
            "two views of a pipeline have one name",
            got=f"{view.name}: {declared[view.name].place}, and {view.place}",
            hint="give one of them another name",
        )
    declared[view.name] = view


@dataclass(frozen=True)
class Resolved:
    """A view with its query: text, or a DataFrame and no text."""

    view: DeclaredView
    query: str | DataFrame


class Relations(Protocol):
    """The existing tables and views, to build queries of."""

    spark: SparkSession
    catalog: Catalog
    catalyst: Catalyst

    def relation(self, name: str) -> DataFrame:
        """One of them."""


class Resolver:
    """Calls the functions of some declared views, and gives them the relations that they read."""

    def __init__(self, relations: Relations, declared: Mapping[str, DeclaredView]) -> None:
        self._relations = relations
        self._spark = relations.spark
        self._declared = declared
        self._leaves: dict[str, DataFrame] = {}
        self._resolved: list[Resolved] = []
        self._open: list[str] = []

    def resolve_all(self) -> list[Resolved]:
        """Every declared view with its query, each after those that it reads.

        Names of these views, of tables and of other views mean these, also where the session had temporary views of
        such names before.

        Raises
        ------
        TidemillError
            TM7021 to TM7024 for what a function reads, returns or raises; TM2004 for SQL that does not resolve.
        """
        token = _CURRENT.set(self)
        catalog = self._relations.catalog
        names = {*self._declared, *catalog.tables, *catalog.views}
        with without_temporary_views(self._spark, names):
            try:
                with active_session(self._spark):
                    for name in self._declared:
                        self.read(name)
            finally:
                _CURRENT.reset(token)
                for name in self._leaves:
                    self._spark.catalog.dropTempView(name)
        return self._resolved

    def read(self, name: str) -> DataFrame:
        """A table, a view or a declared view as a DataFrame to build queries of."""
        name = name.lower()
        if name not in self._leaves:
            if name in self._declared:
                leaf = self._resolve(self._declared[name])
            else:
                leaf = self._existing(name)
            self._leaves[name] = leaf
            leaf.createOrReplaceTempView(quoted(name))
        return self._leaves[name]

    def query(self, text: str) -> DataFrame:
        """The DataFrame of a SELECT over what can be read."""
        return self._until_known(lambda: self._spark.sql(text))

    def _existing(self, name: str) -> DataFrame:
        catalog = self._relations.catalog
        if name in catalog.tables or name in catalog.views:
            return self._relations.relation(name)
        asker = self._declared[self._open[-1]].place
        known = {*catalog.tables, *catalog.views, *self._declared}
        raise TidemillError(
            "TM7021", "a pipeline reads what is not declared", got=f"{name}, read by {asker}", hint=nearest(name, known)
        )

    def _resolve(self, view: DeclaredView) -> DataFrame:
        name = view.name
        if name in self._open:
            path = [*self._open[self._open.index(name) :], name]
            raise TidemillError(
                "TM7022",
                "views of a pipeline read each other in a circle",
                got=" reads ".join(path),
                hint=f"begin at {view.place}",
            )
        self._open.append(name)
        try:
            answer = self._call(view)
            frame = answer if isinstance(answer, DataFrame) else self._analysed(view, answer)
            self._resolved.append(Resolved(view, answer))
            return unreadable_frame(self._spark, name, frame.schema, self._relations.catalyst.mark(name, ""))
        finally:
            self._open.pop()

    def _call(self, view: DeclaredView) -> str | DataFrame:
        if isinstance(view.query, str):
            return view.query
        try:
            answer = self._until_known(view.query)
        except TidemillError:
            raise
        except Exception as error:
            said = str(error).split("== SQL ==")[0].split(";")[0].strip()
            raise TidemillError(
                "TM7023",
                "a function of a pipeline failed",
                got=f"{view.place}: {type(error).__name__}: {said.splitlines()[0] if said else ''}",
                hint="it must build and return a DataFrame, or a SELECT as text",
            ) from error
        if not isinstance(answer, str | DataFrame):
            raise TidemillError(
                "TM7024",
                "a function of a pipeline returns neither a DataFrame nor SQL",
                got=f"{view.place} returns {type(answer).__name__}",
                hint="return a DataFrame, or a SELECT as text",
            )
        return answer

    def _analysed(self, view: DeclaredView, text: str) -> DataFrame:
        try:
            return self.query(text)
        except ParseException as error:
            if overflowed(error):
                with placed(f"in {view.place}"):
                    raise too_deep(error) from error
            message = str(error).split("== SQL ==")[0].strip().splitlines()
            raise TidemillError(
                "TM2001", "the SQL cannot be parsed", got=" ".join(message), hint=f"in {view.place}"
            ) from error
        except PySparkException as error:
            with placed(f"in {view.place}"):
                raise analysis_error(error, text) from error

    def _until_known(self, build: Callable[[], _T]) -> _T:
        """Build a query; repeat it after an unknown name, once the view of that name is resolved."""
        while True:
            try:
                return build()
            except AnalysisException as error:
                if error.getCondition() != _NOT_FOUND:
                    raise
                missing = unquoted_name((error.getMessageParameters() or {}).get("relationName", ""))
                if missing in self._leaves or "." in missing:
                    raise
                self.read(missing)


_CURRENT: ContextVar[Resolver | None] = ContextVar("resolver", default=None)


def current_resolver() -> Resolver:
    """The resolver that is calling a function now. TM7026 when none is."""
    resolver = _CURRENT.get()
    if resolver is None:
        raise TidemillError(
            "TM7026",
            "this can only be used inside a pipeline",
            got="a call outside of its functions",
            hint="move it into a function below @materialized_view, and run the file with `tidemill run`",
        )
    return resolver
