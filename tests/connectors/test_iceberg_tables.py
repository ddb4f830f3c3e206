"""Tables USING iceberg: after each epoch a view has the rows that pyiceberg reads of the newest snapshot."""

from __future__ import annotations

import contextlib
import json
import random
import socket
import threading
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.expressions import EqualTo, LessThan
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema as IcebergSchema
from pyiceberg.transforms import IdentityTransform
from pyiceberg.typedef import Record
from pyiceberg.types import (
    DateType,
    DecimalType,
    IntegerType,
    LongType,
    NestedField,
    StringType,
    StructType,
    TimestamptzType,
)
from sqlalchemy import text
from tests.mill_factory import MillFactory

from tidemill.errors import TidemillError
from tidemill.mill import Mill

SCHEMA = IcebergSchema(
    NestedField(1, "k", LongType(), required=False),
    NestedField(2, "v", IntegerType(), required=False),
    NestedField(3, "p", StringType(), required=False),
)


@pytest.fixture
def catalogue(tmp_path: Path) -> Catalog:
    """A catalogue in SQLite, whose warehouse is a directory."""
    made = load_catalog("default", type="sql", uri=uri(tmp_path), warehouse=f"file://{tmp_path}/warehouse")
    made.create_namespace("ns")
    return made


def uri(place: Path) -> str:
    return f"sqlite:///{place}/catalogue.db"


def batch(rows: Sequence[tuple[int, int | None, str | None]], names: Sequence[str] = ("k", "v", "p")) -> pa.Table:
    columns = list(zip(*rows, strict=True)) if rows else [(), (), ()]
    arrays = [pa.array(c, t) for c, t in zip(columns, (pa.int64(), pa.int32(), pa.string()), strict=True)]
    return pa.table(arrays, names=list(names))


def some(chance: random.Random, count: int) -> list[tuple[int, int | None, str | None]]:
    return [
        (chance.randrange(100), chance.choice((None, chance.randrange(-9, 9))), chance.choice(("a", "b c/ü", None)))
        for _ in range(count)
    ]


def follow(mill: Mill, place: Path, columns: str = "", options: str = "") -> None:
    mill.sql(f"CREATE TABLE t {columns} USING iceberg OPTIONS (table 'ns.t', 'catalog.uri' '{uri(place)}'{options})")
    mill.sql("CREATE MATERIALIZED VIEW rows AS SELECT * FROM t")


def drain(mill: Mill) -> list[str]:
    return [warning for report in mill.drain() for warning in report.warnings]


def counted(table: pa.Table) -> Counter[tuple[Any, ...]]:
    return Counter(tuple(row.values()) for row in table.to_pylist())


def refused(mill: Mill, statement: str) -> TidemillError:
    with pytest.raises(TidemillError) as raised:
        mill.sql(statement)
    return raised.value


@pytest.mark.parametrize("partitioned", [False, True])
def test_snapshots(catalogue: Catalog, mill_factory: MillFactory, seed: int, tmp_path: Path, partitioned: bool) -> None:
    """Appends, deletions, overwrites and snapshots without rows; restarts."""
    chance = random.Random(seed)
    spec = PartitionSpec(PartitionField(3, 1000, IdentityTransform(), "p"))
    table = (
        catalogue.create_table("ns.t", SCHEMA, partition_spec=spec)
        if partitioned
        else catalogue.create_table("ns.t", SCHEMA)
    )
    mill = mill_factory()
    follow(mill, tmp_path)
    for turn in range(9):
        for _ in range(chance.choice((1, 1, 3))):
            match chance.randrange(5):
                case 0:
                    table.delete(LessThan("k", chance.randrange(60)))
                case 1:
                    table.delete(EqualTo("p", chance.choice(("a", "b c/ü"))))
                case 2:
                    table.overwrite(batch(some(chance, 9)))
                case _:
                    table.append(batch(some(chance, chance.randrange(1, 30))))
        if turn in (3, 6):
            mill.close()
            mill = mill_factory()
        assert drain(mill) == []
        assert counted(mill.read("rows")) == counted(table.scan().to_arrow()), f"turn {turn}"


