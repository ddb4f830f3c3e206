"""What a query reaches beside relations and built-in functions of values: files, programs, Java, the process."""

from __future__ import annotations

import re
from contextlib import suppress

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from tidemill.plan.catalyst.parsing import parsed_plan
from tidemill.plan.sql.numbered import deeply_nested

SUBSTITUTE = "spark.sql.variable.substitute"
"""Whether ``${env:NAME}`` in a statement is the value of an environment variable."""

_PROGRAM = re.compile(r'"class":"[\w.]*\.ScriptTransformation"')
_COMPUTED = re.compile(r'"class":"[\w.]*WithUnresolvedIdentifier"')
_RELATION = re.compile(r'"multipartIdentifier":"\[([^"]*, [^"]*)\]"')
_FUNCTION = re.compile(r'"class":"[\w.]*\.UnresolvedFunction"[^{}]*?"nameParts":"\[([^"]*)\]"')
_REFLECTING = ("java_method", "reflect", "try_reflect")


def reaches_beyond(spark: SparkSession, text: str) -> list[str]:
    """What a query names that is neither a relation nor a function of values; nothing for one that cannot be parsed.

    That are files (``csv.`/path` ``), programs (TRANSFORM ... USING), methods of Java, names that are computed
    (IDENTIFIER), and as :func:`variables_in`. TM2901 for one with which Spark's stack overflows: Spark may still get to
    the end of it when it parses it again.
    """
    with suppress(PySparkException), deeply_nested():
        plan = parsed_plan(spark, text).toJSON()
        functions = [name.rpartition(", ")[2].lower() for name in _FUNCTION.findall(plan)]
        return [
            *variables_in(spark, text),
            *(f for f in functions if f in _REFLECTING),
            *(r.replace(", ", ".") for r in _RELATION.findall(plan)),
            *(["TRANSFORM ... USING"] if _PROGRAM.search(plan) else ()),
            *(["IDENTIFIER"] if _COMPUTED.search(plan) else ()),
        ]
    return variables_in(spark, text)


def variables_in(spark: SparkSession, text: str) -> list[str]:
    """``${...}`` where a statement has some that Spark replaces."""
    replaced = "${" in text and str(spark.conf.get(SUBSTITUTE, "true")).lower() != "false"
    return ["${...}"] if replaced else []
