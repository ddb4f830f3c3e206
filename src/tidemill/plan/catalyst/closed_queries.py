"""Queries of clients: over views and built-in functions, and nothing else of what Spark can reach."""

from __future__ import annotations

import re
from contextlib import suppress

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from tidemill.errors import TidemillError

SUBSTITUTE = "spark.sql.variable.substitute"
"""Whether ``${env:NAME}`` in a statement is the value of an environment variable."""

_PROGRAM = re.compile(r'"class":"[\w.]*\.ScriptTransformation"')
_COMPUTED = re.compile(r'"class":"[\w.]*WithUnresolvedIdentifier"')
_RELATION = re.compile(r'"multipartIdentifier":"\[([^"]*, [^"]*)\]"')
_FUNCTION = re.compile(r'"class":"[\w.]*\.UnresolvedFunction"[^{}]*?"nameParts":"\[([^"]*)\]"')
_REFLECTING = ("java_method", "reflect", "try_reflect")


def check_closed(spark: SparkSession, text: str) -> None:
    """Refuse a query that reads files, runs programs, calls methods of Java, or reads variables of the process.

    What cannot be parsed is reported by whoever executes it.

    Raises
    ------
    TidemillError
        TM8127 for such a query.
    """
    check_variables(spark, text)
    with suppress(PySparkException):
        plan = spark._jsparkSession.sessionState().sqlParser().parsePlan(text).toJSON()
        functions = [name.rpartition(", ")[2].lower() for name in _FUNCTION.findall(plan)]
        found = [f for f in functions if f in _REFLECTING] + [r.replace(", ", ".") for r in _RELATION.findall(plan)]
        if _PROGRAM.search(plan):
            found.append("TRANSFORM ... USING")
        if _COMPUTED.search(plan):
            found.append("IDENTIFIER")
        if found:
            raise _beyond(found[0])


def check_variables(spark: SparkSession, text: str) -> None:
    """TM8127 for a statement in which Spark would replace ``${...}``."""
    if "${" in text and str(spark.conf.get(SUBSTITUTE, "true")).lower() != "false":
        raise _beyond("${...}")


def _beyond(got: str) -> TidemillError:
    return TidemillError(
        "TM8127",
        "this statement reaches beyond tables and views",
        got=got[:100],
        hint="a server takes queries over tables and views with built-in functions: no files, programs, methods of "
        "Java, IDENTIFIER or variables",
    )
