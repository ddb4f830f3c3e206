"""Tables USING delta: after each epoch a view is what Spark says of the rows of the newest version."""

from __future__ import annotations

import json
import random
import shutil
import time
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from pyspark.sql import SparkSession
from tests.mill_factory import MillFactory

from tidemill.errors import TidemillError
from tidemill.mill import Mill
from tidemill.testing import assert_same_rows

FEED: dict[str, str | None] = {"delta.enableChangeDataFeed": "true"}
QUERY = "SELECT p, k % 3 AS c, COUNT(*) AS n, SUM(v) AS s, MAX(k) AS m FROM t GROUP BY p, k % 3"


def batch(rows: Sequence[tuple[int, int | None, str | None]]) -> pa.Table:
    """Rows as Delta tables of these tests have them."""
    keys, values, parts = zip(*rows, strict=True) if rows else ((), (), ())
    return pa.table(
        {"k": pa.array(keys, pa.int64()), "v": pa.array(values, pa.int32()), "p": pa.array(parts, pa.string())}
    )


def some(chance: random.Random, count: int) -> list[tuple[int, int | None, str | None]]:
    return [
        (chance.randrange(1000), chance.choice((None, chance.randrange(-9, 9))), chance.choice(("a", "b/ü %", None)))
        for _ in range(count)
    ]


def change(path: Path, chance: random.Random) -> None:
    """One version more, as users make them."""
    table = DeltaTable(path)
    match chance.randrange(8):
        case 0:
            table.delete(f"k % 5 = {chance.randrange(5)}")
        case 1:
            table.update({"v": "v + 1"}, predicate=f"k < {chance.randrange(300)}")
        case 2:
            table.optimize.compact()
        case 3:
            merger = table.merge(batch(some(chance, 20)), "t.k = s.k AND 1 = 0", source_alias="s", target_alias="t")
            merger.when_not_matched_insert_all().execute()
        case 4 if table.version() > 2:
            table.restore(table.version() - 2)
        case 5:
            write_deltalake(path, batch(some(chance, 30)), mode="overwrite")
        case _:
            write_deltalake(path, batch(some(chance, chance.randrange(1, 40))), mode="append")


def follow(mill: Mill, path: Path | str, *, options: str = "") -> None:
    """A table ``t`` over a Delta table, and a view of its rows."""
    mill.sql(f"CREATE TABLE t USING delta OPTIONS (path '{path}'{options})")
    mill.sql("CREATE MATERIALIZED VIEW rows AS SELECT * FROM t")


def drain(mill: Mill) -> list[str]:
    """Read all that there is; the warnings of the epochs."""
    return [warning for report in mill.drain() for warning in report.warnings]


def counted(table: pa.Table) -> Counter[tuple[Any, ...]]:
    return Counter(tuple(row.values()) for row in table.to_pylist())


def refused(mill: Mill, statement: str) -> TidemillError:
    with pytest.raises(TidemillError) as raised:
        mill.sql(statement)
    return raised.value


@pytest.mark.parametrize("feed", [False, True])
def test_versions_equal_spark(
    mill_factory: MillFactory, spark: SparkSession, seed: int, tmp_path: Path, feed: bool
) -> None:
    """Appends, deletions, updates, compaction, overwrites and restores; restarts, and a view that comes later."""
    chance = random.Random(seed)
    path = tmp_path / "t"
    write_deltalake(path, batch(some(chance, 100)), partition_by=["p"], configuration=FEED if feed else None)
    mill = mill_factory()
    follow(mill, path)
    mill.sql(f"CREATE MATERIALIZED VIEW before AS {QUERY}")
    for turn in range(12):
        for _ in range(chance.choice((1, 1, 3))):
            change(path, chance)
        if turn == 4:
            mill.sql(f"CREATE MATERIALIZED VIEW later AS {QUERY}")
        if turn in (5, 9):
            mill.close()
            mill = mill_factory()
        drain(mill)
        rows = DeltaTable(path).to_pyarrow_table().select(["k", "v", "p"])
        assert counted(mill.read("rows")) == counted(rows), f"turn {turn}"
        spark.createDataFrame(
            rows.to_pandas().astype(object).where(lambda f: f.notna(), None), "k BIGINT, v INT, p STRING"
        ).createOrReplaceTempView("now_t")
        expected = spark.sql(QUERY.replace(" t ", " now_t ")).toArrow()
        for view in ["before", "later"] if turn >= 4 else ["before"]:
            assert_same_rows(mill.read(view), expected)
    assert counted(mill.read("t")) == counted(mill.read("rows"))


