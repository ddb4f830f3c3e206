"""Views as indexes of lookup joins, from state and over HTTP, beside what Spark says of the same rows."""

from __future__ import annotations

import asyncio
import base64
import json
import pickle
import random
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from serving import Served

import tidemill as tm
from tidemill.errors import TidemillError
from tidemill.loader import Loader
from tidemill.serve.client.async_client import AsyncClient
from tidemill.task.indexes.index import Index

ServeFactory = Callable[..., Served]
INT, TEXT = pa.int32(), pa.string()
COLUMNS = "a INT, s STRING, d DOUBLE, n BIGINT"
TYPES = {"a": pa.int32(), "s": pa.string(), "d": pa.float64(), "n": pa.int64()}
VIEWS = {
    "rows_": "SELECT * FROM t",
    "turned": "SELECT n + 1 AS more, s AS text, a FROM t WHERE n > 2",
    "grouped": "SELECT s, SUM(n) AS total, a AS key, COUNT(*) AS c FROM t GROUP BY a, s HAVING COUNT(*) < 5",
    "by_double": "SELECT d, MAX(n) AS m FROM t GROUP BY d",
    "single": "SELECT COUNT(*) AS c, MAX(s) AS s FROM t",
    "joined": "SELECT x.a, x.s, y.n FROM t x JOIN t y ON x.a = y.a AND x.n = y.n",
}
KEYS = {
    "rows_": [("a",), ("s",), ("a", "s"), ("s", "a"), ("n", "d", "s", "a"), ("d",)],
    "turned": [("more",), ("text", "a"), ("a",)],
    "grouped": [("key", "s"), ("s", "key"), ("key",), ("s",), ("total",), ("c", "key")],
    "by_double": [("d",), ("m",)],
    "single": [("c",), ("s",)],
    "joined": [("a",), ("n", "a", "s")],
}


def lines(rng: random.Random, count: int, live: list[tuple[str, ...]]) -> str:
    """Rows to insert, and some of those to delete."""
    found = []
    for _ in range(count):
        if live and rng.random() < 0.3:
            found.append((*live.pop(rng.randrange(len(live))), "D"))
        else:
            row = (
                rng.choice(("", *map(str, range(6)))),
                rng.choice(("", "x", "yy", "ÿz")),
                rng.choice(("", "0.0", "1.5", "NaN")),
                str(rng.randrange(5)),
            )
            live.append(row)
            found.append((*row, "I"))
    return "\n".join(",".join(row) for row in found) + "\n"


def as_key(value: Any) -> Any:
    return "NaN" if isinstance(value, float) and value != value else value


def expected(rows: list[dict[str, Any]], names: list[str], on: tuple[str, ...]) -> dict[tuple[Any, ...], list[Any]]:
    found: dict[tuple[Any, ...], list[Any]] = {}
    for row in rows:
        key = tuple(as_key(row[name]) for name in on)
        if None not in key:
            found.setdefault(key, []).append(tuple(as_key(row[name]) for name in names))
    return found


def check(index: Index, on: tuple[str, ...], answer: list[dict[str, Any]], rng: random.Random) -> None:
    """Everything that there is, something that there is not, and NULL, in any order, some of it twice."""
    types = index.key_types
    schema = pa.schema(list(zip(on, types, strict=True)))
    wanted = expected(answer, index.schema.names, on)
    keys = [tuple(row[name] for name in on) for row in answer]
    keys += [tuple(rng.choice((None, _other(t))) for t in types) for _ in range(4)]
    rng.shuffle(keys)
    keys += keys[:3]
    columns = list(zip(*keys, strict=True))
    batch = pa.RecordBatch.from_arrays([pa.array(c, t) for c, t in zip(columns, types, strict=True)], schema=schema)
    probes, rows = index.look_up(batch)
    assert probes.tolist() == sorted(probes.tolist())
    given: dict[int, list[Any]] = {}
    for probe, row in zip(probes.tolist(), rows.to_pylist(), strict=True):
        given.setdefault(probe, []).append(tuple(map(as_key, row.values())))
    for number, key in enumerate(keys):
        mine = sorted(given.get(number, []), key=repr)
        assert mine == sorted(wanted.get(tuple(map(as_key, key)), []), key=repr), (key, on)
    assert index.look_up(batch.slice(0, 0))[1].num_rows == 0
    assert rows.schema.types == list(index.schema.types)


