"""Programs of several views: what is shared, what needs an exchange, who depends on what."""

from __future__ import annotations

import dataclasses
import gc
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from tidemill.plan.algebra import codec
from tidemill.plan.algebra.codec import decode, encode, fingerprint
from tidemill.plan.algebra.identities import Identities
from tidemill.plan.algebra.node_memo import NodeMemo
from tidemill.plan.catalyst.analyser import Catalyst
from tidemill.plan.explain.texts import explain
from tidemill.plan.lowering.analysis.definition import ViewDefinition
from tidemill.plan.lowering.assemble import Assembler, state_tables
from tidemill.plan.rules import rewrite
from tidemill.schema import Field, Schema
from tidemill.task.program import (
    Calculate,
    GroupChanges,
    GroupPartial,
    JoinChanges,
    Operation,
    PairSums,
    Program,
    ScanStep,
    StoreKeyed,
    TableSource,
    ViewSnapshot,
    WindowChanges,
    multiset_table,
)

SCHEMA = Schema((Field("k", pa.int32()), Field("x", pa.float64()), Field("s", pa.string()), Field("n", pa.int64())))
ERRORS = multiset_table("errors", (pa.string(), pa.int64(), pa.string(), pa.string(), pa.binary()), 2)


def source(name: str, deletes: bool) -> TableSource:
    return TableSource(name, f"{name}#1", "csv", SCHEMA, (), "op" if deletes else None, ("I", "D"), ERRORS)


TABLES = {"t": source("t", True), "a": source("a", False)}


class Views:
    """Views over t (with deletes) and a (without)."""

    def __init__(self, catalyst: Catalyst) -> None:
        self.catalyst = catalyst
        self.views: list[ViewDefinition] = []
        for name in TABLES:
            catalyst.register(name, SCHEMA)

    def add(self, name: str, query: str, created_at_epoch: int = 0) -> None:
        root = rewrite(self.catalyst.plan(query))
        self.catalyst.register(name, root.schema)
        self.views.append(ViewDefinition(name, f"{name}#1", root, created_at_epoch))

    def program(self) -> Program:
        return Assembler(self.views, TABLES).program()


@pytest.fixture
def views(spark: SparkSession) -> Iterator[Views]:
    made = Views(Catalyst(spark))
    yield made
    for name in [*TABLES, *(v.name for v in made.views)]:
        made.catalyst.forget(name)


def count(program: Program, *kinds: type[Operation]) -> int:
    return sum(isinstance(s.operation, kinds) for s in program.steps)


def test_one_scan_a_table_with_the_columns_of_all_views(views: Views) -> None:
    views.add("v", "SELECT k FROM t WHERE n > 0")
    views.add("w", "SELECT s FROM t")
    views.add("x", "SELECT k FROM a")
    program = views.program()
    scans = {s.operation.source.name: s for s in program.steps if isinstance(s.operation, ScanStep)}
    assert scans["t"].operation.columns == ("k", "s", "n")  # type: ignore[union-attr]
    assert scans["a"].operation.columns == ("k",)  # type: ignore[union-attr]
    assert count(program, ScanStep) == 2
    assert scans["t"].views == {"v", "w"} and scans["a"].views == {"x"}


def test_a_stored_aggregate_needs_no_exchange(views: Views) -> None:
    views.add("v", "SELECT k, count(*) AS c, sum(n) AS s, avg(x) AS a FROM t GROUP BY k")
    views.add("w", "SELECT sum(x) + 1 AS s FROM t")
    views.add("m", "SELECT k, min(n) AS m, max(s) AS x FROM a GROUP BY k")
    program = views.program()
    assert program.supersteps == 1
    assert count(program, StoreKeyed) == 3
    assert count(program, GroupChanges) == 0


