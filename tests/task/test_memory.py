"""Operators whose output is much larger than their input, in a process whose memory is limited: slices, or TM3020.

This file is also the script that runs in that process: one after the other all cases, of which it prints what came out.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")

from operator_runs import INT, TEXT, arranged, keyed

from tidemill.errors import EvaluationError
from tidemill.plan.algebra import Scan, SortKey, Window
from tidemill.plan.windows import window_changes
from tidemill.schema import Field
from tidemill.task.build import build
from tidemill.task.expressions import Call, Literal, Ref
from tidemill.task.functions import sizes
from tidemill.task.program import (
    Arrange,
    Calculate,
    Explode,
    JoinChanges,
    LookupJoin,
    Operation,
    RecursionJoin,
    RecursionPath,
    RecursiveChanges,
    SemiChanges,
    StateTable,
    multiset_table,
)
from tidemill.task.streams import Delta, Item, batch_of
from tidemill.task.window_calls import Frame, WindowCall
from tidemill.testing import MemoryContext

MEGABYTE = 1 << 20
ROOM = 320 * MEGABYTE
"""What the process may have beside what it has when it begins."""
MEMORY_BYTES = 32 * MEGABYTE
LEFT, RIGHT = arranged("left", (0, 1), (INT, INT)), arranged("right", (0, 1), (INT, INT))
NO_KEY = arranged("all left", (0, 1), (INT, INT), 0), arranged("all right", (0, 1), (INT, INT), 0)
MANY, SOME = 6000, 2000

Inputs = list[tuple[Item, int]]
Case = Callable[[], tuple[Operation, list[tuple[StateTable, Item]], Inputs]]


def rows(count: int, key: int | None = 1) -> Delta:
    """Rows (key, number)."""
    numbers = np.arange(count)
    return Delta(batch_of([pa.array(np.full(count, key) if key is not None else numbers), pa.array(numbers)], count))


def one(operation: Any, delta: Delta) -> Item:
    ((item, _),) = keyed(operation, delta)
    return item


def joined(keys: bool, late: bool) -> tuple[Operation, list[tuple[StateTable, Item]], Inputs]:
    left, right = (LEFT, RIGHT) if keys else NO_KEY
    stored = [(right.table, one(right, rows(SOME)))] if late else []
    inputs = [(one(left, rows(MANY)), 0)] + ([] if late else [(one(right, rows(SOME)), 1)])
    return JoinChanges(left, right, int(keys)), stored, inputs


def looked_up(kind: str) -> tuple[Operation, list[tuple[StateTable, Item]], Inputs]:
    residual = None if kind == "inner" else Call("gt", (Ref(3, INT), Ref(1, INT)), pa.bool_(), True)
    operation = LookupJoin(kind, (0,), (0,), RIGHT, residual=residual)
    return operation, [(RIGHT.table, one(RIGHT, rows(SOME)))], [(rows(MANY), 0)]


def turned() -> tuple[Operation, list[tuple[StateTable, Item]], Inputs]:
    counted = arranged("counted", (0,), (INT,))
    operation = SemiChanges(LEFT, counted, 1, anti=True)
    return operation, [(LEFT.table, one(LEFT, rows(1_000_000)))], [(one(counted, rows(1)), 1)]


def exploded(argument: Call | Ref, *columns: pa.Array) -> tuple[Operation, list[tuple[StateTable, Item]], Inputs]:
    delta = Delta(batch_of(list(columns), len(columns[0])))
    return Explode(argument, (0,), position=False, spread=False, outer=False), [], [(delta, 0)]


def calculated(count: int, times: int) -> tuple[Operation, list[tuple[StateTable, Item]], Inputs]:
    text = Call("repeat", (Literal("x", TEXT), Ref(1, INT)), TEXT, True)
    batch = batch_of([pa.array(np.arange(count)), pa.array(np.full(count, times))], count)
    length = Call("length", (text,), pa.int32(), True)
    return Calculate(None, (Ref(0, INT), length)), [], [(Delta(batch), 0)]


def windowed(partitions: int) -> tuple[Operation, list[tuple[StateTable, Item]], Inputs]:
    scan = Scan("t", (Field("k", INT), Field("v", INT)))
    total = WindowCall("sum", (Ref(1, INT),), INT, True, Frame(True, None, None))
    operation = window_changes(Window(scan, (0,), (SortKey(1, False, True),), (total,), ("s",)), "t", 0)
    numbers = np.arange(400_000)
    delta = Delta(batch_of([pa.array(numbers % partitions), pa.array(numbers)], len(numbers)))
    return operation, [], [(one(operation.rows, delta), 0)]


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
}
EXPECTED: dict[str, tuple[int, int] | str] = {
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
    "a relation of a recursion with a frequent key": (SOME, SOME * (SOME - 1) // 2),
    "a recursion over a frequent key": (MANY + SOME, MANY * (MANY - 1) // 2 + SOME * (SOME - 1) // 2),
}
"""Rows that come out, and the sum of their second column; or the number of the error."""


def outputs(case: Case) -> Iterator[Delta]:
    """What the operator gives, item by item, as a driver takes it."""
    operation, stored, inputs = case()
    context = MemoryContext(memory_bytes=MEMORY_BYTES)
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


def summed(case: Case) -> dict[str, Any]:
    count = total = largest = 0
    try:
        for delta in outputs(case):
            count += len(delta)
            total += pc.sum(delta.batch.column(1)).as_py()
            largest = max(largest, delta.batch.nbytes)
            del delta
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
def results() -> dict[str, dict[str, Any]]:
    path = os.pathsep.join([str(Path(__file__).parent), *sys.path])
    environment = {**os.environ, "PYTHONPATH": path, "ARROW_DEFAULT_MEMORY_POOL": "system"}
    done = subprocess.run([sys.executable, __file__], capture_output=True, text=True, check=False, env=environment)
    print(done.stderr[-3000:])
    found = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    return {line.pop("case"): line for line in found}


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
    from tidemill.task.driver import Driver
    from tidemill.task.exchange import ExchangeSource, LocalExchange

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
