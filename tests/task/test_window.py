"""Window functions against a scalar twin over all rows seen so far, and what goes out for a change."""

from __future__ import annotations

import random
import re
from bisect import bisect_left, bisect_right
from collections import Counter
from dataclasses import replace
from fractions import Fraction
from typing import Any

import pyarrow as pa
import pytest
from operator_runs import INT, changes, keyed, merged, run_stored

from tidemill.errors import EvaluationError
from tidemill.plan.algebra.nodes import Scan, SortKey, Window
from tidemill.plan.lowering.ordered_rows import window_changes
from tidemill.schema import Field
from tidemill.state.memory import MemoryBudget
from tidemill.task.build import build
from tidemill.task.expressions import Call, Expression, Literal, Ref
from tidemill.task.operators.ordered import window
from tidemill.task.program import WindowChanges
from tidemill.task.program.window_calls import Frame, WindowCall
from tidemill.task.windows import rows as window_rows
from tidemill.testing import MemoryContext, Row, delta, weighted_rows

TYPES = (INT, INT, INT)
ROWS = Scan("t", tuple(Field(name, INT) for name in ("k", "o", "v")))
K, ORDER, V = (Ref(i, INT) for i in range(3))
ALL = Frame(True, None, None)
RUNNING = Frame(True, None, 0)
PEERS = Frame(False, None, 0)


def shifted(column: Expression, by: int, descending: bool) -> Expression:
    offset = Literal(-by if descending else by, INT)
    return Call("add", (column, offset), INT, True, (("mode", "ansi"),))


def operation(*calls: WindowCall, partition: tuple[int, ...] = (0,), descending: bool = False) -> WindowChanges:
    order = (SortKey(1, descending, not descending),)
    window = Window(ROWS, partition, order, calls, tuple(f"w{i}" for i in range(len(calls))))
    return window_changes(window, ("t", "t"), 0)


def ranking(name: str, number: int = 0) -> WindowCall:
    type_ = pa.float64() if name in ("percent_rank", "cume_dist") else pa.int32()
    return WindowCall(name, (), type_, False, RUNNING, number)


def value(name: str, frame: Frame, ignore: bool, number: int = 0) -> WindowCall:
    return WindowCall(name, (V,), INT, True, frame, number, ignore)


def shift(by: int, ignore: bool) -> WindowCall:
    return WindowCall("shift", (V, K), INT, True, ALL, by, ignore)


def aggregate(name: str, frame: Frame) -> WindowCall:
    return WindowCall(name, (V,), pa.float64() if name == "avg" else INT, name != "count", frame)


def run(windows: WindowChanges, context: MemoryContext, text: str) -> dict[Row, int]:
    given = keyed(windows.rows, delta(text, *TYPES))
    return changes(run_stored(build(0, windows), context, (windows.rows.table,), given))


# The twin: rows as Python tuples (k, o, v), one partition at a time, sorted; None is NULL.


def in_frame(frame: Frame, rows: list[Row], i: int, order: list[Any], descending: bool) -> list[int]:
    """Positions of the rows in the frame of row i; ``order`` places each row, equal for peers, and ascends."""
    if frame.rows:
        low = 0 if frame.lower is None else i + int(str(frame.lower))
        high = len(rows) if frame.upper is None else i + int(str(frame.upper)) + 1
        return list(range(max(low, 0), min(high, len(rows))))

    def end(bound: Any) -> Any:
        if isinstance(bound, Call) and order[i][0] == 0:
            literal = bound.args[1]
            assert isinstance(literal, Literal)
            return (0, order[i][1] + (-literal.value if descending else literal.value))
        return order[i]

    low = 0 if frame.lower is None else bisect_left(order, end(frame.lower))
    return list(range(low, len(rows) if frame.upper is None else bisect_right(order, end(frame.upper))))


