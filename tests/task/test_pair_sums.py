"""Sums over pairs of rows, against a nested loop over the surviving rows in exact fractions."""

from __future__ import annotations

import datetime
import math
import random
from collections import Counter
from dataclasses import dataclass, replace
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pyarrow as pa
import pytest
from operator_runs import keyed, run

from tidemill.state.keys.keys import KeyColumn, decode
from tidemill.state.lookup.lookup import vnode_range
from tidemill.state.merge.merge import Rows
from tidemill.state.runs import derived
from tidemill.state.store.store import RunStore, partition_vnodes
from tidemill.state.versions.objects import Objects
from tidemill.task.aggregates.accumulators import Accumulator, AggregateLayout
from tidemill.task.dataflow.deltas import Delta, Keyed, batch_of
from tidemill.task.operators.groups.pair_sums import PairSumsOperator
from tidemill.task.program import Comparison, GroupPartial, PairSums, StateTable, Term, changes_probe_left
from tidemill.testing import MemoryContext

INT, TEXT, DOUBLE, DATE, MONEY = pa.int64(), pa.string(), pa.float64(), pa.date32(), pa.decimal128(12, 2)
INF, NAN = math.inf, math.nan
Row = tuple[Any, ...]

VALUES: dict[pa.DataType, list[Any]] = {
    INT: [None, -(2**63), -1, 0, 1, 2, 2**63 - 1],
    TEXT: [None, "", "a", "a\0", "ab", "abcdefgh", "abcdefghi", "\u00e9"],
    DATE: [None, datetime.date(1969, 12, 31), datetime.date(1970, 1, 1), datetime.date(2024, 2, 29)],
    MONEY: [None, Decimal("-1.50"), Decimal("0.00"), Decimal("0.01"), Decimal("99999.99")],
    DOUBLE: [None, NAN, INF, -INF, -0.0, 0.0, 0.1, 0.2, 0.30000000000000004, 1.0, -2.5, 1e17, 1e308, -1e308],
}
NUMBERS = [None, 1.0, -0.0, 0.1, -7.25, 1e-9, 12345.678, 3e5]
SPECIALS = [*NUMBERS, NAN, INF, -INF]

# Every side has, after its keys, the columns x double, n bigint, d decimal(12,2).
ROWS, X_COUNT, X, N_COUNT, N, D_COUNT, D = range(7)
COUNTS = (ROWS, X_COUNT, N_COUNT, D_COUNT)


def side(name: str, types: list[pa.DataType], shared: int, kind: str = "sum_exact") -> GroupPartial:
    at = len(types)
    accumulators = (
        Accumulator("rows"),
        Accumulator("count", at),
        Accumulator(kind, at),
        Accumulator("count", at + 1),
        Accumulator("sum_i64", at + 1),
        Accumulator("count", at + 2),
        Accumulator("sum_i128", at + 2),
    )
    return partial(name, types, shared, accumulators, (*types, DOUBLE, INT, MONEY))


def partial(
    name: str,
    types: list[pa.DataType],
    distribution: int,
    accumulators: tuple[Accumulator, ...],
    inputs: tuple[pa.DataType, ...],
) -> GroupPartial:
    layout = AggregateLayout(accumulators, (), ())
    key = tuple(KeyColumn(t) for t in types)
    table = StateTable(name, key, distribution, layout.value_types(inputs), layout.merge_ops())
    return GroupPartial(tuple(range(len(types))), layout, inputs, table, ())


TERMS = (
    ("rows", (Term(1.0, ROWS, ROWS),)),
    ("count", (Term(1.0, X_COUNT, X_COUNT),)),
    ("sum_exact", (Term(1.0, X, X_COUNT), Term(-0.5, X_COUNT, X))),
    ("sum_exact", (Term(3.0, X, X),)),
    ("sum_i64", (Term(3.0, N, N_COUNT), Term(-1.0, N_COUNT, N))),
    ("sum_i128", (Term(-2.0, D, D), Term(float(10**20), ROWS, D))),
    ("sum_exact", (Term(0.01, D, X), Term(1.0, N, ROWS))),
)