def test_a_version_is_not_divided(mill_factory: MillFactory, tmp_path: Path) -> None:
    """Rows that move from files to others are never missing, and never there twice, whatever an epoch may admit."""
    path = tmp_path / "t"
    for part in range(10):
        write_deltalake(path, batch([(part * 100 + i, 0, "a") for i in range(50)]), mode="append")
    mill = mill_factory(epoch_bytes=1000)
    follow(mill, path, options=", maxFilesPerTrigger '1'")
    mill.sql("CREATE MATERIALIZED VIEW n AS SELECT COUNT(*) AS n, SUM(v) AS s FROM t")
    sizes = [r.rows_in for r in mill.drain()]
    assert [size for size in sizes if size] == [50] * 10
    DeltaTable(path).update({"v": "1"})
    DeltaTable(path).optimize.compact()
    while (report := mill.advance()) is not None:
        assert mill.read("n").to_pylist() == [{"n": 500, "s": 500}], report


def test_types_and_partitions(mill_factory: MillFactory, tmp_path: Path) -> None:
    """Every type that partition columns can have comes as it was written; columns without a partition, too.

    The decimal is positive: deltalake 1.6 does not read a negative one again that it wrote.
    """
    at = datetime(2024, 2, 29, 23, 59, 59, 123456, UTC)
    columns: dict[str, tuple[list[Any], pa.DataType]] = {
        "i": ([1, None], pa.int32()),
        "l": ([2**62, None], pa.int64()),
        "b": ([True, None], pa.bool_()),
        "f": ([0.1, None], pa.float64()),
        "d": ([date(1969, 12, 31), None], pa.date32()),
        "ts": ([at, None], pa.timestamp("us", "UTC")),
        "ntz": ([at.replace(tzinfo=None), None], pa.timestamp("us")),
        "dec": ([Decimal("12.30"), None], pa.decimal128(12, 2)),
        "s": (["a=1/ %25 ü\n'", None], pa.string()),
    }
    given = {name: pa.array(values, type_) for name, (values, type_) in columns.items()}
    rest = {"x": pa.array([1, 2], pa.int64()), "deep": pa.array([[{"y": "z"}], None])}
    rows = pa.table({**given, **rest})
    write_deltalake(tmp_path / "t", rows, partition_by=list(given))
    mill = mill_factory()
    follow(mill, tmp_path / "t")
    drain(mill)
    assert counted_texts(mill.read("rows")) == counted_texts(rows)
    assert mill.read("rows").schema.names == rows.schema.names
    mill.sql(
        f"CREATE TABLE some (DEEP ARRAY<STRUCT<y: STRING>>, L DECIMAL(20, 0)) USING delta OPTIONS (path '{tmp_path}/t')"
    )
    mill.sql("CREATE MATERIALIZED VIEW part AS SELECT L, size(deep) AS n FROM some")
    drain(mill)
    assert counted_texts(mill.read("part")) == Counter([str((Decimal(2**62), 1)), str((None, None))])


def counted_texts(table: pa.Table) -> Counter[str]:
    return Counter(str(tuple(row.values())) for row in table.to_pylist())


def some_file(path: Path, before: set[Path]) -> Path:
    """The one data file that has come."""
    (found,) = set(path.rglob("*.parquet")) - before
    return found


