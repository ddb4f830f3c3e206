"""The command: what it prints, its exit codes, and that it says what is wrong."""

from __future__ import annotations

import contextlib
import csv
import datetime
import inspect
import io
import json
import math
import os
import signal
import stat
import subprocess
import sys
from collections import Counter, deque
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import pandas as pd
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as sf

from commands import Finished, tidemill
from mill_factory import MillFactory
from tidemill.__main__ import command_of
from tidemill.cli import commands as cli
from tidemill.cli.query import command as query_command
from tidemill.cli.query.plain_query import plain_arguments
from tidemill.cli.run import progress_display
from tidemill.errors import TidemillError
from tidemill.mill import Mill
from tidemill.runtime.read.snapshot import Snapshot

SCRIPT = """
CREATE TABLE prices (item STRING, price DOUBLE, day DATE) USING csv
  OPTIONS (path '{data}/prices*.csv', header true, opColumn 'op', maxFilesPerTrigger 1);
CREATE MATERIALIZED VIEW latest AS
  SELECT item, COUNT(*) AS n, SUM(price) AS total, MAX(day) AS day FROM prices GROUP BY item;
CREATE MATERIALIZED VIEW dear AS SELECT item, price FROM prices WHERE price > 1;
"""

EXPECTED = {
    'Zoë, "the" cat': (1, None, "2024-01-31"),
    "ale": (1, 0.1, "2024-01-01"),
    "bun": (2, 1 / 3 + 2, "2024-02-29"),
}


@pytest.fixture(scope="module")
def script(tmp_path_factory: pytest.TempPathFactory) -> Path:
    data = tmp_path_factory.mktemp("data")
    (data / "prices1.csv").write_text(
        "item,price,day,op\nale,0.1,2024-01-01,I\nbun,0.3333333333333333,2024-02-29,I\n"
        '"Zoë, ""the"" cat",,2024-01-31,I\n'
    )
    (data / "prices2.csv").write_text("op,day,item,price\nI,2024-02-01,bun,2\nI,2024-03-01,cod,9.5\n")
    (data / "prices3.csv").write_text("item,price,day,op\ncod,9.5,2024-03-01,D\n")
    path = data / "prices.sql"
    path.write_text(SCRIPT.format(data=data))
    return path


@pytest.fixture(scope="module")
def first_run(script: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Finished, str]:
    """``tidemill run --once`` and its root."""
    root = str(tmp_path_factory.mktemp("root") / "mill")
    return tidemill("run", str(script), "--root", root, "--once", "--log", "--master", "local[2]"), root


@pytest.fixture(scope="module")
def root(first_run: tuple[Finished, str]) -> str:
    return first_run[1]


@pytest.fixture
def command(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]
) -> Iterator[Callable[..., Finished]]:
    """The command in this process, on its Spark session, which a query must not stop."""
    monkeypatch.setattr(SparkSession, "stop", lambda _: None)
    monkeypatch.setattr(progress_display, "EVERY", 1e6)
    handlers = {s: signal.getsignal(s) for s in (signal.SIGINT, signal.SIGTERM)}

    def run(*arguments: str) -> Finished:
        monkeypatch.setattr(sys, "argv", ["tidemill", *arguments])
        capfdbinary.readouterr()
        with pytest.raises(SystemExit) as caught:
            cli.main()
        sys.stdout.flush()
        captured = capfdbinary.readouterr()
        return Finished(int(caught.value.code or 0), captured.out, captured.err.decode())

    yield run
    for number, handler in handlers.items():
        signal.signal(number, handler)