def pair_sums(
    left: list[pa.DataType],
    right: list[pa.DataType],
    shared: int,
    keys: tuple[int, ...],
    *comparisons: Comparison,
    any_of: bool = False,
    kind: str = "sum_exact",
) -> PairSums:
    both = [*left, *right]
    output = partial("out", [both[k] for k in keys], len(keys), tuple(Accumulator(kind, None) for kind, _ in TERMS), ())
    lefts, rights = side("left", left, shared, kind), side("right", right, shared, kind)
    return PairSums(lefts, rights, shared, comparisons, any_of, keys, tuple(t for _, t in TERMS), output)


# --- the nested loop -------------------------------------------------------------------------------------------


def compare(a: Any, op: str, b: Any) -> bool:
    """In Spark's order, where NaN is the greatest and equals itself."""
    if isinstance(a, float):
        a, b = (math.isnan(a), 0.0 if math.isnan(a) else a), (math.isnan(b), 0.0 if math.isnan(b) else b)
    elif isinstance(a, str):
        a, b = a.encode(), b.encode()
    return bool({"lt": a < b, "le": a <= b, "gt": a > b, "ge": a >= b}[op])


def satisfies(comparison: Comparison, bound: Any, y: Any) -> bool:
    if bound is None or y is None:
        return False
    if comparison.form == "value":
        return compare(y, comparison.op, bound)
    return compare(y - bound if comparison.form == "value_minus_bound" else bound - y, comparison.op, comparison.limit)


def matches(operation: PairSums, left: Row, right: Row) -> bool:
    width = operation.key_width
    if [key_value(v) for v in left[:width]] != [key_value(v) for v in right[:width]]:
        return False
    if not operation.comparisons:
        return True
    found = [satisfies(c, left[c.bound], right[width]) for c in operation.comparisons]
    return any(found) if operation.any_of else all(found)


def key_value(value: Any) -> Any:
    return "NaN" if isinstance(value, float) and math.isnan(value) else value


def factor(row: Row, at: int) -> Any:
    """What an accumulator adds up for a row; None leaves it out."""
    x, n, d = row[-3:]
    unscaled = None if d is None else int(d.scaleb(2))
    argument = {X: x, X_COUNT: x, N: n, N_COUNT: n, D: unscaled, D_COUNT: unscaled}.get(at, 1)
    return argument if argument is None or at in (X, N, D) else 1


@dataclass
class Total:
    """A sum over pairs: exactly, with special values counted, and the sum of magnitudes."""

    exact: Fraction = Fraction(0)
    size: Fraction = Fraction(0)
    nans: int = 0
    positive: int = 0
    negative: int = 0

    def add(self, term: Term, left: Row, right: Row, times: int) -> None:
        a, b = factor(left, term.left), factor(right, term.right)
        if a is None or b is None:
            return
        if math.isfinite(a) and math.isfinite(b):
            product = Fraction(term.coefficient) * Fraction(a) * Fraction(b) * times
            self.exact += product
            self.size += abs(product)
        elif term.left in COUNTS or term.right in COUNTS:
            product_ = term.coefficient * a * b
            self.nans += times * math.isnan(product_)
            self.positive += times * (product_ == INF)
            self.negative += times * (product_ == -INF)
        else:
            self.nans += times


def nested_loop(operation: PairSums, lefts: Counter[Row], rights: Counter[Row]) -> dict[Row, list[Total]]:
    found: dict[Row, list[Total]] = {}
    for a, n in lefts.items():
        for b, m in rights.items():
            if n and m and matches(operation, a, b):
                both = [*a[:-3], *b[:-3]]
                key = tuple(key_value(both[k]) for k in operation.keys)
                totals = found.setdefault(key, [Total() for _ in operation.terms])
                for total, terms in zip(totals, operation.terms):
                    for term in terms:
                        total.add(term, a, b, n * m)
    return found


