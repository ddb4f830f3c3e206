"""Pipelines in Python: what they declare, what is wrong with them, and that running them again changes nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import tidemill
from commands import elsewhere
from mill_factory import MillFactory
from tidemill import pipelines
from tidemill.config import Settings
from tidemill.errors import TidemillError
from tidemill.mill import Mill

HEAD = """
import tidemill as tm
from pyspark.sql import SparkSession, functions as sf

tm.sql("CREATE TABLE t (k INT, x DOUBLE) USING csv OPTIONS (path '{data}')")
"""

# every way to read, each function before what it reads
BODY = """
@tm.materialized_view
def by_spark():
    return spark.table("by_read").where("n > 1")

@tm.table(name="by_sql", comment="as text")
def another_name():
    return "SELECT n, k FROM by_statement WHERE k > 0"

@tm.materialized_view()
def by_active():
    return SparkSession.active().sql("SELECT max(n) AS n FROM by_sql")

@tm.materialized_view
def by_tm_sql():
    return tm.sql("SELECT l.k FROM by_read l JOIN by_sql r ON l.k = r.k")

tm.sql("CREATE MATERIALIZED VIEW by_statement AS SELECT k, n FROM by_read WHERE k IS NOT NULL")

@tm.materialized_view
def by_read():
    return tm.read("T").groupBy("k").agg(sf.count("*").alias("n"))
