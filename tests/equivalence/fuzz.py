"""Batches of random queries over random tables, with counts of what became of them."""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

import duckdb
import pyarrow as pa
from fuzz_duckdb import DuckTables, translated
from fuzz_minimise import Minimiser
from fuzz_parts import Part, words
from fuzz_queries import QueryMaker
from fuzz_tables import FuzzTable, random_tables
from fuzz_trial import Outcome, Plan, Run, random_plan
from oracle import Oracle
from pyspark.sql import SparkSession

_MOST_ROWS = 3000
FORMS = (
    "LEFT JOIN", "RIGHT JOIN", "FULL JOIN", "SEMI JOIN", "ANTI JOIN", "CROSS JOIN", "LATERAL (", "LATERAL VIEW",
    "USING (", "NOT EXISTS (", "EXISTS (", ") IN (SELECT", " IN (SELECT", "NOT IN (SELECT", ") NOT IN (SELECT",
    "NOT ((", "(SELECT sum(abs(", "(SELECT max(",
    "ROLLUP", "CUBE", "GROUPING SETS", "grouping", "FILTER", "HAVING", "DISTINCT", "UNION ALL", "UNION ", "INTERSECT",
    "EXCEPT", "INTERSECT ALL", "EXCEPT ALL", "LIMIT", "OFFSET", "OVER (", "ROWS BETWEEN", "RANGE BETWEEN", "QUALIFY",
    "dense_rank()",
    "LATERAL (SELECT max(", " LIMIT 1)", "lag(", "IGNORE NULLS",
    "explode(", "inline(", "UNPIVOT", "PIVOT (", "window(", "WITH ", "FROM q", "collect_",
    "percentile", "min_by", "approx_count_distinct", "any_value", "covar_", "listagg(", "percentile_approx",
    "NATURAL", "session_window(", "variant_get(", "utc_timestamp(", "first(", "last(", "json_tuple(", "GROUP BY ALL",
    "timestampdiff(", "extract(", "_interval(", "map_filter(", "RLIKE", "string_agg(", "AS (WITH ",
    "mode()", "stddev", "kurtosis", "count(DISTINCT", "(VALUES", "FROM range(", "hash(", "format_string(",
    "WITH RECURSIVE",
)  # fmt: skip
"""What must occur in a long run."""
_TRIES = 6


@dataclass
class Counts:
    """What became of the queries.

    Attributes
    ----------
    made, rejected, refused : int
        Queries that ran; those that were thrown away before, because they would have had no rows, or too many, or
        Spark does not take them; those that are not maintained, by the number and text of their error.
    stacked : int
        Queries that read other ones.
    compared : int
        Comparisons of a view with Spark, one an epoch.
    duckdb, refused_by_duckdb : int
        Views compared with DuckDB at the end, and those that DuckDB did not take or failed in.
    forms : int
        Queries in which each of ``FORMS`` occurs.
    """

    made: int = 0
    rejected: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    stacked: int = 0
    compared: int = 0
    epochs: int = 0
    duckdb: int = 0
    refused_by_duckdb: Counter[str] = field(default_factory=Counter)
    forms: Counter[str] = field(default_factory=Counter)