def test_a_projection_that_can_fail_is_computed_for_changed_groups(views: Views) -> None:
    views.add("v", "SELECT k, 1 / sum(n) AS q FROM t GROUP BY k")
    views.add("w", "SELECT k, sum(n) AS s FROM t GROUP BY k")
    program = views.program()
    assert count(program, GroupChanges) == 1 and count(program, StoreKeyed) == 0
    checks = [s for i, s in enumerate(program.steps) if not any(i == u.step for o in program.steps for u in o.inputs)]
    assert [s.views for s in checks if isinstance(s.operation, Calculate)] == [{"v"}]


def test_extremes_under_deletes_and_distinct_need_one_exchange(views: Views) -> None:
    views.add("v", "SELECT k, min(n) AS m FROM t GROUP BY k")
    views.add("w", "SELECT k, count(DISTINCT s) AS c FROM a GROUP BY k")
    program = views.program()
    assert program.supersteps == 2
    assert [s.operation.emit for s in program.steps if isinstance(s.operation, GroupChanges)] == [False, False]


def test_a_view_over_an_aggregate_makes_it_give_its_changes(views: Views) -> None:
    views.add("v", "SELECT k, count(*) AS c FROM t GROUP BY k")
    views.add("w", "SELECT c, count(*) AS n FROM v GROUP BY c")
    program = views.program()
    assert program.supersteps == 2
    assert count(program, GroupChanges) == 1 and count(program, StoreKeyed) == 1
    (changing,) = [s for s in program.steps if isinstance(s.operation, GroupChanges)]
    assert changing.views == {"v", "w"}


def test_equal_work_of_different_views_is_done_once(views: Views) -> None:
    views.add("v", "SELECT k, sum(n) AS s FROM t WHERE n > 3 GROUP BY k")
    views.add("w", "SELECT k, sum(n) + 1 AS s FROM t WHERE n > 3 GROUP BY k HAVING sum(n) > 0")
    views.add("x", "SELECT t.k, a.n FROM t JOIN a ON t.k = a.k")
    views.add("y", "SELECT t.k, a.n FROM t JOIN a ON t.k = a.k")
    program = views.program()
    assert count(program, GroupPartial) == 1
    assert count(program, JoinChanges) == 1
    assert sum(s.views == {"v", "w"} for s in program.steps) >= 2


def test_supersteps_are_the_depth_of_the_deepest_view(views: Views) -> None:
    for number in range(4):
        views.add(f"flat{number}", f"SELECT n FROM t WHERE n > {number}")
    assert views.program().supersteps == 1
    views.add("deep1", "SELECT k, count(*) AS c FROM t GROUP BY k")
    views.add("deep2", "SELECT c, count(*) AS d FROM deep1 GROUP BY c")
    views.add("deep3", "SELECT d, max(c) AS e FROM deep2 GROUP BY d")
    assert views.program().supersteps == 4
    assert all(
        s.depth >= max((views.program().steps[i.step].depth for i in s.inputs), default=0)
        for s in views.program().steps
    )


def test_views_born_later_share_no_state_and_begin_with_a_snapshot(views: Views) -> None:
    query = "SELECT k, min(n) AS m FROM t GROUP BY k"
    views.add("v", query)
    views.add("late", query, created_at_epoch=7)
    views.add("over", "SELECT m FROM v", created_at_epoch=7)
    program = views.program()
    own = {view: set(state_tables(program, view)) for view in ("v", "late", "over")}
    assert own["v"] & own["late"] == {"errors"}
    snapshots = [s for s in program.steps if isinstance(s.operation, ViewSnapshot)]
    assert [s.operation.view for s in snapshots] == ["v"]  # type: ignore[union-attr]
    assert snapshots[0].created_at_epoch == 7 and snapshots[0].views == {"over"}


def test_steps_come_after_their_inputs(views: Views) -> None:
    views.add("v", "SELECT k, count(*) AS c FROM t GROUP BY k")
    views.add("w", "SELECT x.k, y.c FROM t x JOIN v y ON x.k = y.k UNION ALL SELECT n, k FROM a")
    for number, step in enumerate(views.program().steps):
        assert all(i.step < number for i in step.inputs)