def test_a_new_file_that_cannot_be_read(mill_factory: MillFactory, tmp_path: Path) -> None:
    """The earlier version stays until all of the new one can be read; one that only adds goes on without the file."""
    path = tmp_path / "t"
    write_deltalake(path, batch([(1, 1, "a"), (2, 2, "a")]))
    mill = mill_factory()
    follow(mill, path)
    drain(mill)
    before = set(path.rglob("*.parquet"))
    DeltaTable(path).update({"v": "10"}, predicate="k = 1")
    new = some_file(path, before)
    new.rename(tmp_path / "hidden")
    for _ in range(3):
        mill.advance()
        assert counted(mill.read("rows")) == Counter([(1, 1, "a"), (2, 2, "a")])
    (tmp_path / "hidden").rename(new)
    until_rows(mill, Counter([(1, 10, "a"), (2, 2, "a")]))
    before = set(path.rglob("*.parquet"))
    write_deltalake(path, batch([(3, 3, "a")]), mode="append")
    new = some_file(path, before)
    good = new.read_bytes()
    new.write_bytes(b"x" * len(good))
    warnings = drain(mill)
    assert any("TM4041" in w for w in warnings), warnings
    write_deltalake(path, batch([(4, 4, "a")]), mode="append")
    drain(mill)
    assert counted(mill.read("rows")) == Counter([(1, 10, "a"), (2, 2, "a"), (4, 4, "a")])
    new.write_bytes(good)
    until_rows(mill, Counter([(1, 10, "a"), (2, 2, "a"), (3, 3, "a"), (4, 4, "a")]))


def until_rows(mill: Mill, expected: Counter[tuple[Any, ...]]) -> None:
    """Advance until the view has some rows."""
    until = time.monotonic() + 60
    while counted(mill.read("rows")) != expected:
        assert time.monotonic() < until, mill.read("rows")
        mill.advance()
        time.sleep(0.05)


def test_a_broken_table_does_not_stop_others(mill_factory: MillFactory, tmp_path: Path) -> None:
    """Epochs go on, also after a restart; reading all there is says in the end what was left out."""
    path = tmp_path / "t"
    write_deltalake(path, batch([(1, 1, "a")]))
    write_deltalake(tmp_path / "good", batch([(1, 1, "a")]))
    mill = mill_factory()
    follow(mill, path)
    mill.sql(f"CREATE TABLE g USING delta OPTIONS (path '{tmp_path}/good')")
    mill.sql("CREATE MATERIALIZED VIEW good AS SELECT k FROM g")
    drain(mill)
    shutil.rmtree(path)
    for restart in (False, True):
        if restart:
            mill.close()
            mill = mill_factory()
        write_deltalake(tmp_path / "good", batch([(2, 2, "a")]), mode="append")
        with pytest.raises(TidemillError) as raised:
            drain(mill)
        assert raised.value.number == "TM5100"
        assert mill.read("good").num_rows == 3 if restart else 2
        mill.advance()
        assert counted(mill.read("rows")) == Counter([(1, 1, "a")])


def test_other_columns(mill_factory: MillFactory, tmp_path: Path) -> None:
    """Rows stay while the table lacks a column; types are checked when the table is created."""
    path = tmp_path / "t"
    write_deltalake(path, batch([(1, 1, "a")]))
    mill = mill_factory()
    create = f"CREATE TABLE {{}} {{}} USING delta OPTIONS (path '{path}')"
    for columns, number in (("(nosuch STRING)", "TM5104"), ("(v TINYINT)", "TM4042"), ("(p INT)", "TM4042")):
        assert refused(mill, create.format("x", columns)).number == number
    follow(mill, path)
    drain(mill)
    write_deltalake(path, pa.table({"other": ["a"]}), mode="overwrite", schema_mode="overwrite")
    with pytest.raises(TidemillError) as raised:
        drain(mill)
    assert (raised.value.number, "k" in raised.value.got) == ("TM5104", True)
    assert counted(mill.read("rows")) == Counter([(1, 1, "a")])
    write_deltalake(path, batch([(2, 2, "b")]), mode="overwrite", schema_mode="overwrite")
    drain(mill)
    assert counted(mill.read("rows")) == Counter([(2, 2, "b")])


@pytest.mark.parametrize("name", ["f%x", "a b#?*", "ü"])
def test_odd_paths(mill_factory: MillFactory, tmp_path: Path, name: str) -> None:
    """The directory of that name, and no other."""
    write_deltalake(tmp_path / "plain", batch([(1, 1, "a")]), partition_by=["p"])
    (tmp_path / "plain").rename(tmp_path / name)
    mill = mill_factory()
    follow(mill, tmp_path / name)
    assert drain(mill) == []
    assert [(r["k"], r["v"], r["p"]) for r in mill.read("rows").to_pylist()] == [(1, 1, "a")]


