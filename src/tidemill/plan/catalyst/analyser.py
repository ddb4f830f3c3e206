"""Spark's parser, analyser and optimiser, as Tidemill uses them. The only file that touches them.

Every table and view of a mill is registered as a temporary view over an RDD without rows, which says
nothing about data: the optimised plan holds for any rows. The leaf of the plan is recognised by the
id of that RDD, which survives self-joins.
"""

from __future__ import annotations

import json
import re
import threading
import uuid
from collections.abc import Mapping
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.errors import AnalysisException, ParseException, PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import udf

from tidemill.errors import TidemillError
from tidemill.plan.algebra.build import columns_of
from tidemill.plan.algebra.nodes import Node, Project
from tidemill.plan.catalyst import frames as catalyst_frames
from tidemill.plan.catalyst import plan as catalyst_plan
from tidemill.plan.catalyst.expressions import expressions as catalyst_expressions
from tidemill.plan.catalyst.expressions.python import refused
from tidemill.plan.catalyst.expressions.zones import with_zone
from tidemill.plan.catalyst.plan_size import check_size
from tidemill.plan.catalyst.planner import planner
from tidemill.plan.catalyst.relations.recursion import DEFAULT_LIMITS, RecursionLimits
from tidemill.plan.catalyst.sessions import java_class
from tidemill.plan.catalyst.trees import places as catalyst_places
from tidemill.plan.catalyst.trees.tree import elements
from tidemill.plan.sql import statements
from tidemill.plan.sql.nesting import check_nesting
from tidemill.plan.sql.numbered import overflowed, too_deep
from tidemill.plan.sql.own_statements import AsTable, own_statement
from tidemill.plan.sql.statements import (
    AlterSink,
    AlterTable,
    AlterView,
    CreateSink,
    CreateTable,
    CreateView,
    Query,
    Source,
    Statement,
)
from tidemill.schema import DAY_TIME, YEAR_MONTH, Field, Schema, check_storable, quoted, type_from_spark
from tidemill.zones import UTC

_RULES_THAT_LOSE_RELATIONS = (
    "ConvertToLocalRelation",
    "PropagateEmptyRelation",
    "PruneFilters",
    "OptimizeLimitZero",
    "EliminateLimits",
)
_RULES_WE_DO_OURSELVES = ("DecimalAggregates", "OptimizeIn", "InferWindowGroupLimit")
_MERGE_SUBQUERIES = (
    "org.apache.spark.sql.execution.planmerging.MergeSubplans"  # into structs, which the algebra does not have
)
_RULE_THAT_CANNOT_BE_EXCLUDED = ".RewriteDistinctAggregates"
_EXPAND = 'plans.logical.Expand"'
_EXCLUDED = "spark.sql.optimizer.excludedRules"
_OPTIMIZER = "org.apache.spark.sql.catalyst.optimizer."

_LEVELS, _ROWS = "spark.sql.cteRecursionLevelLimit", "spark.sql.cteRecursionRowLimit"

_CHANGING = {
    "CurrentDate": "current_date()",
    "CurrentTimestamp": "current_timestamp()",
    "CurrentTime": "current_time()",
    "Now": "now()",
    "LocalTimestamp": "localtimestamp()",
    "CurrentBatchTimestamp": "current_timestamp()",
    "CurrentUser": "current_user()",
    "CurrentDatabase": "current_database()",
    "CurrentCatalog": "current_catalog()",
    "Rand": "rand()",
    "Randn": "randn()",
    "Uuid": "uuid()",
    "Shuffle": "shuffle()",
    "MonotonicallyIncreasingID": "monotonically_increasing_id()",
    "SparkPartitionID": "spark_partition_id()",
    "InputFileName": "input_file_name()",
    "InputFileBlockStart": "input_file_block_start()",
    "InputFileBlockLength": "input_file_block_length()",
}
_INSTEAD = {
    "InputFileName": "create the table with OPTIONS (metadataColumn '_metadata'), and use _metadata.file_path",
}
"""What to write instead, where that is more than a constant."""


_CLAUSES = ("RECURSIVE", "TABLESAMPLE", "PIVOT")
"""Keywords whose place is shown for errors without one."""


