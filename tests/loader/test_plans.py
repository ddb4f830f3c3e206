"""The loader over plans: in this process and in a Spark stage, taken and resumed at any row."""

from __future__ import annotations

import gc
import os
import pickle
import random
import socket
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

import tidemill as tm
from python_workers import kill_workers
from tidemill.errors import TidemillError
from tidemill.loader import Loader
from tidemill.loader.spark_stage import SparkStage
from tidemill.plan.loading.plan import Plan

FILES = 6


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """``facts``: (k, v, a) sorted by k; ``names``: (k, name), of the keys of the same file."""
    directory, rng = tmp_path_factory.mktemp("plans"), random.Random(3)
    for name in ("facts", "names"):
        (directory / name).mkdir()
    for number in range(FILES):
        keys = sorted(rng.choices(range(100 * number, 100 * number + 60), k=400))
        facts = {"k": keys, "v": rng.choices(range(50), k=400), "a": [list(range(rng.randrange(4))) for _ in keys]}
        pq.write_table(pa.table(facts), directory / "facts" / f"{number}.parquet", row_group_size=90)
        named = range(100 * number, 100 * number + 50)
        pq.write_table(
            pa.table({"k": named, "name": [f"n{k}" for k in named]}), directory / "names" / f"{number}.parquet"
        )
    return directory


def expanded(rows: Plan) -> Plan:
    return rows.filter(pc.field("v") > 10).unnest("a", ordinality="place")


def merged(directory: Path) -> Plan:
    facts = tm.plan.scan(directory / "facts", name="facts", format="parquet", columns=["k", "v"])
    names = tm.plan.scan(directory / "names", name="names", format="parquet")
    return facts.merge_join(names, "k", "left")


def loaders(directory: Path, **given: Any) -> dict[str, Any]:
    """Makers of loaders over a filtered and expanded scan, and over a merge join."""
    files = {"format": "parquet", "split_bytes": 3000, "batch_size": 37}
    return {
        "expanded": lambda **more: Loader(directory / "facts", expanded, **{**files, **given, **more}),
        "merged": lambda **more: Loader(merged(directory), batch_size=37, **{**given, **more}),
    }


def rows_of(directory: Path, kind: str) -> list[dict[str, Any]]:
    """What the loader gives without a seed, by plain Python over what PyArrow reads."""
    found = []
    for number in range(FILES):
        facts = pq.read_table(directory / "facts" / f"{number}.parquet").to_pylist()
        if kind == "expanded":
            found += [
                {"k": r["k"], "v": r["v"], "a": a, "place": place}
                for r in facts
                if r["v"] > 10
                for place, a in enumerate(r["a"], 1)
            ]
        else:
            names = {r["k"]: r["name"] for r in pq.read_table(directory / "names" / f"{number}.parquet").to_pylist()}
            found += [
                {"k": r["k"], "v": r["v"], "k_right": r["k"] if r["k"] in names else None, "name": names.get(r["k"])}
                for r in facts
            ]
    return found


@pytest.mark.parametrize("kind", ["expanded", "merged"])
@pytest.mark.parametrize("workers", [0, 1, 3])
def test_rows_of_a_plan(kind: str, workers: int, directory: Path) -> None:
    with loaders(directory)[kind](workers=workers) as loader:
        for _ in range(2):
            batches = list(loader)
            assert [row for b in batches for row in b.to_pylist()] == rows_of(directory, kind)
            assert {b.num_rows for b in batches[:-1]} == {37}


@pytest.mark.parametrize("kind", ["expanded", "merged"])
def test_resumed_at_any_row(kind: str, directory: Path) -> None:
    seed = random.randrange(1 << 30)
    print("seed", seed)
    rng = random.Random(seed)
    make = loaders(directory, shuffle=5, shuffle_buffer=150)[kind]
    undisturbed = [b.to_pylist() for b in make(workers=0)]
    for _ in range(12):
        stop = rng.randrange(len(undisturbed))
        first = make(workers=rng.choice((0, 1, 3)))
        iterator = iter(first)
        before = [next(iterator).to_pylist() for _ in range(stop)]
        state = first.state_dict()
        iterator.close()  # type: ignore[attr-defined]
        second = make(workers=rng.choice((0, 1, 3)))
        second.load_state_dict(state)
        assert before + [b.to_pylist() for b in second] == undisturbed


def test_a_changed_plan_is_told(directory: Path) -> None:
    make = loaders(directory)["expanded"]
    state = make().state_dict()
    other = Loader(
        directory / "facts", lambda rows: expanded(rows).filter(pc.field("v") < 40), format="parquet", split_bytes=3000
    )
    with pytest.raises(TidemillError, match="TM9005") as raised:
        other.load_state_dict(state)
    assert "plan" in raised.value.got
    make(workers=0).load_state_dict(state)


