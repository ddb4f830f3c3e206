"""Order books epoch by epoch against the plain book, message by message."""

from __future__ import annotations

import random
from collections import Counter

import pyarrow as pa
import pytest
from operator_runs import INT, TEXT, changes, keyed, run
from tests.formats.orderbook_reference import Book, Message, Order

from tidemill.formats.orderbook.rules import MESSAGES, BookRules
from tidemill.plan.lowering.kept.keyed_tables import append_only, contents_plan, message_steps
from tidemill.schema import Schema
from tidemill.task.build import build
from tidemill.task.dataflow.deltas import Delta, batch_of
from tidemill.task.dataflow.read_view import read_view
from tidemill.task.program import Changelog, TableSource, multiset_table
from tidemill.testing import MemoryContext, weighted_rows

COLUMNS = (0, 1, 2, 3, 4)
OTHER_ORDER = (4, 1, 0, 3, 2)
BOTH = (0, 1, 2, 3, 4, 5)
BOTH_IN_OTHER_ORDER = (5, 4, 1, 0, 3, 2)


def source(rules: BookRules, order: tuple[int, ...]) -> TableSource:
    rows = Schema(tuple(rules.rows.fields[i] for i in order))
    errors = multiset_table("errors", (TEXT,), 1)
    log = Changelog(rows, (order.index(1),), 0, rules)
    return TableSource("bids", "bids#1", "orderbook", MESSAGES, (), None, ("I", "D"), errors, log)


def scanned(items: list[tuple[int, Message]]) -> Delta:
    """Messages as a sequenced scan gives them."""
    columns = [pa.array([m[i] for _, m in items], f.type) for i, f in enumerate(MESSAGES)]
    columns += [pa.array([1] * len(items), INT), pa.array([place for place, _ in items], INT)]
    return Delta(batch_of(columns, len(items)))


@pytest.mark.parametrize("insert_only", [False, True])
@pytest.mark.parametrize("order", [COLUMNS, OTHER_ORDER, BOTH, BOTH_IN_OTHER_ORDER])
def test_random_messages_in_random_epochs(insert_only: bool, order: tuple[int, ...], seed: int) -> None:
    rng = random.Random(f"{seed} {insert_only}")
    for _ in range(12):
        inserts, cancels = "B" if len(order) == 5 else "BS", rng.random() < 0.5
        rules = BookRules(inserts, 3, rng.random() < 0.5, insert_only, cancels)
        actions = (inserts * 4)[:4] + "EEEDF" + ("CC" if cancels else "")
        table = source(rules, order)
        assert append_only(table) is insert_only
        _, arrange, apply = message_steps(table)
        operator, context, plan = build(0, apply), MemoryContext(), contents_plan(table)
        book, model = Book(rules), Counter[Order]()
        for _ in range(rng.randrange(1, 6)):
            batches: list[list[tuple[int, Message]]] = [[] for _ in range(rng.randrange(1, 4))]
            expected: Counter[Order] = Counter()
            for place in range(rng.randrange(0, 40)):
                volume = rng.choice((1.0, 2.5, 4.0))
                message = Message(float(rng.randrange(3)), rng.randrange(5), rng.choice(actions), volume, 7.0)
                rng.choice(batches).append((place, message))
                for weight, row in book.apply(message):
                    expected[row] += weight
            inputs = [item for b in batches if b for item in keyed(arrange, scanned(b))]
            found = changes(run(operator, context, inputs))
            shown = {tuple(r[i] for i in order): w for r, w in expected.items() if w}
            assert found == shown
            for row, weight in expected.items():
                model[row] += weight
            contents = weighted_rows(read_view(plan, context.state(plan.table).before, single_row=False))
            assert contents == {tuple(r[i] for i in order): w for r, w in model.items() if w}
