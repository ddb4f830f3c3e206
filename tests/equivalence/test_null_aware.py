"""NOT IN while the NULL on the right comes and goes, and all rows of either side do: equals Spark after every epoch."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from oracle import Trial
from random_tables import Column, RandomTable, to_field, written

from local_jobs import local
from tidemill.mill import Mill
from tidemill.task.program import JoinChanges

_COLUMNS = tuple(Column(n, "int", pa.int32(), lambda rng: rng.randrange(4), 0.0) for n in ("id", "k", "g"))
_VIEWS = {
    "plain": "SELECT id, k FROM t WHERE k NOT IN (SELECT k FROM u)",
    "negated": "SELECT id FROM t WHERE NOT (k IN (SELECT k + 1 FROM u))",
    "pair": "SELECT id, k, g FROM t WHERE (k, g) NOT IN (SELECT k, g FROM u)",
    "triple": "SELECT id FROM t WHERE (k, g, id) NOT IN (SELECT k, g, id FROM u)",
    "per_group": "SELECT id, k FROM t WHERE k NOT IN (SELECT k FROM u WHERE u.g = t.g)",
    "less": "SELECT id, k FROM t WHERE k NOT IN (SELECT k FROM u WHERE u.g < t.g)",
    "either": "SELECT id, k FROM t WHERE id % 5 = 0 OR k NOT IN (SELECT k FROM u)",
    "chosen": "SELECT id, CASE WHEN k NOT IN (SELECT k FROM u) THEN 1 "
    "WHEN (k, g) NOT IN (SELECT k, g FROM u) THEN 2 END AS c FROM t",
    "values": "SELECT id, k IN (SELECT k FROM u) AS yes, k NOT IN (SELECT k FROM u) AS no FROM t",
    "counted": "SELECT count(*) AS n, sum(id) AS s FROM t WHERE k NOT IN (SELECT k FROM u)",
    "nothing": "SELECT id FROM t WHERE 3 NOT IN (SELECT k FROM u)",
}  # fmt: skip
_U = (
    "+1 2 0", "+2 1 1", "-1 2 0", "+3 . 1", "+4 1 2", "-3 . 1", "-2 1 1 -4 1 2", "+5 . .", "-5 . .",
    "+6 . 1 +7 3 .", "+8 . 1", "-6 . 1", "-8 . 1", "-7 3 .", "+9 3 3", "+10 2 . +11 . 2", "-9 3 3 -10 2 . -11 . 2",
)  # fmt: skip
"""Rows of ``u`` that come or go, file after file; ``.`` is NULL."""


def scripted(
    rng: random.Random, name: str, files: list[list[tuple[int, tuple[int | None, ...]]]], at: Path
) -> RandomTable:
    at.mkdir()
    table = RandomTable(name, _COLUMNS, at, deletes=True, header=False)
    for number, rows in enumerate(files):
        start = len(table.events)
        table.events += [(",".join(to_field(v, rng) for v in row), weight, row) for weight, row in rows]
        table.waiting.append(written(table, f"part-{number:03}.csv", range(start, len(table.events)), rng))
    return table


def rows_of(text: str) -> list[tuple[int, tuple[int | None, ...]]]:
    fields = [None if f == "." else int(f) for f in text.split()]
    triples = [fields[i : i + 3] for i in range(0, len(fields), 3)]
    return [(1 if i and i > 0 else -1, (abs(i or 0), *rest)) for i, *rest in triples]


@pytest.mark.slow
def test_the_null_comes_and_goes(mill_factory: Callable[..., Mill], tmp_path: Path, seed: int) -> None:
    rng = random.Random(f"null aware {seed}")
    changes: list[list[tuple[int, tuple[int | None, ...]]]] = []
    live: list[tuple[int | None, ...]] = []
    for number in range(len(_U)):
        new = [(10 * number + i, *(rng.choice((None, 0, 1, 2, 3)) for _ in range(2))) for i in range(4)]
        gone = live if number == len(_U) - 4 else rng.sample(live, min(len(live), rng.randrange(3)))
        changes.append([(-1, row) for row in gone] + [(1, row) for row in new])
        live = [row for row in live if row not in gone] + new
    tables = [scripted(rng, "t", changes, tmp_path / "t"), scripted(rng, "u", [rows_of(c) for c in _U], tmp_path / "u")]
    trial = Trial(local(mill_factory(partitions=rng.choice((1, 3)), small_epoch_bytes=0)), tables)
    trial.create(_VIEWS)
    while trial.advance() is not None or any(t.waiting for t in tables):
        for table in rng.sample(tables, rng.choice((1, 1, 2))):
            table.release(1)
    trial.check_not_vacuous()
    trial.check_history("plain")


def test_pairs_are_not_made(mill_factory: Callable[..., Mill], tmp_path: Path, seed: int) -> None:
    """Changes of the right side that bring no first NULL, and take no last one away, meet no left rows."""
    rng = random.Random(f"no pairs {seed}")
    left = [[(1, (i, i % 7, 0)) for i in range(500)], [(1, (1000, 8, 0))]]
    right = [[(1, (1, 90, 0)), (1, (2, None, 0))], [(1, (3, 91, 0)), (1, (4, None, 0))]]
    tables = [scripted(rng, "t", left, tmp_path / "t"), scripted(rng, "u", right, tmp_path / "u")]
    trial = Trial(local(mill_factory(small_epoch_bytes=0)), tables)
    trial.create({n: _VIEWS[n] for n in ("plain", "pair", "either")})
    while trial.advance() is not None:
        pass
    for table in tables:
        table.release(1)
    report = trial.advance()
    assert report is not None
    assert sum(o.rows_out for o in report.operators) < 100, report.operators
    program = trial.mill._coordinator._programs().usual.program
    joins = [s.operation for s in program.steps if isinstance(s.operation, JoinChanges)]
    assert joins
    assert all(j.broadcast for j in joins), "no join of pairs"
