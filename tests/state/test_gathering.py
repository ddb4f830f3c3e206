"""Rows in any order become a sorted run: against dictionaries."""

from __future__ import annotations

import random
from typing import Any

import pytest
from model_tables import ADDITIVE, EXTREMES, MULTISET, TABLES, Content, Key, Values, add, encoded, stored, to_content
from table_model import columns

from tidemill.state.merge import gathering
from tidemill.state.merge.gathering import gather, rows_between
from tidemill.state.merge.merge import Rows
from tidemill.task.program import StateTable


def some_key(rng: random.Random, table: StateTable, wide: int) -> Key:
    return (rng.randrange(wide), rng.choice(("", "a", "é" * 9))) if table is MULTISET else (rng.randrange(wide),)


def some_values(rng: random.Random, table: StateTable) -> Values:
    weight = rng.choice((1, 1, 1, 3, -1))
    if table is MULTISET:
        return (weight,)
    if table is EXTREMES:  # of tables that only grow
        return (1, rng.choice((None, rng.randrange(50))), rng.choice((None, rng.choice("abc") * 3)))
    return (weight, rng.randrange(-9, 9), rng.choice((1, -1)) * rng.randrange(1 << 80), float(rng.randrange(1 << 20)))


def as_written(written: list[tuple[Key, Values]], table: StateTable) -> Rows:
    """Rows in the order given."""
    values = [stored(table, v) for _, v in written]
    return Rows(encoded((k for k, _ in written), table), tuple(columns(values, list(table.value_types))))


@pytest.mark.parametrize("wide", [20, 100_000], ids=["repeated", "distinct"])
@pytest.mark.parametrize("table", [MULTISET, ADDITIVE, EXTREMES], ids=lambda t: t.id)
def test_parts_in_any_order_are_one_run(
    table: StateTable, wide: int, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = random.Random(f"{seed} {table.id} {wide}")
    grouped = []
    by_rank = gathering._by_rank

    def counted(*given: Any) -> Any:
        grouped.append(given)
        return by_rank(*given)

    monkeypatch.setattr(gathering, "_by_rank", counted)
    for _ in range(30):
        parts: list[Rows] = []
        model: Content = {}
        for _ in range(rng.randrange(1, 6)):
            written = [(some_key(rng, table, wide), some_values(rng, table)) for _ in range(rng.randrange(1, 200))]
            parts.append(as_written(written, table))
            for key, values in written:
                add(table, model, key, values)
        run = gather(parts, table.ops, table.is_multiset)
        keys = [run.keys[i] for i in range(len(run))]
        assert keys == sorted(keys)
        found = to_content(run, table)
        if table is ADDITIVE:  # the model has no groups of which all is 0
            found = {key: values for key, values in found.items() if any(values)}
        assert found == model
    assert bool(grouped) == (wide == 20), "both ways are taken, each where it is meant"


def test_every_kind_of_table_is_known_here() -> None:
    """Others have values of which the newest counts: they are never left unordered."""
    assert {t.id for t in TABLES.values()} - {MULTISET.id, ADDITIVE.id, EXTREMES.id} == {"rows", "list"}


def test_rows_between_two_keys(seed: int) -> None:
    rng = random.Random(seed)
    for _ in range(200):
        written = [(some_key(rng, MULTISET, 30), (1,)) for _ in range(rng.randrange(60))]
        rows = as_written(written, MULTISET)
        known = [rows.keys[i] for i in range(len(rows))]
        bounds = [*known, b"", b"\xff\xff\xff", *(k[: rng.randrange(1, 12)] for k in known)]
        low, high = rng.choice(bounds), rng.choice(bounds)
        found = rows_between(rows, low, high)
        assert [found.keys[i] for i in range(len(found))] == [k for k in known if low <= k < high]
        assert found.values[0].to_pylist() == [1] * len(found)