# --- running the operator --------------------------------------------------------------------------------------


def wrap(value: int) -> int:
    return (value + 2**63) % 2**64 - 2**63


class Views:
    """What readers of the output see: accumulators added up over all that came out."""

    def __init__(self, operation: PairSums) -> None:
        self.operation = operation
        self.totals: dict[Row, list[Total]] = {}

    def add(self, rows: Rows) -> None:
        output = self.operation.output
        columns = [c.to_pylist() for c in decode(rows.keys, output.groups.key)]
        values = [v.to_pylist() for v in rows.values]
        offsets = output.layout.offsets(())
        for i in range(len(rows)):
            key = tuple(key_value(c[i]) for c in columns)
            totals = self.totals.setdefault(key, [Total() for _ in offsets])
            for accumulator, at, total in zip(output.layout.accumulators, offsets, totals):
                if accumulator.kind == "sum_exact":
                    total.exact += Fraction(values[at][i]) + Fraction(values[at + 1][i])
                    total.exact += 2**100 * (Fraction(values[at + 2][i]) + Fraction(values[at + 3][i]))
                    total.nans += values[at + 4][i]
                    total.positive += values[at + 5][i]
                    total.negative += values[at + 6][i]
                elif accumulator.kind == "sum_i128":
                    total.exact += (values[at][i] & (2**64 - 1)) + values[at + 1][i] * 2**64
                else:
                    total.exact += values[at][i]

    def check(self, expected: dict[Row, list[Total]], what: str) -> None:
        alive = {key for key, totals in self.totals.items() if totals[0].exact}
        assert alive == set(expected), what
        for key, totals in self.totals.items():
            wanted = expected.get(key, [Total() for _ in totals])
            for i, (kind, _) in enumerate(TERMS):
                a, b = totals[i], wanted[i]
                where = f"{what}, key {key}, accumulator {i}: {a}, expected {b}"
                assert (a.nans, a.positive, a.negative) == (b.nans, b.positive, b.negative), where
                if kind == "sum_exact":
                    assert abs(a.exact - b.exact) <= Fraction(1, 10**12) * b.size + Fraction(1, 10**12), where
                elif kind == "sum_i128":
                    assert (a.exact - b.exact) % 2**128 == 0, where
                else:
                    assert wrap(int(a.exact)) == wrap(int(b.exact)), where


class Mill:
    """Some partitions of one operator, each with its vnodes of the tables."""

    def __init__(self, operation: PairSums, partitions: int, symmetric: bool = True) -> None:
        self.operation = operation
        self.operators = [PairSumsOperator(0, operation, symmetric) for _ in range(partitions)]
        self.contexts = [MemoryContext(p, partitions) for p in range(partitions)]
        self.view = Views(operation)

    def epoch(self, left: Delta | None, right: Delta | None) -> int:
        """Rows that came out."""
        inputs = []
        for port, (partial_, rows) in enumerate(((self.operation.left, left), (self.operation.right, right))):
            if rows is not None and len(rows):
                half, weights = len(rows) // 2, rows.explicit_weights()  # two tasks of the superstep before
                halves = Delta(rows.batch.slice(0, half), weights[:half]), Delta(rows.batch.slice(half), weights[half:])
                inputs += [(item, port) for part in halves if len(part) for item, _ in keyed(partial_, part)]
        count = 0
        for operator, context in zip(self.operators, self.contexts):
            bounds = partition_vnodes(context.partition, context.partitions)
            given = []
            for item, port in inputs:
                rows_ = item.rows.slice(*vnode_range(item.rows.keys, *bounds))
                if len(rows_):
                    context.write((self.operation.left, self.operation.right)[port].groups, rows_)
                    given.append((Keyed(rows_), port))
            for output in run(operator, context, given):
                assert isinstance(output.item, Keyed)
                count += len(output.item)
                self.view.add(output.item.rows)
        return count


