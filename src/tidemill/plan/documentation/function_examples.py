"""Which of Spark's functions a view may call, found by planning the examples in Spark's own documentation.

``SHOW FUNCTIONS`` names the functions and each has examples. They are planned without the rules that would compute
them, and translated as the expressions of a view are. So what is supported is never written down, only why the rest is
not: :mod:`tidemill.plan.documentation.function_reasons`.
"""

from __future__ import annotations

import json
import re
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.logger import PySparkLogger
from pyspark.sql import SparkSession

from tidemill.errors import TidemillError
from tidemill.plan.algebra.nodes import Scan
from tidemill.plan.catalyst import plan as catalyst_plan
from tidemill.plan.catalyst.analyser import check_classes
from tidemill.plan.catalyst.expressions.expressions import read_plan, translate, tree
from tidemill.plan.catalyst.planner import planner
from tidemill.plan.documentation.aggregates import aggregates_table
from tidemill.plan.documentation.function_reasons import BY_GROUP, CALLS, REASONS
from tidemill.task.expressions import Expression
from tidemill.task.functions.documentation import functions_table

_OPTIMIZER = "org.apache.spark.sql.catalyst.optimizer."
_EXCLUDED = (
    "ConvertToLocalRelation", "PropagateEmptyRelation", "PruneFilters", "OptimizeLimitZero", "EliminateLimits",
    "DecimalAggregates", "OptimizeIn", "InferWindowGroupLimit", "ConstantFolding", "OptimizeOneRowPlan",
)  # fmt: skip
_SELECT = re.compile(r"^\s*> (SELECT .*?);\s*$", re.MULTILINE | re.DOTALL)
_SCALAR = re.compile(r"SELECT\s+(?!DISTINCT\b|\*)(.*)", re.DOTALL | re.IGNORECASE)
_FROM = re.compile(r"\bFROM\s+(VALUES|\(|[a-z_]+\()|\b(GROUP|OVER)\b", re.IGNORECASE)
_WHOLE = frozenset({"agg_funcs", "generator_funcs", "window_funcs", "table_funcs"})
_BASE = Scan("any", ())
"""The table of examples: a view reads one, an example has none."""


@dataclass
class SparkFunction:
    """A function of Spark, its group and example queries, and what came of them."""

    name: str
    group: str
    examples: tuple[str, ...]
    accepted: list[str] = field(default_factory=list)
    refused: list[tuple[str, TidemillError]] = field(default_factory=list)
    unplanned: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class PlannedExample:
    """An example without input: the text behind SELECT, and ``struct(text)`` as a view would compute it."""

    function: str
    text: str
    value: Expression


def functions(spark: SparkSession) -> list[SparkFunction]:
    """Every function of ``SHOW FUNCTIONS`` with its examples."""
    jvm, state = spark._jvm, spark._jsparkSession.sessionState()
    assert jvm is not None
    found = []
    for (name,) in spark.sql("SHOW FUNCTIONS").collect():
        info = state.catalog().lookupFunctionInfo(jvm.org.apache.spark.sql.catalyst.FunctionIdentifier(name))
        examples = tuple(_SELECT.findall(info.getExamples())) + CALLS.get(name, ())
        found.append(SparkFunction(name, info.getGroup() or "", examples))
    return found


def plan_examples(spark: SparkSession) -> tuple[list[SparkFunction], list[PlannedExample]]:
    """All functions with what came of their examples, and the scalar examples that are supported, to be compared.

    Uses a session of its own, in which Spark computes nothing while planning.
    """
    session = spark.newSession()
    session.conf.set("spark.sql.optimizer.excludedRules", ",".join(_OPTIMIZER + rule for rule in _EXCLUDED))
    session.conf.set("spark.sql.session.timeZone", "UTC")
    session.conf.set("spark.sql.ansi.enabled", "true")
    folding = session.newSession()
    folding.conf.set("spark.sql.optimizer.excludedRules", ",".join(_OPTIMIZER + rule for rule in _EXCLUDED[:-2]))
    known = functions(session)
    scalar: list[_Scalar] = []
    for function in known:
        for query in function.examples:
            match = _SCALAR.fullmatch(query)
            if match is None or function.group in _WHOLE or _FROM.search(query):
                _plan_query(folding, function, query)  # an option of an aggregate must be a constant
            else:
                scalar.append(_Scalar(function, query, match[1]))
    planned: list[PlannedExample] = []
    for start in range(0, len(scalar), 100):
        planned += _plan_batch(session, scalar[start : start + 100])
    return known, planned