@dataclass
class Fuzzer:
    """Runs batches and collects failures, minimised.

    Attributes
    ----------
    seconds : float
        How long each failure is made smaller.
    """

    spark: SparkSession
    seed: int
    seconds: float = 60.0
    say: Callable[[str], None] = print
    counts: Counts = field(default_factory=Counts)
    failures: list[str] = field(default_factory=list)

    def batch(self, number: int, size: int, local: bool = True) -> None:
        """One mill with ``size`` views."""
        rng = random.Random(f"fuzz {self.seed} {number}")
        tables = random_tables(rng)
        plan = random_plan(rng, tables, local)
        began = time.monotonic()
        queries, answers = self._queries(rng, tables, size)
        texts = {n: str(q) for n, q in queries.items()}
        late: set[str] = set()
        for name, text in texts.items():
            if rng.random() < 0.3 or words(text) & late:
                late.add(name)
        made = time.monotonic()
        with Run(self.spark, plan, answers) as run:
            outcome = run.run(texts, late)
        self._count(outcome, texts)
        for name, why in outcome.refused.items():
            self.say(f"    refused: {why[:200]} -- {texts[name]}")
        self.say(
            f"batch {number}: {len(texts)} queries, {outcome.epochs} epochs, {len(outcome.failures)} failures, "
            f"{made - began:.1f} + {time.monotonic() - made:.1f} s, epochs {outcome.seconds:.1f} s"
        )
        if not outcome.failures:
            self._ask_duckdb(number, tables, texts, outcome)
            never = texts.keys() - outcome.ever - outcome.refused.keys()
            assert not never, f"batch {number}: no rows in any epoch: {[texts[n] for n in never]}"
        self._minimise(number, plan, queries, late, outcome)

    def _queries(
        self, rng: random.Random, tables: list[FuzzTable], size: int
    ) -> tuple[dict[str, Part], dict[str, pa.Table]]:
        """Queries that have rows at the end, and these rows."""
        maker = QueryMaker(rng, tables)
        oracle = Oracle(self.spark)
        oracle.answers({t.name: t.final_rows() for t in tables}, {})
        queries: dict[str, Part] = {}
        answers: dict[str, pa.Table] = {}
        while len(queries) < size:
            name = f"q{len(queries)}"
            for _ in range(_TRIES):
                query = maker.query(rng.choice((0, 1, 1, 1, 2, 2)))
                if len(str(query.part)) > 6000:
                    continue
                began = time.monotonic()
                try:
                    (answer,) = oracle.answers({}, {name: str(query.part)}).values()
                except Exception as error:
                    reason = str(error).strip().splitlines()[0][:150]
                    self.counts.rejected[f"Spark: {reason[:60]}"] += 1
                    if "DIVIDE" not in reason:
                        self.say(f"    Spark: {reason} -- {query.part}"[:1500])
                    continue
                if time.monotonic() - began > 5:
                    self.say(f"    {time.monotonic() - began:.1f} s: {query.part}")
                if not oracle.decides(str(query.part)):
                    self.counts.rejected["LIMIT above a join"] += 1
                    continue
                if not answer.num_rows or answer.num_rows > _MOST_ROWS:
                    self.counts.rejected["no rows" if not answer.num_rows else "too many rows"] += 1
                    continue
                break
            else:
                continue
            queries[name], answers[name] = query.part, answer
            oracle.name(name, str(query.part))
            maker.add_view(name, query)
        return queries, answers

    def _count(self, outcome: Outcome, texts: dict[str, str]) -> None:
        self.counts.made += len(texts) - len(outcome.refused)
        self.counts.forms.update(f for n, text in texts.items() if n not in outcome.refused for f in FORMS if f in text)
        self.counts.stacked += sum(bool(words(text) & texts.keys()) for text in texts.values())
        self.counts.compared += outcome.compared
        self.counts.epochs += outcome.epochs
        self.counts.refused.update(outcome.refused.values())

    def _ask_duckdb(self, number: int, tables: list[FuzzTable], texts: dict[str, str], outcome: Outcome) -> None:
        duck = DuckTables({**{t.name: t.final_rows() for t in tables}, **outcome.rows})
        for name, rows in outcome.rows.items():
            if translated(texts[name]) is None or _rounded(texts[name], rows) or _has_spans(rows):
                continue
            try:
                differs = duck.differs(texts[name], rows)
            except duckdb.Error as error:
                self.say(f"    DuckDB: {str(error)[:300]} -- {texts[name]}")
                self.counts.refused_by_duckdb[str(error).splitlines()[0][:60]] += 1
                continue
            self.counts.duckdb += 1
            if differs is not None:
                self._report(f"batch {number}, {name}: DuckDB: {differs}\n{texts[name]}")

    def _minimise(self, number: int, plan: Plan, queries: dict[str, Part], late: set[str], outcome: Outcome) -> None:
        found = dict(outcome.failures)
        crash = found.pop("", None)
        if crash is not None:
            self.say(f"batch {number}: {crash.text}")
            for name in queries:  # whose fault is it?
                texts = {n: str(q) for n, q in queries.items()}
                found[name] = Minimiser(self.spark, plan, name, queries[name], texts, late, crash, 0).culprit() or crash
                if found[name] is crash:
                    del found[name]
            if not found:
                self._report(f"batch {number}: only together: {crash}")
        for name, failure in list(found.items())[:4]:
            texts = {n: str(q) for n, q in queries.items() if n != name}
            self.say(
                f"batch {number}, {name}, epoch {failure.epoch}: {failure.kind}: {failure.text[:600]}\n{queries[name]}"
            )
            deadline = time.monotonic() + self.seconds
            minimiser = Minimiser(self.spark, plan, name, queries[name], texts, late, failure, deadline)
            self._report(f"batch {number}, {name}: {minimiser.minimised()}")
        for name, failure in list(found.items())[4:]:
            self._report(f"batch {number}, {name}: {failure.kind}: {failure.text}\n{queries[name]}")

    def _report(self, text: str) -> None:
        text = f"TIDEMILL_SEED={self.seed} {text}"
        self.say(f"FAILED {text}")
        self.failures.append(text)


def _has_spans(rows: pa.Table) -> bool:
    """Whether there are differences of dates and timestamps, which DuckDB counts in days or leaves in parts."""
    return any(pa.types.is_duration(t) for t in rows.schema.types)


def _rounded(query: str, rows: pa.Table) -> bool:
    """Whether DuckDB rounds decimals otherwise: averages are doubles, and UNION with a sum (38 digits) drops digits."""
    together = "sum(" in query and any(name in query for name in ("UNION", "INTERSECT", "EXCEPT", "MINUS"))
    return ("avg(" in query or together) and any(pa.types.is_decimal(t) for t in rows.schema.types)