def test_a_program_has_the_same_name_whenever_it_is_made(views: Views) -> None:
    views.add("v", "SELECT k, count(*) AS c FROM t GROUP BY k")
    first = views.program()
    assert first.fingerprint == views.program().fingerprint
    views.add("w", "SELECT k FROM t")
    assert first.fingerprint != views.program().fingerprint


def test_plans_survive_being_stored(views: Views) -> None:
    query = """SELECT t.k, a.s, CASE WHEN t.x > 1.5 THEN 'big' END AS size, CAST(t.n AS DECIMAL(12, 3)) AS m,
               DATE '2020-01-01' AS day FROM t JOIN a ON t.k <=> a.k AND t.n > a.n WHERE t.s LIKE 'a%'"""
    views.add("v", query)
    root = views.views[0].root
    assert decode(encode(root)) == root
    assert fingerprint(decode(encode(root))) == fingerprint(root)


WINDOWS = """SELECT k, sum(n) OVER (PARTITION BY k ORDER BY x RANGE BETWEEN 1 PRECEDING AND CURRENT ROW) AS s,
             lag(s, 2, 'none') IGNORE NULLS OVER (PARTITION BY k ORDER BY x) AS l, ntile(4) OVER (ORDER BY n DESC) AS b
             FROM t"""


def test_windows_over_equal_rows_in_one_order_share_their_table(views: Views) -> None:
    views.add("v", "SELECT k, n, row_number() OVER (PARTITION BY k ORDER BY n) AS r FROM t")
    views.add("w", "SELECT k, n, sum(n) OVER (PARTITION BY k ORDER BY n) AS s FROM t")
    views.add("x", "SELECT k, n, row_number() OVER (PARTITION BY k ORDER BY n DESC) AS r FROM t")
    program = views.program()
    windows = [s.operation for s in program.steps if isinstance(s.operation, WindowChanges)]
    assert len(windows) == 3 and len({w.rows.table.id for w in windows}) == 2
    assert {w.rows.table.distribution for w in windows} == {1}
    assert program.supersteps == 2


@pytest.mark.parametrize(
    ("condition", "limit"),
    [("r <= 3", 3), ("r < 3 AND n > 1", 2), ("r = 1", 1), ("3 >= r", 3), ("r > 3", None), ("r <= 3 OR n > 1", None),
     ("q <= 3", None), ("r <= n", None)],
)  # fmt: skip
def test_a_filter_on_row_number_limits_its_window(views: Views, condition: str, limit: int | None) -> None:
    window = "row_number() OVER (PARTITION BY k ORDER BY n) AS r, lag(n) OVER (PARTITION BY k ORDER BY n) AS q"
    views.add("v", f"SELECT * FROM (SELECT k, n, {window} FROM t) WHERE {condition}")
    views.add(
        "w",
        f"SELECT * FROM (SELECT k, n, {window}, max(n) OVER (PARTITION BY k ORDER BY n) AS m FROM t) WHERE {condition}",
    )
    limits = [s.operation.limit for s in views.program().steps if isinstance(s.operation, WindowChanges)]
    assert limits == [limit, None]


def test_windows_survive_being_stored(views: Views) -> None:
    views.add("v", WINDOWS)
    root = views.views[0].root
    assert decode(encode(root)) == root


def test_windows_are_explained(views: Views) -> None:
    views.add("v", WINDOWS)
    text = explain([], TABLES, views.views[0])
    lines = [line.partition("Window ")[2] for line in text.splitlines() if " Window " in line]
    costs = {line.split("]")[0]: line.split("   ")[1] for line in lines}
    assert costs == {"[ntile": "O(n)", "[sum, shift": "O(affected groups), reads the rows of affected partitions"}, text


