"""Declarative pipelines: views as Python functions, in the manner of ``pyspark.pipelines``.

    import tidemill as tm

    tm.sql("CREATE TABLE flights (carrier STRING, dep_delay DOUBLE) USING csv OPTIONS (path 'data/*.csv')")

    @tm.materialized_view
    def delays():
        return tm.read("flights").groupBy("carrier").avg("dep_delay")

    @tm.materialized_view(name="late")
    def late_carriers():
        return "SELECT carrier FROM delays WHERE `avg(dep_delay)` > 15"

``tidemill run file.py --root ...`` creates what is declared, in any order of declaration, and keeps it fresh. Running
it again on the same root changes nothing; a view whose query has changed is replaced.
"""

from __future__ import annotations

import runpy
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tidemill.errors import TidemillError
from tidemill.plan.sql import statements
from tidemill.plan.sql.statement_words import READING, declares_nothing
from tidemill.plan.sql.statements import Source, words

if TYPE_CHECKING:
    from tidemill.mill import Mill
    from tidemill.runtime.catalog.changes.declaration import Declaration
    from tidemill.runtime.catalog.changes.declared_views import DeclaredView

__all__ = ["create_table", "materialized_view", "read", "sql", "table", "udf"]


@dataclass
class Pipeline:
    """What a file declares: statements that create tables and views, functions that are views, and UDFs."""

    path: Path
    tables: list[Source] = field(default_factory=list)
    views: list[Source] = field(default_factory=list)
    functions: dict[str, DeclaredView] = field(default_factory=dict)
    udfs: dict[str, tuple[Any, Any, bool]] = field(default_factory=dict)


_COLLECTING: ContextVar[Pipeline | None] = ContextVar("pipeline", default=None)


def materialized_view(
    query_function: Callable[[], object] | None = None,
    *,
    name: str | None = None,
    comment: str | None = None,
    table_properties: Mapping[str, str] | None = None,
) -> Any:
    """Declare a view: a function without arguments that returns a DataFrame, or a SELECT as text.

    Parameters
    ----------
    name : str, optional
        Name of the view, by default that of the function.
    comment : str, optional
        Not used: it is for readers of the file, as is the function's docstring.
    table_properties : dict, optional
        As TBLPROPERTIES of ``CREATE MATERIALIZED VIEW``; only for SQL.

    Raises
    ------
    TidemillError
        TM7020 when two views have one name, TM7026 outside a pipeline.

    Notes
    -----
    The function only builds a query. It is called when the pipeline begins, perhaps several times.
    """

    def declare(function: Callable[[], object]) -> Callable[[], object]:
        from tidemill.runtime.catalog.changes.declared_views import DeclaredView, add_declared_view

        if not callable(function):
            raise TidemillError(
                "TM7024",
                "a declaration needs a function",
                got=repr(function),
                hint="@materialized_view stands above a function; read(name) reads a table or view",
            )
        line = function.__code__.co_firstlineno
        place = f"{function.__name__}() in {Path(function.__code__.co_filename).name}, line {line}"
        view = DeclaredView((name or function.__name__).lower(), function, place, dict(table_properties or {}))
        add_declared_view(_pipeline().functions, view)
        return function

    return declare if query_function is None else declare(query_function)


table = materialized_view
"""The same: every view of a mill is kept fresh, so there is one kind."""


def sql(text: str) -> Any:
    """At the top of a file: declare tables and views in SQL. In a function: the DataFrame of a SELECT.

    Raises
    ------
    TidemillError
        TM2001 when it cannot be split into statements, TM2003 for a statement that declares nothing, TM7026
        outside a pipeline.
    """
    from tidemill.runtime.catalog.changes.declared_views import current_resolver

    sources = statements.split_script(text)
    if sources and words(sources[0].text, 1)[0][0] in READING:
        return current_resolver().query(text)
    pipeline = _pipeline()
    for source in sources:
        heads = [w for w, _ in words(source.text, 6)]
        if heads[:2] == ["CREATE", "TABLE"]:
            pipeline.tables.append(source)
        elif heads[:3] == ["CREATE", "MATERIALIZED", "VIEW"]:
            pipeline.views.append(source)
        else:
            raise declares_nothing(source)
    return None


