"""Index lookup join: beside a dictionary, with lookups that take as long as they like."""

from __future__ import annotations

import random
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pytest
from task_runs import check_everywhere, cut, files, run_fresh

from tidemill.errors import TidemillError
from tidemill.plan.loading import plan as builder
from tidemill.schema import Field, Schema
from tidemill.task.task import Task

INT, TEXT = pa.int64(), pa.string()


def probes(rng: random.Random, rows: int) -> list[tuple[int | None, str | None, int]]:
    return [(rng.choice((None, *range(12))), rng.choice((None, "a", "b")), i) for i in range(rows)]


def looked_up(
    rows: list[tuple[Any, ...]], index: dict[tuple[Any, ...], list[tuple[Any, ...]]], left: bool
) -> list[tuple[Any, ...]]:
    found = []
    for row in rows:
        matches = index.get(row[:2], []) if None not in row[:2] else []
        found += [(*row, *match) for match in matches]
        if left and not matches:
            found.append((*row, None, None, None))
    return found


@pytest.mark.parametrize("how", ["inner", "left"])
def test_a_table_in_memory(how: str, tmp_path: Path) -> None:
    seed = random.randrange(1 << 30)
    print("seed", seed)
    rng = random.Random(seed)
    table = [(rng.choice((None, *range(10))), rng.choice((None, "a", "b")), n) for n in range(40)]
    index: dict[tuple[Any, ...], list[tuple[Any, ...]]] = {}
    for row in table:
        index.setdefault(row[:2], []).append(row)
    names = ("k", "t", "n")
    arrays = [pa.array(c, t) for c, t in zip(zip(*table, strict=True), (INT, TEXT, INT), strict=True)]
    looked = builder.index(pa.Table.from_arrays(arrays, names=list(names)), ("k", "t"))
    made = [probes(rng, rng.randrange(20)) for _ in range(8)]
    schema = pa.schema([("k", INT), ("t", TEXT), ("i", INT)])
    scan = files(
        tmp_path,
        [pa.Table.from_pylist([dict(zip(schema.names, r, strict=True)) for r in rows], schema=schema) for rows in made],
    )
    plan = scan.lookup_join(looked, ["k", "t"], how, prefetch=rng.randint(1, 4))
    assert plan.schema.names == ("k", "t", "i", "k_right", "t_right", "n")
    by_path = dict(zip([s.path for s in scan.splits()], made, strict=True))
    for _ in range(3):
        sets = cut(rng, [scan])
        expected = []
        for splits in sets:
            wanted = [e for s in splits["input"] for e in looked_up(by_path[s.path], index, how == "left")]
            columns = zip(*wanted, strict=True) if wanted else [[]] * 6
            fields = plan.schema.to_arrow()
            expected.append(
                pa.Table.from_arrays(
                    [pa.array(list(c), f.type) for c, f in zip(columns, fields, strict=True)], schema=fields
                )
            )
        check_everywhere(plan, sets, expected)


@dataclass(eq=False)
class Slow:
    """Squares, after some time; how many lookups are under way together."""

    seconds: float
    most: list[int]
    under_way: list[int]
    lock: Any

    schema = Schema((Field("square", INT),))
    key_types = (INT,)

    def look_up(self, keys: pa.RecordBatch) -> tuple[npt.NDArray[np.int64], pa.RecordBatch]:
        with self.lock:
            self.under_way[0] += 1
            self.most[0] = max(self.most[0], self.under_way[0])
        values = keys.column(0).to_numpy(zero_copy_only=False)
        time.sleep(self.seconds * (1 + int(values[0]) % 3) if len(values) else 0)
        with self.lock:
            self.under_way[0] -= 1
        if 13 in values:
            raise TidemillError("TM9022", "the index has gone", got="13", hint="")
        return np.arange(len(values)), pa.RecordBatch.from_arrays([pa.array(values * values)], names=["square"])

    def fingerprint(self) -> str:
        return ""


def slow() -> Slow:
    return Slow(0.02, [0], [0], threading.Lock())


def numbers(*values: int) -> pa.Table:
    return pa.table({"n": pa.array(values, INT)})


@pytest.mark.parametrize("threads", [0, 2])
def test_lookups_under_way_are_waited_for_at_the_barrier(threads: int, tmp_path: Path) -> None:
    scan = files(tmp_path, [numbers(i, i + 20) for i in range(10)])
    index = slow()
    found = run_fresh(scan.lookup_join(index, "n", prefetch=4), {"input": scan.splits()}, threads)
    assert found.to_pylist() == [{"n": n, "square": n * n} for i in range(10) for n in (i, i + 20)]
    assert 1 < index.most[0] <= 4 and index.under_way == [0]


def test_an_index_that_fails(tmp_path: Path) -> None:
    scan = files(tmp_path, [numbers(1), numbers(13), numbers(2)])
    with pytest.raises(TidemillError, match="TM9022"):
        run_fresh(scan.lookup_join(slow(), "n"), {"input": scan.splits()})