def as_delta(rows: list[Row], weights: list[int], types: tuple[pa.DataType, ...]) -> Delta:
    columns = [pa.array([r[i] for r in rows], t) for i, t in enumerate(types)]
    return Delta(batch_of(columns, len(rows)), pa.array(weights, pa.int64()).to_numpy())


def changed(rng: random.Random, alive: Counter[Row], types: tuple[pa.DataType, ...], shared: int, pool: Any) -> Delta:
    """Random inserts and deletes of rows that are there; now and then all of them."""
    rows, weights = [], []
    everything = rng.random() < 0.1
    for row, count in list(alive.items()):
        if count and (everything or rng.random() < 0.3):
            gone = count if everything else rng.randint(1, count)
            rows.append(row)
            weights.append(-gone)
            alive[row] -= gone
    for _ in range(rng.choice([0, 3, 8])):
        key = [rng.choice(VALUES[t][:3] if i < shared else VALUES[t]) for i, t in enumerate(types[:-3])]
        rest = [rng.choice(pool), rng.choice([None, 0, 7, -(2**40)]), rng.choice(VALUES[MONEY])]
        row = tuple(NAN if isinstance(v, float) and math.isnan(v) else v for v in [*key, *rest])
        rows.append(row)
        weights.append(times := rng.choice([1, 1, 2]))
        alive[row] += times
    return as_delta(rows, weights, types)


def play(operation: PairSums, seed: int, pool: list[Any], partitions: int = 1, epochs: int = 7) -> int:
    """Random epochs, until there was a pair; with a strategy to choose, both of them."""
    rng = random.Random(seed)
    mills = [Mill(operation, partitions)]
    if operation.comparisons and changes_probe_left(operation):
        mills.append(Mill(operation, partitions, symmetric=False))
    lefts: Counter[Row] = Counter()
    rights: Counter[Row] = Counter()
    pairs = 0
    for epoch in range(60):
        if epoch >= epochs and pairs:
            break
        left = changed(rng, lefts, operation.left.input_types, operation.key_width, pool)
        right = changed(rng, rights, operation.right.input_types, operation.key_width, pool)
        expected = nested_loop(operation, lefts, rights)
        pairs += sum(int(totals[0].exact) for totals in expected.values())
        for mill in mills:
            mill.epoch(left, right)
            mill.view.check(expected, f"epoch {epoch}, seed {seed}")
    return pairs


# --- tests -----------------------------------------------------------------------------------------------------

VALUE = [Comparison("value", op, 1) for op in ("lt", "le", "gt", "ge")]


@pytest.mark.parametrize("type_", [INT, TEXT, DATE, MONEY, DOUBLE], ids=str)
@pytest.mark.parametrize("comparison", VALUE, ids=lambda c: c.op)
def test_one_comparison_of_any_type(type_: pa.DataType, comparison: Comparison, seed: int) -> None:
    assert play(pair_sums([INT, type_], [INT, type_], 1, (0,), comparison), seed, SPECIALS)


@pytest.mark.slow
@pytest.mark.parametrize("form", ["value_minus_bound", "bound_minus_value"])
@pytest.mark.parametrize("op", ["lt", "le", "gt", "ge"])
@pytest.mark.parametrize("limit", [0.1, -2.0, INF, -INF, NAN])
def test_difference_forms_are_evaluated_as_written(form: str, op: str, limit: float, seed: int) -> None:
    operation = pair_sums([INT, DOUBLE], [INT, DOUBLE], 1, (0,), Comparison(form, op, 1, limit))
    impossible = (op, str(limit)) in (("lt", "-inf"), ("gt", "nan"))
    assert bool(play(operation, seed, NUMBERS, epochs=5)) != impossible