def _other(type_: pa.DataType) -> Any:
    return "nobody" if type_ == TEXT else 99 if pa.types.is_integer(type_) else -0.0


def test_views_of_random_rows(serve: ServeFactory, spark: SparkSession, tmp_path: Path) -> None:
    seed = random.randrange(1 << 30)
    print("seed", seed)
    rng = random.Random(seed)
    served = serve(mill={"partitions": rng.randint(1, 3)})
    data, live = tmp_path / "data", []
    data.mkdir()
    served.sql(f"CREATE TABLE t ({COLUMNS}) USING csv OPTIONS (path '{data}', opColumn 'op')")
    for name, query in VIEWS.items():
        served.sql(f"CREATE MATERIALIZED VIEW {name} AS {query}")
    with tm.connect(served.url) as client:
        for number in range(3):
            (data / f"{number}.csv").write_text(lines(rng, 40, live))
            served.mill.advance()
            table = pa.table(
                {
                    name: pa.array([row[i] or None for row in live], TEXT).cast(type_)
                    for i, (name, type_) in enumerate(TYPES.items())
                }
            )
            spark.createDataFrame(table).createOrReplaceTempView("t")
            for name, query in VIEWS.items():
                answer = spark.sql(query).toArrow().to_pylist()
                for on in KEYS[name]:
                    local = served.mill.snapshot().index(name, on)
                    check(local, on, answer, rng)
                    check(pickle.loads(pickle.dumps(client.index(name, on))), on, answer, rng)
        spark.catalog.dropTempView("t")


@pytest.fixture
def customers(serve: ServeFactory, tmp_path: Path) -> Served:
    served = serve()
    data = tmp_path / "customers"
    data.mkdir()
    (data / "1.csv").write_text("1,ada\n2,bob\n2,bea\n")
    served.sql(f"CREATE TABLE people (id INT, name STRING) USING csv OPTIONS (path '{data}')")
    served.sql("CREATE MATERIALIZED VIEW customers AS SELECT id, upper(name) AS name FROM people")
    served.mill.advance()
    return served


def facts(tmp_path: Path) -> Path:
    ids = [3, 2, None, 1, 2]
    path = tmp_path / "facts.parquet"
    pq.write_table(pa.table({"i": range(5), "id": pa.array(ids, INT)}), path, row_group_size=2)
    return path


JOINED = [(1, "BEA"), (1, "BOB"), (3, "ADA"), (4, "BEA"), (4, "BOB")]


def joined(batches: Any) -> list[tuple[int, str]]:
    return [(row["i"], row["name"]) for batch in batches for row in batch.to_pylist()]


def test_a_loader_looks_rows_up(customers: Served, spark: SparkSession, tmp_path: Path) -> None:
    """From a root without its mill, from the mill, and from a server; in threads, and in tasks of Spark."""
    customers.mill.checkpoint()
    path = facts(tmp_path)
    root = customers.mill.root
    with tm.connect(customers.url) as client:
        for index in (
            customers.mill.snapshot().index("customers", "id"),
            tm.Snapshot.open(root).index("Customers", ["ID"]),
            client.index("customers", "id"),
            client.index("customers", "id", epoch=1),
        ):
            work = lambda rows, index=index: rows.lookup_join(index, "id")  # noqa: E731
            assert sorted(joined(Loader(path, work, batch_size=2))) == JOINED
            with Loader(path, work, batch_size=2, spark=spark, workers=1) as loader:
                assert sorted(joined(loader)) == JOINED


def test_an_index_stays_at_its_epoch(customers: Served, tmp_path: Path) -> None:
    local = customers.mill.snapshot().index("customers", "id")
    client = tm.connect(customers.url)
    pinned, newest = client.index("customers", "id", epoch=1), client.index("customers", "id")
    (tmp_path / "customers" / "2.csv").write_text("3,cy\n")
    customers.mill.advance()
    key = pa.record_batch({"id": pa.array([3], INT)})
    assert [index.look_up(key)[1].num_rows for index in (local, pinned, newest)] == [0, 0, 1]
    assert local.fingerprint() == customers.mill.snapshot().index("customers", "id", epoch=1).fingerprint()
    assert local.fingerprint() != customers.mill.snapshot().index("customers", "id").fingerprint()
    assert (newest.fingerprint(), bool(pinned.fingerprint())) == ("", True)