class Catalyst:
    """Parses statements and plans queries over the tables and views registered with it, in a time zone."""

    def __init__(self, spark: SparkSession, time_zone: str = UTC) -> None:
        self._zone = time_zone
        self._outer = spark
        self._spark = spark.newSession()
        ours = (_OPTIMIZER + rule for rule in _RULES_THAT_LOSE_RELATIONS + _RULES_WE_DO_OURSELVES)
        excluded = ",".join((*ours, _MERGE_SUBQUERIES))
        self._spark.conf.set(_EXCLUDED, excluded)
        self._spark.conf.set("spark.sql.session.timeZone", time_zone)
        self._spark.conf.set("spark.sql.ansi.enabled", "true")
        self._java = planner(spark)
        self._relations: dict[int, str] = {}
        self._awaited: dict[str, Schema] = {}
        self._registering = threading.Lock()
        self._marks: dict[str, str] = {}
        self._marking = threading.Lock()
        self._token = uuid.uuid4().hex
        self.functions: dict[str, Any] = {}
        """Python functions that queries may call, by name."""

    def register(self, name: str, schema: Schema) -> None:
        """Make a table or view known, replacing one of the same name. Spark is told before the next query."""
        with self._registering:
            self._awaited[name] = schema

    def _tell_spark(self) -> None:
        """Register what has been made known since the last query: some ms each, for which no statement waits."""
        with self._registering:
            while self._awaited:
                name, schema = next(iter(self._awaited.items()))
                leaf = self._java.register(self._spark._jsparkSession, quoted(name), schema.to_ddl())
                self._relations[leaf] = name
                del self._awaited[name]

    def register_function(self, name: str, function: Any, return_type: Any, deterministic: bool) -> None:
        """Let queries call a Python function by name.

        Raises
        ------
        TidemillError
            TM2107 when it is not deterministic, or its type cannot be read.
        """
        if not deterministic or not getattr(function, "deterministic", True):
            raise refused(name, "it is declared not deterministic", "a view needs a function of its arguments alone")
        try:
            self.functions[name] = function if return_type is None else udf(function, return_type)
            for session in (self._spark, self._outer):  # the queries of pipelines are analysed in the outer one
                session.udf.register(name, self.functions[name])
        except (PySparkException, TypeError) as error:
            why = str(error).splitlines()[0]
            raise refused(name, why, "give a type such as 'int' or 'array<string>'") from error

    def forget(self, name: str) -> None:
        """Remove a table or view."""
        with self._registering:
            self._awaited.pop(name, None)
            self._spark.catalog.dropTempView(name)
        with self._marking:
            self._marks = {m: n for m, n in self._marks.items() if n != name}

    def mark(self, name: str, uid: str) -> str:
        """The name of the leaf by which DataFrames over a relation are recognised."""
        mark = f"tidemill {self._token} {uid} {name}"
        with self._marking:
            self._marks = {**self._marks, mark: name}
        return mark

    def unmark(self, name: str, uid: str) -> None:
        """No longer recognise DataFrames over this relation: it has been dropped or replaced."""
        with self._marking:
            self._marks = {m: n for m, n in self._marks.items() if m != f"tidemill {self._token} {uid} {name}"}

    def parse(self, source: Source) -> Statement:
        """The statement in a text.

        Raises
        ------
        TidemillError
            TM2001 when it cannot be parsed, TM2002 for a type, TM2003 for a statement that Tidemill does not have.
        """
        statement = statements.classify(source)
        if statement is not None:
            return statement
        own = own_statement(source)
        if own is not None and not isinstance(own, AsTable):
            return own
        kind = "" if own is None else own.kind
        text, or_replace = statements.without_or_replace(source.text if own is None else own.text)
        text, static = statements.without_static(text)
        text, alters = statements.with_properties(text)
        try:
            check_nesting(text)
            plan = json.loads(self._java.statement(self._spark._jsparkSession, text))
        except PySparkException as error:  # a number that no type holds is an ArithmeticException
            raise parse_error(error, source, text) from error
        match plan["class"]:
            case "CreateTable" if own is not None:
                made = _create_table(plan, source, static)
                return CreateSink(made.name, own.view, made.format, made.options, made.if_not_exists)
            case "SetTableProperties" if kind:
                return _altering(kind, _altered(plan), plan["properties"])
            case "UnsetTableProperties" if kind:
                return _altering(kind, _altered(plan), dict.fromkeys(plan["keys"]))
            case "CreateTable":
                return _create_table(plan, source, static)
            case "CreateMaterializedViewAsSelect":
                return _create_view(plan, source, or_replace)
            case "SetTableProperties" if alters:
                return AlterTable(_altered(plan), plan["properties"])
            case "UnsetTableProperties" if alters:
                return AlterTable(_altered(plan), dict.fromkeys(plan["keys"]))
        if statements.words(source.text, 1)[0][0] in ("(", "TABLE"):
            return Query(source.text)
        raise TidemillError(
            "TM2003",
            "this statement is not supported",
            got=source.text.splitlines()[0][:80],
            hint="CREATE and ALTER TABLE, CREATE MATERIALIZED VIEW, ALTER VIEW, CREATE and ALTER SINK, DROP, SHOW, "
            "DESCRIBE, EXPLAIN INCREMENTAL, SELECT",
        )

    def plan(self, query: str | DataFrame, at: tuple[int, int] = (1, 1)) -> Node:
        """The algebra of a query over registered relations, or of a DataFrame over marked ones.

        ``at`` is the line and column of a script that the query begins at, for errors.

        Raises
        ------
        TidemillError
            TM2001 for a syntax error, TM2004 when a name or type does not resolve, TM2105 for a function
            whose value is not determined by the rows, TM2107 for a user's function, TM2017 for a DataFrame
            of another time zone than the mill, TM21xx for what is not supported yet, TM2901 for a text that is nested
            too deeply, TM2902 for a plan that is too large.
        """
        text = query if isinstance(query, str) else ""
        try:
            if isinstance(query, str):
                check_nesting(query)
                self._tell_spark()
                execution = self._java.analysed(self._spark._jsparkSession, query)
            else:
                execution = catalyst_frames.moved(query, self._spark)._jdf.queryExecution()
            self._check_deterministic(execution, text, at)
            if (not text or "watermark" in text.lower()) and "EventTimeWatermark" in execution.logical().toJSON():
                raise TidemillError(
                    "TM2103",
                    "a watermark belongs to a table, not to a query",
                    got="the WATERMARK clause",
                    hint="CREATE TABLE ... OPTIONS (..., watermark 'column', watermarkDelay '10 minutes')",
                )
            plan, json_text = self._optimized(execution)
        except ParseException as error:
            raise parse_error(error, Source(text)) from error
        except (AnalysisException, PySparkException) as error:
            raise analysis_error(error, text, at) from error
        except Py4JJavaError as error:
            message = str(error.java_exception.getMessage())
            unresolved = error.java_exception.getClass().getSimpleName() == "UnresolvedException"
            if not message.startswith("[") or (message.startswith("[INTERNAL_ERROR") and not unresolved):
                raise
            got = message.split(" SQLSTATE: ")[0]
            raise TidemillError("TM2004", "the query does not resolve", got=got, hint="") from error
        nodes = with_zone(catalyst_expressions.read_plan(plan, json_text), self._zone)
        try:
            limits = self._limits() if "UnionLoop" in json_text else DEFAULT_LIMITS
            node = catalyst_plan.read_plan(nodes, self._relations, self._marks, limits=limits)
        except TidemillError as error:
            raise catalyst_places.placed(error, text, at, *_CLAUSES) from error
        check_size(node)
        for field in node.schema.fields:
            check_storable(field.type, YEAR_MONTH)
        return Project(node, columns_of(node), _distinct_names(json.loads(self._java.columns(execution))))

    def _limits(self) -> RecursionLimits:
        levels, rows = self._limit(_LEVELS), self._limit(_ROWS)
        return RecursionLimits(levels, None if rows is None else rows - 1)

    def _limit(self, setting: str) -> int | None:
        """A setting of the session that the mill was opened with; -1 is no limit."""
        value = int(str(self._outer.conf.get(setting)))
        return None if value == -1 else value

    def _optimized(self, execution: Any) -> tuple[Any, str]:
        """The optimised plan with several DISTINCT aggregates left as they are, and nothing read from a cache.

        With it comes its JSON.

        Spark refuses to leave out the rule that turns them into an Expand, so where that has happened the
        optimizer's batches are run from here, without the rule.
        """
        try:
            plan = execution.optimizedPlan()
        except Py4JJavaError as error:
            # The rule fails for some functions, such as listagg with an order beside another DISTINCT.
            if _RULE_THAT_CANNOT_BE_EXCLUDED[1:] not in str(error):
                raise
        else:
            text = self._java.json(plan)
            distinct = _EXPAND in text and '"name":"gid"' in text  # the column that the rule adds
            if not distinct and "InMemoryRelation" not in text:
                return plan, text
        sessions = java_class(self._spark, "org.apache.spark.sql.classic.SparkSession")
        before = sessions.getActiveSession()
        sessions.setActiveSession(self._spark._jsparkSession)
        try:
            plan = _run_batches(self._spark._jsparkSession.sessionState().optimizer(), execution.normalized())
            return plan, self._java.json(plan)
        finally:
            if before.isDefined():
                sessions.setActiveSession(before.get())
            else:
                sessions.clearActiveSession()

    def _check_deterministic(self, execution: Any, query: str, at: tuple[int, int]) -> None:
        """TM2105 and TM2107 for functions of an analysed plan; TM2017 for a DataFrame of another time zone.

        A text, which has the time zone of this session, is only looked into where Spark itself says that its plan has
        such a function.
        """
        if query and not self._java.doubtful(execution):
            return
        analyzed = execution.analyzed()
        text = self._java.json(analyzed)
        catalyst_frames.check_python(text)
        catalyst_frames.check_settings(text, self._zone)
        name = _changing(text)
        if name is not None:
            error = _not_decided(name)
            error.passed += catalyst_places.of_class(analyzed, name)
            raise catalyst_places.placed(error, query, at, _CHANGING[name].rstrip("()"))


