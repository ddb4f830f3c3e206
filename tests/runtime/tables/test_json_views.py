"""Views over JSON files with nested columns, from the file to the view, with results worked out by hand."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from tidemill.mill import Mill

COLUMNS = "id BIGINT NOT NULL, user STRUCT<name: STRING, age: INT>, tags ARRAY<STRING>, counts MAP<STRING, INT>"


def lines(first: int) -> str:
    found = [
        {
            "tags": [["red", "green"], [], None][i % 3],
            "id": i,
            "user": {"age": i % 4, "name": f"n{i % 5}", "address": {"city": f"c{i % 2}"}},
            "counts": {"a": i, "b": None},
        }
        for i in range(first, first + 20)
    ]
    return "".join(json.dumps(r) + "\n" for r in found)


def test_nested_columns(mill_factory: Callable[..., Mill], tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    (data / "1.json").write_text(lines(0) + '{"id":')
    mill = mill_factory()
    mill.sql(
        f"CREATE TABLE t ({COLUMNS}, city STRING, CityCopy STRING) USING json "
        f"OPTIONS (path '{data}', field.city 'user/address/city', `field.CityCopy` '/user/address/city')"
    )
    queries = {
        "people": "SELECT user.name AS name, count(*) AS c, sum(user.age) AS age, max(city) AS city FROM t GROUP BY 1",
        "tagged": "SELECT tag, count(*) AS c FROM t LATERAL VIEW explode(tags) e AS tag GROUP BY tag",
        "whole": "SELECT id, user, tags, counts['a'] AS a, size(tags) AS n, city = CityCopy AS same FROM t",
    }
    for name, query in queries.items():
        mill.sql(f"CREATE MATERIALIZED VIEW {name} AS {query}")
    list(mill.drain())
    (data / "2.json").write_text("[" + lines(20).rstrip().replace("\n", ",\n") + "]")
    list(mill.drain())
    whole = {row["id"]: row for row in mill.query("SELECT * FROM whole").toArrow().to_pylist()}
    assert sorted(whole) == list(range(40))
    assert whole[21] == {
        "id": 21, "user": {"name": "n1", "age": 1}, "tags": ["red", "green"], "a": 21, "n": 2, "same": True,
    }  # fmt: skip
    assert whole[22]["tags"] == [] and whole[23]["tags"] is None
    people = {row["name"]: row for row in mill.query("SELECT * FROM people").toArrow().to_pylist()}
    assert people["n0"] == {"name": "n0", "c": 8, "age": sum(i % 4 for i in range(0, 40, 5)), "city": "c1"}
    tagged = mill.query("SELECT * FROM tagged ORDER BY tag").toArrow().to_pylist()
    assert tagged == [{"tag": "green", "c": 14}, {"tag": "red", "c": 14}]
    errors = mill.query("SELECT reason, raw, column FROM t__errors").toArrow().to_pylist()
    assert {e["reason"] for e in errors} == {"bad_json", "null_in_not_null"}