def test_columns_that_change(catalogue: Catalog, mill_factory: MillFactory, tmp_path: Path) -> None:
    """Found by their identifiers: one that was renamed before is that of old files, too; a new one is not the old."""
    table = catalogue.create_table("ns.t", SCHEMA)
    table.append(batch([(1, 10, "a")]))
    with table.update_schema() as change:
        change.rename_column("v", "w")
    with table.update_schema() as change:
        change.add_column("v", IntegerType())
    table.append(pa.table({"k": [2], "w": pa.array([20], pa.int32()), "p": ["b"], "v": pa.array([7], pa.int32())}))
    mill = mill_factory()
    follow(mill, tmp_path)
    drain(mill)
    assert mill.read("rows").schema.names == ["k", "w", "p", "v"]
    assert counted(mill.read("rows")) == Counter([(1, 10, "a", None), (2, 20, "b", 7)])
    with table.update_schema() as change:
        change.delete_column("w")
    with pytest.raises(TidemillError) as raised:
        drain(mill)
    assert (raised.value.number, "w" in raised.value.got) == ("TM5104", True)
    assert mill.read("rows").num_rows == 2


def test_what_is_refused(catalogue: Catalog, mill_factory: MillFactory, tmp_path: Path) -> None:
    mill = mill_factory()
    catalogue.create_table("ns.t", SCHEMA).append(batch([(1, 1, "a")]))
    place = f"'catalog.uri' '{uri(tmp_path)}'"
    for columns, options, number in (
        ("", f"table 'ns.no', {place}", "TM5100"),
        ("", f"table 'no.t', {place}", "TM5100"),
        ("", "table 'ns.t', 'catalog.uri' 'sqlite:////no/such/place.db'", "TM5102"),
        ("", "table 'ns.t', 'catalog.uri' 'mysql://h/d'", "TM4003"),
        ("", "table 'ns.t'", "TM4003"),
        ("", f"table 't', {place}", "TM4003"),
        ("", f"table 'ns.t', {place}, path 'x'", "TM4003"),
        ("", f"table 'ns.t', {place}, 'py-io-impl' 'x'", "TM4005"),
        ("(k INT)", f"table 'ns.t', {place}", "TM4042"),
        ("(no INT)", f"table 'ns.t', {place}", "TM5104"),
    ):
        error = refused(mill, f"CREATE TABLE t {columns} USING iceberg OPTIONS ({options})")
        assert error.number == number, error
    limited = mill_factory("limited", allowed_paths=str(tmp_path / "elsewhere"))
    assert refused(limited, f"CREATE TABLE t USING iceberg OPTIONS (table 'ns.t', {place})").number == "TM5045"


def test_the_catalogue_goes_away(catalogue: Catalog, mill_factory: MillFactory, tmp_path: Path) -> None:
    """An error at the end of a drain, and nothing is lost."""
    table = catalogue.create_table("ns.t", SCHEMA)
    table.append(batch([(1, 1, "a")]))
    mill = mill_factory()
    follow(mill, tmp_path)
    drain(mill)
    catalogue.rename_table("ns.t", "ns.other")
    with pytest.raises(TidemillError) as raised:
        drain(mill)
    assert raised.value.number == "TM5100"
    assert counted(mill.read("rows")) == Counter([(1, 1, "a")])
    catalogue.rename_table("ns.other", "ns.t")
    catalogue.load_table("ns.t").append(batch([(2, 2, "b")]))
    drain(mill)
    assert counted(mill.read("rows")) == Counter([(1, 1, "a"), (2, 2, "b")])


def parquet(place: Path, rows: pa.Table, ids: dict[str, int] | None = None) -> str:
    """A file of others, with identifiers of columns or without; its URL."""
    if ids:
        fields = [f.with_metadata({"PARQUET:field_id": str(ids[f.name])}) for f in rows.schema]
        rows = rows.cast(pa.schema(fields))
    pq.write_table(rows, place)
    return f"file://{place}"