@pytest.fixture(scope="module")
def no_java(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """An environment without Java."""
    kept = {k: v for k, v in os.environ.items() if k not in ("JAVA_HOME", "SPARK_HOME")}
    return {**kept, "PATH": str(tmp_path_factory.mktemp("bin"))}


def as_rows(text: str) -> dict[str, tuple[int, float | None, str]]:
    return {
        r["item"]: (int(r["n"]), float(r["total"]) if r["total"] else None, r["day"])
        for r in csv.DictReader(io.StringIO(text))
    }


def test_run_once(first_run: tuple[Finished, str]) -> None:
    done, _ = first_run
    assert done.code == 0, done.err
    lines = done.out.splitlines()
    assert lines[0].startswith("sealed epoch 3 (durable: 3): 3 epochs, 6 rows"), done.out
    assert [line.split() for line in lines[-2:]] == [["latest", "3", "rows"], ["dear", "1", "row"]]
    said = [line for line in done.err.splitlines() if not line.startswith(("{", "WARNING: "))]
    assert "starting Spark" in said[0]
    assert sum(line.endswith(" added table prices, view latest, view dear") for line in said) == 1, done.err
    reports = [json.loads(line) for line in done.err.splitlines() if line.startswith("{")]
    assert [(r["epoch"], r["rows_in"]) for r in reports] == [(1, 3), (2, 2), (3, 1)]
    for times in ([line.split()[0] for line in said], [r["time"] for r in reports]):
        assert sorted(times) == times and all(datetime.datetime.fromisoformat(t).utcoffset() is not None for t in times)
    assert " WARN " not in done.err


def test_the_same_script_again_changes_nothing(command: Callable[..., Finished], script: Path, root: str) -> None:
    before = Snapshot.open(root).version
    done = command("run", str(script), "--root", root, "--once")
    assert (done.code, done.err) == (0, "")
    assert done.out.startswith("sealed epoch 3 (durable: 3): 0 epochs, 0 rows")
    assert Snapshot.open(root).version == before


def test_a_file_that_cannot_be_read(command: Callable[..., Finished], tmp_path: Path) -> None:
    """The others are in, and the exit code tells."""
    (tmp_path / "good.csv").write_text("a,b\n1,2\n")
    (tmp_path / "other.csv").write_text("x,y\n1,2\n")
    path, root = tmp_path / "pipeline.sql", str(tmp_path / "root")
    path.write_text(
        f"CREATE TABLE t (a INT, b INT) USING csv OPTIONS (path '{tmp_path}/*.csv', header true);"
        "CREATE MATERIALIZED VIEW v AS SELECT a + b AS c FROM t;"
    )
    for _ in range(2):
        done = command("run", str(path), "--root", root, "--once")
        assert (done.code, "TM7007" in done.err, "other.csv" in done.err, "TM4010" in done.err) == (1, True, True, True)
        assert [line.split() for line in done.out.splitlines()[-1:]] == [["v", "1", "row"]]
    (tmp_path / "other.csv").write_text("b,a\n1,2\n")
    assert command("run", str(path), "--root", root, "--once").code == 0
    assert sorted(Snapshot.open(root).read("v")["c"].to_pylist()) == [3, 3]


def test_changed_definition(command: Callable[..., Finished], script: Path, root: str, tmp_path: Path) -> None:
    for old, new in (("price > 1", "price > 2"), ("price DOUBLE", "price FLOAT"), ("header true", "header false")):
        changed = tmp_path / "changed.sql"
        changed.write_text(script.read_text().replace(old, new))
        done = command("run", str(changed), "--root", root, "--once")
        assert done.code == 1
        assert "TM2010: this name is taken" in done.err
        assert "hint:" in done.err
    assert len(Snapshot.open(root).read("dear")) == 1


def test_query_needs_no_java(root: str, no_java: dict[str, str]) -> None:
    done = tidemill("query", "--root", root, "SELECT * FROM latest", "--format", "csv", environment=no_java)
    assert (done.code, done.err) == (0, "")
    assert done.out.splitlines()[0].replace('"', "") == "item,n,total,day"
    assert as_rows(done.out) == EXPECTED


ALONE = """
import atexit
import sys
from tidemill.__main__ import main
heavy = {"numba", "pandas", "pyspark", "duckdb", "sqlglot", "typer", "pydantic"}
atexit.register(lambda: print(sorted(heavy & {*sys.modules}), file=sys.stderr))
main()
"""


@pytest.mark.parametrize(
    ("statement", "rows"),
    [
        ("SELECT * FROM dear ORDER BY price DESC LIMIT 1", [{"item": "bun", "price": 2.0}]),
        (
            "SELECT item, n, day FROM latest WHERE n > 0 ORDER BY item",
            [{"item": item, "n": n, "day": day} for item, (n, _, day) in sorted(EXPECTED.items())],
        ),
    ],
)
def test_a_small_view_is_read_with_arrow_alone(root: str, statement: str, rows: list[dict[str, Any]]) -> None:
    """Neither kernels nor what other commands need is imported, which takes longer than to answer."""
    command = [sys.executable, "-c", ALONE, "query", "--root", root, "--format", "json", statement]
    found = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (found.returncode, found.stderr.strip()) == (0, "[]"), found.stderr
    assert [json.loads(line) for line in found.stdout.splitlines()] == rows


def test_expressions_need_no_pandas_and_functions_of_series_find_it(mill_factory: MillFactory, tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("1,2\n1,4\n2,9\n")
    mill = mill_factory()

    def halved(values: pd.Series) -> pd.Series:
        return values / 2

    mill.register_function("halved", sf.pandas_udf(halved, "double"))  # type: ignore[call-overload]
    mill.sql(f"CREATE TABLE t (k INT, v INT) USING csv OPTIONS (path '{tmp_path}/t.csv')")
    mill.sql("CREATE MATERIALIZED VIEW plain AS SELECT k, avg(v) * 2 + sum(v) * 1.5 / count(*) AS x FROM t GROUP BY k")
    mill.sql("CREATE MATERIALIZED VIEW series AS SELECT k, halved(sum(v)) AS x FROM t GROUP BY k")
    deque(mill.drain(), 0)
    mill.close()
    for view, rows, heavy in (("plain", [10.5, 31.5], "[]"), ("series", [3.0, 4.5], None)):
        statement = f"SELECT * FROM {view} ORDER BY k"
        command = [
            sys.executable,
            "-c",
            ALONE,
            "query",
            "--root",
            str(tmp_path / "root"),
            "--format",
            "json",
            statement,
        ]
        found = subprocess.run(command, capture_output=True, text=True, check=True)
        assert [json.loads(line)["x"] for line in found.stdout.splitlines()] == rows
        assert heavy in (None, found.stderr.strip())


@pytest.mark.parametrize(
    ("arguments", "plain"),
    [
        (["--root", "r", "SELECT 1"], True),
        (["SELECT 1", "--root", "r"], True),
        (["--format", "csv", "SELECT 1", "--root", "a b"], True),
        (["--root", "r", "--format", "json", ""], True),
        (["--root", "r", "--epoch", "3", "SELECT 1"], False),
        (["--root=r", "SELECT 1"], False),
        (["--root", "q", "--root", "r", "SELECT 1"], False),
        (["--root", "r", "--", "SELECT 1"], False),
        (["--root", "r", "--server", "u", "SELECT 1"], False),
    ],
)
def test_plain_arguments_are_those_that_typer_reads(arguments: list[str], plain: bool) -> None:
    """Whoever reads the arguments of ``query``, it is called with the same; in the end Typer reads any others."""
    given = ["query", *arguments]
    assert (plain_arguments(given) is not None) == plain
    calls = []
    for command in (lambda: command_of(given)(), cli.main):
        argv = mock.patch.object(sys, "argv", ["tidemill", *given])
        with argv, mock.patch.object(query_command, "query", autospec=True) as query, contextlib.suppress(SystemExit):
            command()
        calls.append([inspect.signature(query_command.query).bind(*c.args, **c.kwargs) for c in query.call_args_list])
        for bound in calls[-1]:
            bound.apply_defaults()
    assert calls[0] == calls[1] and len(calls[0]) == 1


def test_complex_query_without_java(root: str, no_java: dict[str, str]) -> None:
    done = tidemill("query", "--root", root, "SELECT SUM(n) FROM latest", environment=no_java)
    assert (done.code, done.out) == (1, "")
    assert done.err.startswith("TM6001: Java is missing")
    assert "JAVA_HOME" in done.err


def test_java_that_is_too_old(root: str, no_java: dict[str, str], tmp_path: Path) -> None:
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text("#!/bin/sh\necho 'openjdk version \"11.0.2\" 2019-01-15' >&2\n")
    java.chmod(java.stat().st_mode | stat.S_IXUSR)
    query = ("query", "--root", root, "SELECT SUM(n) FROM latest")
    done = tidemill(*query, environment={**no_java, "JAVA_HOME": str(tmp_path)})
    assert done.code == 1
    assert done.err.startswith("TM6002: Java is too old for Spark")
    assert "is Java 11" in done.err
    java.chmod(0o644)
    java.write_text("not a program")
    done = tidemill(*query, environment={**no_java, "JAVA_HOME": str(tmp_path)})
    assert done.err.startswith("TM600"), done.err


def test_csv_keeps_null_and_full_precision(command: Callable[..., Finished], root: str) -> None:
    done = command("query", "--root", root, "SELECT item, total FROM latest ORDER BY item", "--format", "csv")
    assert done.out.splitlines()[1:] == [
        '"Zoë, ""the"" cat",',
        '"ale",0.1',
        f'"bun",{1 / 3 + 2!r}',
    ]


def test_table(command: Callable[..., Finished], root: str) -> None:
    done = command("query", "--root", root, "SELECT item, n, total FROM latest WHERE n = 1 ORDER BY item")
    assert done.out.splitlines() == [
        "item            n  total",
        "--------------  -  -----",
        'Zoë, "the" cat  1   NULL',
        "ale             1    0.1",
        "(2 rows)",
    ]


def test_json(command: Callable[..., Finished], root: str) -> None:
    done = command("query", "--root", root, "SELECT * FROM latest", "--format", "json")
    rows = [json.loads(line) for line in done.out.splitlines()]
    assert {r["item"]: (r["n"], r["total"], r["day"]) for r in rows} == EXPECTED


def test_arrow(command: Callable[..., Finished], root: str) -> None:
    done = command("query", "--root", root, "SELECT * FROM latest", "--format", "arrow")
    table = pa.ipc.open_stream(done.raw).read_all()
    assert table.schema.types == [pa.string(), pa.int64(), pa.float64(), pa.date32()]
    assert {r["item"]: (r["n"], r["total"], str(r["day"])) for r in table.to_pylist()} == EXPECTED


def test_any_sql(command: Callable[..., Finished], root: str) -> None:
    statement = "SELECT l.item, d.price / l.n AS share FROM latest l JOIN dear d USING (item) WHERE l.n > 1"
    done = command("query", "--root", root, statement, "--format", "csv")
    assert (done.code, done.out.splitlines()[1:]) == (0, ['"bun",1'])


READING = {
    "SHOW VIEWS": ["latest", "fresh"],
    "show tables -- all": ["prices", "csv"],
    "DESCRIBE latest": ["item", "string", "total", "double"],
    "DESC TABLE prices;": ["day", "date"],
    "DESCRIBE prices__errors": ["reason", "string"],
    "DESCRIBE prices__files": ["path", "attempts"],
    "EXPLAIN INCREMENTAL SELECT n, COUNT(*) FROM latest GROUP BY n": ["O("],
    "EXPLAIN SELECT * FROM dear": ["== Physical Plan =="],
    "TABLE dear": ["bun"],
    "FROM dear SELECT item": ["bun"],
    "VALUES ('x')": ["x"],
    "WITH d AS (SELECT * FROM dear) SELECT item FROM d": ["bun"],
    "(SELECT item FROM dear)": ["bun"],
    "DESCRIBE QUERY SELECT item FROM dear": ["item"],
}


def test_statements_that_read(command: Callable[..., Finished], root: str, spark: SparkSession) -> None:
    for statement, words in READING.items():
        done = command("query", "--root", root, statement)
        assert (done.code, done.err) == (0, ""), statement
        assert all(word in done.out for word in words), (statement, done.out)
    with Mill(Path(root).parent / "other", spark=spark) as mill:
        mill.sql("CREATE TABLE t (k INT NOT NULL) USING csv OPTIONS (path '/')")
        rows = [tuple(r) for r in mill.query("DESCRIBE t").collect()]
        assert rows == [("k", "int", False)] == [tuple(r) for r in mill.sql("DESCRIBE t").collect()]  # type: ignore[union-attr]
        assert [r["name"] for r in mill.query("SHOW TABLES").collect()] == ["t"]
        assert "O(" in mill.query("EXPLAIN INCREMENTAL SELECT DISTINCT k FROM t").collect()[0]["plan"]
        with pytest.raises(TidemillError, match="TM2024"):
            mill.query("DROP TABLE t")
        with pytest.raises(TidemillError, match="TM2901"):
            mill.query(f"SELECT {'(' * 3000}1{')' * 3000}")


OTHER = [
    *(
        "DROP VIEW dear",
        "CREATE TABLE x USING parquet AS SELECT 1 AS a",
        "DELETE FROM dear",
        "INSERT INTO dear SELECT 1",
    ),
    *(
        "UPDATE dear SET price = 0",
        "ALTER TABLE prices SET OPTIONS (maxErrors '1')",
        "SET spark.x=1",
        "USE x",
        "CACHE TABLE x",
    ),
    *("CREATE OR REPLACE TEMP VIEW x AS SELECT 1", "EXECUTE IMMEDIATE 'DROP VIEW dear'", "BEGIN SELECT 1; END"),
    *("WITH d AS (SELECT 1 AS a) INSERT INTO dear SELECT * FROM d", "FROM latest INSERT INTO dear SELECT *", "", " ; "),
    *("TRUNCATE TABLE dear", "MERGE INTO dear USING dear d ON true WHEN MATCHED THEN DELETE", "SELECT 1; SELECT 2"),
]


def test_statements_that_do_not_read(
    command: Callable[..., Finished], root: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    before = Snapshot.open(root).catalog
    for statement in OTHER:
        done = command("query", "--root", root, statement)
        assert (done.code, done.out) == (1, ""), statement
        assert done.err.startswith("TM2024: ") and len(done.err.splitlines()) == 3, (statement, done.err)
    assert Snapshot.open(root).catalog == before
    assert list(tmp_path.iterdir()) == [], "no warehouse"


def test_older_epochs(command: Callable[..., Finished], root: str) -> None:
    def dear(*more: str) -> list[str]:
        done = command("query", "--root", root, "SELECT item FROM dear", "--format", "csv", *more)
        return sorted(done.out.splitlines()[1:])

    assert dear("--epoch", "1") == []
    assert dear("--epoch", "2") == ['"bun"', '"cod"']
    assert dear("--epoch", "3") == dear() == ['"bun"']
    done = command("query", "--root", root, "SELECT item FROM dear", "--epoch", "9")
    assert done.code == 1
    assert "TM1031" in done.err
    assert "available: 0 to 3" in done.err


@pytest.mark.parametrize("start", [0, 1, 2])
def test_all_changes_add_up_to_the_view(command: Callable[..., Finished], root: str, start: int) -> None:
    done = command("tail", "--root", root, "latest", "--from", str(start), "--format", "json")
    total: Counter[tuple[object, ...]] = Counter()
    if start:
        total.update(tuple(r.values()) for r in Snapshot.open(root).read("latest", start).to_pylist())
        total = Counter({tuple(str(v) for v in row): n for row, n in total.items()})
    epochs = []
    for line in done.out.splitlines():
        row = json.loads(line)
        epochs.append(row.pop("__epoch"))
        weight = row.pop("__weight")
        total[tuple(str(v) for v in row.values())] += weight
    now = Counter(tuple(str(v) for v in r.values()) for r in Snapshot.open(root).read("latest").to_pylist())
    assert {k: n for k, n in total.items() if n} == dict(now)
    assert epochs == sorted(epochs)
    assert min(epochs) > start


def test_tail_as_table(command: Callable[..., Finished], root: str) -> None:
    done = command("tail", "--root", root, "DEAR", "--from", "2")
    assert done.out.splitlines() == [
        "epoch 3",
        "item  price  __weight",
        "----  -----  --------",
        "cod     9.5        -1",
        "(1 row)",
    ]


def test_tail_shows_an_update_as_one_change(command: Callable[..., Finished], root: str) -> None:
    done = command("tail", "--root", root, "latest", "--from", "1")
    assert [line.split() for line in done.out.splitlines() if not line.startswith("-")] == [
        ["epoch", "2"],
        ["item", "n", "total", "day", "__weight"],
        ["bun", "1", "→", "2", "0.3333333333", "→", "2.333333333", "2024-02-29", "±1"],
        ["cod", "1", "9.5", "2024-03-01", "1"],
        ["(2", "rows)"],
        ["epoch", "3"],
        ["item", "n", "total", "day", "__weight"],
        ["cod", "1", "9.5", "2024-03-01", "-1"],
        ["(1", "row)"],
    ]
    rows = [
        json.loads(line)
        for line in command("tail", "--root", root, "latest", "--from", "1", "--format", "json").out.splitlines()
    ]
    assert [(r["item"], r["n"], r["__weight"]) for r in rows] == [
        ("bun", 1, -1),
        ("bun", 2, 1),
        ("cod", 1, 1),
        ("cod", 1, -1),
    ]


def test_explain(command: Callable[..., Finished], script: Path) -> None:
    done = command("explain", str(script))
    assert done.code == 0
    assert done.out.startswith("latest\n")
    assert "\ndear\n" in done.out
    assert "O(" in done.out, "each operator has its cost"


@pytest.mark.parametrize(
    ("arguments", "number", "words"),
    [
        (("query", "SELECT * FROM latst"), "TM2004", "latst"),
        (("query", "SELECT price2 FROM dear"), "TM2004", "price2"),
        (("query", "SELEKT 1"), "TM2001", "SELEKT"),
        (("query", "SELECT 1 / (n - n) FROM latest"), "TM2016", "DIVIDE_BY_ZERO"),
        (("query", "SELECT * FROM dear", "--format", "cvs"), "TM7002", "did you mean 'csv'?"),
        (("tail", "dear", "--format", "xml"), "TM7002", "valid names: arrow, csv, json, table"),
        (("tail", "latst"), "TM2012", "did you mean 'latest'?"),
    ],
)
def test_wrong_questions(
    command: Callable[..., Finished], root: str, arguments: tuple[str, ...], number: str, words: str
) -> None:
    done = command(*arguments, "--root", root)
    assert (done.code, done.out) == (1, "")
    assert done.err.startswith(f"{number}: "), done.err
    assert words in done.err


def test_no_root(command: Callable[..., Finished], tmp_path: Path) -> None:
    for arguments in (("query", "SELECT * FROM v"), ("tail", "v"), ("state", "ls")):
        done = command(*arguments, "--root", str(tmp_path / "none"))
        assert done.code == 1
        assert done.err.startswith("TM1001: there is no Tidemill root here")
    assert not (tmp_path / "none").exists()


def test_bad_size(command: Callable[..., Finished], script: Path, tmp_path: Path) -> None:
    done = command("run", str(script), "--root", str(tmp_path / "r"), "--once", "--epoch-bytes", "lots")
    assert (done.code, done.err.splitlines()[0]) == (1, "TM4003: bad value of option --epoch-bytes")


@pytest.mark.parametrize(
    ("given", "number", "words"),
    [
        ("epoch_byte=1m", "TM7005", "did you mean epoch_bytes"),
        ("partitions=many", "TM7006", "a whole number, 0 or more"),
    ],
)
def test_bad_settings(
    command: Callable[..., Finished], script: Path, tmp_path: Path, given: str, number: str, words: str
) -> None:
    done = command("run", str(script), "--root", str(tmp_path / "r"), "--once", "--set", given)
    assert (done.code, done.out) == (1, "")
    assert done.err.startswith(f"{number}: ")
    assert words in done.err
    assert not (tmp_path / "r").exists()


def test_settings_reach_the_mill(command: Callable[..., Finished], script: Path, tmp_path: Path) -> None:
    given = ("--set", f"buffer_directory={tmp_path}/buffer", "--set", "small_epoch_bytes=0", "--set", "partitions=3")
    done = command("run", str(script), "--root", str(tmp_path / "r"), "--once", *given)
    assert done.code == 0, done.err
    assert (tmp_path / "buffer").is_dir(), "its files are deleted when the mill is closed"
    assert as_rows(command("query", "--root", str(tmp_path / "r"), "SELECT * FROM latest", "--format", "csv").out)


def test_not_finite_numbers_are_valid_json(command: Callable[..., Finished], tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("NaN\nInf\n-Inf\n1.5\n\n")
    (tmp_path / "s.sql").write_text(
        f"CREATE TABLE t (x DOUBLE) USING csv OPTIONS (path '{tmp_path}/t.csv');"
        "CREATE MATERIALIZED VIEW v AS SELECT x, CAST(x AS STRING) AS s FROM t"
    )
    root = str(tmp_path / "root")
    assert command("run", str(tmp_path / "s.sql"), "--root", root, "--once").code == 0
    done = command("query", "--root", root, "SELECT * FROM v", "--format", "json")

    def refuse(name: str) -> float:
        raise AssertionError(f"{name} is not JSON")

    values = [json.loads(line, parse_constant=refuse)["x"] for line in done.out.splitlines()]
    assert sorted(map(str, values)) == ["-Infinity", "1.5", "Infinity", "NaN"]
    assert all(math.isfinite(v) for v in values if isinstance(v, float))


def test_a_standard_output_that_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    """As of ``tidemill query ... >&-``: what is written goes nowhere."""
    written: list[int] = []
    monkeypatch.setattr(sys, "stdout", None)
    monkeypatch.setattr(cli, "app", lambda: written.append(sys.stdout.buffer.write(b"rows")))
    cli.main()
    assert written == [4]
