"""Operators whose output is much larger than their input, in a process whose memory is limited: slices, or TM3020.

This file is also the script that runs in that process: one after the other all cases, of which it prints what came out.
"""

from __future__ import annotations

import functools
import json
import operator as operators
import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")

from operator_runs import INT, TEXT, arranged, grouping, keyed

from tidemill.errors import EvaluationError
from tidemill.plan.algebra.nodes import Scan, SortKey, Window
from tidemill.plan.lowering.ordered_rows import window_changes
from tidemill.schema import Field
from tidemill.state.keys.keys import KeyColumn, decode
from tidemill.state.lookup.memtable import Memtable
from tidemill.state.lookup.reader import TableState
from tidemill.state.merge.merge import Rows, merge
from tidemill.state.runs.sst import Part
from tidemill.state.store.store import RunStore
from tidemill.state.versions.objects import Objects
from tidemill.task.aggregates.accumulators import Accumulator, Result
from tidemill.task.build import build
from tidemill.task.dataflow.deltas import Delta, Item, Keyed, batch_of
from tidemill.task.expressions import Call, Expression, Literal, Ref
from tidemill.task.functions.columns import sizes
from tidemill.task.operators.joins.arrange import key_prefixes
from tidemill.task.program import (
    Arrange,
    Calculate,
    Explode,
    GroupChanges,
    JoinChanges,
    LookupJoin,
    Operation,
    RecursionJoin,
    RecursionPath,
    RecursiveChanges,
    SemiChanges,
    StateTable,
    WindowChanges,
    multiset_table,
)
from tidemill.task.program.window_calls import Frame, WindowCall
from tidemill.testing import MemoryContext

COUNTED = {"ARROW_DEFAULT_MEMORY_POOL": "system", "MALLOC_MMAP_THRESHOLD_": "262144"}
"""What is freed is given back, so that what is counted is in use."""
MEGABYTE = 1 << 20
ROOM = 320 * MEGABYTE
"""What the process may have beside what it has when it begins."""
MEMORY_BYTES = 32 * MEGABYTE
LEFT, RIGHT = arranged("left", (0, 1), (INT, INT)), arranged("right", (0, 1), (INT, INT))
NO_KEY = arranged("all left", (0, 1), (INT, INT), 0), arranged("all right", (0, 1), (INT, INT), 0)
MANY, SOME = 6000, 2000

Inputs = Iterable[tuple[Item, int]]
Made = tuple[Operation, list[tuple[StateTable, Item]], Inputs]
Case = Callable[[], Made]


def rows(count: int, key: int | None = 1) -> Delta:
    """Rows (key, number)."""
    numbers = np.arange(count)
    return Delta(batch_of([pa.array(np.full(count, key) if key is not None else numbers), pa.array(numbers)], count))


def one(operation: Any, delta: Delta) -> Item:
    runs = [item.rows for item, _ in keyed(operation, delta)]
    return Keyed(merge(runs, operation.table.ops, drop_zero=False))


def joined(keys: bool, late: bool) -> Made:
    left, right = (LEFT, RIGHT) if keys else NO_KEY
    stored = [(right.table, one(right, rows(SOME)))] if late else []
    inputs: Inputs = [(one(left, rows(MANY)), 0)] + ([] if late else [(one(right, rows(SOME)), 1)])
    return JoinChanges(left, right, int(keys)), stored, inputs


def looked_up(kind: str) -> Made:
    residual = None if kind == "inner" else Call("gt", (Ref(3, INT), Ref(1, INT)), pa.bool_(), True)
    operation = LookupJoin(kind, (0,), (0,), RIGHT, residual=residual)
    return operation, [(RIGHT.table, one(RIGHT, rows(SOME)))], [(rows(MANY), 0)]


def turned() -> Made:
    counted = arranged("counted", (0,), (INT,))
    operation = SemiChanges(LEFT, counted, 1, anti=True)
    return operation, [(LEFT.table, one(LEFT, rows(1_000_000)))], [(one(counted, rows(1)), 1)]


def exploded(argument: Call | Ref, *columns: pa.Array) -> Made:
    delta = Delta(batch_of(list(columns), len(columns[0])))
    return Explode(argument, (0,), position=False, spread=False, outer=False), [], [(delta, 0)]


def calculated(count: int, times: int, text: Expression | None = None) -> Made:
    """The length of a text, or the size of an array, that is made of columns (number, times, a short text)."""
    text = text or Call("repeat", (Literal("x", TEXT), Ref(1, INT)), TEXT, True)
    columns = [pa.array(np.arange(count)), pa.array(np.full(count, times)), pa.repeat("a,b", count)]
    name = "size" if pa.types.is_list(text.type) else "length"
    size = Call(name, (text,), pa.int32(), True)
    return Calculate(None, (Ref(0, INT), size)), [], [(Delta(batch_of(columns, count)), 0)]