def test_files_that_others_wrote(catalogue: Catalog, mill_factory: MillFactory, tmp_path: Path) -> None:
    """Without identifiers, before a column was renamed; with partition columns that only the manifest has."""
    table = catalogue.create_table("ns.t", SCHEMA)
    table.add_files([parquet(tmp_path / "a.parquet", batch([(1, 10, "a")]))])
    with table.update_schema() as change:
        change.rename_column("v", "w")
    table.append(batch([(2, 20, "b")], ("k", "w", "p")))
    mill = mill_factory()
    follow(mill, tmp_path)
    drain(mill)
    assert counted(mill.read("rows")) == counted(table.scan().to_arrow())
    assert mill.read("rows").num_rows == 2

    fields = (NestedField(1, "k", LongType()), NestedField(2, "p", StringType()), NestedField(3, "d", DateType()))
    fields = (*fields, NestedField(4, "at", TimestamptzType()), NestedField(5, "x", DecimalType(9, 2)))
    spec = PartitionSpec(
        *(PartitionField(f.field_id, 1000 + f.field_id, IdentityTransform(), f.name) for f in fields[1:])
    )
    table = catalogue.create_table("ns.u", IcebergSchema(*fields), partition_spec=spec)
    path = parquet(tmp_path / "u.parquet", pa.table({"k": [1, 2]}), {"k": 1})
    values = Record("é /x", 19_000, 1_700_000_000_000_001, Decimal("-1.50"))
    with table.transaction() as transaction, transaction.update_snapshot().fast_append() as appended:
        size = (tmp_path / "u.parquet").stat().st_size
        none: dict[int, Any] = {}
        appended.append_data_file(
            DataFile.from_args(
                content=DataFileContent.DATA, file_path=path.replace("file://", "file:"),
                file_format=FileFormat.PARQUET, partition=values, record_count=2, file_size_in_bytes=size,
                column_sizes=none, value_counts=none, null_value_counts=none, nan_value_counts=none,
                lower_bounds=none, upper_bounds=none, key_metadata=None, split_offsets=[4], equality_ids=None,
                sort_order_id=None, spec_id=0,
            )
        )  # fmt: skip
    mill.sql(f"CREATE TABLE u USING iceberg OPTIONS (table 'ns.u', 'catalog.uri' '{uri(tmp_path)}')")
    mill.sql("CREATE MATERIALIZED VIEW v AS SELECT * FROM u")
    drain(mill)
    day, at = date(1970, 1, 1) + timedelta(19_000), datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=1_700_000_000)
    beside = ("é /x", day, at + timedelta(microseconds=1), Decimal("-1.50"))
    assert counted(mill.read("v")) == Counter([(1, *beside), (2, *beside)])


def test_fields_that_files_would_mistake(catalogue: Catalog, mill_factory: MillFactory, tmp_path: Path) -> None:
    """A field within a column that was renamed or replaced, a default for files without a column, deleted rows."""
    struct = StructType(NestedField(3, "a", LongType(), required=False))
    fields = (NestedField(1, "k", LongType(), required=False), NestedField(2, "s", struct, required=False))
    mill = mill_factory()
    for name in ("renamed", "replaced"):
        table = catalogue.create_table(f"ns.{name}", IcebergSchema(*fields))
        with table.update_schema() as change:
            if name == "renamed":
                change.rename_column(("s", "a"), "b")
            else:
                change.add_column(("s", "b"), LongType())
                change.delete_column(("s", "a"))
        with table.update_schema() as change:
            change.add_column(("s", "a"), LongType())
        given = f"table 'ns.{name}', 'catalog.uri' '{uri(tmp_path)}'"
        assert refused(mill, f"CREATE TABLE {name} USING iceberg OPTIONS ({given})").number == "TM5101"
    table = catalogue.create_table("ns.d", IcebergSchema(fields[0]))
    table.append(pa.table({"k": [1]}))
    place = Path(catalogue.load_table("ns.d").metadata_location.removeprefix("file://"))
    metadata = json.loads(place.read_text())
    metadata |= {"format-version": 3, "next-row-id": 10, "last-column-id": 2}
    more = {"id": 2, "name": "d", "type": "int", "required": False, "initial-default": 42, "write-default": 42}
    metadata["schemas"][0]["fields"].append(more)
    for snapshot in metadata["snapshots"]:
        snapshot |= {"first-row-id": 0, "added-rows": 1}
    place.write_text(json.dumps(metadata))
    given = f"table 'ns.d', 'catalog.uri' '{uri(tmp_path)}'"
    error = refused(mill, f"CREATE TABLE d USING iceberg OPTIONS ({given})")
    assert (error.number, "initial default" in error.got) == ("TM5101", True)
    mill.sql(f"CREATE TABLE d (k BIGINT) USING iceberg OPTIONS ({given})")
    mill.sql("CREATE MATERIALIZED VIEW v AS SELECT * FROM d")
    drain(mill)
    assert mill.read("v").to_pylist() == [{"k": 1}]


