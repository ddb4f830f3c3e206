"""SQL over files in tasks: reset barriers beside DuckDB, retain barriers beside Spark over all rows so far."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark.sql import SparkSession
from task_runs import check_everywhere, cut, files, run_all, table_of

from tidemill.errors import EvaluationError, TidemillError
from tidemill.plan.loading.plan import Plan, Scan, sql, values
from tidemill.task.task import Task

INT, TEXT = pa.int64(), pa.string()


def rows(rng: random.Random, count: int) -> pa.Table:
    return pa.table(
        {
            "k": pa.array([rng.choice((None, *range(5))) for _ in range(count)], INT),
            "v": pa.array([rng.choice((None, *range(-3, 4))) for _ in range(count)], INT),
            "s": pa.array([rng.choice((None, "x", "y")) for _ in range(count)], TEXT),
        }
    )


QUERIES = (
    "SELECT k, v + 1 AS w FROM a WHERE v > 0 AND s IS NOT NULL",
    "SELECT k, COUNT(*) AS n, SUM(v) AS t, MIN(s) AS m FROM a GROUP BY k",
    "SELECT COUNT(*) AS n, SUM(v) AS t FROM a",
    "SELECT s, COUNT(DISTINCT k) AS n FROM a GROUP BY s HAVING COUNT(*) > 1",
    "SELECT DISTINCT k, s FROM a",
    "SELECT a.k, a.v, b.v AS w FROM a JOIN b ON a.k = b.k AND a.s = b.s",
    "SELECT a.k, b.s FROM a LEFT JOIN b ON a.k = b.k AND b.v > 0",
    "SELECT a.k, b.v FROM a FULL JOIN b ON a.v = b.v",
    "SELECT a.k, b.k AS j FROM a JOIN b ON a.v < b.v AND a.s = 'x'",
    "SELECT k, v FROM a WHERE k IN (SELECT v FROM b)",
    "SELECT k, v FROM a WHERE NOT EXISTS (SELECT 1 FROM b WHERE b.k = a.k)",
    "SELECT k, v, s FROM a ORDER BY v DESC NULLS LAST, k NULLS FIRST, s NULLS FIRST LIMIT 5",
    "SELECT k, v, ROW_NUMBER() OVER (PARTITION BY k ORDER BY v NULLS FIRST, s NULLS FIRST) AS r FROM a",
    "SELECT k, SUM(v) OVER (PARTITION BY s ORDER BY v NULLS FIRST, k NULLS FIRST "
    "ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) AS t FROM a",
    "SELECT k, s FROM a UNION ALL SELECT v, s FROM b",
    "SELECT a.k, SUM(a.v * b.v) AS t FROM a JOIN b ON a.k = b.k GROUP BY a.k",
)


def multiset(table: pa.Table) -> Counter[tuple[Any, ...]]:
    return Counter(tuple(r.values()) for r in table.to_pylist())


def inputs(tmp_path: Path, rng: random.Random) -> tuple[dict[str, Scan], dict[str, pa.Table]]:
    found, by_path = {}, {}
    for name in ("a", "b"):
        made = [rows(rng, rng.choice((0, 2, 12))) for _ in range(5)]
        found[name] = files(tmp_path, made, name)
        by_path |= dict(zip([s.path for s in found[name].splits()], made, strict=True))
    return found, by_path


@pytest.mark.parametrize("query", QUERIES)
def test_each_set_of_splits_by_itself(query: str, spark: SparkSession, tmp_path: Path, rng: random.Random) -> None:
    scans, by_path = inputs(tmp_path, rng)
    plan = sql(query, **{n: s for n, s in scans.items() if n == "a" or " b" in query})
    names = [s.name for s in plan.scans()]
    sets = [{n: s[n] for n in names} for s in cut(rng, list(scans.values()))]
    found = run_all(plan, sets)
    check_everywhere(plan, sets, found)  # the same rows in the same order, always
    for table, splits in zip(found, sets, strict=True):
        connection = duckdb.connect()
        for name in names:
            read = [rows(rng, 0), *(by_path[s.path] for s in splits[name])]
            connection.register(name, pa.concat_tables(read))
        assert multiset(table) == multiset(connection.sql(query).to_arrow_table().cast(plan.schema.to_arrow()))


@pytest.mark.parametrize(
    "query", [pytest.param(q, marks=[pytest.mark.slow] if n % 2 else []) for n, q in enumerate(QUERIES)]
)
def test_state_that_is_kept(query: str, spark: SparkSession, tmp_path: Path, rng: random.Random) -> None:
    """The sum of all changes is what Spark gives over all rows so far, after each barrier."""
    scans, by_path = inputs(tmp_path, rng)
    plan = sql(query, **{n: s for n, s in scans.items() if n == "a" or " b" in query})
    names = [s.name for s in plan.scans()]
    read = {name: [rows(rng, 0)] for name in names}
    total: Counter[tuple[Any, ...]] = Counter()
    with Task(plan, barrier="retain", threads=rng.choice((0, 2))) as task:
        for splits in cut(rng, list(scans.values())):
            for batch in task.run({n: splits[n] for n in names}):
                for *row, weight in zip(*batch.to_pydict().values(), strict=True):
                    total[tuple(row)] += weight
            for name in names:
                read[name] += [by_path[s.path] for s in splits[name]]
                spark.createDataFrame(pa.concat_tables(read[name]).combine_chunks()).createOrReplaceTempView(name)
            assert {r: n for r, n in total.items() if n} == multiset(spark.sql(query).toArrow())


def test_nodes_with_sql_in_them(spark: SparkSession, tmp_path: Path, rng: random.Random) -> None:
    scans, by_path = inputs(tmp_path, rng)
    a, b = scans["a"], scans["b"]
    named = pa.table({"k": pa.array([1, 2, None], INT), "name": ["one", "two", "none"]})
    few = values(named)
    plan: Plan = a.filter("v > 0 OR s = 'x'").select("k", twice="v * 2").join(few, ["k"], "left")
    plan = plan.aggregate("name", n="count(*)", t="sum(twice)").top(2, "n DESC", "name")
    both = a.join(b, "input.k = other.k AND input.v < other.v", "semi")
    everything = {"a": a.splits(), "b": b.splits()}
    connection = duckdb.connect()
    for name, scan in scans.items():
        connection.register(name, pa.concat_tables([by_path[s.path] for s in scan.splits()]))
    connection.register("few", named)
    wanted = connection.sql(
        "SELECT name, count(*) AS n, sum(v * 2)::BIGINT AS t FROM a LEFT JOIN few USING (k) WHERE v > 0 OR s = 'x' "
        "GROUP BY name ORDER BY n DESC, name NULLS FIRST LIMIT 2"
    )
    (found,) = run_all(plan, [{"a": a.splits()}])
    assert multiset(found) == multiset(wanted.to_arrow_table())
    (found,) = run_all(both, [everything])
    query = "SELECT * FROM a WHERE EXISTS (SELECT 1 FROM b WHERE b.k = a.k AND a.v < b.v)"
    assert multiset(found) == multiset(connection.sql(query).to_arrow_table())


def test_a_row_that_fails(spark: SparkSession, tmp_path: Path) -> None:
    scan = files(tmp_path, [pa.table({"n": [1, 2]}), pa.table({"n": [0]})])
    with Task(scan.select(q="10 / n")) as task, pytest.raises(EvaluationError, match="TM30"):
        list(task.run({"input": scan.splits()}))
    with (
        Task(scan.select(q=pc.divide(pc.scalar(10), pc.field("n")))) as task,
        pytest.raises(EvaluationError, match="TM3901"),
    ):
        list(task.run({"input": scan.splits()}))


def test_what_sql_cannot_say(spark: SparkSession, tmp_path: Path) -> None:
    scan = files(tmp_path, [pa.table({"n": [1]})])
    for number, wrong in (
        ("TM2001", lambda: scan.filter("n >")),
        ("TM2004", lambda: scan.filter("m > 1")),
        ("TM2004", lambda: scan.aggregate("n", t="sum(m)")),
        ("TM2105", lambda: scan.select("n", r="rand()")),
        ("TM4003", lambda: scan.join(scan, "n", "outer")),
        ("TM4003", lambda: scan.select("n", a="n", b=pc.field("n"))),
    ):
        with pytest.raises(TidemillError) as raised:
            wrong()
        assert raised.value.number == number


def test_less_memory_than_rows(spark: SparkSession, tmp_path: Path, rng: random.Random) -> None:
    """What operators hold goes to files, which are gone with the task."""
    import tempfile

    big = [
        pa.table({"k": pa.array(rng.choices(range(3000), k=20_000), INT), "v": pa.array(range(20_000), INT)})
        for _ in range(3)
    ]
    scan = files(tmp_path, big)
    plan = scan.aggregate("k", n="count(*)", t="sum(v)")
    before = set(Path(tempfile.gettempdir()).glob("tidemill-task-*"))
    (expected,) = run_all(plan, [{"input": scan.splits()}])
    with Task(plan, memory_bytes=100_000) as task:
        for _ in range(2):
            assert table_of(plan, task.run({"input": scan.splits()})).equals(expected)
        assert set(Path(tempfile.gettempdir()).glob("tidemill-task-*")) - before
    assert set(Path(tempfile.gettempdir()).glob("tidemill-task-*")) == before


@pytest.mark.parametrize(
    "query", ["SELECT a.k, a.n, b.n AS m FROM a JOIN b ON a.k = b.k", "SELECT k, COUNT(*) AS c FROM a GROUP BY k"]
)
def test_threads_and_little_memory(query: str, spark: SparkSession, tmp_path: Path, rng: random.Random) -> None:
    """State is held by one pipeline at a time: what one spills another may hold."""
    scans = {}
    for name in ("a", "b"):
        tables = [
            pa.table({"k": pa.array(rng.choices(range(400), k=600), INT), "n": pa.array(range(600), INT)})
            for _ in range(6)
        ]
        scans[name] = files(tmp_path, tables, name)
    plan = sql(query, **{n: s for n, s in scans.items() if n == "a" or " b" in query})
    splits = {s.name: s.splits() for s in plan.scans()}
    with Task(plan) as task:
        expected = table_of(plan, task.run(splits))
    for _ in range(5):
        with Task(plan, threads=4, memory_bytes=16_384) as task:
            for _ in range(2):
                assert table_of(plan, task.run(splits)).equals(expected)