TIMES, SHORT = Ref(1, INT), Ref(2, TEXT)
LARGE = Call("repeat", (SHORT, Literal(1_000_000, INT)), TEXT, True)


def of(name: str, *args: Expression, type_: pa.DataType = TEXT, **options: Any) -> Call:
    return Call(name, args, type_, True, tuple(sorted(options.items())))


FIELDS = pa.struct([(f"f{i}", INT) for i in range(20_000)])
TEXTS = {
    "lpad": of("lpad", SHORT, TIMES, Literal("xy", TEXT)),
    "rpad with a column": of("rpad", SHORT, TIMES, SHORT),
    "space": of("space", TIMES),
    "concat": of("concat", *[of("repeat", SHORT, Literal(2_500_000, INT))] * 4),
    "concat of constants": of("concat", of("repeat", Literal("x", TEXT), TIMES), SHORT),
    "replace": of("replace", LARGE, Literal(",", TEXT), Literal("y" * 1000, TEXT)),
    "replace with columns": of("replace", LARGE, Literal(",", TEXT), of("repeat", SHORT, Literal(300, INT))),
    "regexp_replace": of("regexp_replace", LARGE, regex="[,]", replacement="y" * 1000),
    "array_join": of(
        "array_join",
        of("array_repeat", SHORT, Literal(300_000, pa.int32()), type_=pa.list_(TEXT)),
        Literal("y" * 1000, TEXT),
    ),
    "array_repeat": of("array_repeat", LARGE, Literal(300, pa.int32()), type_=pa.list_(TEXT)),
    "array_insert": of(
        "array_insert",
        of("array", TIMES, type_=pa.list_(INT)),
        Literal(300_000_000, pa.int32()),
        TIMES,
        type_=pa.list_(INT),
    ),
}
"""Of a million or so something much larger."""


def grouped(kind: str, groups: int, count: int) -> Made:
    """Groups of the values 0, 1, ...; the second column is what is made of them, of lists how many values there are."""
    options = (("descending", False), ("many", False), ("percentages", (0.5,)))
    distinct = Accumulator(kind, 1, distinct=True)
    accumulator = distinct if kind == "sum_i64" else Accumulator(kind, 1, False, True, (), options)
    types = {"collect_list": pa.list_(INT), "percentile": pa.float64()}
    made = Result(kind if kind != "sum_i64" else "sum", INT, types.get(kind, INT), 1, 2)
    results = (made, Result("count", INT, INT, 2, 2))
    counted = Accumulator("count", 1)
    partial = grouping(accumulator, counted, results=results[::-1] if kind == "collect_list" else results)

    def inputs() -> Inputs:
        for start in range(0, count, 1 << 16):
            part = np.arange(start, min(start + (1 << 16), count))
            yield from keyed(partial, Delta(batch_of([pa.array(part % groups), pa.array(part)], len(part))))

    return GroupChanges(partial, emit=True), [], inputs()


def sorted_rows(count: int, width: int) -> Made:
    """More rows than memory has room for, put in order."""

    def inputs() -> Inputs:
        for start in range(0, count, 10_000):
            numbers = np.arange(start, start + 10_000)
            texts = pa.compute.utf8_lpad(pa.array(numbers * 7919 % count).cast(TEXT), width, "x")
            yield Delta(batch_of([texts, pa.array(numbers)], len(numbers))), 0

    return arranged("sorted", (0, 1), (TEXT, INT)), [], inputs()


def windowed(partitions: int, upper: int | None = None) -> Made:
    scan = Scan("t", (Field("k", INT), Field("v", INT)))
    total = WindowCall("sum", (Ref(1, INT),), INT, True, Frame(True, None, upper))
    operation = window_changes(Window(scan, (0,), (SortKey(1, False, True),), (total,), ("s",)), ("t", "t"), 0)
    numbers = np.arange(400_000)
    delta = Delta(batch_of([pa.array(numbers % partitions), pa.array(numbers)], len(numbers)))
    return operation, [], [(one(operation.rows, delta), 0)]


def small_again() -> Made:
    """A partition that was too large, of which few rows are left."""
    operation, _, inputs = windowed(1)
    ((all_rows, _),) = inputs
    gone = Delta(batch_of([pa.array(np.zeros(399_000, np.int64)), pa.array(np.arange(399_000))], 399_000))
    assert isinstance(operation, WindowChanges)
    assert isinstance(all_rows, Keyed)
    mark = Keyed(Rows(key_prefixes([pa.array([0])], operation.rows.table, 1), (pa.array([1]),)))
    deletes = one(operation.rows, Delta(gone.batch, np.full(399_000, -1)))
    return operation, [(operation.rows.table, all_rows), (operation.failing, mark)], [(deletes, 0)]