def check_classes(text: str) -> None:
    """TM2105 when an analysed plan, as JSON, has a function whose value the rows do not determine."""
    name = _changing(text)
    if name is not None:
        raise _not_decided(name)


def _changing(text: str) -> str | None:
    return next((name for name in _CHANGING if f"expressions.{name}" + '"' in text), None)


def _not_decided(name: str) -> TidemillError:
    return TidemillError(
        "TM2105",
        "a view cannot use a function whose value is not decided by its rows",
        got=_CHANGING[name],
        hint=_INSTEAD.get(name, "put the value into a column of a table, or write a constant"),
    )


def _distinct_names(names: list[str]) -> tuple[str, ...]:
    """Names of a view's columns, in which duplicates, compared without case, get a number.

    Spark returns such columns from a SELECT, and refuses them in CREATE VIEW, where they could not be named. A number
    that would make the name of another column is skipped.
    """
    taken = {n.lower() for n in names}
    seen: set[str] = set()
    found = []
    for name in names:
        distinct, number = name, 0
        while distinct.lower() in seen or (number and distinct.lower() in taken):
            number += 1
            distinct = f"{name}_{number}"
        seen.add(distinct.lower())
        found.append(distinct)
    return tuple(found)


def _run_batches(optimizer: Any, plan: Any) -> Any:
    """What ``RuleExecutor.execute`` does, without ``_RULE_THAT_CANNOT_BE_EXCLUDED``."""
    for batch in elements(optimizer.batches()):
        rules = list(elements(batch.rules()))
        for _ in range(batch.strategy().maxIterations()):
            before = plan
            for rule in rules:
                if not rule.ruleName().endswith(_RULE_THAT_CANNOT_BE_EXCLUDED):
                    plan = rule.apply(plan)
            if plan.fastEquals(before):
                break
    return plan