def test_plans_that_cannot_be_loaded(directory: Path, tmp_path: Path) -> None:
    pq.write_table(pa.table({"k": [1]}), tmp_path / "0.parquet")
    facts = tm.plan.scan(directory / "facts", name="facts", format="parquet")
    one = tm.plan.scan(tmp_path, name="one", format="parquet")
    with pytest.raises(TidemillError, match="TM9007"):
        Loader(facts.merge_join(one, "k", "semi"))
    with pytest.raises(TidemillError, match="TM9007"):
        Loader(tm.plan.values(pa.table({"k": [1]})))
    with pytest.raises(TidemillError, match="TM4003"):
        Loader(facts, columns=["k"])


def test_an_iterator_that_is_not_used_takes_nothing(directory: Path) -> None:
    make = loaders(directory)["expanded"]
    undisturbed = [b.to_pylist() for b in make()]
    first = make()
    iterator = iter(first)
    before = [next(iterator).to_pylist() for _ in range(5)]
    second = make()
    second.load_state_dict(first.state_dict())
    iter(second)
    assert second.state_dict() == first.state_dict()
    assert before + [b.to_pylist() for b in second] == undisturbed


def test_what_is_no_plan(directory: Path) -> None:
    for wrong in ("rows", merged(directory), lambda rows: None, lambda rows: rows.schema):
        with pytest.raises(TidemillError, match="TM4003"):
            Loader(directory / "facts", wrong, format="parquet")


@pytest.mark.parametrize("kind", ["expanded", "merged"])
def test_tasks_in_a_spark_stage_give_the_same_batches(kind: str, directory: Path, spark: SparkSession) -> None:
    for order in ({}, {"shuffle": 9, "shuffle_buffer": 100}):
        make = loaders(directory, **order)[kind]
        undisturbed = [b.to_pylist() for b in make(workers=0, epochs=2)]
        with make(spark=spark, workers=2, epochs=2) as loader:
            iterator = iter(loader)
            before = [next(iterator).to_pylist() for _ in range(9)]
            state = loader.state_dict()
            iterator.close()  # type: ignore[attr-defined]  # what was read ahead is lost
        assert before == undisturbed[:9]
        with make(spark=spark, workers=1, epochs=2) as loader:
            loader.load_state_dict(state)
            assert [b.to_pylist() for b in loader] == undisturbed[9:]


@pytest.mark.slow
def test_a_worker_that_is_killed_during_a_pass(directory: Path, spark: SparkSession) -> None:
    """Its set of splits is read again by another task; rows that were given do not come again."""
    undisturbed = rows_of(directory, "merged")
    for stop in (0, 3, 20):
        with Loader(merged(directory), batch_size=37, spark=spark, workers=2) as loader:
            iterator = iter(loader)
            found = [row for _ in range(stop) for row in next(iterator).to_pylist()]
            if not stop:
                found = next(iterator).to_pylist()
            assert kill_workers(spark)
            found += [row for batch in iterator for row in batch.to_pylist()]
            assert found == undisturbed


def test_an_error_in_a_stage(directory: Path, spark: SparkSession, tmp_path: Path) -> None:
    for number in range(3):
        pq.write_table(pa.table({"k": [3, 2, 1] if number == 1 else [1, 2, 3]}), tmp_path / f"{number}.parquet")
    rows = tm.plan.scan(tmp_path, name="rows", format="parquet")
    again = tm.plan.scan(tmp_path, name="again", format="parquet")
    with Loader(rows.merge_join(again, "k"), batch_size=3, spark=spark, workers=2) as loader:
        iterator = iter(loader)
        assert next(iterator).num_rows == 3
        with pytest.raises(TidemillError, match="TM9020"):
            list(iterator)


def test_strangers_at_the_port_of_a_stage(directory: Path, spark: SparkSession) -> None:
    with Loader(merged(directory), batch_size=37, spark=spark, workers=1) as loader:
        stage = loader._reader
        assert isinstance(stage, SparkStage)
        for sent in (b"", b"x" * 32, b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"):
            with socket.create_connection(stage.address) as stranger:
                stranger.sendall(sent)
        assert [row for batch in loader for row in batch.to_pylist()] == rows_of(directory, "merged")
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(stage.address)


def test_a_loader_with_a_stage_that_is_closed_or_copied(
    directory: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    loader = Loader(merged(directory), batch_size=37, spark=spark, workers=2)
    with pytest.raises(TidemillError, match="TM9026"):
        pickle.dumps(loader)
    with monkeypatch.context() as forked, pytest.raises(TidemillError, match="TM9026"):
        forked.setattr(os, "getpid", lambda: -1)  # for all threads, so nothing else is read meanwhile
        list(loader)
    iterator = iter(loader)
    next(iterator)
    loader.close()
    with pytest.raises(TidemillError, match="TM9009"):
        list(iterator)
    with pytest.raises(TidemillError, match="TM9009"):
        list(loader)


def test_two_loaders_that_nobody_closes(directory: Path, spark: SparkSession) -> None:
    """The stage of the first one ends with it, so the second one gets its slots."""
    expected = rows_of(directory, "merged")
    for _ in range(2):
        loader = Loader(merged(directory), batch_size=37, spark=spark, workers=2)
        assert [row for batch in loader for row in batch.to_pylist()] == expected
        del loader
        gc.collect()