@pytest.mark.parametrize("any_of", [False, True], ids=["all", "any"])
@pytest.mark.parametrize("keys", [(), (0,), (1,), (2, 0)], ids=str)
def test_two_bounds_in_one_or_two_ranges(any_of: bool, keys: tuple[int, ...], seed: int) -> None:
    comparisons = (Comparison("value", "gt", 1), Comparison("value", "le", 2))
    assert play(pair_sums([TEXT, INT, INT], [TEXT, INT], 1, keys, *comparisons, any_of=any_of), seed, SPECIALS)


@pytest.mark.parametrize("any_of", [False, True], ids=["all", "any"])
def test_more_than_a_distance_apart(any_of: bool, seed: int) -> None:
    """As ``p > q + 1 OR q > p + 1``: one bound twice, seen from both sides."""
    comparisons = (Comparison("value_minus_bound", "gt", 1, 0.2), Comparison("bound_minus_value", "ge", 1, 0.1))
    assert play(
        pair_sums([INT, DOUBLE], [INT, DOUBLE], 1, (0,), *comparisons, any_of=any_of), seed, SPECIALS, epochs=10
    )


@pytest.mark.parametrize("any_of", [False, True], ids=["all", "any"])
def test_forms_mixed(any_of: bool, seed: int) -> None:
    comparisons = (
        Comparison("value", "le", 2),
        Comparison("value_minus_bound", "ge", 1, -2.0),
        Comparison("bound_minus_value", "lt", 1, NAN),
    )
    assert play(pair_sums([INT, DOUBLE, DOUBLE], [INT, DOUBLE], 1, (0, 2), *comparisons, any_of=any_of), seed, SPECIALS)


def test_without_shared_keys(seed: int) -> None:
    assert play(pair_sums([DOUBLE], [DOUBLE], 0, (), Comparison("value", "lt", 0)), seed, SPECIALS)
    assert play(pair_sums([TEXT, INT], [INT], 0, (0,), Comparison("value", "lt", 1)), seed, SPECIALS)


def test_bound_among_the_shared_keys(seed: int) -> None:
    assert play(pair_sums([INT], [INT, INT], 1, (0,), Comparison("value", "ge", 0)), seed, SPECIALS)


def test_more_left_columns_after_the_bound(seed: int) -> None:
    """The left table is still sorted by the bound within a key."""
    operation = pair_sums([INT, DOUBLE, TEXT], [INT, DOUBLE], 1, (0,), Comparison("value", "ge", 1))
    assert changes_probe_left(operation)
    assert play(operation, seed, SPECIALS)
    assert play(replace_keys(operation, (2,), [TEXT]), seed, SPECIALS)


def replace_keys(operation: PairSums, keys: tuple[int, ...], types: list[pa.DataType]) -> PairSums:
    kinds = tuple(Accumulator(kind, None) for kind, _ in TERMS)
    return replace(operation, keys=keys, output=partial("out", types, len(keys), kinds, ()))


@pytest.mark.parametrize("keys", [(), (0,), (1,), (3, 1), (2,)], ids=str)
def test_equality(keys: tuple[int, ...], seed: int) -> None:
    assert play(pair_sums([INT, TEXT], [INT, DOUBLE], 1, keys), seed, SPECIALS)


def test_equality_with_one_group_a_key(seed: int) -> None:
    assert play(pair_sums([DOUBLE, TEXT], [DOUBLE], 1, (1,)), seed, SPECIALS)
    assert play(pair_sums([INT, DOUBLE], [INT, DOUBLE], 2, (0,)), seed, SPECIALS)


