"""Sessions and classes of Spark in Java."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from typing import Any

from py4j.java_gateway import JavaClass
from pyspark.sql import SparkSession


def java_class(spark: SparkSession, name: str) -> Any:
    """A class of Java by its full name.

    ``jvm.org.apache...`` asks Java for a class of the name of each package, which it looks for in all of Spark's jars.
    """
    jvm = spark._jvm
    assert jvm is not None
    return JavaClass(name, jvm._gateway_client)


def any_session() -> SparkSession:
    """The active session, or one that is made for analysing queries: it runs no jobs."""
    active = SparkSession.getActiveSession()
    if active is not None:
        return active
    builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
    return builder.config("spark.log.level", "ERROR").getOrCreate()


@contextmanager
def active_session(spark: SparkSession) -> Iterator[None]:
    """``SparkSession.active()`` is this session meanwhile."""
    before = SparkSession.getActiveSession()
    sessions = java_class(spark, "org.apache.spark.sql.SparkSession")
    sessions.setActiveSession(spark._jsparkSession)
    try:
        yield
    finally:
        if before is None:
            sessions.clearActiveSession()
        else:
            sessions.setActiveSession(before._jsparkSession)


@contextmanager
def without_temporary_views(spark: SparkSession, names: Collection[str]) -> Iterator[None]:
    """Remove the session's temporary views of these names (in lower case), and put them back at the end."""
    catalog = spark._jsparkSession.sessionState().catalog()
    known = catalog.getTempViewNames()
    found = [known.apply(place) for place in range(known.size())]
    away = {name: catalog.getRawTempView(name).get() for name in found if name.lower() in names}
    try:
        for name in away:
            catalog.dropTempView(name)
        yield
    finally:
        for name, definition in away.items():
            catalog.createTempView(name, definition, True)
