"""DataFrames of views, which raise numbered errors when they are evaluated."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import wraps
from inspect import isfunction
from typing import Any

import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.classic.dataframe import DataFrame
from pyspark.sql.group import GroupedData

from tidemill.errors import TidemillError
from tidemill.plan.sql.numbered import overflowed, too_deep
from tidemill.runtime.spark.session import java_ended, java_has_ended

_ACTIONS = ("collect", "count", "first", "foreach", "foreachPartition", "head", "isEmpty", "show", "tail", "take")
_CONVERSIONS = ("toArrow", "toPandas")
_FAILURES = (PySparkException, Py4JError)
_UNCONVERTED = (ValueError, TypeError, NotImplementedError, pa.ArrowException)
"""What PySpark and Arrow raise for types that they do not convert."""
_KEPT = "_tidemill_kept"
_NUMBERED = re.compile(r"Error: TM\d{4}")  # a line of Python's trace that is the error, of any class
_TRACE = re.compile(r"Traceback \(most recent call last\)")
_RAISED = re.compile(r"(?!py4j|org\.|java\.)[A-Za-z_][\w.]*(Error|Exception)\b")
_WRAPPINGS = ("An error occurred while calling", "An exception was thrown from the Python worker")


def query_failed(spark: SparkSession, error: Exception) -> TidemillError:
    """TM2016 for a query that failed while it ran, with Spark's message; TM6003 where Java has ended, TM2901 where the
    stack of Spark overflowed.
    """
    if java_has_ended(spark.sparkContext):
        return java_ended("while a query ran")
    if overflowed(error):
        return too_deep(error)
    lines = [line.strip(": ") for line in str(error).splitlines()]
    numbered = next((line for line in lines if _NUMBERED.search(line)), None)
    said = (line for line in lines if line and not line.startswith(_WRAPPINGS))
    raised = next(filter(_RAISED.match, lines), None) if any(map(_TRACE.match, lines)) else None
    return TidemillError(
        "TM2016",
        "the query failed while it ran",
        got=numbered or raised or next(said, repr(error)),
        hint="the views are not affected",
    )


class NumberedFrame(DataFrame):  # type: ignore[misc]  # PySpark does not type this module
    """A DataFrame whose actions raise TM2016 when the query fails; Spark's error is its cause.

    DataFrames that its methods make (``filter``, ``join``, ``groupBy(...).agg`` and so on) are of this class, too, and
    keep the same objects alive.

    Hazard: temporary views and writers made of it are Spark's own and raise Spark's errors.
    """


class NumberedGroups(GroupedData):  # type: ignore[misc]
    """The groups of a :class:`NumberedFrame`."""


def adopted(made: Any, kept: tuple[object, ...]) -> Any:
    """A DataFrame or its groups as one of these classes, which keeps objects alive; anything else unchanged."""
    if isinstance(made, list):  # of randomSplit
        return [adopted(part, kept) for part in made]
    if isinstance(made, DataFrame):
        made.__class__ = NumberedFrame
    elif isinstance(made, GroupedData):
        made.__class__ = NumberedGroups
    else:
        return made
    made.__dict__[_KEPT] = tuple({id(one): one for one in (*_kept(made), *kept)}.values())
    return made


def _kept(given: Any) -> tuple[object, ...]:
    kept: tuple[object, ...] = getattr(given, "__dict__", {}).get(_KEPT, ())
    return kept


def _numbered(method: Callable[..., Any], failures: tuple[type[Exception], ...]) -> Callable[..., Any]:
    @wraps(method)
    def call(self: DataFrame, *given: Any, **named: Any) -> Any:
        try:
            return method(self, *given, **named)
        except failures as error:
            raise query_failed(self.sparkSession, error) from error

    return call


def _adopting(method: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(method)
    def call(self: Any, *given: Any, **named: Any) -> Any:
        kept = tuple(one for frame in (self, *given, *named.values()) for one in _kept(frame))
        return adopted(method(self, *given, **named), kept)

    return call


for _class, _base in ((NumberedFrame, DataFrame), (NumberedGroups, GroupedData)):
    for _name in dir(_base):
        _method = getattr(_base, _name)
        if _class is NumberedFrame and _name in (*_ACTIONS, *_CONVERSIONS):
            failures = (*_FAILURES, *_UNCONVERTED) if _name in _CONVERSIONS else _FAILURES
            setattr(_class, _name, _numbered(_method, failures))
        elif not _name.startswith("_") and isfunction(_method):
            setattr(_class, _name, _adopting(_method))