def test_another_database_in_its_place(catalogue: Catalog, mill_factory: MillFactory, tmp_path: Path) -> None:
    """A file that is gone is an error, and one that was put in its place is read."""
    catalogue.create_table("ns.t", SCHEMA).append(batch([(1, 1, "a")]))
    mill = mill_factory()
    follow(mill, tmp_path)
    drain(mill)
    held = (tmp_path / "catalogue.db").read_bytes()
    (tmp_path / "catalogue.db").unlink()
    with pytest.raises(TidemillError) as raised:
        drain(mill)
    assert raised.value.number == "TM5102"
    assert not (tmp_path / "catalogue.db").exists()
    (tmp_path / "other.db").write_bytes(held)
    (tmp_path / "other.db").rename(tmp_path / "catalogue.db")
    again = load_catalog("other", type="sql", uri=uri(tmp_path), warehouse=f"file://{tmp_path}/warehouse")
    again.engine.dispose()
    with again.engine.begin() as connection:
        connection.execute(text("UPDATE iceberg_tables SET catalog_name = 'other'"))
        connection.execute(text("UPDATE iceberg_namespace_properties SET catalog_name = 'other'"))
    again.load_table("ns.t").append(batch([(2, 2, "b")]))
    with again.engine.begin() as connection:
        connection.execute(text("UPDATE iceberg_tables SET catalog_name = 'default'"))
    drain(mill)
    assert counted(mill.read("rows")) == Counter([(1, 1, "a"), (2, 2, "b")])


def test_a_server_that_does_not_answer(mill_factory: MillFactory, tmp_path: Path) -> None:
    """A time-out, and other tables go on."""
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.csv").write_text("1\n")
    mill = mill_factory()
    with socket.create_server(("127.0.0.1", 0)) as silent:
        place = f"http://127.0.0.1:{silent.getsockname()[1]}"
        given = f"table 'ns.t', 'catalog.type' 'rest', 'catalog.uri' '{place}', requestTimeout '1'"
        assert refused(mill, f"CREATE TABLE t USING iceberg OPTIONS ({given})").number == "TM5102"
        mill.sql(f"CREATE TABLE c (k INT) USING csv OPTIONS (path '{tmp_path}/in')")
        mill.sql("CREATE MATERIALIZED VIEW v AS SELECT * FROM c")
        drain(mill)
        assert mill.read("v").num_rows == 1


def test_a_server_that_does_not_answer_who_asks_for_a_token(mill_factory: MillFactory) -> None:
    """The request is given up by the client, not by the server, which would wait longer."""
    heard, given_up = [], []

    def listen() -> None:
        connection, _ = silent.accept()
        with connection, contextlib.suppress(TimeoutError):
            connection.settimeout(30)
            heard.append(connection.recv(1 << 16))
            while connection.recv(1 << 16):
                pass
            given_up.append(True)

    mill = mill_factory()
    with socket.create_server(("127.0.0.1", 0)) as silent:
        place = f"http://127.0.0.1:{silent.getsockname()[1]}"
        thread = threading.Thread(target=listen)
        thread.start()
        given = f"table 'ns.t', 'catalog.type' 'rest', 'catalog.uri' '{place}', 'catalog.credential' 'me:hidden'"
        error = refused(mill, f"CREATE TABLE t USING iceberg OPTIONS ({given}, requestTimeout '1')")
        thread.join()
    assert error.number == "TM5102" and "hidden" not in str(error)
    assert heard[0].startswith(b"POST /v1/oauth/tokens ")
    assert given_up == [True]


def test_stores_and_passwords(mill_factory: MillFactory, tmp_path: Path) -> None:
    """Options of stores are taken; a password is not part of the URI; places are checked."""
    mill = mill_factory()
    known = (
        "table 'ns.t', 'catalog.type' 'rest', 'catalog.uri' 'http://127.0.0.1:1', requestTimeout '1', maxRetries '0'"
    )
    store = "endpoint 'http://127.0.0.1:1', awsAccessKey 'a', awsSecretKey 'b', allowHttp 'true', region 'x'"
    assert refused(mill, f"CREATE TABLE t USING iceberg OPTIONS ({known}, {store})").number == "TM5102"
    for place, number in (
        ("postgresql+psycopg://me:secret@127.0.0.1:1/d", "TM4003"),
        ("sqlite://", "TM4003"),
        ("sqlite:///relative.db", "TM4003"),
    ):
        error = refused(mill, f"CREATE TABLE t USING iceberg OPTIONS (table 'ns.t', 'catalog.uri' '{place}')")
        assert error.number == number
        assert "secret" not in str(error)
    error = refused(
        mill,
        "CREATE TABLE t USING iceberg OPTIONS (table 'ns.t', "
        "'catalog.uri' 'postgresql+psycopg://me@127.0.0.1:1/d', 'catalog.password' 'se/cret')",
    )
    assert (error.number, "se/cret" in str(error)) == ("TM5102", False)