def test_equality_in_slices(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tidemill.task.operators.groups.pair_sums._PAIRS", 3)
    assert play(pair_sums([INT, TEXT], [INT, DOUBLE], 1, (3, 1)), seed, SPECIALS)


@pytest.mark.parametrize("partitions", [2, 5])
def test_partitions_add_up(partitions: int, seed: int) -> None:
    assert play(pair_sums([TEXT, INT], [TEXT, INT], 1, (), Comparison("value", "gt", 1)), seed, SPECIALS, partitions)
    assert play(pair_sums([TEXT, INT], [TEXT, DATE], 1, (1,)), seed, SPECIALS, partitions)


def test_plain_double_sums_of_sides_that_never_retract(seed: int) -> None:
    operation = pair_sums([INT, INT], [INT, INT], 1, (0,), Comparison("value", "gt", 1), kind="sum_f64")
    rng, mill = random.Random(seed), Mill(operation, 2)
    alive: tuple[Counter[Row], Counter[Row]] = Counter(), Counter()
    for epoch in range(5):
        given = []
        for rows in alive:
            new = [
                (rng.choice([1, 2]), rng.randrange(4), rng.choice(NUMBERS), rng.randrange(9), Decimal(rng.randrange(5)))
                for _ in range(6)
            ]
            rows.update(new)
            given.append(as_delta(new, [1] * 6, operation.left.input_types))
        mill.epoch(*given)
        mill.view.check(nested_loop(operation, *alive), f"epoch {epoch}")


def test_nothing_comes_of_nothing() -> None:
    operation = pair_sums([INT, INT], [INT, INT], 1, (0,), Comparison("value", "gt", 1))
    mill = Mill(operation, 1)
    rows = as_delta([(1, 5, 1.0, 1, Decimal(1))], [1], operation.left.input_types)
    assert mill.epoch(None, None) == 0
    assert mill.epoch(rows, None) == 0
    assert mill.epoch(None, rows) == 0, "5 > 5 does not hold: no group without pairs"


def test_a_table_with_itself(seed: int) -> None:
    """Both sides are one table and one stream."""
    given = pair_sums([INT, DOUBLE], [INT, DOUBLE], 1, (0,), Comparison("value", "gt", 1))
    operation = replace(given, right=given.left)
    rng, rows, context, view = random.Random(seed), Counter[Row](), MemoryContext(), Views(operation)
    operator = PairSumsOperator(0, operation)
    for epoch in range(6):
        changes = changed(rng, rows, operation.left.input_types, 1, SPECIALS)
        items = [item for item, _ in keyed(operation.left, changes)] if len(changes) else []
        for item in items:
            context.write(operation.left.groups, item.rows)
        for output in run(operator, context, [(item, port) for item in items for port in (0, 1)]):
            assert isinstance(output.item, Keyed)
            view.add(output.item.rows)
        view.check(nested_loop(operation, rows, rows), f"epoch {epoch}, seed {seed}")


def test_a_great_value_outside_a_range_leaves_no_trace() -> None:
    """1e300 comes first in the order: a difference of prefix sums would lose all that follows."""
    operation = pair_sums([INT, INT], [INT, INT], 1, (0, 1), Comparison("value", "gt", 1))
    mill, lefts, rights = Mill(operation, 1), Counter[Row](), Counter[Row]()
    great = [(1, 0, 1e300, None, None), (1, 1, 1.7e308, None, None), (1, 2, 1.7e308, None, None)]
    rights.update([*great, *((1, y, 0.1 * y, None, None) for y in range(3, 400))])
    lefts.update((1, b, 1.0, 1, None) for b in (2, 17, 395))
    types = operation.right.input_types
    mill.epoch(None, as_delta(list(rights), [1] * len(rights), types))
    mill.epoch(as_delta(list(lefts), [1] * len(lefts), types), None)
    mill.view.check(nested_loop(operation, lefts, rights), "great values")


@pytest.mark.parametrize("limit", [1 << 30, 4000])
def test_runs_of_files_and_what_is_kept_of_them(limit: int, seed: int, tmp_path: Any, monkeypatch: Any) -> None:
    """As in a mill: tables are read from run files, cut to a partition, with little room for what is kept."""
    monkeypatch.setattr(derived, "LIMIT", limit)
    derived.forget()
    rng, store = random.Random(seed), RunStore(Objects(tmp_path), tmp_path)
    operation = pair_sums([TEXT, DOUBLE], [TEXT, DOUBLE], 1, (0,), Comparison("value_minus_bound", "gt", 1, 0.2))
    files: dict[str, list[Any]] = {"left": [], "right": []}

    class Context(MemoryContext):
        def runs(self, table: StateTable, everywhere: bool = False) -> list[Rows]:
            return store.open_range(files[table.id], *partition_vnodes(self.partition, self.partitions))

    mill = Mill(operation, 3)
    mill.contexts = [Context(p, 3) for p in range(3)]
    alive: tuple[Counter[Row], Counter[Row]] = Counter(), Counter()
    for epoch in range(8):
        left, right = (changed(rng, rows, operation.left.input_types, 0, SPECIALS) for rows in alive)
        mill.epoch(left, right)
        mill.view.check(nested_loop(operation, *alive), f"epoch {epoch}, seed {seed}")
        for name, partial_, rows in (("left", operation.left, left), ("right", operation.right, right)):
            if len(rows):
                written = [(name, item.rows, partial_.groups.ops) for item, _ in keyed(partial_, rows)]  # type: ignore[union-attr]
                files[name] += store.write(epoch + 1, written, "t")
    assert derived.kept_bytes() > 0
    assert derived.kept_bytes() <= max(limit, 4000)


def test_keys_that_do_not_fit_are_refused() -> None:
    good = pair_sums([INT, INT], [INT, INT], 1, (0,), Comparison("value", "gt", 1))
    for bad in (
        pair_sums([TEXT, INT], [INT, INT], 1, (0,), Comparison("value", "gt", 1)),
        pair_sums([INT, TEXT], [INT, INT], 1, (0,), Comparison("value", "gt", 1)),
        pair_sums([INT, INT], [INT, INT], 1, (0,), Comparison("value_minus_bound", "gt", 1, 0.0)),
        replace(good, terms=((Term(1.0, ROWS, X),), *good.terms[1:])),
        replace(good, terms=((Term(0.5, ROWS, ROWS),), *good.terms[1:])),
        replace(good, left=side("left", [INT, INT], 2)),
    ):
        with pytest.raises(ValueError, match=r"\S"):
            PairSumsOperator(0, bad)


@pytest.mark.parametrize("complete", [0, 1], ids=["left", "right"])
@pytest.mark.parametrize(
    "operation",
    [
        pair_sums([INT, TEXT], [INT, TEXT], 1, (1,)),
        pair_sums([INT, DOUBLE], [INT, DOUBLE], 1, (0,), Comparison("value", "le", 1)),
        pair_sums([INT, DOUBLE], [INT, DOUBLE], 1, (0, 1), Comparison("value", "gt", 1)),
    ],
    ids=["equal keys", "either probes", "left groups are read"],
)
def test_a_side_that_is_complete(operation: PairSums, complete: int, seed: int) -> None:
    """The groups of the other side are neither stored nor together with those of their keys."""
    rng = random.Random(seed)
    operation = replace(operation, complete=complete)
    sides = (operation.left, operation.right)
    context, view = MemoryContext(), Views(operation)
    rows: tuple[Counter[Row], Counter[Row]] = (Counter(), Counter())
    operator, pairs = PairSumsOperator(0, operation), 0
    for epoch in range(40):
        loading = epoch < 3 or (not pairs and not sum(rows[complete].values()))
        of = complete if loading else 1 - complete
        given = keyed(sides[of], changed(rng, rows[of], sides[of].input_types, 1, SPECIALS))
        if of == complete:
            for item, _ in given:
                context.write(sides[of].groups, item.rows)
            context.seal()
            continue
        for output in run(operator, context, [(item, 0) for item, _ in given]):
            assert isinstance(output.item, Keyed)
            view.add(output.item.rows)
        expected = nested_loop(operation, *rows)
        view.check(expected, f"epoch {epoch}, seed {seed}")
        pairs += len(expected)
    assert pairs