def _create_table(plan: Mapping[str, Any], source: Source, static: bool) -> CreateTable:
    fields = []
    for column, spark_type, nullable in plan["columns"]:
        type_ = type_from_spark(spark_type)
        check_storable(type_, DAY_TIME, YEAR_MONTH)
        fields.append(Field(column, type_, nullable))
    if plan["provider"] is None:
        raise TidemillError(
            "TM2007",
            "a table needs a format",
            got=source.text.splitlines()[0][:80],
            hint="CREATE TABLE name (columns) USING csv OPTIONS (path '...')",
        )
    options = _options(plan["options"])
    if plan["location"] is not None:
        options["path"] = plan["location"]
    if static:
        options = {k: v for k, v in options.items() if k.lower() != "static"} | {"static": "true"}
    name = _identifier(plan["name"])
    schema, format_ = Schema(tuple(fields)), plan["provider"].lower()
    return CreateTable(name, schema, format_, options, plan["ifNotExists"], _primary_key(plan["constraints"]))


def _primary_key(constraints: list[tuple[str, list[str]]]) -> tuple[str, ...]:
    """The columns of PRIMARY KEY, as written; Spark's parser allows it once."""
    names: tuple[str, ...] = ()
    for kind, columns in constraints:
        if kind != "PrimaryKeyConstraint":
            raise TidemillError(
                "TM2033",
                "this constraint of a table is not supported",
                got=kind,
                hint="PRIMARY KEY (columns) and NOT NULL are",
            )
        names = tuple(columns)
    return names


