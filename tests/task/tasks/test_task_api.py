"""The life of a task: what is given and taken when, and what is refused."""

from __future__ import annotations

import random
import threading
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from task_runs import cut, files, run_fresh, table_of

from tidemill.errors import TidemillError
from tidemill.plan.loading.plan import Plan, Scan, values
from tidemill.task.task import Task


def numbers(start: int, stop: int) -> pa.Table:
    return pa.table({"n": pa.array(range(start, stop), pa.int64())})


@pytest.fixture
def scan(tmp_path: Path) -> Scan:
    return files(tmp_path, [numbers(10 * i, 10 * i + 10) for i in range(6)])


def taken(task: Task) -> list[int]:
    """All rows up to the barrier, taken as the documentation says."""
    found: list[int] = []
    while (batch := task.next()) is not None or task.pending is not None:
        if batch is None:
            assert task.pending is not None
            task.pending.result(timeout=30)
        else:
            found += batch.column(0).to_pylist()
    return found


@pytest.mark.parametrize("threads", [0, 2])
def test_the_documented_loop(scan: Scan, threads: int) -> None:
    splits = list(scan.splits())
    with Task(scan, threads=threads) as task:
        for round_ in range(3):
            task.add_split(scan, splits[round_])
            task.add_split("input", splits[round_ + 1])
            future = task.request_barrier()
            assert taken(task) == list(range(10 * round_, 10 * round_ + 20))
            assert future.done() and future.result() is None
        task.add_split(scan, splits[5])
        task.no_more_splits(scan)
        assert taken(task) == list(range(50, 60))
        assert task.next() is None and task.pending is None
        stats = task.stats()
        assert (stats.barriers, stats.splits, len(stats.barrier_milliseconds)) == (3, {"input": 7}, 4)


def number_of(call: object) -> str:
    with pytest.raises(TidemillError) as raised:
        call()  # type: ignore[operator]
    assert raised.value.got
    return raised.value.number


@pytest.mark.parametrize("threads", [0, 2])
def test_calls_at_the_wrong_time(scan: Scan, threads: int) -> None:
    split = scan.splits()[0]
    with Task(scan, threads=threads) as task:
        assert number_of(task.next) == "TM7011"
        task.add_split(scan, split)
        assert number_of(task.next) == "TM7011"
        task.request_barrier()
        assert number_of(lambda: task.add_split(scan, split)) == "TM7010"
        assert taken(task) == list(range(10))
        assert number_of(task.next) == "TM7011"
        assert number_of(lambda: task.add_split("other", split)) == "TM9013"
        task.no_more_splits()
        assert number_of(lambda: task.add_split(scan, split)) == "TM7010"
        assert number_of(task.request_barrier) == "TM9011"
        assert task.next() is None and task.pending is None


def test_a_barrier_in_progress_is_joined(scan: Scan) -> None:
    with Task(scan) as task:
        task.add_split(scan, scan.splits()[0])
        first, second = task.request_barrier(), task.request_barrier()
        assert task.next() is not None
        third = task.request_barrier()
        assert not first.done()
        assert taken(task) == [3, 4, 5, 6, 7, 8, 9]
        assert first.done() and second.done() and third.done() and task.stats().barriers == 1


def test_the_end_behind_a_barrier_in_progress(scan: Scan) -> None:
    with Task(scan) as task:
        task.add_split(scan, scan.splits()[0])
        future = task.request_barrier()
        task.no_more_splits()
        assert taken(task) == list(range(10)) and future.done()
        assert number_of(task.request_barrier) == "TM9011"


@pytest.mark.parametrize("threads", [0, 2])
def test_barriers_without_splits(scan: Scan, threads: int) -> None:
    with Task(scan.filter(pc.field("n") > 5), threads=threads) as task:
        for _ in range(5):
            task.request_barrier()
            assert taken(task) == []
        assert task.stats().barriers == 5


