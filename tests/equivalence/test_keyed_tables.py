"""Tables from change messages, and views over them: right after every epoch, wherever files and epochs are cut."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from change_tables import ChangeTable, KeyedTrial, books, envelopes, upserts
from pyspark.sql import SparkSession

from mill_factory import MillFactory
from tidemill.config import Settings
from tidemill.mill import Mill
from tidemill.testing import assert_same_rows, weighted_rows

OLD = {
    "plain": "SELECT k, s, v, day FROM c WHERE n > -5",
    "texts": "SELECT k, g, CAST(v AS STRING) AS t FROM c",
    "grouped": "SELECT g, count(*) AS c, sum(n) AS s, max(n) AS x, min(s) AS m FROM c GROUP BY g",
    "everything": "SELECT count(*) AS c, sum(n) AS s FROM c",
    "joined": "SELECT c.k, c.s, d.name, d.at FROM c JOIN d ON c.k = d.id",
    "missing": "SELECT k, g FROM c WHERE NOT EXISTS (SELECT 1 FROM d WHERE d.id = c.k)",
    "counts": "SELECT c, count(*) AS n FROM grouped GROUP BY c",
    "spread": "SELECT b.broker_id, count(*) AS n, sum(a.price - b.price) AS s FROM bids b JOIN asks a "
    "ON b.broker_id = a.broker_id GROUP BY b.broker_id",
    "levels": "SELECT price, count(*) AS orders, sum(volume) AS volume FROM bids GROUP BY price",
    "sides": "SELECT side, price, count(*) AS orders, sum(volume) AS volume FROM orders GROUP BY side, price",
    "best": "SELECT price, volume, id FROM asks ORDER BY price, id, volume, t LIMIT 4",
}
YOUNG = {
    "y_plain": "SELECT s, v, n FROM c WHERE k < 3",
    "y_texts": OLD["texts"].replace("AS t", "AS u"),
    "y_grouped": OLD["grouped"],
    "y_all": "SELECT * FROM d",
    "y_everything": "SELECT count(*) AS c, max(volume) AS x FROM asks",
    "y_joined": "SELECT a.k, b.k AS l, a.g FROM c a JOIN c b ON a.n = b.n",
    "y_mixed": "SELECT d.name, counts.n FROM d JOIN counts ON d.id = counts.c",
    "y_of_young": "SELECT count(*) AS c FROM y_plain",
}


def all_tables(rng: random.Random, directory: Path, count: int = 160) -> list[ChangeTable]:
    return [
        upserts(rng, directory / "c", count),
        envelopes(rng, directory / "d", count // 2),
        *books(rng, directory / "book", count),
    ]


def settings(rng: random.Random, epoch_bytes: int = 2500) -> dict[str, Any]:
    chosen = {
        "epoch_bytes": int(epoch_bytes * rng.uniform(0.7, 1.4)),
        "split_bytes": rng.choice((40, 200, 1000, 100_000)),
        "partitions": rng.randrange(1, 5),
        "compact_after": rng.choice((3, 12)),
        "compact_bytes": rng.choice((2000, 32 << 20)),
    }
    print(chosen)
    return chosen


def test_tables_and_views_after_every_epoch(mill_factory: MillFactory, tmp_path: Path, seed: int) -> None:
    rng = random.Random(f"keyed {seed}")
    trial = KeyedTrial(mill_factory(**settings(rng)), all_tables(rng, tmp_path))
    trial.create(OLD)
    trial.advance()
    trial.advance()
    trial.create(YOUNG)
    assert "y_plain" in trial.mill.snapshot().initialising
    assert trial.advance(), "history of a keyed table is its rows: they are there after one epoch"
    assert not trial.mill.snapshot().initialising
    assert trial.run(rng) >= 2
    trial.check_not_vacuous()
    for name, table in trial.tables.items():
        check_changes(trial.mill, name)
        assert_same_rows(trial.mill.table(name).toArrow(), table.table(), name)
    found = trial.mill.sql("SELECT count(*) AS n FROM c JOIN y_all ON c.k = y_all.id")
    assert not isinstance(found, str) and found is not None
    assert found.collect()[0].n == trial.mill.read("joined").num_rows
    errors = trial.mill.read("bids__errors").to_pylist()
    assert {e["reason"] for e in errors} == {"bad_action"}
    assert all(b",Q," in e["raw"] for e in errors)


def check_changes(mill: Mill, name: str) -> None:
    """The changes of all epochs that are remembered sum up to the rows, and no row is ever there less than never."""
    total: dict[tuple[Any, ...], int] = {}
    for _, delta in mill.subscribe(name, timeout=0):
        for row, weight in weighted_rows(delta).items():
            total[row] = total.get(row, 0) + weight
            assert total[row] >= 0
    assert {row: w for row, w in total.items() if w} == weighted_rows(mill.read(name))


@pytest.mark.slow
def test_restarts_that_lose_epochs(spark: SparkSession, tmp_path: Path, seed: int) -> None:
    """What was sealed and not durable is admitted again, in the same order."""
    rng = random.Random(f"restarts {seed}")
    chosen = settings(rng, 1500)

    def reopen() -> Mill:
        return Mill(
            tmp_path / "root", spark=spark, settings=Settings(**chosen, checkpoint_seconds=1e6, listing_seconds=0)
        )

    tables = all_tables(rng, tmp_path / "data", 100)
    trial = KeyedTrial(reopen(), tables)
    trial.create({n: OLD[n] for n in ("texts", "grouped", "levels")})
    more, lost = True, 0
    while more:
        for files in trial.files:
            files.release()
        more = trial.advance()
        if rng.random() < 0.5:
            trial.mill.checkpoint()
        if more and rng.random() < 0.4 and lost < 4:
            lost += 1
            trial.mill._coordinator._compactor.wait()
            trial.mill._coordinator.close(checkpoint=False)
            trial.reopened(reopen())
    trial.mill.close()
    trial.check_not_vacuous()
    trial.reopened(reopen())
    assert not trial.advance()
    trial.mill.close()


def test_a_table_that_nobody_reads_is_kept(mill_factory: MillFactory, tmp_path: Path, seed: int) -> None:
    rng = random.Random(f"alone {seed}")
    mill = mill_factory(**settings(rng))
    trial = KeyedTrial(mill, [envelopes(rng, tmp_path / "d", 60)])
    assert trial.run(rng) >= 1
    trial.check_not_vacuous()
    before = mill.epoch
    trial.create({"late": "SELECT name, count(*) AS n FROM d GROUP BY name"})
    assert trial.advance()
    assert mill.epoch == before + 1
    trial.check_not_vacuous()
    for kind, name in (("VIEW", "late"), ("TABLE", "d")):
        mill.sql(f"DROP {kind} {name}")
    assert not mill.snapshot().version.tables


def test_insert_only(mill_factory: MillFactory, tmp_path: Path) -> None:
    (tmp_path / "trace").write_text("1,1,B,10,5\n2,1,E,4,0\n3,1,E,4,0\n4,2,S,1,1\n5,1,D,0,0\n6,1,E,1,0\n")
    mill = mill_factory(epoch_bytes=15)
    mill.sql(f"CREATE TABLE grows USING orderbook OPTIONS (path '{tmp_path / 'trace'}', book 'bids', insertOnly true)")
    mill.sql("CREATE MATERIALIZED VIEW most AS SELECT max(volume) AS x, count(*) AS n FROM grows")
    assert len(list(mill.drain())) >= 4
    assert sorted(r["volume"] for r in mill.read("grows").to_pylist()) == [2.0, 6.0, 10.0]
    assert mill.read("most").to_pylist() == [{"x": 10.0, "n": 3}]


def test_a_script_with_keys_can_be_run_again(mill_factory: MillFactory, tmp_path: Path) -> None:
    (tmp_path / "in").write_text("1,a\n")
    script = f"""
        CREATE TABLE p (id INT, s STRING, PRIMARY KEY (ID)) USING csv OPTIONS (path '{tmp_path / "in"}');
        CREATE TABLE b USING orderbook OPTIONS (path '{tmp_path / "in"}', book 'bids');
    """
    mill = mill_factory()
    mill.script(script)
    mill.script(script)
    assert [r["name"] for r in mill.snapshot().show("tables").to_pylist()] == ["p", "b"]


def test_messages_of_small_files_of_many_rows_keep_their_order(mill_factory: MillFactory, tmp_path: Path) -> None:
    """Rows of Parquet are numbered: the last message of a key wins, however small its file."""
    (tmp_path / "in").mkdir()
    for number, rows in enumerate((150_000, 10, 1)):
        table = pa.table({"k": np.zeros(rows, np.int64), "v": np.full(rows, number, np.int64)})
        pq.write_table(table, tmp_path / "in" / f"{number}.parquet", compression="zstd")
        assert (tmp_path / "in" / f"{number}.parquet").stat().st_size < 100_000
    mill = mill_factory()
    mill.sql(f"CREATE TABLE p (k BIGINT, v BIGINT, PRIMARY KEY (k)) USING parquet OPTIONS (path '{tmp_path / 'in'}')")
    list(mill.drain())
    assert mill.read("p").to_pylist() == [{"k": 0, "v": 2}]