def test_paths_that_the_library_takes_for_others(mill_factory: MillFactory, tmp_path: Path) -> None:
    mill = mill_factory()
    for other, name, written in (("e/x", "e\\x", "e\\\\x"), ("f x", "f%20x", "f%20x")):
        write_deltalake(tmp_path / other, batch([(1, 1, "a")]))
        (tmp_path / name / "_delta_log").mkdir(parents=True)
        create = f"CREATE TABLE t USING delta OPTIONS (path '{tmp_path}/{written}')"
        assert refused(mill, create).number == "TM5101"


def test_vacuumed_and_made_anew(mill_factory: MillFactory, tmp_path: Path) -> None:
    """Rows of files that are gone are taken back all the same; another table at the path replaces the first."""
    path = tmp_path / "t"
    write_deltalake(path, batch([(1, 1, "a"), (2, 2, "a")]))
    mill = mill_factory()
    follow(mill, path)
    drain(mill)
    mill.close()
    DeltaTable(path).update({"v": "v + 10"})
    DeltaTable(path).vacuum(retention_hours=0, enforce_retention_duration=False, dry_run=False)
    mill = mill_factory()
    drain(mill)
    assert counted(mill.read("rows")) == Counter([(1, 11, "a"), (2, 12, "a")])
    shutil.rmtree(path)
    assert mill.advance() is None
    assert counted(mill.read("rows")) == Counter([(1, 11, "a"), (2, 12, "a")])
    write_deltalake(path, batch([(3, 3, None)]))
    warnings = drain(mill)
    assert any("TM5100" in w for w in warnings), warnings
    assert counted(mill.read("rows")) == Counter([(3, 3, None)])


def test_static_tables_are_of_one_version(mill_factory: MillFactory, tmp_path: Path) -> None:
    write_deltalake(tmp_path / "t", batch([(1, 1, "a")]))
    mill = mill_factory()
    follow(mill, tmp_path / "t", options=", static 'true'")
    drain(mill)
    DeltaTable(tmp_path / "t").update({"v": "5"})
    warnings = drain(mill)
    assert counted(mill.read("rows")) == Counter([(1, 1, "a")])
    assert any("TM5007" in w for w in warnings), warnings


def test_the_log_is_broken_for_a_while(mill_factory: MillFactory, tmp_path: Path) -> None:
    """A warning, and nothing is lost; other tables go on."""
    path = tmp_path / "t"
    write_deltalake(path, batch([(1, 1, "a")]))
    mill = mill_factory()
    follow(mill, path)
    drain(mill)
    (tmp_path / "c").mkdir()
    mill.sql(f"CREATE TABLE c (a INT) USING csv OPTIONS (path '{tmp_path}/c')")
    mill.sql("CREATE MATERIALIZED VIEW others AS SELECT * FROM c")
    write_deltalake(path, batch([(2, 2, "a")]), mode="append")
    last = path / "_delta_log" / "00000000000000000001.json"
    text = last.read_text()
    last.write_text(text[:50])
    (tmp_path / "c" / "one.csv").write_text("1\n")
    warnings = list(getattr(mill.advance(), "warnings", ()))
    assert any("TM5102" in w for w in warnings), warnings
    assert counted(mill.read("others")) == Counter([(1,)])
    last.write_text(text)
    mill.close()
    mill = mill_factory()
    drain(mill)
    assert counted(mill.read("rows")) == Counter([(1, 1, "a"), (2, 2, "a")])


