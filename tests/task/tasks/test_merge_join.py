"""Sort-merge join beside DuckDB, with barriers at random places; and how much of its inputs it reads."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from task_runs import check_everywhere, cut, files, run_fresh

from tidemill.errors import TidemillError
from tidemill.task.task import Task

KINDS = ("inner", "left", "right", "full", "semi", "anti")
INT, TEXT = pa.int64(), pa.string()


def side(rng: random.Random, rows: int, keys: int, nulls: bool, value: str) -> pa.Table:
    """Rows (k, t, value), sorted by k and t, NULL first."""

    def some(value: Any) -> Any:
        return None if nulls and rng.random() < 0.1 else value

    pairs = [(some(rng.randrange(keys)), some(rng.choice("abß"))) for _ in range(rows)]
    pairs.sort(key=lambda p: tuple((x is not None, x if x is not None else 0) for x in p))
    return pa.table(
        {
            "k": pa.array([k for k, _ in pairs], INT),
            "t": pa.array([t for _, t in pairs], TEXT),
            value: pa.array(range(rows), INT),
        }
    )


def oracle(left: pa.Table, right: pa.Table, kind: str) -> pa.Table:
    """What DuckDB gives, in the order that the operator promises."""
    word = {"semi": "SEMI", "anti": "ANTI"}.get(kind, kind.upper())
    columns = "l.*" if kind in ("semi", "anti") else "l.k, l.t, l.a, r.k AS k_right, r.t AS t_right, r.b"
    keys = "coalesce(l.k, r.k) NULLS FIRST, coalesce(l.t, r.t) NULLS FIRST, a NULLS LAST, b"
    if kind in ("semi", "anti"):
        keys = "k NULLS FIRST, t NULLS FIRST, a"
    connection = duckdb.connect()
    connection.register("l", left)
    connection.register("r", right)
    return connection.sql(
        f"SELECT {columns} FROM l {word} JOIN r ON l.k = r.k AND l.t = r.t ORDER BY {keys}"
    ).to_arrow_table()


def parts(rng: random.Random, table: pa.Table, most: int) -> list[pa.Table]:
    """A table cut into some tables; also empty ones."""
    cuts = sorted(rng.randrange(table.num_rows + 1) for _ in range(rng.randrange(most)))
    return [table.slice(a, b - a) for a, b in zip([0, *cuts], [*cuts, table.num_rows], strict=True)]


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_random_sides(kind: str, tmp_path: Path) -> None:
    seed = random.randrange(1 << 30)
    print("seed", seed)
    rng = random.Random(seed)
    for trial in range(6):
        keys = rng.choice((1, 3, 40))
        directory = tmp_path / str(trial)
        directory.mkdir()
        sets, tables = [], []
        lefts, rights = [], []
        for _ in range(rng.randint(1, 3)):
            left = side(rng, rng.choice((0, 1, 30)), keys, rng.random() < 0.5, "a")
            right = side(rng, rng.choice((0, 1, 30)), keys, rng.random() < 0.5, "b")
            tables.append((left, right))
            lefts.append(parts(rng, left, 4))
            rights.append(parts(rng, right, 4))
        left_scan = files(directory, [t for ts in lefts for t in ts], "left")
        right_scan = files(directory, [t for ts in rights for t in ts], "right")
        at = [0, 0]
        for ls, rs in zip(lefts, rights, strict=True):
            sets.append(
                {
                    "left": left_scan.splits()[at[0] : at[0] + len(ls)],
                    "right": right_scan.splits()[at[1] : at[1] + len(rs)],
                }
            )
            at = [at[0] + len(ls), at[1] + len(rs)]
        expected = [oracle(left, right, kind) for left, right in tables]
        for drop in (True, False):
            plan = left_scan.merge_join(right_scan, ["k", "t"], kind, drop_input=drop)
            check_everywhere(plan, sets, [e.cast(plan.schema.to_arrow()) for e in expected])


def keyed(keys: list[int]) -> pa.Table:
    return pa.table({"k": pa.array(keys, INT), "a": pa.array(range(len(keys)), INT)})


def counts(
    tmp_path: Path, kind: str, left: list[list[int]], right: list[list[int]], drop: bool
) -> tuple[pa.Table, Any]:
    left_scan = files(tmp_path, [keyed(keys) for keys in left], f"left{drop}")
    right_scan = files(tmp_path, [keyed(keys) for keys in right], f"right{drop}")
    with Task(left_scan.merge_join(right_scan, "k", kind, drop_input=drop)) as task:
        found = pa.Table.from_batches(
            list(task.run({left_scan.name: left_scan.splits(), right_scan.name: right_scan.splits()})),
            schema=task.schema,
        )
        stats = task.stats()
        # the same task goes on with the next set
        again = pa.Table.from_batches(
            list(task.run({left_scan.name: left_scan.splits(), right_scan.name: right_scan.splits()})),
            schema=task.schema,
        )
        assert again.combine_chunks().equals(found.combine_chunks())
        return found.combine_chunks(), stats


SHORT, LONG = [[1, 2, 3]], [[1, 1], [2, 3], [3, 3], [3, 4], *([5 + i, 5 + i] for i in range(20))]


@pytest.mark.parametrize("kind", KINDS)
def test_a_side_that_matches_nothing_more_is_read_no_further(kind: str, tmp_path: Path) -> None:
    """Every row of key 3 is read, in three files; of the files behind them as few as the queues between hold."""
    found, stats = counts(tmp_path, kind, SHORT, LONG, True)
    whole, all_read = counts(tmp_path, kind, SHORT, LONG, False)
    assert found.equals(whole)
    assert all_read.splits_left_out == {"leftFalse": 0, "rightFalse": 0}
    left_out = stats.splits_left_out["rightTrue"]
    if kind in ("right", "full"):
        assert left_out == 0
    else:
        assert left_out >= 10 and stats.splits["rightTrue"] + left_out == len(LONG)
        assert stats.steps[1].rows_out < all_read.steps[1].rows_out


@pytest.mark.parametrize("kind", KINDS)
def test_the_left_side_is_dropped_too(kind: str, tmp_path: Path) -> None:
    found, stats = counts(tmp_path, kind, LONG, SHORT, True)
    whole, _ = counts(tmp_path, kind, LONG, SHORT, False)
    assert found.equals(whole)
    assert (stats.splits_left_out["leftTrue"] > 0) == (kind in ("inner", "right", "semi"))


@pytest.mark.parametrize("kind", KINDS)
def test_a_run_of_equal_keys_on_both_sides_of_files(kind: str, tmp_path: Path) -> None:
    """The right side ends with key 5, while batches of key 5 of the left are still to come."""
    left, right = [[5], [5], [5, 5], [5], [6], [7], [8]], [[1, 5]]
    found, _ = counts(tmp_path, kind, left, right, True)
    whole, _ = counts(tmp_path, kind, left, right, False)
    assert found.equals(whole)
    expected = {"inner": 5, "left": 8, "right": 6, "full": 9, "semi": 5, "anti": 3}
    assert found.num_rows == expected[kind]


def test_unsorted_rows_are_an_error(tmp_path: Path) -> None:
    left, right = files(tmp_path, [keyed([1, 3]), keyed([2])], "left"), files(tmp_path, [keyed([1, 2, 9])], "right")
    plan = left.merge_join(right, "k")
    with pytest.raises(TidemillError, match="TM9020") as raised:
        run_fresh(plan, {"left": left.splits(), "right": right.splits()})
    assert "left side of a merge join: (2) in row 2 behind (3)" in raised.value.got
    with pytest.raises(TidemillError, match="TM9010"):
        Task(plan, barrier="retain")


def test_descending_keys(tmp_path: Path) -> None:
    left, right = files(tmp_path, [keyed([9, 7, 7, 1])], "left"), files(tmp_path, [keyed([8, 7, 1, 1])], "right")
    plan = left.merge_join(right, "k", descending=True)
    found = run_fresh(plan, {"left": left.splits(), "right": right.splits()})
    assert found.to_pydict() == {"k": [7, 7, 1, 1], "a": [1, 2, 3, 3], "k_right": [7, 7, 1, 1], "a_right": [1, 1, 2, 3]}


def test_keys_of_different_types(tmp_path: Path) -> None:
    left = files(tmp_path, [keyed([1])], "left")
    right = files(tmp_path, [pa.table({"k": pa.array(["1"])})], "right")
    with pytest.raises(TidemillError, match="TM9017"):
        left.merge_join(right, "k")


def test_barriers_at_random_places_over_sorted_files(tmp_path: Path) -> None:
    seed = random.randrange(1 << 30)
    print("seed", seed)
    rng = random.Random(seed)
    left = files(tmp_path, [side(rng, rng.randrange(9), 4, True, "a") for _ in range(12)], "left")
    right = files(tmp_path, [side(rng, rng.randrange(9), 4, True, "b") for _ in range(12)], "right")
    plan = left.merge_join(right, ["k", "t"], "full")
    for _ in range(5):
        sets = [s for s in cut(rng, [left, right]) if all(len(splits) <= 1 for splits in s.values())]
        expected = [run_fresh(plan, s) for s in sets]
        check_everywhere(plan, sets, expected)
