"""Views of DataFrames: the same rows as Spark's own DataFrames give, also after a restart."""

from __future__ import annotations

import importlib
import pickle
import random
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pandas as pd  # type: ignore[import-untyped]
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from oracle import usual_settings, usual_tables
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from mill_factory import MillFactory
from tidemill.errors import EvaluationError, TidemillError
from tidemill.mill import Mill
from tidemill.task.expressions import Call, Ref
from tidemill.task.functions.evaluate import evaluate
from tidemill.task.functions.python_functions import python_version
from tidemill.testing import assert_same_rows

Read = Callable[[str], DataFrame]

FRAMES: dict[str, Callable[[Read], DataFrame]] = {
    "f_rows": lambda read: (
        read("t").where(sf.col("i") > 0).select("k", sf.upper("s").alias("up"), (sf.col("i") * 2).alias("j"))
    ),
    "f_groups": lambda read: (
        read("t").groupBy("k").agg(sf.count("*").alias("c"), sf.sum("i").alias("s"), sf.max("d").alias("m"))
    ),
    "f_joined": lambda read: read("t").join(read("u"), "k", "left").select("k", "i", "name"),
    "f_self": lambda read: (
        read("t").alias("l").join(read("t").alias("r"), sf.expr("l.i = r.i and l.k < r.k")).select("l.k", "r.s")
    ),
    "f_same": lambda read: _self_joined(read("t")),
    "f_union": lambda read: read("t").select("k", "i").union(read("a").select("k", "i")).distinct(),
    "f_top": lambda read: read("t").select("k", "i", "s").orderBy(sf.desc("i"), "k", "s").limit(5),
    "f_called": lambda read: _called(read("t")),
    "f_over": lambda read: read("f_groups").where("c > 1").agg(sf.sum("c").alias("n"), sf.avg("s").alias("a")),
    "f_mixed": lambda read: read("f_groups").join(read("u"), "k").select("k", "c", "name"),
}


def _self_joined(frame: DataFrame) -> DataFrame:
    """One DataFrame object on both sides."""
    counts = frame.groupBy("k").agg(sf.count("*").alias("c"))
    return frame.join(counts, "k").select("k", "i", "c")


def _called(frame: DataFrame) -> DataFrame:
    """Functions of rows, pandas Series and Arrow arrays; inside, so that they are pickled by value."""

    @sf.udf("string")
    def of_row(text: str | None, number: int | None, at: object) -> object:
        return number if text is None else f"{text}:{number}:{at}"

    @sf.udf("array<double>")
    def listed(number: float | None) -> list[float | None] | None:
        return None if number is None else [number, None, number * 2]

    def of_series(number: pd.Series) -> pd.Series:
        return number * 2.0

    def of_arrays(text: pa.Array, number: pa.Array) -> pa.Array:
        return pc.add(pc.fill_null(pc.utf8_length(text), -1).cast(pa.int64()), number)

    def of_batches(batches: Iterator[pa.Array]) -> Iterator[pa.Array]:
        return (pc.utf8_upper(batch) for batch in batches)

    twice = sf.pandas_udf(of_series, "double")  # type: ignore[call-overload]
    return frame.select(
        "k",
        of_row("s", "i", sf.col("i") + 1).alias("r"),
        listed("d").alias("l"),
        twice("i").alias("p"),
        sf.arrow_udf(of_arrays, "long")("s", sf.col("i").cast("long")).alias("a"),
        sf.arrow_udf(of_batches, "string")("g").alias("g"),
        twice(twice("d")).alias("q"),
    )


def spark_answers(spark: SparkSession, tables: Mapping[str, pa.Table], names: list[str]) -> dict[str, pa.Table]:
    frames = {name: spark.createDataFrame(rows) for name, rows in tables.items()}
    for name in names:
        frames[name] = FRAMES[name](lambda n: frames[n].alias(n))
    return {name: frames[name].toArrow() for name in names}


@pytest.mark.slow
def test_views_of_dataframes_equal_spark(mill_factory: MillFactory, tmp_path: Path, seed: int) -> None:
    rng = random.Random(f"frames {seed}")
    tables = {t.name: t for t in usual_tables(rng, tmp_path)}
    settings = usual_settings(rng, tables.values(), epochs=2)
    mill = mill_factory(**settings)
    for table in tables.values():
        table.release(1)
        mill.sql(table.create_statement())
    names = list(FRAMES)
    for name in names[:8]:
        mill.create_view(name, FRAMES[name](mill.table))
    assert mill.advance() is not None
    created = names[:8]
    admitted: dict[str, list[int]] = {name: [] for name in tables}
    ever: set[str] = set()
    mill.close()
    mill = mill_factory(**settings)  # plans survive a restart
    for name in names[8:]:
        mill.create_view(name, FRAMES[name](mill.table))
        created.append(name)
    for table in tables.values():
        while table.waiting:
            table.release(1)
    for _ in mill.drain():
        pass
    for name, table in tables.items():
        files = {p for p in (tmp_path / name).iterdir() if p.is_file()}
        admitted[name] = table.admitted((str(p), 0, p.stat().st_size) for p in sorted(files))
    expected = spark_answers(mill.spark, {n: t.rows(admitted[n]) for n, t in tables.items()}, created)
    for name in created:
        assert_same_rows(mill.read(name), expected[name], name)
        if expected[name].num_rows:
            ever.add(name)
    assert ever == set(names)