def test_what_is_refused(mill_factory: MillFactory, tmp_path: Path) -> None:
    """No table, features that change what files mean, options of other tables."""
    mill = mill_factory()
    rows = batch([(1, 1, "a")]).append_column("at", pa.array([0], pa.timestamp("us", "UTC")))
    write_deltalake(tmp_path / "t", rows)
    (tmp_path / "empty").mkdir()
    create = "CREATE TABLE {} USING delta OPTIONS (path '{}'{})"
    assert refused(mill, create.format("x", tmp_path / "empty", "")).number == "TM5100"
    assert refused(mill, create.format("x", tmp_path / "nowhere", "")).number == "TM5100"
    assert refused(mill, "CREATE TABLE x USING delta").number == "TM5005"
    assert refused(mill, create.format("x", tmp_path / "t", ", allowOverwrites 'true'")).number == "TM4005"
    assert refused(mill, create.format("x", tmp_path / "t", ", watermark 'at'")).number == "TM2037"
    for features, configuration, said in (
        (["deletionVectors"], {}, "deletionVectors"),
        ([], {"delta.columnMapping.mode": "name"}, "column mapping"),
    ):
        path = tmp_path / said.replace(" ", "_")
        write_deltalake(path, batch([(i, 1, "a") for i in range(40)]))
        with_feature(path, features, configuration)
        error = refused(mill, create.format("x", path, ""))
        assert (error.number, said in error.got) == ("TM5101", True), error
    assert mill.sql("SHOW TABLES").collect() == []


def with_feature(path: Path, features: list[str], configuration: dict[str, str]) -> None:
    """Add a version with features of the protocol, and a deletion vector where these have them."""
    log = path / "_delta_log"
    lines = [json.loads(line) for line in (log / f"{0:020}.json").read_text().splitlines()]
    add = next(line for line in lines if "add" in line)["add"]
    meta = next(line for line in lines if "metaData" in line)["metaData"]
    version = {"minReaderVersion": 3, "minWriterVersion": 7}
    protocol = {
        **version,
        "readerFeatures": [*features, "columnMapping"],
        "writerFeatures": [*features, "columnMapping"],
    }
    meta["configuration"] = configuration
    schema = json.loads(meta["schemaString"])
    for number, field in enumerate(schema["fields"]):
        field["metadata"] = {"delta.columnMapping.id": number, "delta.columnMapping.physicalName": field["name"]}
    meta["schemaString"] = json.dumps(schema)
    actions: list[dict[str, Any]] = [{"protocol": protocol}, {"metaData": meta}]
    if features:
        # Rows 3, 4, 7, 11, 18 and 29 are deleted: the inline vector of the protocol's example.
        vector = {
            "storageType": "i",
            "pathOrInlineDv": "wi5b=000010000siXQKl0rr91000f55c8Xg0@@D72lkbi5=-{L",
            "sizeInBytes": 40,
            "cardinality": 6,
        }
        actions += [
            {"remove": {"path": add["path"], "dataChange": True, "deletionTimestamp": 1}},
            {"add": {**add, "deletionVector": vector}},
        ]
    (log / f"{1:020}.json").write_text("\n".join(json.dumps(a) for a in actions) + "\n")


@pytest.mark.parametrize("feed", [False, True])
def test_in_an_object_store(mill_factory: MillFactory, endpoint: str, seed: int, feed: bool) -> None:
    """As in a directory, over S3's API; tasks have the credentials of the options."""
    without = f"CREATE TABLE x USING delta OPTIONS (path 's3://mill/x', endpoint '{endpoint}')"
    assert refused(mill_factory(), without).number == "TM5034"
    chance = random.Random(seed)
    path = f"s3://mill/delta-{seed}-{feed}"
    storage = {"AWS_ALLOW_HTTP": "true", "aws_conditional_put": "etag"}
    first, configuration = batch(some(chance, 50)), FEED if feed else None
    write_deltalake(path, first, partition_by=["p"], storage_options=storage, configuration=configuration)
    mill = mill_factory("other")
    given = {"awsAccessKey": "test", "awsSecretKey": "test", "region": "us-east-1", "allowHttp": "true"}
    options = "".join(f", {name} '{value}'" for name, value in {"endpoint": endpoint, **given}.items())
    follow(mill, path, options=options)
    for _ in range(3):
        warnings = drain(mill)
        assert not warnings, "; ".join(warnings)
        rows = DeltaTable(path, storage_options=storage).to_pyarrow_table().select(["k", "v", "p"])
        assert counted(mill.read("rows")) == counted(rows)
        table = DeltaTable(path, storage_options=storage)
        table.update({"v": "7"}, predicate=f"k < {chance.randrange(1000)}")
        table.delete(f"k % 3 = {chance.randrange(3)}")