def recursion(late: bool) -> tuple[Operation, list[tuple[StateTable, Item]], Inputs]:
    """One level behind the first, of as many pairs as a frequent key makes; a number of the relation each."""
    level = pa.int32()
    anchor, relation = arranged("anchor", (0, 1), (INT, INT), 0), arranged("relation", (0, 1), (INT, INT))
    relation = replace(relation, table=multiset_table("relation", (INT, INT), 0))
    kept = Arrange((0, 2, 1), (0,), multiset_table("kept", (INT, level, INT), 0))
    pending = multiset_table("pending", (level, INT, INT), 0)
    then = (Calculate(None, (Literal(0, INT), Ref(3, INT))),)
    path = RecursionPath((RecursionJoin(0, kept, 1, then, pending),), 1)
    counted = multiset_table("counted", (level,), 0)
    operation = RecursiveChanges(anchor, (relation,), (path,), counted, None, None, 2)
    changed = (one(relation, rows(SOME)), 1)
    if not late:
        return operation, [], [(one(anchor, rows(MANY)), 0), changed]
    ones = np.ones(MANY, np.int64)
    first = Delta(batch_of([pa.array(ones), pa.array(np.arange(MANY)), pa.array(ones, level)], MANY))
    return operation, [(kept.table, one(kept, first))], [changed]


