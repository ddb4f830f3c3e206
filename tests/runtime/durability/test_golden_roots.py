"""Roots that older versions wrote are opened, read and carried on; and state outlives changes of the planner."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import golden_root
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from tidemill.config import Settings
from tidemill.mill import Mill
from tidemill.plan.algebra import codec, identities, window_names
from tidemill.plan.algebra.nodes import Filter, Node
from tidemill.plan.lowering import assemble
from tidemill.plan.rules import rewrite
from tidemill.runtime.epoch import mill_state
from tidemill.state.versions.manifest import FORMAT_VERSION, OLDEST_FORMAT, ManifestLog
from tidemill.state.versions.objects import Objects
from tidemill.task.expressions import Literal
from tidemill.testing import assert_same_rows

ARCHIVES = sorted(golden_root.GOLDEN.glob("*.tar.xz"))
SETTINGS = Settings(master="local[2]", partitions=2, listing_seconds=0.0)
ROWS = 54 + 20 + 15 + 6 + 4
"""Of a batch of golden files."""


@pytest.fixture
def alone() -> Iterator[None]:
    with golden_root.alone():
        yield


@functools.cache
def answers(_: str, spark: SparkSession) -> dict[str, pa.Table]:
    """What Spark's batch says over files, which are the same in all golden roots: it is asked once."""
    return {name: frame.toArrow() for name, frame in golden_root.expected(spark).items()}


def check(mill: Mill, spark: SparkSession) -> None:
    """Every view is what Spark's batch says over all files."""
    files = sorted(path for path in golden_root.DATA.rglob("*") if path.is_file())
    content = hashlib.sha256(repr([(str(path), path.read_bytes()) for path in files]).encode()).hexdigest()
    for name, expected in answers(content, spark).items():
        assert_same_rows(mill.read(name), expected, name)


def append(mill: Mill, spark: SparkSession, n: int) -> None:
    """A batch more, of which nothing but its own rows is read."""
    golden_root.write_batch(n)
    reports = list(mill.drain())
    assert sum(r.rows_in for r in reports) == ROWS
    assert sum(r.backfilled for r in reports) == 0
    check(mill, spark)


def state_tables(mill: Mill) -> set[str]:
    return set(mill.snapshot().version.tables)


def test_every_older_format_has_a_golden_root() -> None:
    assert {int(a.name.split(".")[0]) for a in ARCHIVES} >= set(range(OLDEST_FORMAT, FORMAT_VERSION))


def another_fingerprint(value: Any) -> str:
    """What a planner whose plans are encoded otherwise would call a plan."""
    return hashlib.sha256(f"otherwise {codec.encode(value)}".encode()).hexdigest()[:16]


def another_rewrite(node: Node) -> Node:
    """What a planner of other rules would make of a query: here with a filter that every row passes."""
    return Filter(rewrite(node), Literal(True, pa.bool_()))


@pytest.mark.slow
@pytest.mark.usefixtures("alone")
@pytest.mark.parametrize("archive", ARCHIVES, ids=lambda a: a.name.split(".")[0])
def test_a_golden_root_is_read_and_carried_on_by_another_planner(
    archive: Path, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = golden_root.unpack(archive, tmp_path)
    with Mill(root, spark=spark, settings=SETTINGS) as mill:
        tables = state_tables(mill)
        assert list(mill.drain()) == []
        assert {(name, status) for name, status, _, _ in mill.status()} == {(n, "fresh") for n in golden_root.views()}
        check(mill, spark)
        append(mill, spark, golden_root.BATCHES)
        assert state_tables(mill) == tables
    newest = ManifestLog(Objects(root), create=False).latest()
    assert newest is not None and newest.format == FORMAT_VERSION

    monkeypatch.setattr(identities, "fingerprint", another_fingerprint)
    monkeypatch.setattr(window_names, "fingerprint", another_fingerprint)
    monkeypatch.setattr(mill_state, "rewrite", another_rewrite)
    with Mill(root, spark=spark, settings=SETTINGS) as mill:
        assert list(mill.drain()) == []
        append(mill, spark, golden_root.BATCHES + 1)
        assert state_tables(mill) == tables
        with monkeypatch.context() as within:
            within.setattr(assemble, "Assembler", None)  # reading plans nothing
            check(mill, spark)
        mill.sql("CREATE MATERIALIZED VIEW new AS SELECT g, c, s FROM agg")  # unpacked files have other times
        list(mill.drain())
        assert_same_rows(mill.read("new"), mill.read("agg").select(["g", "c", "s"]))
        for name in ("new", *reversed(golden_root.views())):
            mill.sql(f"DROP VIEW {name}")
        kinds = {t.split(":")[0] for t in state_tables(mill)}
        assert kinds <= {"list", "fetch", "cursor", "errors", "table"}, "state goes with the last view that uses it"