@pytest.fixture
def small(mill_factory: MillFactory, tmp_path: Path) -> Mill:
    (tmp_path / "t").mkdir()
    (tmp_path / "t" / "1.csv").write_text("1,a\n2,b\n2,c\n")
    mill = mill_factory()
    mill.sql(f"CREATE TABLE t (k INT, s STRING) USING csv OPTIONS (path '{tmp_path / 't'}')")
    return mill


def test_a_select_is_a_query_for_a_view(small: Mill) -> None:
    small.sql("CREATE MATERIALIZED VIEW c AS SELECT k, count(*) AS n FROM t GROUP BY k")
    list(small.drain())
    small.create_view("big", small.sql("SELECT k FROM c WHERE n > 1 AND k IN (SELECT max(k) FROM c)"))
    small.create_view("same", small.table("c").select("k").where("n > 1"))
    list(small.drain())
    assert small.read("big").to_pylist() == small.read("same").to_pylist() == [{"k": 2}]
    assert "DataFrame" in small.snapshot().catalog.views["same"].query


def test_what_a_dataframe_reads_and_builds_is_the_same_object(small: Mill) -> None:
    small.sql("CREATE MATERIALIZED VIEW c AS SELECT k, s FROM t")
    list(small.drain())
    frame = small.table("c").groupBy("k").agg(sf.count("*").alias("n"))
    assert sorted(map(tuple, frame.collect())) == [(1, 1), (2, 2)]
    frame.cache().count()
    small.create_view("n", frame)
    frame.unpersist()
    list(small.drain())
    assert sorted(r["n"] for r in small.read("n").to_pylist()) == [1, 2]


def test_sql_and_dataframe_give_equal_plans(small: Mill) -> None:
    small.sql("CREATE MATERIALIZED VIEW x AS SELECT k, count(s) AS n FROM t WHERE k > 1 GROUP BY k")
    small.create_view("y", small.table("t").where("k > 1").groupBy("k").agg(sf.count("s").alias("n")))
    views = small.snapshot().catalog.views
    assert views["x"].root == views["y"].root


def test_refused_dataframes(small: Mill, tmp_path: Path, spark: SparkSession) -> None:
    t = small.table("t")
    changing = sf.udf(lambda k: k * 2, "int").asNondeterministic()
    other = spark.createDataFrame([(1,)], "k int")
    cases = {
        "TM2107": [t.select(changing("k").alias("k2")), t.mapInArrow(lambda batches: batches, "k int, s string")],
        "TM2006": [
            t.join(spark.read.csv(str(tmp_path / "t"), schema="k int, s string"), "k").select("k"),
            other.rdd.toDF("k int"),
        ],
        "TM2105": [
            t.select(sf.rand().alias("r")),
            t.limit(2),
            t.select(sf.current_timestamp().alias("n")),
            t.sample(0.5),
        ],
    }
    for number, frames in cases.items():
        for frame in frames:
            with pytest.raises(TidemillError, match=number):
                small.create_view("no", frame)
    assert "no" not in small.snapshot().catalog.views


def test_time_zone_and_evaluation_mode_are_those_of_views(small: Mill, spark: SparkSession) -> None:
    zone = "spark.sql.session.timeZone"
    before = spark.conf.get(zone)
    try:
        spark.conf.set(zone, "America/New_York")
        with pytest.raises(TidemillError, match="TM2017"):
            small.create_view("no", small.table("t").select(sf.to_timestamp("s").alias("ts")))
        spark.conf.set(zone, "UTC")
        spark.conf.set("spark.sql.ansi.enabled", "false")
        with pytest.raises(TidemillError, match=r"ansi\.enabled"):
            small.create_view("no", small.table("t").select((sf.col("k") + 1).alias("j")))
    finally:
        spark.conf.set(zone, before)
        spark.conf.unset("spark.sql.ansi.enabled")


def test_a_table_is_not_read_directly(small: Mill) -> None:
    with pytest.raises(TidemillError, match=r"^TM2016.*\n.*got: .*TidemillError: TM1034"):
        small.table("t").filter("k > 1").collect()
    with pytest.raises(TidemillError, match="TM2012"):
        small.table("nothing")


def test_a_sum_that_does_not_fit_is_named_by_its_number(small: Mill) -> None:
    small.sql("CREATE MATERIALIZED VIEW o AS SELECT sum(9223372036854775807) AS total FROM t GROUP BY s IS NULL")
    list(small.drain())
    with pytest.raises(TidemillError, match=r"^TM2016.*\n.*got: .*Error: TM3002: a sum does not fit its type"):
        small.table("o").collect()


