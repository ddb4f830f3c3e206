"""The life of a task: what is given and taken when, and what is refused."""

from __future__ import annotations

import gc
import pickle
import random
import threading
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from task_runs import cut, files, run_fresh, table_of

from tidemill.errors import TidemillError
from tidemill.plan.loading.plan import Plan, Scan, index, merge_sorted, values
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


def test_hundreds_of_barriers_of_one_task(tmp_path: Path) -> None:
    """Everything that the task holds is gone at each barrier: of its objects as many as before."""
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
        for _ in range(350):
            assert one().num_rows == 4
        gc.collect()
        assert len(gc.get_objects()) - objects < 550  # one float of time for each barrier is no object of gc's
        assert pa.total_allocated_bytes() - bytes_ < 35_000
        assert task.stats().barriers == 400


def test_threads_end_with_the_task(scan: Scan) -> None:
    before = threading.active_count()
    for _ in range(3):
        with Task(scan, threads=3) as task:
            task.add_split(scan, scan.splits()[0])
            assert threading.active_count() == before + 3
    assert threading.active_count() == before


@pytest.mark.parametrize("threads", [0, 2])
def test_a_closed_task_says_so(scan: Scan, threads: int) -> None:
    """A barrier that is not reached any more does not look like one that is."""
    task = Task(scan, threads=threads)
    for split in scan.splits():
        task.add_split(scan, split)
    future = task.request_barrier()
    while (batch := task.next()) is None:
        assert task.pending is not None
        task.pending.result(timeout=30)
    assert batch.num_rows
    task.close()
    assert isinstance(future.exception(timeout=10), TidemillError)
    assert number_of(task.next) == number_of(task.request_barrier) == "TM9024"
    task.close()


@pytest.mark.parametrize("threads", [0, 2])
def test_futures_that_are_cancelled(scan: Scan, threads: int) -> None:
    """As asyncio does with those that it waits for with a time-out."""
    with Task(scan, threads=threads) as task:
        for _ in range(3):
            task.add_split(scan, scan.splits()[0])
            first, second = task.request_barrier(), task.request_barrier()
            first.cancel()
            rows = 0
            while (batch := task.next()) is not None or task.pending is not None:
                rows += batch.num_rows if batch is not None else 0
                if batch is None and task.pending is not None and not task.pending.cancel():
                    task.pending.result(timeout=30)
            assert rows == 10 and second.result(timeout=10) is None


def test_threads_of_a_task_that_nobody_has(scan: Scan) -> None:
    before = threading.active_count()
    task = Task(scan, threads=3)
    task.add_split(scan, scan.splits()[0])
    del task
    gc.collect()
    deadline = time.monotonic() + 30
    while threading.active_count() > before:
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_the_end_of_a_task_without_sources() -> None:
    with Task(values(pa.table({"n": [1]}))) as task:
        assert task.sources == ()
        task.request_barrier()
        task.no_more_splits()
        assert taken(task) == [1]
        assert number_of(task.request_barrier) == "TM9011"


@pytest.mark.parametrize("threads", [0, 1, 4])
def test_rows_before_an_error_come_first(scan: Scan, threads: int) -> None:
    """And an error of rows that nobody needs comes never, however many threads are ahead."""
    splits = scan.splits()
    Path(splits[3].path).write_bytes(b"PAR1 no more")
    found: list[int] = []
    with Task(scan, threads=threads) as task, pytest.raises(TidemillError, match="TM5003"):
        for batch in task.run({"input": splits}):
            found += batch.column(0).to_pylist()
    assert found == list(range(30))
    with Task(scan.limit(25), threads=threads) as task:
        for _ in range(5):
            rows = [n for b in task.run({"input": splits}) for n in b.column(0).to_pylist()]
            assert rows == list(range(25))
            assert [b.num_rows for b in task.run({"input": splits[:1]})]


def test_what_is_no_plan_and_no_split(scan: Scan) -> None:
    rows = pa.table({"n": [1]})
    for wrong in (
        lambda: Task("x"),  # type: ignore[arg-type]
        lambda: Task(scan, memory_bytes=-1),
        lambda: Task(scan).add_split(scan, scan.splits()[0].path),  # type: ignore[arg-type]
        lambda: scan.select(),
        lambda: scan.select(5),  # type: ignore[arg-type]
        lambda: scan.lookup_join(rows, "n"),  # type: ignore[arg-type]
        lambda: scan.lookup_join(index(rows, "n"), ()),
        lambda: scan.merge_join(scan, 5),  # type: ignore[arg-type]
        lambda: merge_sorted(scan, on=()),
        lambda: values(5),  # type: ignore[arg-type]
    ):
        assert number_of(wrong) == "TM4003"
    assert number_of(lambda: Task(scan).add_split(scan.limit(1), scan.splits()[0])) == "TM9013"  # type: ignore[arg-type]
    assert number_of(lambda: index(rows, "m")) == "TM4006"
    assert number_of(lambda: scan.select("n", "n")) == "TM9023"
    assert number_of(lambda: values(pa.Table.from_arrays([[1], [2]], names=["n", "n"]))) == "TM9023"


def test_plans_are_told_apart(scan: Scan) -> None:
    """Also where their texts are shortened."""

    def listed(last: int) -> str:
        return scan.filter(pc.field("n").isin([*range(100), last, *range(200, 300)])).fingerprint()

    assert listed(150) == listed(150) != listed(151)
    assert merge_sorted(scan, on="n").fingerprint() != merge_sorted(scan, on="n", descending=True).fingerprint()
    join = [scan.merge_join(scan.select("n"), "n", drop_input=drop).fingerprint() for drop in (True, False)]
    assert join[0] == join[1] != scan.merge_join(scan.select("n"), "n", descending=True).fingerprint()
    assert scan.limit(1).fingerprint() == pickle.loads(pickle.dumps(scan.limit(1))).fingerprint()


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