@dataclass(frozen=True)
class _Scalar:
    function: SparkFunction
    query: str
    text: str


def status(function: SparkFunction) -> tuple[str, str]:
    """The status of a function and a remark.

    Raises
    ------
    KeyError
        When it is not, and :mod:`~tidemill.plan.documentation.function_reasons` does not say why.
    """
    reason = REASONS.get(function.name) or BY_GROUP.get(function.group)
    left_out = len(function.refused) + len(function.unplanned)
    if function.accepted and not left_out:
        return "supported", ""
    if reason is not None and (len(function.accepted) < 2 or len(function.accepted) < left_out):
        return reason
    if not function.accepted:
        raise KeyError(function.name)
    shown = [error.got.split(": '")[0] for _, error in function.refused] + ["a type that Spark itself switches off"]
    return "in part", f"not {shown[0][:90]}"


def functions_of_spark(known: list[SparkFunction]) -> str:
    """One Markdown row for each function of Spark."""
    lines = ["| function of Spark | status | remark |", "|---|---|---|"]
    for function in sorted(known, key=lambda f: f.name):
        state, remark = status(function)
        name = function.name.replace("|", "\\|")
        lines.append(f"| `{name}` | {state} | {remark.replace('|', chr(92) + '|')} |")
    return "\n".join(lines)


def main() -> None:
    """Write the three tables of ``docs/functions.md``: ``python -m
    tidemill.plan.documentation.function_examples docs/functions.md``."""
    page = Path(sys.argv[1])
    spark = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    PySparkLogger.getLogger("SQLQueryContextLogger").disabled = True  # it would print Java's stack for each refusal
    text = page.read_text(encoding="utf-8")
    tables = {
        "| family | function | SQL |": functions_table(),
        "| function of Spark | status | remark |": functions_of_spark(plan_examples(spark)[0]),
        "| aggregate | ": aggregates_table(),
    }
    for head, table in tables.items():
        start = text.index(head)
        end = text.index("\n\n", start)
        text = text[:start] + table + text[end:]
    page.write_text(text, encoding="utf-8")
    spark.stop()


def _plan_batch(spark: SparkSession, part: list[_Scalar]) -> list[PlannedExample]:
    """The examples of one query, a struct each; in halves when Spark refuses it."""
    listed = ", ".join(f"struct({example.text}) AS e{n}" for n, example in enumerate(part))
    try:
        frame = spark.sql(f"SELECT {listed}")
        nodes = _nodes_of(spark, frame._jdf.queryExecution())
    except (PySparkException, Py4JError):
        if len(part) == 1:
            return _plan_query(spark, part[0].function, part[0].query)
        half = len(part) // 2
        return _plan_batch(spark, part[:half]) + _plan_batch(spark, part[half:])
    analyzed = json.loads(frame._jdf.queryExecution().analyzed().toJSON())[0]["projectList"]
    if len(nodes) != 2:  # something of them is computed in a projection below
        return [e for example in part for e in _plan_query(spark, example.function, example.query)]
    found = []
    for example, before, expression in zip(part, analyzed, nodes[0]["projectList"], strict=True):
        try:
            check_classes(json.dumps(before))
            values = translate(tree(expression), {})
        except TidemillError as error:
            example.function.refused.append((example.query, error))
            continue
        example.function.accepted.append(example.query)
        found.append(PlannedExample(example.function.name, example.text, values))
    return found


def _nodes_of(spark: SparkSession, execution: Any) -> list[dict[str, Any]]:
    """The optimised plan of a query."""
    plan = execution.optimizedPlan()
    return read_plan(plan, planner(spark).json(plan))


def _plan_query(spark: SparkSession, function: SparkFunction, query: str) -> list[PlannedExample]:
    try:
        execution = spark.sql(query)._jdf.queryExecution()
        check_classes(execution.analyzed().toJSON())
        catalyst_plan.read_plan(_nodes_of(spark, execution), {}, base=_BASE)
    except TidemillError as error:
        function.refused.append((query, error))
    except (PySparkException, Py4JError) as error:
        function.unplanned.append(f"{query}: {str(error).splitlines()[0]}")
    else:
        function.accepted.append(query)
    return []


if __name__ == "__main__":
    main()
