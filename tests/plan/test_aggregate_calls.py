"""Aggregate calls in manifests, try_sum where a sum does not fit, and a query that Spark's optimiser fails at."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from tidemill.mill import Mill
from tidemill.plan.algebra import codec
from tidemill.plan.algebra.nodes import Aggregate, AggregateCall, Scan
from tidemill.schema import Field

PLAIN = AggregateCall("sum", 1, pa.int64(), True)
BY = AggregateCall("min_by", 1, pa.string(), True, False, (2,))
PERCENTILE = AggregateCall(
    "percentile", 1, pa.list_(pa.float64()), True, options=(("many", True), ("percentages", (0.1, 0.5)))
)


def test_calls_survive_the_manifest() -> None:
    fields = (Field("k", pa.int32()), Field("x", pa.int64()), Field("s", pa.string()))
    node = Aggregate(Scan("t", fields), (0,), (PLAIN, BY, PERCENTILE), ("k", "a", "b", "c"))
    assert codec.decode(json.loads(json.dumps(codec.encode(node)))) == node
    assert node.schema.types[3] == pa.list_(pa.float64())


def test_a_plain_call_is_written_as_before() -> None:
    """The text names the state of an aggregate: one that changed would lose it."""
    assert codec.encode(PLAIN).keys() == {"$", "function", "argument", "type", "nullable", "distinct"}


@pytest.mark.parametrize("stored", [True, False])
def test_try_sum_is_null_where_it_does_not_fit(mill_factory: Callable[..., Mill], tmp_path: Path, stored: bool) -> None:
    data = tmp_path / "data"
    data.mkdir()
    big = 2**62
    (data / "1.csv").write_text(f"1,{big},9e37,I\n1,{big},9e37,I\n2,5,1,I\n")
    mill = mill_factory()
    columns = "k INT, x BIGINT, y DECIMAL(38,0)"
    mill.sql(f"CREATE TABLE t ({columns}) USING csv OPTIONS (path '{data}', opColumn 'op')")
    mill.sql("CREATE MATERIALIZED VIEW v AS SELECT k, try_sum(x) AS s, try_sum(y) AS d FROM t GROUP BY k")
    # Spark's own optimiser fails at this one, with a ClassCastException.
    both = "count(DISTINCT k) AS c, listagg(DISTINCT string(k), ',') WITHIN GROUP (ORDER BY string(k) DESC) AS l"
    mill.sql(f"CREATE MATERIALIZED VIEW listed AS SELECT {both} FROM t")
    if not stored:
        mill.sql("CREATE MATERIALIZED VIEW w AS SELECT k, s, d FROM v WHERE k > 0")

    def rows() -> dict[int, tuple[int | None, int | None]]:
        list(mill.drain())
        return {r["k"]: (r["s"], r["d"]) for r in mill.read("v" if stored else "w").to_pylist()}

    assert rows() == {1: (None, None), 2: (5, 1)}
    assert mill.read("listed").to_pylist() == [{"c": 2, "l": "2,1"}]
    (data / "2.csv").write_text(f"1,{big},9e37,D\n")
    assert rows() == {1: (big, 9 * 10**37), 2: (5, 1)}