def test_a_threshold_over_sums_takes_one_exchange(views: Views) -> None:
    views.add(
        "v",
        "SELECT SUM(b1.x * b1.n) AS s FROM t b1 WHERE 0.25 * (SELECT SUM(b3.n) FROM t b3) "
        "> (SELECT SUM(b2.n) FROM t b2 WHERE b2.x > b1.x)",
    )
    program = views.program()
    assert program.supersteps == 2
    assert count(program, PairSums) == 2
    joins = [s.operation for s in program.steps if isinstance(s.operation, JoinChanges)]
    assert [(j.key_width, j.broadcast) for j in joins] == [(0, False)]  # the threshold, where the sums are


def test_one_row_goes_to_where_the_groups_are(views: Views) -> None:
    views.add("v", "SELECT k, s FROM (SELECT k, SUM(n) AS s FROM t GROUP BY k) WHERE s > (SELECT AVG(n) FROM t)")
    program = views.program()
    assert program.supersteps == 3
    (join,) = (s for s in program.steps if isinstance(s.operation, JoinChanges))
    assert isinstance(join.operation, JoinChanges) and join.operation.broadcast
    assert [i.broadcast for i in join.inputs] == [False, True]
    assert join.operation.left.columns[: join.operation.left.table.distribution] == (0,)


def test_rows_in_place_are_not_exchanged(views: Views) -> None:
    views.add("v", "SELECT g.k, a.x FROM (SELECT k, SUM(n) AS s FROM t GROUP BY k HAVING s > 1) g JOIN a ON g.k = a.k")
    program = views.program()
    (join,) = (s for s in program.steps if isinstance(s.operation, JoinChanges))
    groups = next(s for s in program.steps if isinstance(s.operation, GroupChanges))
    assert (groups.depth, join.depth) == (1, 1)


def test_deep_plans_are_assembled_once(views: Views, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each view goes once through the nodes below it, also through those of views that it reads."""
    depth = 14
    views.add("v0", "SELECT k, n FROM t")
    for i in range(1, depth):
        views.add(f"v{i}", f"SELECT x.k, COUNT(*) AS n FROM v{i - 1} x JOIN t ON x.k = t.k AND x.n < t.x GROUP BY x.k")
    calls = 0
    lower = Assembler._lower

    def counted(self: Assembler, *arguments: Any) -> Any:
        nonlocal calls
        calls += 1
        return lower(self, *arguments)

    monkeypatch.setattr(Assembler, "_lower", counted)
    program = views.program()
    assert 3 * depth < len(program.steps) < 12 * depth
    assert calls < 6 * depth * depth


def test_names_that_are_kept_are_those_taken_anew(views: Views) -> None:
    """Also when a relation of the same name is another one."""
    views.add("v", "SELECT k, count(DISTINCT n) AS c FROM t GROUP BY k")
    views.add("w", "SELECT v.k, a.x FROM v JOIN a ON v.k = a.k ORDER BY a.x LIMIT 3")
    identities = Identities()
    others = {**TABLES, "t": replace(TABLES["t"], uid="t#2")}
    for tables in (TABLES, others, TABLES):
        found = state_tables(Assembler(views.views, tables, identities=identities).program())
        assert found == state_tables(Assembler(views.views, tables).program())
    assert found.keys() != state_tables(Assembler(views.views, others).program()).keys()


def test_kept_names_go_with_their_nodes(views: Views) -> None:
    memo: NodeMemo[str] = NodeMemo()
    views.add("v", "SELECT k FROM t")
    (view,) = views.views
    memo.put(view.root, "here")
    assert memo.get(view.root) == "here"
    assert memo.get(replace(view.root)) is None, "an equal node is another one"
    key = id(view.root)
    views.views.clear()
    del view
    gc.collect()
    assert key not in memo._kept


@pytest.mark.parametrize("name", sorted(codec._MODULES))
def test_classes_of_plans_are_where_the_codec_looks_for_them(name: str) -> None:
    found = codec.class_of(name)
    assert found.__name__ == name and dataclasses.is_dataclass(found)