@pytest.mark.parametrize("threads", [0, 2])
def test_an_error_reaches_everyone(scan: Scan, threads: int, tmp_path: Path) -> None:
    splits = scan.splits()
    Path(splits[1].path).write_bytes(b"PAR1 no more")
    with Task(scan, threads=threads) as task:
        for split in splits:
            task.add_split(scan, split)
        first, second = task.request_barrier(), task.request_barrier()
        with pytest.raises(TidemillError) as raised:
            taken(task)
        assert raised.value.number.startswith("TM5") and splits[1].path in raised.value.got
        for future in (first, second):
            assert future.exception(timeout=10) is raised.value
        assert [number_of(c) for c in (task.next, task.request_barrier, task.no_more_splits)] == ["TM9012"] * 3
        assert number_of(lambda: task.add_split(scan, splits[0])) == "TM9012"
    with Task(scan, threads=threads) as task:
        assert table_of(scan, task.run({"input": splits[:1]})).num_rows == 10


def test_a_file_that_is_missing(scan: Scan) -> None:
    splits = scan.splits()
    Path(splits[0].path).unlink()
    with Task(scan) as task, pytest.raises(TidemillError, match="TM50"):
        list(task.run({"input": splits}))


def test_bad_arguments(scan: Scan) -> None:
    for wrong in ({"barrier": "keep"}, {"threads": -1}, {"threads": True}):
        with pytest.raises(TidemillError, match="TM4003"):
            Task(scan, **wrong)  # type: ignore[arg-type]
    with pytest.raises(TidemillError, match="TM4006"):
        scan.select("m")
    with pytest.raises(TidemillError, match="TM9015"):
        scan.filter(pc.field("m") > 1)


def test_values_come_in_each_set() -> None:
    rows = values(pa.table({"n": [1, 2, 3]}))
    with Task(rows) as task:
        assert [table_of(rows, task.batches()).num_rows for _ in range(3)] == [3, 3, 3]


def test_a_thousand_barriers_of_one_task(tmp_path: Path) -> None:
    """Everything that the task holds is gone at each barrier: of its objects as many as before."""
    import gc

    rng = random.Random(5)
    left = files(tmp_path, [numbers(i, i + 3) for i in range(20)], "left")
    right = files(tmp_path, [numbers(i + 1, i + 4) for i in range(20)], "right")
    plan = left.merge_join(right, "n", "full").limit(1000)
    with Task(plan) as task:

        def one() -> pa.Table:
            at = rng.randrange(20)
            return table_of(plan, task.run({"left": [left.splits()[at]], "right": [right.splits()[at]]}))

        for _ in range(50):
            assert one().num_rows == 4
        gc.collect()
        objects, bytes_ = len(gc.get_objects()), pa.total_allocated_bytes()
        for _ in range(950):
            assert one().num_rows == 4
        gc.collect()
        assert len(gc.get_objects()) - objects < 1_500  # one float of time for each barrier is no object of gc's
        assert pa.total_allocated_bytes() - bytes_ < 100_000
        assert task.stats().barriers == 1000


def test_threads_end_with_the_task(scan: Scan) -> None:
    before = threading.active_count()
    for _ in range(3):
        with Task(scan, threads=3) as task:
            task.add_split(scan, scan.splits()[0])
            assert threading.active_count() == before + 3
    assert threading.active_count() == before


def plans(scan: Scan) -> list[Plan]:
    small = scan.filter(pc.field("n") < 35)
    return [
        scan,
        small.select(m=pc.multiply(pc.field("n"), 3)),
        scan.limit(17, 8),
        small.merge_join(scan.select("n"), "n", "full"),
    ]


@pytest.mark.parametrize("threads", [1, 2, 4])
def test_threads_do_not_change_a_byte(scan: Scan, threads: int) -> None:
    seed = random.randrange(1 << 30)
    print("seed", seed)
    rng = random.Random(seed)
    for plan in plans(scan):
        for _ in range(3):
            sets = cut(rng, [scan])
            with Task(plan, threads=threads) as several, Task(plan) as alone:
                for splits in sets:
                    one = [b.to_pydict() for b in alone.run(splits)]
                    assert [b.to_pydict() for b in several.run(splits)] == one
            assert run_fresh(plan, sets[0]).num_rows <= 61