@pytest.mark.parametrize("threads", [0, 1, 3])
def test_lookups_under_way_come_before_an_error_of_the_source(threads: int, tmp_path: Path) -> None:
    scan = files(tmp_path, [numbers(i, i + 20) for i in range(6)])
    Path(scan.splits()[4].path).write_bytes(b"PAR1 no more")
    plan = scan.lookup_join(slow(), "n", prefetch=4)
    for made in (
        plan,
        plan.lookup_join(slow(), "square"),
        plan.parallel(2, lambda rows: rows.lookup_join(slow(), "n")),
    ):
        found: list[int] = []
        with Task(made, threads=threads) as task, pytest.raises(TidemillError, match="TM5003"):
            for batch in task.run({"input": scan.splits()}):
                found += batch.column(0).to_pylist()
        assert found == [n for i in range(4) for n in (i, i + 20)]


class Unsteady(Slow):
    """Takes some time, another one for each lookup."""

    def look_up(self, keys: pa.RecordBatch) -> tuple[npt.NDArray[np.int64], pa.RecordBatch]:
        time.sleep(random.random() * 0.01)
        values = keys.column(0).to_numpy(zero_copy_only=False)
        return np.arange(len(values)), pa.RecordBatch.from_arrays([pa.array(values * values)], names=["square"])


def unsteady() -> Unsteady:
    return Unsteady(0, [0], [0], threading.Lock())


@pytest.mark.parametrize("by", [(), ("n",)])
def test_the_order_does_not_depend_on_who_answers_first(by: tuple[str, ...], tmp_path: Path) -> None:
    scan = files(tmp_path, [numbers(*range(3 * i, 3 * i + 3)) for i in range(8)])
    plan = scan.parallel(2, lambda rows: rows.lookup_join(unsteady(), "n"), by)
    splits = {"input": scan.splits()}
    expected = run_fresh(plan, splits)
    if not by:
        assert expected.column("n").to_pylist() == list(range(24))
    for threads in (0, 0, 1, 3, 3, 4):
        assert run_fresh(plan, splits, threads).equals(expected)


class Wrong(Slow):
    """Answers in a way that is none."""

    def __init__(self, answer: Any) -> None:
        super().__init__(0, [0], [0], threading.Lock())
        self.answer = answer

    def look_up(self, keys: pa.RecordBatch) -> tuple[npt.NDArray[np.int64], pa.RecordBatch]:
        found = self.answer(keys.num_rows)
        if isinstance(found, Exception):
            raise found
        return found  # type: ignore[no-any-return]


def squares(count: int, type_: pa.DataType = INT) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array([1] * count).cast(type_)], names=["square"])


@pytest.mark.parametrize(
    "answer",
    [
        lambda n: ValueError("no"),
        lambda n: ConnectionResetError("gone"),
        lambda n: (np.arange(n)[::-1], squares(n)),
        lambda n: (np.arange(n) + 1, squares(n)),
        lambda n: (np.arange(n), squares(n - 1)),
        lambda n: (np.arange(n), squares(n, TEXT)),
        lambda n: None,
    ],
)
@pytest.mark.parametrize("threads", [0, 2])
def test_answers_that_are_none(answer: Any, threads: int, tmp_path: Path) -> None:
    scan = files(tmp_path, [numbers(*range(9))])  # batches of three rows
    with pytest.raises(TidemillError, match="TM9022"):
        run_fresh(scan.lookup_join(Wrong(answer), "n", "left"), {"input": scan.splits()}, threads)


def test_a_lookup_that_does_not_return(tmp_path: Path) -> None:
    """The caller is not blocked: it is told what to wait for, and can close the task."""
    scan = files(tmp_path, [numbers(1), numbers(2), numbers(3)])
    answered = threading.Event()

    def hang(count: int) -> Any:
        answered.wait(60)
        return np.arange(count), squares(count)

    for threads in (0, 1):
        with Task(scan.lookup_join(Wrong(hang), "n", prefetch=1), threads=threads) as task:
            for split in scan.splits():
                task.add_split(scan, split)
            task.request_barrier()
            assert task.next() is None and task.pending is not None and not task.pending.done()
    answered.set()


def test_a_process_ends_during_a_lookup(tmp_path: Path) -> None:
    scan = files(tmp_path, [numbers(1), numbers(2)])
    script = f"""
import threading, numpy as np, pyarrow as pa, tidemill as tm
from tidemill.schema import Field, Schema
class Never:
    schema, key_types = Schema((Field("square", pa.int64()),)), (pa.int64(),)
    def look_up(self, keys): threading.Event().wait()
    def fingerprint(self): return ""
scan = tm.plan.scan({str(Path(scan.splits()[0].path).parent)!r})
with tm.Task(scan.lookup_join(Never(), "n")) as task:
    for split in scan.splits():
        task.add_split(scan, split)
    task.request_barrier()
    assert task.next() is None
print("over")
"""
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120, check=True)
    assert ran.stdout == "over\n"


def test_keys_of_another_type(tmp_path: Path) -> None:
    scan = files(tmp_path, [pa.table({"n": ["x"]})])
    with pytest.raises(TidemillError, match="TM9017"):
        scan.lookup_join(slow(), "n")
