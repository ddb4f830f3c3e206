"""Which state may be let go once the watermark has passed: found by the plan of real queries."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from tidemill.plan.catalyst.analyser import Catalyst
from tidemill.plan.lowering.analysis.definition import ViewDefinition
from tidemill.plan.lowering.assemble import Assembler
from tidemill.plan.rules import rewrite
from tidemill.schema import TIMESTAMP, Field, Schema
from tidemill.task.program import ScanStep, TableSource, multiset_table

SCHEMA = Schema((Field("k", pa.int32()), Field("x", pa.int64()), Field("at", TIMESTAMP), Field("other", TIMESTAMP)))
ERRORS = multiset_table("errors", (pa.string(), pa.int64(), pa.string(), pa.string(), pa.binary()), 2)
TABLES = {
    name: TableSource(name, f"{name}#1", "csv", SCHEMA, (), "op", ("I", "D"), ERRORS, watermark=watermark)
    for name, watermark in (("t", "at"), ("u", "at"), ("plain", None))
}
MINUTE = 60_000_000


@pytest.fixture(scope="module")
def catalyst(spark: SparkSession) -> Iterator[Catalyst]:
    made = Catalyst(spark)
    for name in TABLES:
        made.register(name, SCHEMA)
    yield made
    for name in TABLES:
        made.forget(name)


def retained(catalyst: Catalyst, query: str) -> list[tuple[str, list[tuple[int, int | None, dict[str, int]]]]]:
    """Kind of table, and per lag its key column, field and bounds."""
    assembler = Assembler([ViewDefinition("v", "v#1", rewrite(catalyst.plan(query)), 0)], TABLES)
    assembler.program()
    found = [
        (name.split(":")[0], sorted([(lag.place.column, lag.place.field, dict(lag.bounds)) for lag in lags], key=str))
        for name, lags in assembler.retention().items()
    ]
    return sorted(found, key=str)


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("SELECT window, min(x) AS m FROM t GROUP BY window(at, '10 minutes')", [("values1", [(0, 1, {"t": 0})])]),
        (
            "SELECT k, window, max(x) AS m FROM t GROUP BY k, window(at, '10 minutes')",
            [("values2", [(1, 1, {"t": 0})])],
        ),
        ("SELECT at, min(x) AS m FROM t WHERE k > 1 GROUP BY at", [("values1", [(0, None, {"t": 0})])]),
        (
            "SELECT window, min(x) AS m FROM t GROUP BY window(at, '10 minutes', '5 minutes')",
            [("values1", [(0, 1, {"t": 0})])],
        ),
        (
            "SELECT window, min(x) AS m FROM t GROUP BY window(at, '12 minutes', '5 minutes')",
            [("values1", [(0, 1, {"t": 3 * MINUTE})])],
        ),
        ("SELECT window, sum(x) AS m FROM t GROUP BY window(at, '10 minutes')", []),
        ("SELECT other, min(x) AS m FROM t GROUP BY other", []),
        ("SELECT window, min(x) AS m FROM t GROUP BY window(other, '10 minutes')", []),
        ("SELECT window, min(x) AS m FROM plain GROUP BY window(at, '10 minutes')", []),
        ("SELECT at + INTERVAL '1' DAY AS a, min(x) AS m FROM t GROUP BY 1", []),
        (
            "SELECT at, min(x) AS m FROM (SELECT at, x FROM t UNION ALL SELECT at, x FROM u) GROUP BY at",
            [("values1", [(0, None, {"t": 0, "u": 0})])],
        ),
        ("SELECT at, min(x) AS m FROM (SELECT at, x FROM t UNION ALL SELECT at, x FROM plain) GROUP BY at", []),
        (
            "SELECT t.x, u.x AS y FROM t JOIN u ON t.at = u.at",
            [("rows", [(0, None, {"t": 0})]), ("rows", [(0, None, {"u": 0})])],
        ),
        ("SELECT t.x, plain.x AS y FROM t JOIN plain ON t.at = plain.at", [("rows", [(0, None, {"t": 0})])]),
        ("SELECT t.x, u.x AS y FROM t JOIN u ON t.k = u.k", []),
        ("SELECT t.at AS a, min(u.x) AS m FROM t JOIN u ON t.k = u.k GROUP BY t.at", []),
        (  # left rows are looked up by the right keys, right ones by both
            "SELECT k FROM t WHERE EXISTS (SELECT 1 FROM u WHERE u.at = t.at)",
            [("rows", [(0, None, {"t": 0}), (0, None, {"u": 0})]), ("rows", [(0, None, {"u": 0})])],
        ),
    ],
)
def test_lags(catalyst: Catalyst, query: str, expected: list[object]) -> None:
    assert retained(catalyst, query) == expected


@pytest.mark.parametrize("watermark", ["at", None])
def test_rows_move_the_watermark_before_they_are_filtered(catalyst: Catalyst, watermark: str | None) -> None:
    view = ViewDefinition("v", "v#1", rewrite(catalyst.plan("SELECT k FROM t WHERE x > 3")), 0)
    source = replace(TABLES["t"], op_column=None, watermark=watermark)
    program = Assembler([view], TABLES | {"t": source}).program()
    (scan,) = (s.operation for s in program.steps if isinstance(s.operation, ScanStep))
    assert (scan.condition is None) == (watermark is not None)
