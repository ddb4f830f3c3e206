"""Random queries over random tables equal Spark after every epoch, and DuckDB at the end.

TIDEMILL_QUERIES says how many (``make fuzz QUERIES=2000``), TIDEMILL_SEED which. A failing query is made smaller and
printed with its tables, ready for a regression test.
"""

from __future__ import annotations

import os
import random
import time
from dataclasses import replace

import pyarrow as pa
import pytest
from fuzz import FORMS, Fuzzer
from fuzz_minimise import Minimiser
from fuzz_parts import clause, fixed, listed, reductions, sql
from fuzz_queries import QueryMaker
from fuzz_tables import FuzzTable, random_tables
from fuzz_trial import Failure, Plan
from fuzz_values import INTEGER
from pyspark.sql import SparkSession
from random_tables import Column

from tidemill.task.functions.columns.registry import every_function

_QUERIES = int(os.environ.get("TIDEMILL_QUERIES", "12"))
_BATCH = 20


@pytest.mark.timeout(max(300, 20 * _QUERIES))
def test_random_queries(spark: SparkSession, seed: int) -> None:
    fuzzer = Fuzzer(spark, seed)
    sizes = [_BATCH] * (_QUERIES // _BATCH) if _QUERIES >= _BATCH else [_QUERIES * 4 // 5, _QUERIES - _QUERIES * 4 // 5]
    for number, size in enumerate(sizes):
        fuzzer.batch(number, size, local=number % 10 != 1)
    counts = fuzzer.counts
    print(counts)
    assert not fuzzer.failures, "\n\n".join(fuzzer.failures)
    assert counts.made + sum(counts.refused.values()) == sum(sizes)
    assert sum(counts.rejected.values()) <= max(20, counts.made), counts.rejected
    assert sum(counts.refused.values()) <= max(2, counts.made / 20), counts.refused
    assert counts.stacked >= counts.made // 20, counts.stacked
    assert counts.duckdb >= counts.made / (2.5 if counts.made >= 100 else 6), counts
    if counts.made >= 1900:  # some of them are rare
        assert counts.forms.keys() == set(FORMS), set(FORMS) - counts.forms.keys()
    assert sum(counts.refused_by_duckdb.values()) <= max(4, counts.duckdb / 4), counts.refused_by_duckdb


def test_a_failure_is_made_small(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a function that is wrong below zero, what is left is that function and a row below zero."""
    monkeypatch.setitem(
        every_function(), "abs", replace(every_function()["abs"], kernel=lambda call, args, rows: args[0])
    )
    columns = (Column("k", "int", pa.int32(), lambda rng: 0), Column("i", "int", pa.int32(), lambda rng: 0))
    events = [("I", (k, i)) for k, i in ((1, 5), (2, -6))]
    table = FuzzTable("t0", columns, (INTEGER, INTEGER), (), True, False, [events])
    plan = Plan((table,), {"partitions": 2}, ((("t0", 0),),), 1)
    items = listed([sql("({} + {})", sql("abs({})", fixed("x.i")), fixed("x.k")), fixed("x.k")])
    query = fixed("SELECT {} FROM t0 x", items)
    minimiser = Minimiser(spark, plan, "q", query, {}, (), Failure("wrong", "q", ""), time.monotonic() + 100)
    text = minimiser.minimised()
    assert str(minimiser.query) == "SELECT abs(x.i) FROM t0 x"
    assert [e for t in minimiser.plan.tables for f in t.files for e in f] == [("I", (2, -6))]
    assert "--   2,-6,I" in text and "CREATE MATERIALIZED VIEW q AS SELECT abs(x.i) FROM t0 x;" in text


def test_the_same_seed_makes_the_same_queries() -> None:
    def made() -> list[str]:
        rng = random.Random("again")
        maker = QueryMaker(rng, random_tables(rng))
        return [str(maker.query().part) for _ in range(20)]

    assert made() == made()


def test_reductions() -> None:
    query = fixed(
        "SELECT {} FROM t{}", listed([sql("abs({})", fixed("a")), fixed("b")]), clause(" WHERE {}", fixed("c"))
    )
    assert str(query) == "SELECT abs(a), b FROM t WHERE c"
    assert [str(r) for r in reductions(query)] == [
        "SELECT b FROM t WHERE c",
        "SELECT abs(a), b FROM t",
        "SELECT a, b FROM t WHERE c",
        "SELECT abs(a) FROM t WHERE c",
    ]
