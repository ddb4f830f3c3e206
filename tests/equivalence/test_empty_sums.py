"""emptySum = zero: SUM and AVG over no values are 0, wherever in the query they stand."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest
from oracle import Trial, usual_settings, usual_tables

from tidemill.mill import Mill
from tidemill.plan.sql.empty_sums import zero_for_empty

# a view with the property, and by hand what Spark should answer
VIEWS = {
    "e_groups": (
        "SELECT k, sum(i) AS s, avg(i) FILTER (WHERE i > 40) AS a FROM t GROUP BY k",
        "SELECT k, coalesce(sum(i), 0) AS s, coalesce(avg(i) FILTER (WHERE i > 40), 0) AS a FROM t GROUP BY k",
    ),
    "e_subquery": (
        "SELECT k, i FROM t WHERE i > (SELECT sum(u.l) FROM u WHERE u.k = t.k + 2)",
        "SELECT k, i FROM t WHERE i > coalesce((SELECT coalesce(sum(u.l), 0) FROM u WHERE u.k = t.k + 2), 0)",
    ),
    "e_having": (
        "SELECT g, count(*) AS c FROM t GROUP BY g HAVING sum(CASE WHEN i > 45 THEN i END) = 0",
        "SELECT g, count(*) AS c FROM t GROUP BY g HAVING coalesce(sum(CASE WHEN i > 45 THEN i END), 0) = 0",
    ),
}


def test_views_with_the_property(mill_factory: Callable[..., Mill], tmp_path: Path, seed: int) -> None:
    rng = random.Random(f"empty {seed}")
    tables = usual_tables(rng, tmp_path)
    trial = Trial(mill_factory(**usual_settings(rng, tables)), tables)
    for name, (query, meant) in VIEWS.items():
        trial.mill.sql(f"CREATE MATERIALIZED VIEW {name} TBLPROPERTIES ('emptySum' = 'zero') AS {query}")
        trial.views[name] = meant
    for name, value in (("e_null", "null"), ("e_zero", "zero")):
        create = f"CREATE MATERIALIZED VIEW {name} TBLPROPERTIES ('emptySum' = '{value}') AS "
        trial.mill.sql(create + "SELECT sum(i), avg(d) AS a FROM t WHERE i > 1000")
    trial.run(rng)
    trial.check_not_vacuous()
    assert trial.mill.read("e_null").to_pylist() == [{"sum(i)": None, "a": None}]
    assert trial.mill.read("e_zero").to_pylist() == [{"sum(i)": 0, "a": 0.0}]


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("SELECT sum(x) FROM t", "SELECT coalesce(sum(x), 0Y) FROM t"),
        (
            "SELECT SUM (DISTINCT x), 'sum(x)', sum FROM t",
            "SELECT coalesce(SUM (DISTINCT x), 0Y), 'sum(x)', sum FROM t",
        ),
        ("SELECT avg(f(x)) FILTER (WHERE (y)) z", "SELECT coalesce(avg(f(x)) FILTER (WHERE (y)), 0Y) z"),
        ("SELECT sum(x) OVER (ORDER BY (k)) FROM t", "SELECT coalesce(sum(x) OVER (ORDER BY (k)), 0Y) FROM t"),
        ("SELECT sum(sum(x)) OVER w", "SELECT coalesce(sum(coalesce(sum(x), 0Y)) OVER w, 0Y)"),
        ("SELECT `sum`(x) /* sum(y) */ -- avg(z)", "SELECT coalesce(`sum`(x), 0Y) /* sum(y) */ -- avg(z)"),
        ("WITH sum (a) AS (SELECT 1) SELECT a FROM sum", "WITH sum (a) AS (SELECT 1) SELECT a FROM sum"),
        ("SELECT try_sum(x), summary(x) FROM t", "SELECT try_sum(x), summary(x) FROM t"),
    ],
)
def test_the_text(query: str, expected: str) -> None:
    assert zero_for_empty(query) == expected