def test_a_server_that_comes_back(customers: Served) -> None:
    """A lookup waits for it; after `reconnect` seconds it fails."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    index = tm.connect(customers.url).index("customers", "id")
    key = pa.record_batch({"id": pa.array([1], INT)})
    index.client.url = f"http://127.0.0.1:{port}"
    away = tm.Client(index.client.url)
    object.__setattr__(index, "client", away)
    object.__setattr__(index, "reconnect", 0.2)
    with pytest.raises(TidemillError, match="TM8031"):
        index.look_up(key)
    object.__setattr__(index, "reconnect", 60.0)
    from tidemill.serve.access.settings import ServerSettings
    from tidemill.serve.running import Server
    from tidemill.serve.service.service import Service

    customers.end()
    found: list[Any] = []
    thread = threading.Thread(target=lambda: found.append(index.look_up(key)[1].to_pylist()))
    thread.start()
    service = Service(customers.mill, ServerSettings(port=port))
    with Server(service):
        thread.join(60)
    service.close()
    assert found == [[{"id": 1, "name": "ADA"}]]


def test_what_is_refused(customers: Served) -> None:
    path = "/v1/views/customers/lookup"
    body = {"on": ["id"], "keys": [[1]]}
    cases: list[tuple[str, dict[str, str], Any, int, str]] = [
        (path, {}, body, 200, ""),
        (path, {}, {"on": ["ID"], "keys": [[1]]}, 200, ""),
        (path, {}, {"on": ["id"], "keys": []}, 200, ""),
        (path, {"epoch": "1"}, body, 200, ""),
        ("/v1/views/nowhere/lookup", {}, body, 404, "TM2012"),
        (path, {}, {"on": ["idd"], "keys": [[1]]}, 400, "TM4006"),
        (path, {}, {"on": [], "keys": [[]]}, 400, "TM4003"),
        (path, {}, {"on": ["id", "id"], "keys": [[1, 1]]}, 400, "TM4003"),
        (path, {}, {"on": ["id"]}, 422, "TM8011"),
        (path, {}, {"on": "id", "keys": [[1]]}, 422, "TM8011"),
        (path, {}, {"on": ["id"], "keys": [1]}, 422, "TM8011"),
        (path, {}, {**body, "more": 1}, 422, "TM8011"),
        (path, {}, [], 422, "TM8011"),
        (path, {}, {"on": ["id"], "keys": [[1, 2]]}, 400, "TM9017"),
        (path, {}, {"on": ["id"], "keys": [["1"]]}, 400, "TM9017"),
        (path, {}, {"on": ["id"], "keys": [[True]]}, 400, "TM9017"),
        (path, {}, {"on": ["id"], "keys": [[1 << 40]]}, 400, "TM9017"),
        (path, {}, {"on": ["id"], "keys": [[1 << 80]]}, 400, "TM9017"),
        (path, {}, {"on": ["name"], "keys": [[["ADA"]]]}, 400, "TM9017"),
        (path, {"epoch": "77"}, body, 410, "TM1031"),
        (path, {"format": "xml"}, body, 400, "TM7002"),
    ]
    for where, params, given, status, number in cases:
        found = customers.http.post(where, params=params, json=given)
        assert (found.status_code, found.json().get("number", "")) == (status, number), (given, found.text)
    assert customers.http.post(path, content=b"\x00").json()["number"] == "TM8011"
    customers.sql("CREATE MATERIALIZED VIEW nested AS SELECT struct(id) AS z, array(name) AS a FROM people")
    customers.mill.advance()
    for on, key, matches in (("z", [{"id": 1}], 5), ("a", [["ada"]], 3)):
        found = customers.http.post("/v1/views/nested/lookup", json={"on": [on], "keys": [key]})
        assert (found.status_code, found.json()["number"]) == (400, "TM9017"), found.text
        with pytest.raises(TidemillError, match="TM9017"):
            keys = customers.mill.read("nested").select([on]).combine_chunks().to_batches()[0]
            tm.connect(customers.url).index("nested", on).look_up(keys)
        assert customers.mill.snapshot().index("nested", on).look_up(keys)[1].num_rows == matches
    one = customers.http.post(path, params={"epoch": "1"}, json={"on": ["id"], "keys": [[7], [1], [None]]}).json()
    assert (one["epoch"], one["columns"], one["rows"]) == (1, ["__probe", "id", "name"], [[1, 1, "ADA"]])


EVERY = {
    "TINYINT": ["-128", "5"],
    "BIGINT": ["-9223372036854775808", "9223372036854775807"],
    "BOOLEAN": ["true", "false"],
    "FLOAT": ["1.5", "NaN", "-Infinity"],
    "DOUBLE": ["0.1", "NaN", "Infinity", "1e300"],
    "DECIMAL(38,10)": ["1234567890123456789012345678.0123456789", "-0.5"],
    "STRING": ['"\\"', "ÿ😀", "x,y"],
    "DATE": ["0001-01-01", "2024-02-29", "9999-12-31"],
    "TIMESTAMP": ["2024-01-01 00:00:00.123456", "1900-01-01 00:00:00"],
    "TIMESTAMP_NTZ": ["2024-01-01 00:00:00.123456", "0001-01-01 00:00:00"],
    "BINARY": ["abc", "ÿ"],
}


def test_keys_of_every_type(serve: ServeFactory, tmp_path: Path) -> None:
    """Over HTTP as from the state, and in JSON as results have them."""
    served = serve()
    data = tmp_path / "data"
    data.mkdir()
    rows = max(map(len, EVERY.values()))
    texts = [[value[i % len(value)] for value in EVERY.values()] for i in range(rows)]
    with (data / "a.json").open("w") as file:
        for row in texts:
            file.write(
                json.dumps(
                    {
                        f"c{n}": base64.b64encode(t.encode()).decode() if kind == "BINARY" else t
                        for n, (t, kind) in enumerate(zip(row, EVERY))
                    }
                )
                + "\n"
            )
    columns = ", ".join(f"c{n} STRING" for n in range(len(EVERY)))
    served.sql(f"CREATE TABLE t ({columns}) USING json OPTIONS (path '{data}')")
    casts = [
        f"unbase64(c{n}) AS c{n}" if kind == "BINARY" else f"CAST(c{n} AS {kind}) AS c{n}"
        for n, kind in enumerate(EVERY)
    ]
    served.sql(f"CREATE MATERIALIZED VIEW every AS SELECT {', '.join(casts)} FROM t")
    served.mill.advance()
    whole = served.mill.read("every")
    client = tm.connect(served.url)
    shown = json.loads(served.http.get("/v1/views/every").text, parse_float=str)["rows"]  # not through doubles
    for n, kind in enumerate(EVERY):
        name = f"c{n}"
        local, remote = served.mill.snapshot().index("every", name), client.index("every", name)
        keys = pa.RecordBatch.from_arrays([whole.column(name).combine_chunks()], names=[name])
        assert keys.column(0).null_count == 0, kind
        probes, found = local.look_up(keys)
        assert sorted(set(probes.tolist())) == list(range(rows)), kind
        again, sent = remote.look_up(keys)
        assert again.tolist() == probes.tolist() and repr(sent.to_pylist()) == repr(found.to_pylist()), kind
        answer = served.http.post("/v1/views/every/lookup", json={"on": [name], "keys": [[row[n]] for row in shown]})
        assert {row[0] for row in answer.json()["rows"]} == set(range(rows)), (kind, answer.text)


def test_an_asynchronous_client_looks_up(customers: Served) -> None:
    async def ask() -> tuple[int, pa.Table]:
        async with AsyncClient(customers.url) as client:
            return await client.look_up("customers", "name", pa.record_batch({"name": ["BOB", None, "ADA"]}))

    epoch, table = asyncio.run(ask())
    assert (epoch, table.to_pylist()) == (
        1,
        [{"__probe": 0, "id": 2, "name": "BOB"}, {"__probe": 2, "id": 1, "name": "ADA"}],
    )


def test_files_of_an_index_stay(customers: Served, tmp_path: Path) -> None:
    """What other processes read is kept while the index exists, whatever epochs and merges come behind."""
    index = pickle.dumps(kept := customers.mill.snapshot().index("customers", "id"))
    for number in range(12):
        (tmp_path / "customers" / f"x{number}.csv").write_text(f"{number + 10},new\n")
        customers.mill.advance()
        customers.mill.checkpoint()
    script = (
        "import json, pickle, sys, pyarrow as pa\n"
        "index = pickle.loads(sys.stdin.buffer.read())\n"
        "_, rows = index.look_up(pa.record_batch({'id': pa.array([2, 11], pa.int32())}))\n"
        "print(json.dumps(rows.column('name').to_pylist()))\n"
    )
    ran = subprocess.run([sys.executable, "-c", script], input=index, capture_output=True, check=True)
    assert sorted(json.loads(ran.stdout)) == ["BEA", "BOB"]
    assert kept.look_up(pa.record_batch({"id": pa.array([11], INT)}))[1].num_rows == 0


def test_a_loader_reads_a_view(customers: Served, spark: SparkSession, tmp_path: Path) -> None:
    """All rows once, in an order that merging does not change; resumed behind any batch; in threads and in Spark."""
    served = customers
    data = tmp_path / "features"
    data.mkdir()
    served.sql(f"CREATE TABLE f (k INT, v DOUBLE) USING csv OPTIONS (path '{data}')")
    served.sql("CREATE MATERIALIZED VIEW features AS SELECT k, SUM(v) AS v, COUNT(*) AS n FROM f GROUP BY k")
    served.sql("CREATE MATERIALIZED VIEW doubled AS SELECT v, k FROM f UNION ALL SELECT v, k FROM f")
    served.sql("CREATE MATERIALIZED VIEW one AS SELECT COUNT(*) AS n FROM f WHERE v < 0")
    for number in range(4):
        (data / f"{number}.csv").write_text("".join(f"{i % 90},{i}.5\n" for i in range(number * 50, number * 50 + 80)))
        served.mill.advance()
    served.mill.checkpoint()
    snapshot = tm.Snapshot.open(served.mill.root)
    rows = [(i % 90, i + 0.5) for number in range(4) for i in range(number * 50, number * 50 + 80)]
    totals = {k: (k, sum(v for j, v in rows if j == k), sum(j == k for j, _ in rows)) for k, _ in rows}

    def loaded(scan: Any, **options: Any) -> list[tuple[Any, ...]]:
        with Loader(scan, batch_size=7, **options) as loader:
            return [tuple(row.values()) for batch in loader for row in batch.to_pylist()]

    found = loaded(snapshot.scan("features"))
    assert sorted(found) == sorted(totals.values())
    assert loaded(served.mill.snapshot().scan("FEATURES", splits=64)) == found
    assert loaded(snapshot.scan("features"), spark=spark, workers=1) == found
    assert sorted(loaded(snapshot.scan("features", splits=1))) == sorted(found)
    assert sorted(loaded(snapshot.scan("doubled", columns=["K", "v"], splits=256))) == sorted([*rows, *rows])
    assert loaded(snapshot.scan("one")) == [(0,)]
    shuffled = loaded(snapshot.scan("features"), shuffle=5)
    assert shuffled != found and sorted(shuffled) == sorted(found)
    for taken in range(len(found) // 7 + 1):
        loader = Loader(snapshot.scan("features"), batch_size=7, shuffle=5)
        batches = iter(loader)
        before = [tuple(row.values()) for _ in range(taken) for row in next(batches).to_pylist()]
        again = Loader(snapshot.scan("features"), batch_size=7, shuffle=5)
        again.load_state_dict(loader.state_dict())
        assert before + [tuple(row.values()) for batch in again for row in batch.to_pylist()] == shuffled
    (data / "9.csv").write_text("1,1.5\n")
    served.mill.advance()
    later = Loader(served.mill.snapshot().scan("features"), batch_size=7, shuffle=5)
    with pytest.raises(TidemillError, match="TM9005"):
        later.load_state_dict(loader.state_dict())
    Loader(
        served.mill.snapshot().scan("features", epoch=snapshot.version.epoch), batch_size=7, shuffle=5
    ).load_state_dict(loader.state_dict())
    for wrong, number in (
        ({"view": "nowhere"}, "TM2012"),
        ({"view": "f"}, "TM2036"),
        ({"view": "features", "columns": ["x"]}, "TM4006"),
        ({"view": "features", "columns": []}, "TM4003"),
        ({"view": "features", "splits": 0}, "TM4003"),
        ({"view": "features", "splits": 257}, "TM4003"),
        ({"view": "features", "epoch": 99}, "TM1031"),
    ):
        with pytest.raises(TidemillError, match=number):
            snapshot.scan(**wrong)
