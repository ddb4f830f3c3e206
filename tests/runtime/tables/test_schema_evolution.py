"""Tables without columns, rescued data and new columns, from the file to the view, through restarts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from mill_factory import MillFactory
from tidemill.errors import TidemillError
from tidemill.mill import Mill


def put(path: Path, *records: Any) -> None:
    """Write a file of JSON lines; texts are lines as they are."""
    path.parent.mkdir(exist_ok=True)
    path.write_text("".join((r if isinstance(r, str) else json.dumps(r)) + "\n" for r in records))


def rows(mill: Mill, view: str) -> list[dict[str, Any]]:
    return sorted(mill.read(view).to_pylist(), key=lambda r: str(list(r.values())))


def columns(mill: Mill, table: str) -> list[tuple[str, str]]:
    return [(r["col_name"], r["data_type"]) for r in mill.sql(f"DESCRIBE {table}").toArrow().to_pylist()]


def test_inferred_table_with_rescued_data(mill_factory: MillFactory, tmp_path: Path) -> None:
    data = tmp_path / "data"
    put(data / "1.json", {"id": 1, "tags": ["x"], "o": {"k": 1.5}}, {"id": 2, "n": None})
    script = f"""
        CREATE TABLE t USING json OPTIONS (path '{data}');
        CREATE MATERIALIZED VIEW v AS SELECT id, o.k AS k, _rescued_data AS r FROM t;
        CREATE MATERIALIZED VIEW c AS SELECT count(*) AS n, count(id) AS ids FROM t;
    """
    mill = mill_factory()
    mill.script(script)
    described = [
        ("id", "bigint"),
        ("n", "string"),
        ("o", "struct<`k`:double>"),
        ("tags", "array<string>"),
        ("_rescued_data", "string"),
    ]
    assert columns(mill, "t") == described
    list(mill.drain())
    put(data / "2.json", {"id": "x", "ID": 3, "o": {"k": 2, "j": 0}}, {"id": 4, "new": [1, {"a": None}]}, '{"id": ')
    reports = list(mill.drain())
    assert sum(r.malformed for r in reports) == 1
    where = f'"_file_path":"{data / "2.json"}"'
    expected = [
        {"id": 1, "k": 1.5, "r": None},
        {"id": 2, "k": None, "r": None},
        {"id": 4, "k": None, "r": '{"new":[1, {"a": null}],' + where + "}"},
        {"id": None, "k": 2.0, "r": '{"id":"x","ID":3,"o":{"j":0},' + where + "}"},
        {"id": None, "k": None, "r": None},
    ]
    assert rows(mill, "v") == sorted(expected, key=lambda r: str(list(r.values())))
    assert rows(mill, "c") == [{"n": 5, "ids": 3}]
    assert [e["reason"] for e in mill.query("SELECT * FROM t__errors").toArrow().to_pylist()] == ["bad_json"]
    mill.close()
    for file in data.iterdir():
        file.unlink()  # what was inferred is kept: it is not inferred again
    again = mill_factory()
    again.script(script)
    assert columns(again, "t") == described
    assert rows(again, "c") == [{"n": 5, "ids": 3}]
    with pytest.raises(TidemillError) as error:
        again.script(f"CREATE TABLE t USING json OPTIONS (path '{data}', schemaHints 'id INT')")
    assert error.value.number in ("TM2010", "TM4071")


def test_new_columns_are_added(mill_factory: MillFactory, tmp_path: Path) -> None:
    data = tmp_path / "data"
    put(data / "1.json", {"a": 1}, {"a": 2})
    script = f"""
        CREATE TABLE t USING json OPTIONS (path '{data}', schemaEvolutionMode 'addNewColumns', schemaHints 'e DATE');
        CREATE MATERIALIZED VIEW old AS SELECT * FROM t;
    """
    mill = mill_factory()
    mill.script(script)
    list(mill.drain())
    epoch = mill.epoch
    put(data / "2.json", {"a": 3, "b": 1}, {"a": "x", "b": 2.5, "A": 0}, {"a": 4, "c": {"d": [True]}})
    put(data / "3.json", {"a": 5, "e": "2020-01-01", "f": None})
    found = list(mill.drain())
    assert mill.epoch == epoch + len(found)
    assert [w for r in found for w in r.warnings if w.startswith("TM4075")]
    added = [("b", "double"), ("c", "struct<`d`:array<boolean>>"), ("f", "string")]
    first = [("a", "bigint"), ("e", "date"), ("_rescued_data", "string")]
    assert columns(mill, "t") == first + added
    assert [r["a"] for r in rows(mill, "old")] == [1, 2, 3, 4, 5, None]
    assert set(rows(mill, "old")[0]) == {"a", "e", "_rescued_data"}
    mill.sql("CREATE MATERIALIZED VIEW new AS SELECT a, b, c.d AS d, e, f, _rescued_data IS NULL AS whole FROM t")
    list(mill.drain())
    assert [r["b"] for r in rows(mill, "new")] == [None, None, 1.0, None, None, 2.5]
    assert rows(mill, "new")[3]["d"] == [True] and str(rows(mill, "new")[4]["e"]) == "2020-01-01"
    assert not rows(mill, "new")[5]["whole"]
    mill.close()
    again = mill_factory()
    again.script(script)
    assert columns(again, "t") == first + added
    put(data / "4.json", {"g": 1, "a": 6}, {"a": 7, "c": {"d": [], "later": 1}})
    told = [w for report in again.drain() for w in report.warnings if w.startswith("TM4076")]
    assert len(told) == 1 and "t: 1 rows" in told[0]
    assert columns(again, "t") == [*first, *added, ("g", "bigint")]
    assert [r["a"] for r in rows(again, "new")] == [1, 2, 3, 4, 5, 6, 7, None]
    assert not rows(again, "new")[6]["whole"]


def test_new_columns_of_csv(mill_factory: MillFactory, tmp_path: Path) -> None:
    data = tmp_path / "data"
    put(data / "1.csv", "id,name", "1,x")
    mill = mill_factory()
    mill.sql(f"CREATE TABLE t USING csv OPTIONS (path '{data}', header true, schemaEvolutionMode 'addNewColumns')")
    mill.sql("CREATE MATERIALIZED VIEW v AS SELECT id, name, _rescued_data AS r FROM t")
    list(mill.drain())
    put(data / "2.csv", "day,id", "2020-01-01,2", ",y,z")
    list(mill.drain())
    assert columns(mill, "t")[2:] == [("_rescued_data", "string"), ("day", "date")]
    rescued = f'{{"id":"y","_c2":"z","_file_path":"{data / "2.csv"}"}}'
    assert rows(mill, "v") == [
        {"id": 1, "name": "x", "r": None},
        {"id": 2, "name": None, "r": None},
        {"id": None, "name": None, "r": rescued},
    ]
    assert mill.query("SELECT * FROM t__errors").count() == 0


def test_new_columns_that_must_not_be(mill_factory: MillFactory, tmp_path: Path) -> None:
    data = tmp_path / "data"
    put(data / "1.json", {"a": 1})
    mill = mill_factory()
    mill.sql(f"CREATE TABLE t USING json OPTIONS (path '{data}', schemaEvolutionMode 'failOnNewColumns')")
    mill.sql("CREATE MATERIALIZED VIEW v AS SELECT count(*) AS n FROM t")
    list(mill.drain())
    epoch = mill.epoch
    put(data / "2.json", {"a": 2}, {"A": 2}, {"b": 1, "c": 2})
    for _ in range(2):
        with pytest.raises(TidemillError) as error:
            list(mill.drain())
        assert error.value.number == "TM4074"
        assert "b, c" in error.value.got and str(data / "2.json") in error.value.got
        assert mill.epoch == epoch and rows(mill, "v") == [{"n": 1}]
    (data / "2.json").unlink()
    put(data / "3.json", {"a": 3})
    mill.close()
    again = mill_factory()
    list(again.drain())
    assert rows(again, "v") == [{"n": 2}]


def test_mode_none_and_declared_columns(mill_factory: MillFactory, tmp_path: Path) -> None:
    data = tmp_path / "data"
    put(data / "1.json", {"a": 1}, {"a": "x"}, {"b": 2})
    mill = mill_factory()
    mill.sql(f"CREATE TABLE plain USING json OPTIONS (path '{data}', schemaEvolutionMode 'none', schemaHints 'a INT')")
    assert columns(mill, "plain") == [("a", "int"), ("b", "bigint")]
    declared = f"""
        CREATE TABLE t (a BIGINT) USING json OPTIONS (path '{data}', rescuedDataColumn 'rest');
        CREATE MATERIALIZED VIEW v AS SELECT a, rest IS NULL AS whole FROM t;
    """
    for _ in range(2):
        mill.script(declared)
    mill.sql("CREATE MATERIALIZED VIEW p AS SELECT a, b FROM plain")
    list(mill.drain())
    assert columns(mill, "t") == [("a", "bigint"), ("rest", "string")]
    wanted = [(1, True), (None, False), (None, False)]
    assert [(r["a"], r["whole"]) for r in rows(mill, "v")] == wanted
    assert rows(mill, "p") == [{"a": 1, "b": None}, {"a": None, "b": 2}, {"a": None, "b": None}]
    errors = mill.query("SELECT reason FROM plain__errors UNION ALL SELECT reason FROM t__errors")
    assert [e["reason"] for e in errors.toArrow().to_pylist()] == ["bad_int32"]


def test_what_cannot_be_declared(mill_factory: MillFactory, tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    mill = mill_factory()
    options = f"OPTIONS (path '{data}'"
    for number, statement in (
        ("TM4071", f"CREATE TABLE t USING json {options})"),
        ("TM5001", f"CREATE TABLE t USING json OPTIONS (path '{data}/none')"),
        ("TM5005", "CREATE TABLE t USING json"),
        ("TM2009", f"CREATE TABLE t USING native {options})"),
        ("TM4003", f"CREATE TABLE t (a INT) USING json {options}, schemaHints 'a INT')"),
        ("TM4003", f"CREATE TABLE t (a INT) USING json {options}, schemaEvolutionMode 'add')"),
        ("TM4003", f"CREATE TABLE t (a INT) USING json {options}, rescuedDataColumn 'a')"),
        ("TM4003", f"CREATE TABLE t (a INT) USING parquet {options}, rescuedDataColumn 'r')"),
        (
            "TM4003",
            f"CREATE TABLE t (a INT PRIMARY KEY) USING json {options}, schemaEvolutionMode 'addNewColumns')",
        ),
    ):
        with pytest.raises(TidemillError) as error:
            mill.sql(statement)
        assert error.value.number == number, statement
