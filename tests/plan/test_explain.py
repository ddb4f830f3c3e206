"""``EXPLAIN INCREMENTAL`` as text, compared with files; TIDEMILL_WRITE=1 writes them anew."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from tidemill.plan.algebra.nodes import Scan, SortKey, Window
from tidemill.plan.catalyst.analyser import Catalyst
from tidemill.plan.explain.texts import QUERY, explain
from tidemill.plan.lowering.analysis.definition import ViewDefinition
from tidemill.plan.lowering.ordered_rows import window_changes
from tidemill.plan.rules import rewrite
from tidemill.schema import Field, Schema
from tidemill.task.program import FileVersions, TableSource, multiset_table
from tidemill.task.program.window_calls import Frame, WindowCall

SCHEMA = Schema((Field("k", pa.int32()), Field("x", pa.float64()), Field("s", pa.string()), Field("n", pa.int64())))
ERRORS = multiset_table("errors", (pa.string(), pa.int64(), pa.string(), pa.string(), pa.binary()), 2)
T = TableSource("t", "t#1", "csv", SCHEMA, (), "op", ("I", "D"), ERRORS)
TABLES = {"t": T, "u": replace(T, name="u", uid="u#2"), "d": replace(T, name="d", uid="d#3", static=True)}
OVERWRITTEN = replace(T, name="o", uid="o#4", op_column=None, versions=FileVersions(SCHEMA, 0))
SIZES = {"t": None, "u": 5000}
VIEWS = {
    "sums": "SELECT k, sum(x) AS x, count(*) AS n FROM t GROUP BY k",
    "joined": "SELECT t.k, t.x, u.s FROM t JOIN u ON t.k = u.k",
}
QUERIES = {
    "stored_groups": "SELECT s, sum(x * 2) AS x, avg(n) FROM t WHERE n > 0 AND k IS NOT NULL GROUP BY s",
    "shared_join": "SELECT s, min(x) AS x FROM (SELECT t.k, t.x, u.s FROM t JOIN u ON t.k = u.k) GROUP BY s",
    "over_a_view": "SELECT n, count(*) AS c FROM sums GROUP BY n",
    "static_lookup": "SELECT t.n, d.s FROM t LEFT JOIN d ON t.k = d.k AND t.x < d.x",
    "static_sums": "SELECT d.s, sum(t.x) AS x FROM t JOIN d ON t.k = d.k GROUP BY d.s",
    "top_of_pairs": "SELECT t.k, t.n * 2 AS m FROM t WHERE EXISTS (SELECT 1 FROM u WHERE u.s = t.s) ORDER BY m LIMIT 3",
    "compared_with_a_total": "SELECT k, x FROM t WHERE x > (SELECT avg(x) FROM u)",
    "not_in": "SELECT t.s, t.x FROM t WHERE k NOT IN (SELECT k FROM u)",
    "windowed": "SELECT k, rank() OVER (PARTITION BY s ORDER BY n DESC) AS r FROM t",
    "running_sums": "SELECT * FROM (SELECT k, n, sum(x) OVER (ORDER BY n) AS total FROM t) ORDER BY n DESC LIMIT 5",
    "ranks_of_some": "SELECT * FROM (SELECT k, rank() OVER w AS r, avg(x) OVER w AS a FROM t "
    "WINDOW w AS (ORDER BY n DESC)) WHERE k = 3 AND r > 9",
    "median": "SELECT s, median(x) AS m FROM t GROUP BY s",
    "small_lookup": "SELECT t.n, u.s FROM t LEFT JOIN u ON t.k = u.k",
    "overwritten": "SELECT o.n, count(*) AS c FROM o JOIN t ON o.k = t.k GROUP BY o.n",
    "recursion": "WITH RECURSIVE r(s, path) MAX RECURSION LEVEL 9 AS (SELECT s, s FROM t WHERE k = 0 UNION ALL "
    "SELECT u.s, concat(r.path, '/', u.s) FROM r JOIN u ON u.k = length(r.s)) SELECT path FROM r WHERE s > ''",
    "small_sums": "SELECT u.s, sum(t.x) AS x FROM t JOIN u ON t.k = u.k GROUP BY u.s",
}


@pytest.fixture
def catalyst(spark: SparkSession) -> Iterator[Catalyst]:
    made = Catalyst(spark)
    for name in (*TABLES, "o"):
        made.register(name, SCHEMA)
    yield made
    for name in (*TABLES, "o", *VIEWS):
        made.forget(name)


def existing(catalyst: Catalyst) -> list[ViewDefinition]:
    found = []
    for name, query in VIEWS.items():
        root = rewrite(catalyst.plan(query))
        catalyst.register(name, root.schema)
        found.append(ViewDefinition(name, f"{name}#9", root, 0))
    return found


def test_golden_texts(catalyst: Catalyst) -> None:
    views = existing(catalyst)
    for name, query in QUERIES.items():
        root = rewrite(catalyst.plan(query))
        sizes = (7, SIZES) if name.startswith("small") else (0, {})
        tables = {**TABLES, "o": OVERWRITTEN} if name == "overwritten" else TABLES
        text = explain(views, tables, ViewDefinition(QUERY, QUERY, root, *sizes))
        text = f"-- {query}\n{re.sub(r'[0-9a-f]{16}', '…', text)}\n"
        path = Path(__file__).with_name("explained") / f"{name}.txt"
        if os.environ.get("TIDEMILL_WRITE"):
            path.write_text(text)
        assert text == path.read_text(), name


@pytest.mark.parametrize(
    ("limited", "shown", "read"),
    [
        ("row_number", "first 10", "the first 10 rows of affected partitions"),
        ("rank", "up to rank 10", "the first ranks of affected partitions"),
        ("dense_rank", "up to dense_rank 10", "the first ranks of affected partitions"),
    ],
)
@pytest.mark.parametrize("partition", [(), (2,)])
def test_a_limited_window_costs_what_it_reads(limited: str, shown: str, read: str, partition: tuple[int, ...]) -> None:
    call = WindowCall(limited, (), pa.int32(), False, Frame(True, None, 0))
    window = Window(Scan("t", SCHEMA.fields), partition, (SortKey(3, True, False),), (call,), ("r",), 10, limited)
    operation = window_changes(window, ("t", "t"), 0)
    by = ", ".join("kxsn"[p] for p in partition)
    assert operation.text(["kxsn"], "kxsnr") == f"Window [{limited}] by [{by}] order [n] {shown}"
    assert str(operation.cost) == f"O(Δ log n), and {read}"


def test_a_view_is_explained_as_it_runs(catalyst: Catalyst) -> None:
    views = existing(catalyst)
    text = explain(views, TABLES, views[1])
    assert text.splitlines()[0] == "supersteps: 2   exchanges: 2   state tables: 3   steps: 11   worst: O(Δ log n)"
    assert "shared with sums: #0" in text.splitlines()


def test_a_query_of_another_birth_shares_only_scans_and_views(catalyst: Catalyst) -> None:
    views = existing(catalyst)
    root = rewrite(catalyst.plan(QUERIES["over_a_view"]))
    lines = explain(views, TABLES, ViewDefinition(QUERY, QUERY, root, 7)).splitlines()
    assert any("Snapshot of sums" in line and line.endswith("O(Δ), once O(n)") for line in lines)
    (shared,) = (line for line in lines if line.startswith("shared with sums"))
    assert shared.count("#") == 4