SEQUENCE = Call("sequence", (Literal(1, INT), Ref(0, INT)), pa.list_(INT), True)
CASES: dict[str, Case] = {
    "rows put in order": lambda: sorted_rows(1_000_000, 300),
    "the median of a large group": lambda: grouped("percentile", 1, 2_000_000),
    "the bits of a large group": lambda: grouped("bit_xor", 1, 1_999_999),
    "the sum of the different values of a large group": lambda: grouped("sum_i64", 1, 2_000_000),
    "lists of groups": lambda: grouped("collect_list", 1000, 2_000_000),
    "the list of a large group": lambda: grouped("collect_list", 1, 2_000_000),
    **{f"one {name}": partial(calculated, 1, 1_000_000_000, text) for name, text in TEXTS.items()},
    "cross join": lambda: joined(keys=False, late=False),
    "join of a frequent key": lambda: joined(keys=True, late=False),
    "join with a stored frequent key": lambda: joined(keys=True, late=True),
    "lookup of a frequent key": lambda: looked_up("inner"),
    "lookup with a residual": lambda: looked_up("semi"),
    "a key that turns": turned,
    "explode beside a long text": lambda: exploded(
        Ref(1, pa.list_(INT)), pa.array(["x" * MEGABYTE]), pa.array([list(range(2000))], pa.list_(INT))
    ),
    "explode of long sequences": lambda: exploded(SEQUENCE, pa.array([1_000_000] * 20, INT)),
    "texts that are long together": lambda: calculated(1000, 1_000_000),
    "one text that is too long": lambda: calculated(1, 1_000_000_000),
    "one sequence that is too long": lambda: exploded(SEQUENCE, pa.array([1_000_000_000], INT)),
    "windows over many partitions": lambda: windowed(1000),
    "a recursion over a frequent key": lambda: recursion(late=False),
    "a relation of a recursion with a frequent key": lambda: recursion(late=True),
    "a window over too many rows": lambda: windowed(1),
    "a window over few rows that were too many": small_again,
    "a running sum over many rows": lambda: windowed(1, 0),
}
EXPECTED: dict[str, tuple[int, float] | str] = {
    "rows put in order": (1_000_000, 1_000_000 * 999_999 // 2),
    "the median of a large group": (1, 999_999.5),
    "the bits of a large group": (1, functools.reduce(operators.xor, range(1_999_999))),
    "the sum of the different values of a large group": (1, 2_000_000 * 1_999_999 // 2),
    "lists of groups": (1000, 2_000_000),
    "the list of a large group": "TM3020",
    **{f"one {name}": "TM3020" for name in TEXTS},
    "cross join": (MANY * SOME, SOME * MANY * (MANY - 1) // 2),
    "join of a frequent key": (MANY * SOME, SOME * MANY * (MANY - 1) // 2),
    "join with a stored frequent key": (MANY * SOME, SOME * MANY * (MANY - 1) // 2),
    "lookup of a frequent key": (MANY * SOME, SOME * MANY * (MANY - 1) // 2),
    "lookup with a residual": (SOME - 1, (SOME - 1) * (SOME - 2) // 2),
    "a key that turns": (1_000_000, 1_000_000 * 999_999 // 2),
    "explode beside a long text": (2000, 2000 * 1999 // 2),
    "explode of long sequences": (20_000_000, 20 * 1_000_000 * 1_000_001 // 2),
    "texts that are long together": (1000, 1000 * 1_000_000),
    "one text that is too long": "TM3020",
    "one sequence that is too long": "TM3020",
    "windows over many partitions": (400_000, 399_999 * 200_000),
    "a window over too many rows": "TM3020",
    "a window over few rows that were too many": (1000, 399_500 * 1000 - 500),
    "a running sum over many rows": (400_000, 399_999 * 200_000),
    "a relation of a recursion with a frequent key": (SOME, SOME * (SOME - 1) // 2),
    "a recursion over a frequent key": (MANY + SOME, MANY * (MANY - 1) // 2 + SOME * (SOME - 1) // 2),
}
"""Rows that come out, and the sum of their second column; or the number of the error."""


class Spilling(MemoryContext):
    """Puts what is too much into files, as an epoch of a mill does."""

    def __init__(self) -> None:
        super().__init__(memory_bytes=MEMORY_BYTES)
        directory = Path(tempfile.mkdtemp(dir=os.environ["SPILL_DIRECTORY"]))
        self._store = RunStore(Objects(directory), directory)

    def _state(self, table: StateTable, drop_zero: bool) -> TableState:
        def spill(rows: Rows) -> tuple[Rows, int]:
            return self._store.spill(1, Part(table.id, rows, table.ops))

        memtable = Memtable(table.ops, table.value_types, drop_zero, self.budget, spill)
        return TableState(lambda: self.runs(table), table.ops, table.value_types, memtable)


def outputs(case: Case) -> Iterator[Delta]:
    """What the operator gives, item by item, as a driver takes it."""
    operation, stored, inputs = case()
    context = Spilling()
    for table, item in stored:
        context.write(table, item.rows)  # type: ignore[union-attr]
    context.seal()
    operator = build(0, operation)
    operator.begin(context)

    def given() -> Iterable[Delta]:
        while (output := operator.get_output()) is not None:
            yield output.item  # type: ignore[misc]

    for item, port in inputs:
        operator.add_input(item, port)
        yield from given()
    operator.start_drain()
    yield from given()
    for _, _, error in context.failing_rows:
        if error is not None:
            raise error


def decoded(item: Keyed) -> pa.RecordBatch:
    return batch_of(decode(item.rows.keys, (KeyColumn(TEXT), KeyColumn(INT))), len(item))


def summed(case: Case) -> dict[str, Any]:
    count = total = largest = 0
    try:
        for delta in outputs(case):
            batch = delta.batch if isinstance(delta, Delta) else decoded(delta)
            count += len(delta)
            total += pc.sum(batch.column(1)).as_py()
            largest = max(largest, batch.nbytes)
            del delta, batch
    except EvaluationError as error:
        return {"error": error.number, "what": error.what}
    return {"rows": count, "sum": total, "largest": largest}


def main() -> None:
    """Limit memory, then run each case."""
    sizes.allow(MEMORY_BYTES)
    for case in CASES.values():
        case()  # what is compiled or loaded counts before
    pages = int(Path("/proc/self/statm").read_text().split()[5])
    limit = pages * resource.getpagesize() + ROOM
    resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
    for name, case in CASES.items():
        print(json.dumps({"case": name, **summed(case)}), flush=True)


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    path = os.pathsep.join([str(Path(__file__).parent), *sys.path])
    spills = str(tmp_path_factory.mktemp("spills"))
    environment = {**os.environ, **COUNTED, "PYTHONPATH": path, "SPILL_DIRECTORY": spills}
    done = subprocess.run([sys.executable, __file__], capture_output=True, text=True, check=False, env=environment)
    print(done.stderr[-3000:])
    found = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    return {line.pop("case"): line for line in found}


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_it_fits_into_memory(name: str, results: dict[str, dict[str, Any]]) -> None:
    expected, found = EXPECTED[name], results[name]
    if isinstance(expected, str):
        assert found["error"] == expected
    else:
        assert (found["rows"], found["sum"]) == expected
        assert found["largest"] <= MEMORY_BYTES


def test_an_allocation_that_fails_ends_the_view(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing can be asked for in time where a library needs the memory: what it raises is the error of the view."""
    from tidemill.task.dataflow.exchange import ExchangeSource, LocalExchange
    from tidemill.task.driver import Driver

    operation = Calculate(None, (Ref(0, INT),))
    broken = build(1, operation)

    def add_input(item: Item, port: int) -> None:
        raise MemoryError("Unable to allocate 7.28 TiB")

    monkeypatch.setattr(broken, "add_input", add_input)
    exchange, context = LocalExchange(), MemoryContext()
    driver = Driver((ExchangeSource(exchange), broken))
    driver.begin(context)
    exchange.producers = 1
    exchange.put(rows(1), 0)
    exchange.put_token()
    list(driver.run())
    assert context.failures[1].number == "TM3020"
    assert "7.28 TiB" in context.failures[1].got


if __name__ == "__main__":
    main()