def test_a_dataframe_over_a_relation_that_is_gone(small: Mill) -> None:
    small.sql("CREATE MATERIALIZED VIEW c AS SELECT k, s FROM t")
    frame = small.relation("c").select("k")
    small.sql("DROP VIEW c")
    small.sql("CREATE MATERIALIZED VIEW c AS SELECT s AS k FROM t")
    with pytest.raises(TidemillError, match="TM2006"):
        small.create_view("no", frame)


def test_functions_in_python_called_by_name(mill_factory: MillFactory, tmp_path: Path) -> None:
    (tmp_path / "t").mkdir()
    (tmp_path / "t" / "1.csv").write_text("1,a\n2,b\n0,\n")
    mill = mill_factory(partitions=2)
    mill.sql(f"CREATE TABLE t (k INT, s STRING) USING csv OPTIONS (path '{tmp_path / 't'}')")
    with pytest.raises(TidemillError, match="TM2107"):
        mill.register_function("pick", lambda k: k, "int", deterministic=False)
    with pytest.raises(TidemillError, match="TM2107"):
        mill.register_function("pick", lambda k: k, "no type")
    mill.register_function("label", lambda k, s: f"{s}{k}", "string")
    mill.register_function("share", lambda k: 10 // k, "int")
    mill.register_function("wrong", lambda k: "x" * k, "int")
    mill.sql("CREATE MATERIALIZED VIEW labels AS SELECT label(k, s) AS l, count(*) AS n FROM t GROUP BY label(k, s)")
    mill.sql("CREATE MATERIALIZED VIEW shares AS SELECT k, CASE WHEN k <> 0 THEN share(k) END AS p FROM t")
    mill.sql("CREATE MATERIALIZED VIEW failing AS SELECT k FROM t WHERE share(k) > 0")
    mill.sql("CREATE MATERIALIZED VIEW mismatched AS SELECT k FROM t WHERE wrong(k) > 0")
    list(mill.drain())
    failures = {name: detail for name, _, _, detail in mill.status()}
    assert "TM3012" in failures["failing"] and "share(0): ZeroDivisionError" in failures["failing"]
    assert "TM3013" in failures["mismatched"] and "'x'" in failures["mismatched"]
    assert sorted(mill.read("shares").to_pylist(), key=str) == [
        {"k": 0, "p": None},
        {"k": 1, "p": 10},
        {"k": 2, "p": 5},
    ]
    mill.register_function("label", lambda k, s: "new", "string")
    mill.close()
    mill = mill_factory(partitions=2)  # the view has its function, the name is not registered
    with pytest.raises(TidemillError, match="TM2004"):
        mill.sql("CREATE MATERIALIZED VIEW more AS SELECT label(k, s) AS l FROM t")
    (tmp_path / "t" / "2.csv").write_text("1,a\n7,z\n")
    list(mill.drain())
    assert sorted(map(tuple, (row.values() for row in mill.read("labels").to_pylist()))) == [
        ("None0", 1), ("a1", 2), ("b2", 1), ("z7", 1),
    ]  # fmt: skip


def test_functions_in_python_that_cannot_be_loaded() -> None:
    options = {"name": "f", "kind": 101, "command": pickle.dumps((len, None)), "python": "2.7"}
    for command, version in ((options["command"], "2.7"), (b"cnowhere\nf\n.", python_version())):
        known = tuple(sorted((options | {"command": command, "python": version}).items()))
        call = Call("python_function", (Ref(0, pa.int64()),), pa.int64(), True, known)
        with pytest.raises(EvaluationError, match="TM2108"):
            evaluate(call, pa.RecordBatch.from_arrays([pa.array([1])], names=["a"]))


def test_a_function_in_python_that_workers_cannot_load(
    mill_factory: MillFactory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "module_of_the_driver.py").write_text("def twice(k):\n    return 2 * k\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "t").mkdir()
    (tmp_path / "t" / "1.csv").write_text("1\n2\n3\n")
    mill = mill_factory(partitions=2)
    mill.sql(f"CREATE TABLE t (k INT) USING csv OPTIONS (path '{tmp_path / 't'}')")
    mill.register_function("twice", importlib.import_module("module_of_the_driver").twice, "int")
    mill.sql("CREATE MATERIALIZED VIEW doubled AS SELECT twice(k) AS k FROM t")
    mill.sql("CREATE MATERIALIZED VIEW counted AS SELECT count(*) AS n FROM t")
    list(mill.drain())
    status = {name: (state, detail) for name, state, _, detail in mill.status()}
    assert status["counted"][0] == "fresh" and mill.read("counted").to_pylist() == [{"n": 3}]
    assert status["doubled"][0] == "failing" and "TM2108" in status["doubled"][1]
