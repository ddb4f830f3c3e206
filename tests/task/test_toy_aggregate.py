"""An aggregate of one declaration: what it takes to add one."""

from __future__ import annotations

import itertools
import json
import random
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from local_jobs import local
from mill_factory import MillFactory
from tidemill.plan.documentation.aggregates import aggregates_table
from tidemill.state.merge.merge import MergeOp
from tidemill.task.aggregates import accumulators, functions
from tidemill.task.aggregates.accumulators import Accumulator, GroupValues, Kind, declare_kinds
from tidemill.task.aggregates.functions import AggregateFunction, Catalyst, declare_functions, from_all_values


def _widest_gap(accumulator: Accumulator, given: GroupValues) -> pa.Array:
    """The greatest difference of two neighbouring values of a group; NULL for fewer than two."""
    values, starts = given.values.to_numpy(zero_copy_only=False), given.starts
    groups = (values[a:b] for a, b in itertools.pairwise(starts))
    found = [int(np.diff(group).max()) if len(group) > 1 else None for group in groups]
    return pa.array(found, pa.int32())


@pytest.fixture
def declared(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The toy stands for what Spark's parser calls ``bit_xor``."""
    monkeypatch.setattr(accumulators, "_kinds", dict(accumulators._kinds))
    monkeypatch.setattr(functions, "_functions", dict(functions._functions))
    del functions._functions["bit_xor"]
    declare_kinds(Kind("widest_gap", lambda a, types: (pa.int32(),), lambda _: (MergeOp.LAST,), of_group=_widest_gap))
    read = Catalyst("BitXorAgg", ("widest_gap",), pa.int32(), meaning="of neighbours in ascending order")
    declare_functions(AggregateFunction("widest_gap", from_all_values, catalyst=read))
    yield


def model(values: list[int]) -> int | None:
    """The same of one group."""
    ordered = sorted(set(values))
    return max((b - a for a, b in itertools.pairwise(ordered)), default=None)


@pytest.mark.usefixtures("declared")
def test_views_under_inserts_and_deletes(mill_factory: MillFactory, tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    (tmp_path / "in").mkdir()
    mill = local(mill_factory())
    mill.sql(f"CREATE TABLE t (k INT, x INT) USING csv OPTIONS (path '{tmp_path}/in', opColumn 'op')")
    mill.sql("CREATE MATERIALIZED VIEW gaps AS SELECT k, bit_xor(x) AS gap, COUNT(*) AS n FROM t GROUP BY k")
    mill.sql("CREATE MATERIALIZED VIEW wide AS SELECT gap, COUNT(*) AS n FROM gaps WHERE gap > 20 GROUP BY gap")
    rows: list[tuple[int, int]] = []
    for epoch in range(8):
        changes = []
        for _ in range(20):
            if rows and chance.random() < 0.45:
                changes.append((*rows.pop(chance.randrange(len(rows))), "D"))
            else:
                rows.append((chance.randrange(4), chance.randrange(100)))
                changes.append((*rows[-1], "I"))
        (tmp_path / "in" / f"{epoch}.csv").write_text("".join(f"{k},{x},{op}\n" for k, x, op in changes))
        list(mill.drain())
        groups: dict[int, list[int]] = {}
        for k, x in rows:
            groups.setdefault(k, []).append(x)
        expected = {k: (model(values), len(values)) for k, values in groups.items()}
        assert {r["k"]: (r["gap"], r["n"]) for r in mill.read("gaps").to_pylist()} == expected
        wide = [gap for gap, _ in expected.values() if gap is not None and gap > 20]
        assert {r["gap"]: r["n"] for r in mill.read("wide").to_pylist()} == {g: wide.count(g) for g in wide}


@pytest.mark.usefixtures("declared")
def test_explain_documentation_and_catalogue_know_it(mill_factory: MillFactory, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    mill = mill_factory()
    mill.sql(f"CREATE TABLE t (k INT, x INT) USING csv OPTIONS (path '{tmp_path}/in')")
    query = "SELECT k, bit_xor(x) AS gap FROM t GROUP BY k"
    mill.sql(f"CREATE MATERIALIZED VIEW gaps AS {query}")
    told = mill.sql(f"EXPLAIN INCREMENTAL {query}")
    assert "widest_gap" in str(told) and "reads all values of an affected group" in str(told)
    assert "| `widest_gap` | of neighbours in ascending order |" in aggregates_table()
    catalog = mill.snapshot().catalog
    stored = json.loads(json.dumps(catalog.to_json()))
    assert type(catalog).from_json(stored) == catalog
    assert "widest_gap" in json.dumps(stored)
