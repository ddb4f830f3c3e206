"""A task over many epochs: splits in, barrier, everything out, and again."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from operator_runs import INT, arranged, changes, grouping, keyed, merged, pairs

from tidemill.errors import TidemillError
from tidemill.runtime.tables.table import STORED_ERRORS
from tidemill.schema import Field, Schema
from tidemill.sources.split import Split
from tidemill.task.aggregates.accumulators import Accumulator, Result
from tidemill.task.dataflow.deltas import Keyed
from tidemill.task.dataflow.operator import Output
from tidemill.task.epoch_task import EpochTask, outgoing
from tidemill.task.expressions import Call, Literal, Ref
from tidemill.task.program import (
    Calculate,
    Concatenate,
    GroupChanges,
    Input,
    JoinChanges,
    Operation,
    Program,
    ScanStep,
    Step,
    StoreRows,
    TableSource,
    multiset_table,
)
from tidemill.testing import MemoryContext, keyed_rows

ERRORS = multiset_table("errors", STORED_ERRORS.types, 2)
SOURCE = TableSource("t", "t#1", "csv", Schema((Field("k", INT), Field("v", INT))), (), None, ("I", "D"), ERRORS)
VIEW, OTHER = multiset_table("view", (INT, INT), 2), multiset_table("other", (INT, INT), 2)
SUMS = grouping(
    Accumulator("count", 1), Accumulator("sum_i64", 1), results=(Result("sum", INT, INT, 2, 1),)
)  # fmt: skip
SIDE = arranged("side", (0, 1), (INT, INT))
POSITIVE = Call("gt", (Ref(1, INT), Literal(0, INT)), pa.bool_())
PLUS = Call("add", (Ref(0, INT), Literal(2**63 - 1, INT)), INT, True, (("mode", "ansi"),))


def program(*steps: tuple[Operation, tuple[int, ...], int]) -> Program:
    made = tuple(Step(o, tuple(Input(i) for i in inputs), depth, 0, frozenset()) for o, inputs, depth in steps)
    return Program(made, "test")


FAN_OUT = program(
    (ScanStep(SOURCE, ("k", "v")), (), 0),
    (Calculate(POSITIVE, None), (0,), 0),
    (StoreRows(VIEW), (1,), 0),
    (SUMS, (0,), 0),
    (SIDE, (1,), 0),
    (GroupChanges(SUMS, True), (3,), 1),
    (Concatenate(), (1, 1), 0),
    (StoreRows(OTHER), (6,), 0),
    (JoinChanges(SIDE, SIDE, 1), (4, 4), 1),
)


def split_of(directory: Path, text: str) -> Split:
    path = directory / f"{len(list(directory.iterdir()))}.csv"
    path.write_text(text)
    status = path.stat()
    return Split("t", str(path), 0, status.st_size, status.st_size, status.st_mtime_ns, False)


def drain(task: EpochTask) -> list[tuple[int, Output]]:
    task.request_barrier()
    found = []
    while (produced := task.next()) is not None or task.pending is not None:
        assert produced is not None
        found.append(produced)
    return found


def leaving(outputs: list[tuple[int, Output]]) -> dict[int, list[tuple[object, ...]]]:
    tables = {3: SUMS.groups, 4: SIDE.table}
    found = {}
    for step, output in outputs:
        assert isinstance(output.item, Keyed)
        found[step] = keyed_rows(tables[step], output.item)
    return found


def test_every_consumer_sees_every_row(tmp_path: Path) -> None:
    task, context = EpochTask(FAN_OUT, 0), MemoryContext()
    task.begin(context)
    task.add_split(0, split_of(tmp_path, "1,5\n2,-1\n"))
    task.add_split(0, split_of(tmp_path, "1,7\n"))
    found = leaving(drain(task))
    assert found == {3: [(1, 2, 2, 12), (2, 1, 1, -1)], 4: [(1, 5, 1), (1, 7, 1)]}
    context.seal()
    assert merged(VIEW, context) == [(1, 5, 1), (1, 7, 1)]
    assert merged(OTHER, context) == [(1, 5, 2), (1, 7, 2)]
    stats = task.stats()
    assert stats[0].rows_out == 3 and stats[1].rows_in == 3 and stats[1].rows_out == 2
    assert set(stats) == {0, 1, 2, 3, 4, 6, 7}


def test_one_task_serves_many_epochs(tmp_path: Path) -> None:
    task, context = EpochTask(FAN_OUT, 0), MemoryContext()
    for epoch in range(1, 30):
        task.begin(context)
        if epoch % 3:
            task.add_split(0, split_of(tmp_path, f"{epoch},1\n"))
        found = leaving(drain(task))
        assert found == ({3: [(epoch, 1, 1, 1)], 4: [(epoch, 1, 1)]} if epoch % 3 else {})
        context.seal()
        assert task.barriers == epoch
    assert [row[0] for row in merged(VIEW, context)] == [e for e in range(1, 30) if e % 3]
    assert len(context.tables["view"]) == 20


def test_a_barrier_without_any_input() -> None:
    task, context = EpochTask(FAN_OUT, 0), MemoryContext()
    for _ in range(3):
        task.begin(context)
        assert drain(task) == []
        context.seal()
    assert context.tables == {}


def test_items_come_in_by_port() -> None:
    task, context = EpochTask(FAN_OUT, 1), MemoryContext()
    for text, expected in (("+ 1 5", {(1, 5): 1}), ("+ 1 2 | + 2 2", {(1, 5): -1, (1, 7): 1, (2, 2): 1})):
        task.begin(context)
        for item, port in keyed(SUMS, pairs(text)):
            task.add_item(5, port, item)
        assert changes(o for _, o in drain(task)) == expected
        context.seal()


def test_rows_leave_for_later_depths_only_as_asked() -> None:
    assert outgoing(FAN_OUT, 0) == {(3, 0): [(5, 0, 1, False)], (4, 0): [(8, 0, 1, False), (8, 1, 1, False)]}
    assert outgoing(FAN_OUT, 1) == {}


def test_no_input_while_a_barrier_is_in_progress(tmp_path: Path) -> None:
    task = EpochTask(FAN_OUT, 0)
    task.begin(MemoryContext())
    split = split_of(tmp_path, "1,1\n")
    task.request_barrier()
    for _ in range(2):
        with pytest.raises(TidemillError, match="TM7010") as caught:
            task.add_split(0, split)
    assert "add_split" in caught.value.got
    assert drain(task) == [], "asked twice, a barrier is one barrier"
    assert task.barriers == 1
    deeper = EpochTask(FAN_OUT, 1)
    deeper.begin(MemoryContext())
    deeper.request_barrier()
    with pytest.raises(TidemillError, match="TM7010"):
        deeper.add_item(5, 0, pairs("+ 1 1"))


def test_no_results_before_a_barrier_is_requested(tmp_path: Path) -> None:
    task = EpochTask(FAN_OUT, 0)
    task.begin(MemoryContext())
    task.add_split(0, split_of(tmp_path, "1,1\n"))
    with pytest.raises(TidemillError, match="TM7011"):
        task.next()
    assert len(drain(task)) == 2
    with pytest.raises(TidemillError, match="TM7011"):
        task.next()
    unbegun = EpochTask(FAN_OUT, 0)
    unbegun.request_barrier()
    with pytest.raises(TidemillError, match="TM7011"):
        unbegun.next()


def test_no_more_splits_ends_the_task(tmp_path: Path) -> None:
    task = EpochTask(FAN_OUT, 0)
    task.begin(MemoryContext())
    task.add_split(0, split_of(tmp_path, "1,1\n"))
    task.request_barrier()
    task.no_more_splits()
    assert task.next() is not None, "the barrier in progress is still served"
    with pytest.raises(TidemillError, match="TM7010") as caught:
        task.add_split(0, split_of(tmp_path, "2,2\n"))
    assert "no_more_splits" in caught.value.got


def test_a_pipeline_drains_before_its_consumer() -> None:
    """Two aggregates of different pipelines meet in one store: it writes once, with the rows of both."""
    joint = program(
        (ScanStep(SOURCE, ("k", "v")), (), 0),
        (SUMS, (0,), 0),
        (GroupChanges(SUMS, True), (1,), 1),
        (Calculate(None, (Ref(1, INT), Ref(0, INT))), (2,), 1),
        (Concatenate(), (2, 3), 1),
        (StoreRows(VIEW), (4,), 1),
    )
    task, context = EpochTask(joint, 1), MemoryContext()
    task.begin(context)
    for item, port in keyed(SUMS, pairs("+ 1 5")):
        task.add_item(2, port, item)
    assert drain(task) == []
    assert len(context.written["view"]) == 2
    context.seal()
    assert merged(VIEW, context) == [(1, 5, 1), (5, 1, 1)]


def test_a_row_that_fails_is_left_out_by_its_step_and_no_other(tmp_path: Path) -> None:
    failing = program(
        (ScanStep(SOURCE, ("k", "v")), (), 0),
        (Calculate(None, (PLUS, Ref(1, INT))), (0,), 0),
        (StoreRows(OTHER), (1,), 0),
        (Calculate(POSITIVE, None), (0,), 0),
        (StoreRows(VIEW), (3,), 0),
    )
    task, context = EpochTask(failing, 0), MemoryContext()
    task.begin(context)
    task.add_split(0, split_of(tmp_path, "-1,1\n1,2\n"))
    task.add_split(0, split_of(tmp_path, "-5,5\n"))
    assert drain(task) == []
    context.seal()
    assert context.failures == {}
    ((step, weight, error),) = context.failing_rows
    assert (step, weight) == (1, 1) and error is not None and error.number.startswith("TM3")
    assert merged(VIEW, context) == [(-5, 5, 1), (-1, 1, 1), (1, 2, 1)]
    context.failing_rows.clear()
    task.begin(context)
    task.add_split(0, split_of(tmp_path, "-2,3\n"))
    drain(task)
    assert context.failing_rows == [], "the next epoch begins afresh"
