"""The queries of Nexmark in one mill: after every epoch each equals Spark's answer.

Inserts alone into tables without deletions, and auctions that go with their bids when they have ended.
``TIDEMILL_NEXMARK=1`` runs the long form: more events, epochs in Spark jobs, each of which is compared, the rates of
the benchmark.
"""

from __future__ import annotations

import datetime
import os
import random
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from benchmarks.nexmark.generator import Configuration, generate
from benchmarks.nexmark.queries import MODULUS, NAMES, REWRITTEN, query, standard
from benchmarks.tpch.changes import ddl
from change_trial import ChangeTrial
from oracle import Oracle

from local_jobs import LocalJobs
from tidemill.mill import Mill
from tidemill.testing import assert_same_rows

_LONG = bool(os.environ.get("TIDEMILL_NEXMARK"))
_MIDNIGHT = datetime.datetime(2015, 7, 15, 23, 59, 45, tzinfo=datetime.UTC)
_TINY = Configuration(
    rate=80, start=_MIDNIGHT, active_people=30, hot_sellers=1, out_of_order=7, side_rows=1100
)  # no hot sellers: few auctions are left, and q3 and q8 would find none


@pytest.mark.slow
@pytest.mark.timeout(3600 if _LONG else 900)
@pytest.mark.parametrize("deletes", [False, True], ids=["inserts", "expiring"])
def test_nexmark(mill_factory: Callable[..., Mill], tmp_path: Path, seed: int, deletes: bool) -> None:
    rng = random.Random(seed)
    events, epochs, modulus = (60_000, 12, MODULUS) if _LONG else (3000, 2 if deletes else 3, 7)
    chosen = Configuration() if _LONG else _TINY
    settings = {"split_bytes": rng.choice((20_000, 1 << 22)), "partitions": rng.randrange(1, 4), "epoch_bytes": 1 << 40}
    print(settings)
    stream = generate(events, seed, chosen)
    size = events // epochs + 1
    changes = stream.expiring(size, chosen) if deletes else stream.changes(size)
    if deletes:
        assert 10 < len(changes.alive("auction")) < stream.tables["auction"].num_rows - 10
        left = {name: changes.alive(name) for name in changes.tables}
        back = {name: np.random.default_rng(seed).permutation(rows)[::2] for name, rows in left.items()}
        changes = changes.then([{n: (r, -1) for n, r in left.items()}, {n: (r, 1) for n, r in back.items()}])
    mill = mill_factory(**settings)
    if not _LONG:
        mill._coordinator._jobs = LocalJobs()
    trial = ChangeTrial(mill, changes, tmp_path, deletes, sometimes=not _LONG)
    views = {name: query(name, modulus) for name in NAMES}
    others = [name for name in NAMES if name not in ("q03", "q13")]  # with these every table is read from the beginning
    late = rng.sample(others, 4)
    trial.create({name: views[name] for name in NAMES if name not in late})
    trial.advance()
    trial.create({name: views[name] for name in late})
    while trial.advance():
        pass
    trial.check_not_vacuous()
    trial.check_changes()


def test_the_generator_keeps_the_proportions_of_the_benchmark(seed: int) -> None:
    chosen = Configuration(out_of_order=50)
    stream = generate(100_000, seed, chosen)
    again = generate(100_000, seed, chosen)
    assert all(table.equals(again.tables[name]) for name, table in stream.tables.items())
    persons, auctions, bids = (stream.tables[name] for name in ("person", "auction", "bid"))
    assert (persons.num_rows, auctions.num_rows, bids.num_rows) == (2_000, 6_000, 92_000)
    assert sorted(np.concatenate(list(stream.places.values()))) == list(range(100_000))
    for table, column, part, share in (
        (bids, "auction", 0, 1 / 2),
        (bids, "bidder", 1, 3 / 4),
        (auctions, "seller", 0, 3 / 4),
    ):
        ids = table[column].to_numpy()
        assert abs(np.mean(ids % 100 == part) - share) < 0.03, column
        assert ids.max() < 1000 + (6_000 if column == "auction" else 2_000) + 10
    sizes = (persons.nbytes / 2_000, auctions.nbytes / 6_000)
    assert 180 < sizes[0] < 280 and 450 < sizes[1] < 600
    times = bids["dateTime"].cast(pa.int64()).to_numpy()
    assert np.any(np.diff(times) < 0) and np.all(np.diff(times) > -50 * 1_000_000 // chosen.rate - 1000)
    lengths = auctions["expires"].cast(pa.int64()).to_numpy() - auctions["dateTime"].cast(pa.int64()).to_numpy()
    assert lengths.min() >= 1000 and abs(lengths.mean() / 1e6 - 100 * 50 / 3 / chosen.rate) < 0.02


def test_both_forms_of_a_query_are_equal(mill_factory: Callable[..., Mill], tmp_path: Path, seed: int) -> None:
    """Over bids as they come, and where the gaps are 10 seconds or a millisecond more."""
    mill = mill_factory()
    bids = generate(1500, seed, _TINY).tables["bid"].select(["auction", "bidder", "dateTime"])
    gaps = 10_000_000 + 1000 * np.random.default_rng(seed).integers(0, 2, bids.num_rows)
    times = pa.array(np.cumsum(gaps)).cast(bids["dateTime"].type)
    alone = pa.table(
        {"auction": bids["auction"], "bidder": bids["bidder"].take([0] * bids.num_rows), "dateTime": times}
    )
    (tmp_path / "bid").mkdir()
    pq.write_table(bids, tmp_path / "bid" / "bids.parquet")
    mill.sql(f"CREATE TABLE bid ({ddl(bids.schema)}) USING parquet OPTIONS (path '{tmp_path / 'bid'}')")
    assert REWRITTEN == ("q11",)
    for name in REWRITTEN:
        for rows in (bids, alone):
            answers = Oracle(mill.spark).answers({"bid": rows}, {"usual": standard(name), "ours": query(name)})
            assert 1 < answers["ours"].num_rows < rows.num_rows
            assert_same_rows(answers["ours"], answers["usual"], name)
            if rows is bids:
                mill.sql(f"CREATE MATERIALIZED VIEW usual AS {standard(name)}")
                mill.sql(f"CREATE MATERIALIZED VIEW ours AS {query(name)}")
                list(mill.drain())
                for view, answer in answers.items():
                    assert_same_rows(mill.read(view), answer, f"{view} form of {name}")