def create_table(statement: str) -> None:
    """Declare a table with its ``CREATE TABLE`` statement. Errors as :func:`sql`."""
    sql(statement)


def udf(return_type: Any = "string", *, name: str | None = None, deterministic: bool = True) -> Callable[[Any], Any]:
    """Declare a Python function that the queries of the pipeline call by name.

    See :meth:`tidemill.Mill.register_function`. Errors as there, and TM7026 outside a pipeline.
    """
    pipeline = _pipeline()

    def declare(function: Any) -> Any:
        declared = None if hasattr(function, "returnType") else return_type
        pipeline.udfs[name or function.__name__] = (function, declared, deterministic)
        return function

    return declare


def read(name: str) -> Any:
    """A table or view, declared before or after, as a DataFrame. For use inside a function.

    Raises
    ------
    TidemillError
        TM7021 when there is none of this name, TM7022 when views read each other in a circle, TM7026 outside a
        pipeline.
    """
    from tidemill.runtime.catalog.changes.declared_views import current_resolver

    return current_resolver().read(name)


def load(path: Path, spark: object) -> Pipeline:
    """Run a file and collect what it declares; ``spark`` is a global variable there.

    Raises
    ------
    TidemillError
        TM7003 when there is no such file, TM7025 when it fails; otherwise what its declarations raise.
    """
    if not path.is_file():
        raise TidemillError("TM7003", "the script cannot be read", got=f"{path}: no such file")
    pipeline = Pipeline(path)
    token = _COLLECTING.set(pipeline)
    try:
        with _importing_beside(path):
            runpy.run_path(str(path), init_globals={"spark": spark}, run_name="tidemill_pipeline")
    except TidemillError:
        raise
    except Exception as error:
        lines = [f.lineno for f in traceback.extract_tb(error.__traceback__) if f.filename == str(path)]
        line = lines[-1] if lines else getattr(error, "lineno", None)
        raise TidemillError(
            "TM7025",
            "the file of a pipeline failed",
            got=f"{path.name}, line {line}: {type(error).__name__}: {error}",
        ) from error
    finally:
        _COLLECTING.reset(token)
    return pipeline


def declare(declaration: Declaration, path: Path, *, may_replace: bool) -> list[str]:
    """Add what a file declares; returns the names of its views, upstream first.

    Raises
    ------
    TidemillError
        As :func:`load`; errors of the declarations.
    """
    pipeline = load(path, declaration.spark)
    for name, (function, return_type, deterministic) in pipeline.udfs.items():
        declaration.register_function(name, function, return_type, deterministic)
    declaration.add_script(pipeline.tables, may_replace=may_replace)
    return declaration.add_declared_views(pipeline.functions, pipeline.views, may_replace=may_replace)


def apply(mill: Mill, path: Path) -> list[str]:
    """Apply a file to a mill: create new tables and views, replace views with another query; all or nothing.

    Returns the names of its views, upstream first. Errors as :func:`declare`.
    """
    with mill.declaring() as declaration:
        return declare(declaration, path, may_replace=True)


def _pipeline() -> Pipeline:
    pipeline = _COLLECTING.get()
    if pipeline is None:
        raise TidemillError(
            "TM7026",
            "this can only be used inside a pipeline",
            got="a call without a pipeline",
            hint="run the file with `tidemill run file.py --root DIR`",
        )
    return pipeline


@contextmanager
def _importing_beside(path: Path) -> Iterator[None]:
    """Let the file import modules of its own directory."""
    directory = str(path.absolute().parent)
    sys.path.insert(0, directory)
    try:
        yield
    finally:
        sys.path.remove(directory)