def _create_view(plan: Mapping[str, Any], source: Source, or_replace: bool) -> CreateView:
    query = plan["query"]
    at = source.place(max(0, source.text.rfind(query)))
    return CreateView(_identifier(plan["name"]), query, plan["properties"], plan["ifNotExists"], or_replace, at)


def _altering(kind: str, name: str, changes: Mapping[str, str | None]) -> AlterSink | AlterView:
    return AlterSink(name, options=changes) if kind == "SINK" else AlterView(name, properties=changes)


def _altered(plan: Mapping[str, Any]) -> str:
    """The table of an ALTER TABLE."""
    return str(plan["name"][0]).lower()


def _identifier(parts: list[str]) -> str:
    if len(parts) != 1:
        raise TidemillError(
            "TM2008",
            "names have one part",
            got=".".join(parts),
            hint="a mill has one namespace: leave out the catalog and schema",
        )
    return parts[0].lower()


def _options(given: list[tuple[str, Any, str]]) -> dict[str, str]:
    """Options as text, which Spark's parser has made literals."""
    options = {}
    for name, inner, text in given:
        if inner is None:
            raise TidemillError(
                "TM4003",
                f"bad value of option {name}",
                got=text,
                hint="write the value in quotes",
            )
        options[name] = str(inner) if not isinstance(inner, bool) else str(inner).lower()
    return options


def parse_error(error: PySparkException, source: Source, parsed: str = "") -> TidemillError:
    """TM2001 with the place in the source; TM2901 where Spark's stack overflowed.

    Spark may have ``parsed`` another text, in which one word is longer.
    """
    if overflowed(error):
        return too_deep(error)
    message = " ".join(str(error).split("== SQL ==")[0].strip().splitlines()).replace(" SQLSTATE: 42601", "")
    context = re.search(r" SQLSTATE: \w+ == SQL \(line (\d+), position (\d+)\) ==.*$", message)
    if context is not None:  # which counts columns from 1
        message = f"{message[: context.start()]} (line {context[1]}, pos {int(context[2]) - 1})"
    place = re.search(r"\(line (\d+), pos (\d+)\)$", message)
    if place is not None:
        line, column = int(place[1]), int(place[2]) + 1
        longer = len(parsed) - len(source.text) if parsed else 0
        word = next((i for i, (a, b) in enumerate(zip(parsed, source.text, strict=False)) if a != b), len(parsed))
        before = parsed[:word].rpartition("\n")[2]
        if longer and line == parsed.count("\n", 0, word) + 1 and column > len(before):
            column -= longer
        column += source.column - 1 if line == 1 else 0
        message = f"{message[: place.start()].rstrip(' .')}, at line {source.line + line - 1}, column {column}"
    return TidemillError(
        "TM2001",
        "the SQL cannot be parsed",
        got=message,
        hint=f"the statement begins on line {source.line}: {source.text.splitlines()[0][:60]}",
    )


def analysis_error(error: PySparkException, query: str, at: tuple[int, int] = (1, 1)) -> TidemillError:
    """TM2004 for what Spark's analyser says of a query, with the place in its text."""
    got = str(error).split("; SQLSTATE")[0].split(" SQLSTATE: ")[0].split(";\n")[0].splitlines()[0]
    hint = ""
    found = None
    for context in error.getQueryContext() or []:
        try:
            found = context.startIndex(), context.stopIndex()
        except PySparkException:
            continue
        break
    if found is None or found == (0, len(query) - 1):
        found = _named(error, query) or found
    if found is not None:
        hint = catalyst_places.shown(query, found[0], found[1], at)
    if error.getCondition() == "PATH_NOT_FOUND":
        return catalyst_plan.foreign(got)
    return TidemillError("TM2004", "the query does not resolve", got=got, hint=hint)


def _named(error: PySparkException, query: str) -> tuple[int, int] | None:
    """Where the expression stands that an error names in its message."""
    java = getattr(error, "_origin", None)
    extended = java is not None and java.getClass().getSimpleName() == "ExtendedAnalysisException"
    plan = java.plan() if java is not None and extended else None
    parameters = error.getMessageParameters() or {}
    names = ("expression", "wf_name", "condition", "clauseName", "funcName", "sqlExpr", "relationId")
    texts = [parameters[name] for name in names if name in parameters]
    return catalyst_places.find(plan.get() if plan is not None and plan.isDefined() else None, texts, query)
