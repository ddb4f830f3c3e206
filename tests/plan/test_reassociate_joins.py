"""Flatter chains of joins: the plan of a snowflake, and random trees that must keep their rows."""

from __future__ import annotations

import random
from collections import Counter

import pyarrow as pa

from tidemill.plan.algebra.nodes import Filter, Join, Node, Project, Scan
from tidemill.plan.rules.reassociate_joins import _depth, reassociate_joins
from tidemill.schema import Field
from tidemill.task.expressions import Call, Literal, Ref

INT = pa.int64()
Rows = Counter[tuple[int | None, ...]]


def scan(relation: str, names: str) -> Scan:
    return Scan(relation, tuple(Field(name, INT) for name in names))


def join(left: Node, right: Node, left_key: int, right_key: int) -> Join:
    return Join(left, right, (left_key,), (right_key,), (False,))


def test_dimensions_of_a_dimension_are_joined_to_it_first() -> None:
    lines, orders = scan("lines", "os"), scan("orders", "ox")
    supplier, nation = scan("supplier", "sn"), scan("nation", "nr")
    chain = join(join(join(lines, orders, 0, 0), supplier, 1, 0), nation, 5, 0)
    flat = reassociate_joins(chain)
    assert flat == join(join(lines, orders, 0, 0), join(supplier, nation, 1, 0), 1, 0)
    assert _depth(chain)[0] == 3
    assert _depth(flat)[0] == 2


def test_a_chain_that_gets_no_flatter_stays() -> None:
    chain = join(join(scan("part", "p"), scan("lines", "ps"), 0, 0), scan("supplier", "s"), 2, 0)
    assert reassociate_joins(chain) == chain


def test_joins_by_one_key_are_flat_already() -> None:
    chain = join(join(join(scan("a", "k"), scan("b", "k"), 0, 0), scan("c", "k"), 1, 0), scan("d", "k"), 2, 0)
    assert _depth(chain)[0] == 1
    assert reassociate_joins(chain) == chain


def test_a_residual_condition_stays_above() -> None:
    a, b, c, d = (scan(name, "kv") for name in "abcd")
    above = Call("gt", (Ref(1, INT), Ref(7, INT)), pa.bool_())
    chain = Join(join(join(a, b, 0, 0), c, 1, 0), d, (5,), (0,), (False,), above)
    flat = reassociate_joins(chain)
    assert isinstance(flat, Filter)
    assert flat.condition == above
    assert flat.schema == chain.schema


def test_random_trees_keep_their_rows(seed: int) -> None:
    rng = random.Random(seed)
    changed = 0
    for _ in range(300):
        tables: dict[str, Rows] = {}
        before = _tree(rng, tables, rng.randrange(3, 8))
        after = reassociate_joins(before)
        changed += after != before
        assert _depth(after)[0] <= _depth(before)[0]
        assert after.schema == before.schema
        assert _rows(after, tables) == _rows(before, tables)
    assert changed > 30


def _tree(rng: random.Random, tables: dict[str, Rows], scans: int) -> Node:
    """A random tree of joins, projections and residual conditions; keys are of any columns."""
    if scans == 1:
        name, width = f"t{len(tables)}", rng.randrange(1, 4)
        values = (None, 0, 1, 2, 3, 4, 5)
        tables[name] = Counter(tuple(rng.choice(values) for _ in range(width)) for _ in range(rng.randrange(1, 9)))
        return scan(name, "abc"[:width])
    right_scans = 1 if rng.random() < 0.7 else rng.randrange(1, scans)
    left, right = _tree(rng, tables, scans - right_scans), _tree(rng, tables, right_scans)
    width, total = len(left.schema), len(left.schema) + len(right.schema)
    count = rng.choice((1, 1, 1, 2, 0))
    keys = [(rng.randrange(width), rng.randrange(total - width), rng.random() < 0.2) for _ in range(count)]
    residual = None
    if rng.random() < 0.2:
        residual = Call("le", (Ref(rng.randrange(total), INT), Ref(rng.randrange(total), INT)), pa.bool_())
    node: Node = Join(
        left, right, tuple(k[0] for k in keys), tuple(k[1] for k in keys), tuple(k[2] for k in keys), residual
    )
    if rng.random() < 0.5:
        kept = [rng.randrange(total) for _ in range(rng.randrange(1, total + 1))]
        columns = [Ref(c, INT) if rng.random() < 0.9 else Literal(1, INT) for c in kept]
        node = Project(node, tuple(columns), tuple(f"c{i}" for i in range(len(kept))))
    return node


def _rows(node: Node, tables: dict[str, Rows]) -> Rows:
    """A plan evaluated by the book, row by row."""
    found: Rows = Counter()
    match node:
        case Scan():
            return tables[node.relation]
        case Project():
            for row, n in _rows(node.child, tables).items():
                found[tuple(row[e.index] if isinstance(e, Ref) else e.value for e in node.expressions)] += n
        case Filter():
            for row, n in _rows(node.child, tables).items():
                if _holds(node.condition, row):
                    found[row] += n
        case Join():
            right = _rows(node.right, tables)
            for a, n in _rows(node.left, tables).items():
                for b, m in right.items():
                    keys = zip(node.left_keys, node.right_keys, node.null_safe, strict=True)
                    if all(a[i] == b[j] and (safe or a[i] is not None) for i, j, safe in keys) and (
                        node.residual is None or _holds(node.residual, a + b)
                    ):
                        found[a + b] += n * m
    return found


def _holds(condition: object, row: tuple[int | None, ...]) -> bool:
    assert isinstance(condition, Call)
    x, y = (row[a.index] for a in condition.args if isinstance(a, Ref))
    return x is not None and y is not None and (x <= y if condition.function == "le" else x > y)
