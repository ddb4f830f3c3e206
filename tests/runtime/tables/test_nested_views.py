"""Views with arrays, structs and maps, as they are read: DataFrame, SQL over views, files of text."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from pathlib import Path

from tidemill.cli.query import output
from tidemill.mill import Mill

QUERY = (
    "SELECT k, array(k, NULL) AS a, named_struct('x', k, 'y', s) AS st, map('b', s, 'a', NULL) AS mp, "
    "array(named_struct('d', day)) AS n FROM t"
)


def filled(mill: Mill, directory: Path) -> Mill:
    directory.mkdir()
    (directory / "1.csv").write_text("1,x,2020-01-02\n2,,\n")
    mill.sql(f"CREATE TABLE t (k INT, s STRING, day DATE) USING csv OPTIONS (path '{directory}')")
    mill.sql(f"CREATE MATERIALIZED VIEW v AS {QUERY}")
    mill.sql("CREATE MATERIALIZED VIEW g AS SELECT st, count(*) AS c FROM v GROUP BY st")
    list(mill.drain())
    return mill


def test_reading(mill_factory: Callable[..., Mill], tmp_path: Path) -> None:
    mill = filled(mill_factory(), tmp_path / "data")
    found = mill.query("SELECT a[0] AS a, st.y AS y, mp['b'] AS b, map_keys(mp) AS mk, size(n) AS n FROM v ORDER BY k")
    assert found.toArrow().to_pylist() == [
        {"a": 1, "y": "x", "b": "x", "mk": ["a", "b"], "n": 1},
        {"a": 2, "y": None, "b": None, "mk": ["a", "b"], "n": 1},
    ]
    groups = mill.query("SELECT st.x AS x, c FROM g ORDER BY x").toArrow()
    assert groups.to_pylist() == [{"x": 1, "c": 1}, {"x": 2, "c": 1}]
    types = dict(mill.table("v").dtypes)
    assert types["st"] == "struct<x:int,y:string>" and types["n"] == "array<struct<d:date>>"
    assert types["mp"] == "map<string,string>" and types["a"] == "array<int>"


def test_formats(mill_factory: Callable[..., Mill], tmp_path: Path) -> None:
    table = filled(mill_factory(), tmp_path / "data").read("v").sort_by("k")
    texts = {}
    for name in ("table", "csv", "json"):
        stream = io.BytesIO()
        output.write(table, name, stream)
        texts[name] = stream.getvalue().decode().splitlines()
    for text in ("[1, NULL]", "{1, x}", "{a -> NULL, b -> x}", "[{2020-01-02}]"):
        assert text in texts["table"][2]
    assert texts["csv"][2] == '2,"[2, NULL]","{2, NULL}","{a -> NULL, b -> NULL}","[{NULL}]"'
    assert json.loads(texts["json"][0]) == {
        "k": 1, "a": [1, None], "st": {"x": 1, "y": "x"}, "mp": {"a": None, "b": "x"}, "n": [{"d": "2020-01-02"}],
    }  # fmt: skip