def twin(call: WindowCall, rows: list[Row], order: list[Any], i: int, descending: bool) -> Any:
    """One window function of row i."""
    n = len(rows)
    before = bisect_left(order, order[i])
    match call.function:
        case "row_number":
            return i + 1
        case "rank":
            return before + 1
        case "dense_rank":
            return len(set(order[:before])) + 1
        case "percent_rank":
            return before / (n - 1) if n > 1 else 0.0
        case "cume_dist":
            return bisect_right(order, order[i]) / n
        case "ntile":
            sizes = [n // call.number + (b < n % call.number) for b in range(call.number)]
            return next(b + 1 for b in range(call.number) if i < sum(sizes[: b + 1]))
        case "shift":
            if call.ignore_nulls and call.number:
                way = range(i + 1, n) if call.number > 0 else range(i - 1, -1, -1)
                found = [j for j in way if rows[j][2] is not None][abs(call.number) - 1 : abs(call.number)]
            else:
                found = [j for j in (i + call.number,) if 0 <= j < n]
            return rows[found[0]][2] if found else rows[i][0]
    values = [rows[j][2] for j in in_frame(call.frame, rows, i, order, descending)]
    present = [v for v in values if v is not None]
    chosen = present if call.ignore_nulls else values
    match call.function:
        case "first":
            return chosen[0] if chosen else None
        case "last":
            return chosen[-1] if chosen else None
        case "nth":
            return chosen[call.number - 1] if len(chosen) >= call.number else None
        case "count":
            return len(present)
        case "sum":
            return sum(present) if present else None
        case "avg":
            return float(Fraction(sum(present), len(present))) if present else None
        case "min" | "max":
            return (min if call.function == "min" else max)(present, default=None)
    raise AssertionError(call.function)


def windowed(windows: WindowChanges, rows: Counter[Row], descending: bool) -> Counter[Row]:
    """All rows with their window functions."""

    def place(v: Any) -> tuple[int, int]:
        if v is None:
            return (1, 0) if descending else (-1, 0)
        return (0, -v if descending else v)

    def null_first(v: Any) -> tuple[bool, int]:
        return (v is not None, v or 0)

    partitions: dict[Any, list[Row]] = {}
    for row in rows.elements():
        partitions.setdefault(row[0] if windows.partition else None, []).append(row)
    found: Counter[Row] = Counter()
    for part in partitions.values():
        part.sort(key=lambda row: (place(row[1]), null_first(row[0]), null_first(row[2])))
        order = [place(row[1]) for row in part]
        for i, row in enumerate(part):
            found[(*row, *(twin(call, part, order, i, descending) for call in windows.calls))] += 1
    return found


def all_calls(descending: bool) -> list[WindowCall]:
    calls = [ranking(name) for name in ("row_number", "rank", "dense_rank", "percent_rank", "cume_dist")]
    calls += [ranking("ntile", n) for n in (1, 3, 10)]
    calls += [shift(by, ignore) for by in (-3, -1, 0, 2) for ignore in (False, True)]
    frames = [ALL, RUNNING, PEERS, Frame(True, -2, 1), Frame(True, 1, 3), Frame(True, -3, -2), Frame(True, 0, None)]
    frames += [Frame(False, 0, 0), Frame(False, 0, None), Frame(False, None, shifted(ORDER, 2, descending))]
    frames += [Frame(False, shifted(ORDER, -3, descending), shifted(ORDER, -1, descending))]
    frames += [Frame(False, shifted(ORDER, -2, descending), 0), Frame(False, shifted(ORDER, 1, descending), None)]
    for frame in frames:
        calls += [value("first", frame, False), value("last", frame, True), value("nth", frame, True, 2)]
        calls += [value("first", frame, True), value("last", frame, False), value("nth", frame, False, 3)]
        calls += [aggregate(name, frame) for name in ("sum", "count", "avg", "min", "max")]
    return calls


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("partition", [(0,), ()])
def test_random_changes(partition: tuple[int, ...], descending: bool, seed: int) -> None:
    rng = random.Random(f"{seed} {partition} {descending}")
    windows = operation(*all_calls(descending), partition=partition, descending=descending)
    context = MemoryContext()
    rows: Counter[Row] = Counter()
    found: Counter[Row] = Counter()

    def word(least: int, most: int) -> str:
        return "NULL" if rng.random() < 0.2 else str(rng.randrange(least, most))

    for step in range(14):
        present = [row for row, n in rows.items() if n]
        deleted = present if step in (6, 13) else rng.sample(present, rng.randrange(len(present) + 1) // 2)
        parts = [f"+{rng.randrange(1, 3)} {word(0, 4)} {word(0, 8)} {word(-9, 9)}" for _ in range(rng.randrange(1, 9))]
        parts = [] if step in (6, 13) else parts
        parts += [f"-{rows[row]} " + " ".join("NULL" if v is None else str(v) for v in row) for row in deleted]
        text = " | ".join(parts)
        rows.update(weighted_rows(delta(text, *TYPES)))
        found.update(run(windows, context, text))
        assert {row: n for row, n in found.items() if n} == windowed(windows, +rows, descending), f"step {step}: {text}"
    assert not +rows


@pytest.mark.parametrize("limited", ["row_number", "rank", "dense_rank"])
@pytest.mark.parametrize("limit", [0, 1, 3, 40])
def test_first_rows_of_each_partition(limit: int, limited: str, seed: int) -> None:
    """Runs of many rows, deletes of the first ones, and partitions that shrink below the limit.

    Orders have many peers, so that a round of reading ends among them.
    """
    rng = random.Random(f"{seed} {limit} {limited}")
    calls = (ranking(limited), shift(-1, False), aggregate("sum", Frame(True, -2, 0)))
    if limited != "row_number":
        calls += (ranking("row_number"), ranking("rank"), ranking("dense_rank"), aggregate("sum", PEERS))
    windows = replace(operation(*calls), limit=limit, limited=limited)
    most = 200 if limited == "row_number" else rng.choice((2, 20, 60))
    context = MemoryContext()
    rows: Counter[Row] = Counter()
    found: Counter[Row] = Counter()
    for step in range(25):
        present = sorted(row for row, n in rows.items() if n)
        deleted = present[: len(present) * rng.randrange(4) // 3] if step % 5 == 4 else []
        deleted += rng.sample(present[len(deleted) :], min(3, len(present) - len(deleted)))
        parts = [
            f"+ {rng.randrange(3)} {rng.randrange(most)} {rng.randrange(9)}" for _ in range(rng.choice((1, 5, 150)))
        ]
        parts += [f"-{rows[row]} {row[0]} {row[1]} {row[2]}" for row in deleted]
        text = " | ".join(parts)
        rows.update(weighted_rows(delta(text, *TYPES)))
        found.update(run(windows, context, text))
        expected = {row: n for row, n in windowed(windows, +rows, False).items() if row[3] <= limit}
        assert {row: n for row, n in found.items() if n} == expected, f"step {step}"


@pytest.mark.slow
@pytest.mark.parametrize("partition", [(0,), ()])
@pytest.mark.parametrize("descending", [False, True])
def test_large_partitions_in_slices(
    partition: tuple[int, ...], descending: bool, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    """A task holds a few rows at a time; what is not in memory is carried on."""
    rng = random.Random(f"{seed} {partition} {descending}")
    monkeypatch.setattr(window_rows, "_LEAST_BYTES", 1)
    calls = [ranking(name) for name in ("row_number", "rank", "dense_rank")]
    calls += [shift(by, False) for by in (-3, 0, 1, 4)]
    frames = [RUNNING, PEERS, Frame(True, None, 3), Frame(True, None, -2), Frame(True, None, 0)]
    bounded = [Frame(True, -2, 1), Frame(True, 1, 3), Frame(True, -3, -2)]
    calls += [aggregate(name, frame) for frame in frames + bounded for name in ("sum", "count", "avg", "min", "max")]
    calls += [value(name, frame, name == "last", 2) for frame in bounded for name in ("first", "last", "nth")]
    for chosen in (calls, rng.sample(calls, 1)):
        windows = operation(*chosen, partition=partition, descending=descending)
        context = MemoryContext()
        rows: Counter[Row] = Counter()
        found: Counter[Row] = Counter()
        for step in range(8):
            context.budget = MemoryBudget(rng.choice((50_000, 70_000, 1 << 30)))
            present = [row for row, n in rows.items() if n]
            deleted = rng.sample(present, len(present) // 2 if step in (3, 7) else len(present) // 8)
            made = [f"+{rng.choice((1, 1, 2))} {rng.choice((0, 0, 1))} {word(rng)} {word(rng)}" for _ in range(60)]
            text = " | ".join(made + [f"-{rows[row]} {' '.join(map(shown, row))}" for row in deleted])
            rows.update(weighted_rows(delta(text, *TYPES)))
            found.update(run(windows, context, text))
            assert not context.failing_rows, context.failing_rows
            assert {row: n for row, n in found.items() if n} == windowed(windows, +rows, descending), f"step {step}"


def word(rng: random.Random) -> str:
    return "NULL" if rng.random() < 0.04 else str(rng.randrange(40))


def shown(value: object) -> str:
    return "NULL" if value is None else str(value)


def test_only_rows_that_change_go_out() -> None:
    windows, context = operation(ranking("row_number"), aggregate("sum", RUNNING)), MemoryContext()
    assert run(windows, context, "+ 1 1 5 | + 1 2 6 | + 2 1 7") == {
        (1, 1, 5, 1, 5): 1,
        (1, 2, 6, 2, 11): 1,
        (2, 1, 7, 1, 7): 1,
    }
    assert run(windows, context, "+ 1 3 1") == {(1, 3, 1, 3, 12): 1}
    assert run(windows, context, "- 1 2 6") == {(1, 2, 6, 2, 11): -1, (1, 3, 1, 3, 12): -1, (1, 3, 1, 2, 6): 1}
    assert run(windows, context, "+ 1 1 5") == {(1, 3, 1, 2, 6): -1, (1, 1, 5, 2, 10): 1, (1, 3, 1, 3, 11): 1}
    assert run(windows, context, "+ 9 9 9 | - 9 9 9") == {}
    assert run(windows, context, "- 2 1 7") == {(2, 1, 7, 1, 7): -1}


def test_a_partition_comes_back() -> None:
    windows, context = operation(shift(-1, False)), MemoryContext()
    assert run(windows, context, "+ 1 1 5") == {(1, 1, 5, 1): 1}
    assert run(windows, context, "- 1 1 5") == {(1, 1, 5, 1): -1}
    assert run(windows, context, "+ 1 2 6 | + 1 1 5") == {(1, 1, 5, 1): 1, (1, 2, 6, 5): 1}


def test_a_delete_that_comes_before_its_row() -> None:
    """History of a new view is read beside new rows."""
    windows, context = operation(ranking("row_number")), MemoryContext()
    assert run(windows, context, "- 1 1 5 | + 1 2 6") == {(1, 2, 6, 1): 1}
    assert run(windows, context, "+ 1 3 7") == {(1, 3, 7, 2): 1}
    assert run(windows, context, "+ 1 1 5") == {}
    assert run(windows, context, "+ 1 1 5") == {
        (1, 1, 5, 1): 1, (1, 2, 6, 1): -1, (1, 2, 6, 2): 1, (1, 3, 7, 2): -1, (1, 3, 7, 3): 1,
    }  # fmt: skip


def test_a_sum_that_overflows_fails_only_if_its_frame_does() -> None:
    windows, context = operation(aggregate("sum", Frame(True, -1, 0))), MemoryContext()
    most = 2**63 - 1
    assert run(windows, context, f"+ 1 1 {most} | + 1 2 -1 | + 1 3 {most}") == {
        (1, 1, most, most): 1, (1, 2, -1, most - 1): 1, (1, 3, most, most - 1): 1,
    }  # fmt: skip
    gone = {(1, 1, most, most): -1, (1, 2, -1, most - 1): -1, (1, 3, most, most - 1): -1}
    assert run(windows, context, "- 1 2 -1 | + 2 1 5") == {**gone, (2, 1, 5, 5): 1}
    assert run(windows, context, "+ 1 4 3") == {}
    ((_, weight, error),) = context.failing_rows
    assert weight == 1 and error is not None and error.number == "TM3002"
    assert run(windows, context, f"- 1 1 {most} | - 1 4 3") == {(1, 3, most, most): 1}
    assert [found[1:] for found in context.failing_rows[1:]] == [(-1, None)]
    assert run(windows, context, "- 1 3 " + str(most)) == {(1, 3, most, most): -1}


def test_a_range_beyond_the_type_fails() -> None:
    windows = operation(aggregate("count", Frame(False, 0, shifted(ORDER, 1, False))))
    context = MemoryContext()
    assert run(windows, context, f"+ 1 1 1 | + 1 {2**63 - 1} 2") == {}
    ((_, _, error),) = context.failing_rows
    assert re.search(rf"TM3002[^$]*in the row \(1, {2**63 - 1}, 2\)", str(error))


def test_more_partitions_fail_than_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(window, "MOST_FAILING", 3)
    windows, most = operation(aggregate("sum", ALL)), 2**63 - 1
    assert run(windows, MemoryContext(), " | ".join(f"+2 {k} 1 {most}" for k in range(3))) == {}
    with pytest.raises(EvaluationError, match="TM3002"):
        run(windows, MemoryContext(), " | ".join(f"+2 {k} 1 {most}" for k in range(4)))


@pytest.mark.parametrize("partition", [(0,), ()])
def test_partitions_that_are_too_large_for_a_while(
    partition: tuple[int, ...], monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    """Those that fail have no rows until they are small again; all others are what they should be."""
    rng = random.Random(f"{seed} {partition}")
    monkeypatch.setattr(window_rows, "_LEAST_BYTES", 1)
    windows = operation(ranking("ntile", 3), aggregate("sum", ALL), partition=partition)
    context = MemoryContext()
    rows: Counter[Row] = Counter()
    found: Counter[Row] = Counter()
    sizes = set()
    for step in range(30):
        context.budget = MemoryBudget(rng.choice((20_000, 40_000)))  # as after a start with other settings
        present = sorted(row for row, n in rows.items() if n)
        few = step % 5 == 4
        deleted = rng.sample(present, max(0, len(present) - 3) if few else len(present) // 8)
        made = [f"+ {rng.randrange(3)} {rng.randrange(20)} {rng.randrange(9)}" for _ in range(0 if few else 40)]
        text = " | ".join(made + [f"-{rows[row]} " + " ".join(map(str, row)) for row in deleted])
        rows.update(weighted_rows(delta(text, *TYPES)))
        found.update(run(windows, context, text))
        large = {row[:-1] for row in merged(windows.failing, context)}
        assert sum(weight for _, weight, _ in context.failing_rows) == len(large)
        assert all("TM3020" in str(error) for _, weight, error in context.failing_rows if weight > 0)
        answered = Counter({row: n for row, n in rows.items() if n and row[: len(partition)] not in large})
        assert {row: n for row, n in found.items() if n} == windowed(windows, answered, False), f"step {step}"
        assert not (few and large)
        sizes.add(len(large))
    assert len(sizes) > 1 and not context.failures


def test_large_values_leave_nothing_behind() -> None:
    """A double that was in a frame and is not in the next one is not subtracted from it."""
    fields = (Field("o", INT), Field("d", pa.float64()))
    call = WindowCall("sum", (Ref(1, pa.float64()),), pa.float64(), True, Frame(True, -1, 0))
    windows = window_changes(Window(Scan("t", fields), (), (SortKey(0, False, True),), (call,), ("s",)), ("t", "t"), 0)
    given = keyed(
        windows.rows, delta("+ 1 1e300 | + 2 0.1 | + 3 0.2 | + 4 Infinity | + 5 1 | + 6 2", INT, pa.float64())
    )
    found = changes(run_stored(build(0, windows), MemoryContext(), (windows.rows.table,), given))
    sums = {row[0]: row[2] for row in found}
    assert sums == {1: 1e300, 2: 1e300, 3: 0.1 + 0.2, 4: float("inf"), 5: float("inf"), 6: 3.0}