"""


@pytest.fixture
def data(tmp_path: Path) -> Path:
    directory = tmp_path / "data"
    directory.mkdir()
    (directory / "1.csv").write_text("1,0.5\n1,1.5\n2,3\n,4\n")
    return directory


@pytest.fixture
def apply(mill_factory: MillFactory, data: Path, tmp_path: Path) -> Callable[[Mill, str], list[str]]:
    def run(mill: Mill, body: str, head: str = HEAD) -> list[str]:
        path = tmp_path / "declared.py"
        path.write_text(head.replace("{data}", str(data)) + body)
        return pipelines.apply(mill, path)

    return run


def rows(mill: Mill, view: str) -> list[tuple[object, ...]]:
    return sorted(tuple(r.values()) for r in mill.read(view).to_pylist())


def test_any_order_and_any_way_to_read(mill_factory: MillFactory, apply: Callable[[Mill, str], list[str]]) -> None:
    mill = mill_factory()
    names = apply(mill, BODY)
    assert names.index("by_read") < names.index("by_statement") < names.index("by_sql") < names.index("by_active")
    list(mill.drain())
    assert rows(mill, "by_spark") == [(1, 2)]
    assert rows(mill, "by_sql") == [(1, 2), (2, 1)]
    assert rows(mill, "by_active") == [(2,)]
    assert rows(mill, "by_tm_sql") == [(1,), (2,)]
    before, epoch = mill.snapshot().catalog, mill.epoch
    assert apply(mill, BODY) == names
    assert mill.snapshot().catalog is before
    mill.close()
    again = mill_factory()
    apply(again, BODY)
    assert again.snapshot().catalog == before
    assert list(again.drain()) == [] and again.epoch == epoch


def test_names_leave_no_trace_in_the_session(
    mill_factory: MillFactory, apply: Callable[[Mill, str], list[str]]
) -> None:
    mill = mill_factory()
    apply(mill, BODY)
    assert not [t.name for t in mill.spark.catalog.listTables() if t.name in ("t", "by_read", "by_sql")]


WRONG = {
    "unknown": (
        "@tm.table\ndef a():\n    return tm.read('tt')\n",
        "TM7021",
        ["tt", "a() in declared.py, line 6", "'t'"],
    ),
    "unknown to spark": ("@tm.table\ndef a():\n    return spark.table('a1')\n", "TM7021", ["a1", "a()"]),
    "unknown in text": ("@tm.table\ndef a():\n    return 'SELECT k FROM nowhere'\n", "TM7021", ["nowhere", "a()"]),
    "circle": (
        "@tm.table\ndef a():\n    return tm.read('b')\n@tm.table\ndef b():\n    return 'SELECT * FROM c'\n"
        "@tm.table\ndef c():\n    return spark.table('a')\n",
        "TM7022",
        ["a reads b reads c reads a", "a() in declared.py"],
    ),
    "itself": ("@tm.table\ndef a():\n    return tm.read('a')\n", "TM7022", ["a reads a"]),
    "twice": ("@tm.table\ndef a():\n    return ''\n@tm.table(name='A')\ndef b():\n    return ''\n", "TM7020", ["b()"]),
    "column": ("@tm.table\ndef a():\n    return tm.read('t').select('nope')\n", "TM7023", ["a()", "nope"]),
    "python": ("@tm.table\ndef a():\n    return 1 / 0\n", "TM7023", ["a()", "ZeroDivisionError"]),
    "nothing": ("@tm.table\ndef a():\n    tm.read('t')\n", "TM7024", ["a()", "NoneType"]),
    "not a function": ("tm.table('t')\n", "TM7024", ["'t'"]),
    "syntax": ("def a(:\n", "TM7025", ["line 6", "SyntaxError"]),
    "top level": ("x = 1\nx.nothing\n", "TM7025", ["line 7", "AttributeError"]),
    "read outside": ("tm.read('t')\n", "TM7026", ["outside"]),
    "statement": ("tm.sql('DROP TABLE t')\n", "TM2003", ["DROP TABLE t"]),
    "sql syntax": ("@tm.table\ndef a():\n    return 'SELEC k'\n", "TM2001", ["SELEC", "a()"]),
    "sql column": (
        "@tm.table\ndef a():\n    return 'SELECT k,\\n nope FROM t'\n",
        "TM2004",
        ["line 2, column 2", "a()"],
    ),
    "sample": ("@tm.table\ndef a():\n    return tm.read('t').sample(0.5)\n", "TM2105", ["sample", "a()"]),
    "unsupported": (
        "@tm.table\ndef a():\n    return tm.read('t').observe('o', sf.count('*').alias('n'))\n",
        "TM2103",
        ["CollectMetrics", "a()"],
    ),
    "python udf": (
        "@sf.udf('int')\ndef twice(k): return k\ntwice = twice.asNondeterministic()\n"
        "@tm.table\ndef a():\n    return tm.read('t').select(twice('k'))\n",
        "TM2107",
        ["twice", "a()"],
    ),
}


def test_temporary_views_of_the_session(mill_factory: MillFactory, apply: Callable[..., list[str]]) -> None:
    """Those that are called as views or tables are not read, and are there afterwards."""
    mill = mill_factory()
    mine = {"by_read": 7, "T": 8, "other": 9}
    for name, number in mine.items():
        mill.spark.sql(f"SELECT {number} AS n").createOrReplaceTempView(name)
    mill.spark.table("other").cache()
    try:
        apply(mill, BODY)
        list(mill.drain())
        assert mill.read("by_spark").to_pylist() == [{"k": 1, "n": 2}]
        with pytest.raises(TidemillError, match="TM7023"):
            apply(mill, "@tm.table\ndef by_read():\n    return 1 / 0\n", "import tidemill as tm\n")
        assert {name: mill.spark.table(name).first().n for name in mine} == mine  # type: ignore[union-attr]
        assert not mill.spark.catalog.dropTempView("by_sql")
    finally:
        for name in mine:
            mill.spark.catalog.dropTempView(name)


@pytest.fixture(scope="module")
def mill(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mill]:
    with Mill(tmp_path_factory.mktemp("root"), spark=spark, settings=Settings(partitions=2)) as made:
        directory = tmp_path_factory.mktemp("data")
        made.sql(f"CREATE TABLE t (k INT, x DOUBLE) USING csv OPTIONS (path '{directory}')")
        yield made


@pytest.mark.parametrize("name", WRONG)
def test_wrong_pipelines(name: str, mill: Mill, apply: Callable[..., list[str]]) -> None:
    body, number, named = WRONG[name]
    with pytest.raises(TidemillError) as caught:
        apply(mill, body, HEAD.rsplit("tm.sql", 1)[0] + "\n")
    assert caught.value.number == number, str(caught.value)
    for word in named:
        assert word in f"{caught.value.got}\n{caught.value.hint}", str(caught.value)
    assert not mill.snapshot().catalog.views


def test_declarations_outside_of_a_pipeline() -> None:
    with pytest.raises(TidemillError, match="TM7026"):
        tidemill.materialized_view(lambda: "SELECT 1")
    with pytest.raises(TidemillError, match="TM7026"):
        tidemill.sql("CREATE TABLE t (k INT) USING csv OPTIONS (path '.')")


def test_the_command(data: Path, tmp_path: Path) -> None:
    path = tmp_path / "p.py"
    path.write_text(HEAD.replace("{data}", str(data)) + BODY)
    root = str(tmp_path / "r")
    done, read = elsewhere(
        ["run", str(path), "--root", root, "--once", "--master", "local[2]"],
        ["query", "SELECT n FROM by_active", "--root", root, "--format", "csv"],
    )
    assert done.code == 0, done.err
    assert "by_active" in done.out
    assert read.raw.split() == [b'"n"', b"2"], read.err


def test_a_python_function_is_called_by_name(mill: Mill, tmp_path: Path) -> None:
    path = tmp_path / "calling.py"
    path.write_text(
        "import tidemill as tm\n"
        "@tm.udf('int')\n"
        "def twice(k):\n    return None if k is None else 2 * k\n"
        "@tm.materialized_view\n"
        "def doubled():\n    return 'SELECT twice(k) AS d FROM t'\n"
    )
    assert pipelines.apply(mill, path) == ["doubled"]
    assert str(mill.snapshot().catalog.views["doubled"].root.schema.fields[0].type) == "int32"
    mill.sql("DROP MATERIALIZED VIEW doubled")
