"""What the server tells about itself: first rows, sources, state, plans, names."""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from serving import Served
from test_http import orders, write

from tidemill.errors import TidemillError
from tidemill.serve.service.first_rows import first_rows
from waiting import wait_until

ServeFactory = Callable[..., Served]


def test_first_rows_against_sorted(seed: int) -> None:
    chance = random.Random(seed)
    pool = [None, math.nan, math.inf, -math.inf, -0.5, 1.0, 2.0, 3.5]
    for _ in range(40):
        values = [chance.choice(pool) for _ in range(chance.randrange(60))]
        table = pa.table({"Id": pa.array(range(len(values)), pa.int64()), "v": pa.array(values, pa.float64())})
        cuts = sorted(chance.randrange(len(values) + 1) for _ in range(3))
        parts = [table.slice(a, b - a) for a, b in zip([0, *cuts], [*cuts, len(values)], strict=True)]
        descending, most = chance.random() < 0.5, chance.randrange(1, 40)
        total, found = first_rows(parts, "V", descending, most, "UTC")
        sign = -1 if descending else 1
        place = [(2, 0.0) if v is None else (1, 0.0) if math.isnan(v) else (0, sign * v) for v in values]
        assert total == len(values)
        assert [place[i] for i in found["Id"].to_pylist()] == sorted(place)[:most]


@pytest.mark.parametrize(
    "values",
    [
        pa.array([{"a": 2}, None, {"a": 1}]),
        pa.array([[2], None, [1]]),
        pa.array([b"b", None, b"a"]),
        pa.array([True, None, False]),
        pa.array(["b", None, "a"]),
        pa.array([pa.scalar(2).as_py(), None, 1], pa.decimal128(38, 3)),
        pa.array([2, None, 1], pa.timestamp("us", "UTC")),
        pa.array([2, None, 1], pa.duration("us")),
    ],
    ids=lambda values: str(values.type),
)
def test_columns_of_any_type_order_rows(values: Any) -> None:
    for descending, expected in ((False, [2, 0, 1]), (True, [0, 2, 1])):
        total, found = first_rows([pa.table({"v": values, "i": [0, 1, 2]})], "v", descending, 3, "UTC")
        assert (total, found["i"].to_pylist()) == (3, expected)


def test_first_rows_of_a_view(serve: ServeFactory, tmp_path: Path) -> None:
    served = serve()
    data = orders(served, tmp_path)
    write(data, "a.csv", *((c, float(c % 7), "I") for c in range(30)))
    served.mill.advance()
    path = "/v1/views/spending/first"
    found = served.http.get(path, params={"order": "CUSTOMER", "descending": "true", "rows": 3}).json()
    assert (found["epoch"], found["total"], found["columns"]) == (1, 30, ["customer", "n", "amount"])
    assert [row[0] for row in found["rows"]] == [29, 28, 27]
    some = served.http.get(path, params={"order": "customer", "rows": 2, "where": "amount = 6"}).json()
    assert (some["total"], some["rows"]) == (4, [[6, 1, 6.0], [13, 1, 6.0]])
    assert served.http.get(f"{path}?rows=5").json()["total"] == 30
    wrong = served.http.get(f"{path}?order=custmer").json()
    assert wrong["number"] == "TM8300" and "customer" in wrong["hint"]
    assert served.http.get(f"{path}?rows=0").status_code == 422
    assert served.http.get("/v1/views/nope/first").status_code == 404
    with pytest.raises(TidemillError, match="TM8300"):
        served.service.read_first("spending", None, None, "x", False, 1)


def test_sources_tell_what_waits_and_what_cannot_be_read(serve: ServeFactory, tmp_path: Path) -> None:
    served = serve(mill={"epoch_bytes": 40})
    data = orders(served, tmp_path)
    for name in "abcdef":
        write(data, f"{name}.csv", *((1, 1.0, "I") for _ in range(20)))
    served.mill.advance()
    (source,) = served.http.get("/v1/sources").json()["sources"]
    sizes = sum(p.stat().st_size for p in data.iterdir())
    assert (source["table"], source["format"], source["connections"]) == ("orders", "csv", None)
    assert 0 < source["waiting_bytes"] < sizes and source["waiting_files"] > 0
    for _ in served.mill.drain():
        pass
    (data / "g.csv").write_text("customer,amount,op\nx,1,I\n")
    (data / "h.csv.gz").write_bytes(b"this is no gzip")
    served.sql(f"CREATE TABLE broken (a INT) USING csv OPTIONS (path '{data}/h.csv.gz')")
    served.sql("CREATE MATERIALIZED VIEW b AS SELECT a FROM broken")
    served.sql("CREATE TABLE pushed (a INT) USING json OPTIONS (path 'tcp://127.0.0.1:0', listen 'true')", 400)
    served.mill.advance()
    first, broken = served.http.get("/v1/sources").json()["sources"]
    assert (first["rows_read"], first["waiting_files"], first["malformed"]) == (121, 0, 1)
    assert [f["path"].endswith("h.csv.gz") and f["attempts"] for f in broken["unreadable"]] == [1]
    assert broken["unreadable"][0]["error"].startswith("TM4045") and broken["unreadable"][0]["retry_at"] is None


def test_state_is_that_of_the_version(serve: ServeFactory, tmp_path: Path) -> None:
    served = serve(mill={"checkpoint_seconds": 1e6})
    data = orders(served, tmp_path)
    for n in range(3):
        write(data, f"{n}.csv", (n, 1.0, "I"))
        served.mill.advance()
    state = served.http.get("/v1/state").json()
    version = served.mill.snapshot().version
    assert (state["epoch"], state["durable_epoch"], state["first_epoch"]) == (3, 0, version.horizon)
    runs = {t: (len(r), sum(x.rows for x in r), sum(x.bytes for x in r)) for t, r in version.tables.items() if r}
    assert {t["table"]: (t["runs"], t["rows"], t["bytes"]) for t in state["tables"]} == runs
    assert sum(t["buffered_bytes"] for t in state["tables"]) == sum(b for _, _, b in runs.values())
    used = {name for t in state["tables"] for name in t["used_by"]}
    assert used == {"spending", "orders"}
    assert [s["epoch"] for s in state["history"]] == [1, 2, 3]
    assert state["history"][-1]["bytes"] == sum(b for _, _, b in runs.values())
    served.mill.checkpoint()
    wait_until(lambda: [c["epoch"] for c in served.http.get("/v1/state").json()["checkpoints"]] == [3])
    after = served.http.get("/v1/state").json()
    assert after["durable_epoch"] == 3 and not any(t["buffered_bytes"] for t in after["tables"])


def test_a_plan_has_what_its_steps_did(serve: ServeFactory, tmp_path: Path) -> None:
    served = serve()
    data = orders(served, tmp_path)
    served.sql("CREATE MATERIALIZED VIEW often AS SELECT customer, amount FROM spending WHERE n > 1")
    before = served.http.get("/v1/queries/spending/graph").json()
    assert before["epochs"] == 0 and all(s["total"] is None for s in before["steps"])
    assert before["steps"], "a plan is there before any epoch has run it"
    reports = []
    for n in range(3):
        write(data, f"{n}.csv", *((c, 1.0, "I") for c in range(n + 1)))
        reports.append(served.mill.advance())
    graph = served.http.get("/v1/queries/SPENDING/graph").json()
    assert (graph["epochs"], graph["first_epoch"], graph["last_epoch"]) == (3, 1, 3)
    sums: Counter[int] = Counter()
    for report in reports:
        assert report is not None
        sums.update({o.step: o.rows_out for o in report.operators})
    given = {s["step"]: s["total"]["rows_out"] for s in graph["steps"]}
    assert given == {step: sums[step] for step in given}
    scan = next(s for s in graph["steps"] if s["operation"] == "ScanStep")
    assert (scan["newest"]["rows_out"], scan["total"]["rows_out"], scan["superstep"]) == (3, 6, 0)
    known = {s["step"] for s in graph["steps"]}
    assert all(i["step"] in known and i["step"] < s["step"] for s in graph["steps"] for i in s["inputs"])
    above = served.http.get("/v1/queries/often/graph").json()["steps"]
    assert any(i["exchange"] == "by [customer]" for s in above for i in s["inputs"])
    assert {s["superstep"] for s in above} == {0, 1}
    explained = served.http.get("/v1/queries/spending/plan").json()["plan"]
    assert all(s["text"] in explained for s in graph["steps"])
    served.sql("CREATE MATERIALIZED VIEW other AS SELECT customer FROM orders")
    assert served.http.get("/v1/queries/other/graph").json()["epochs"] == 0
    served.sql("DROP VIEW often")
    served.sql("DROP VIEW spending")
    served.sql("CREATE MATERIALIZED VIEW spending AS SELECT MAX(amount) AS m FROM orders")
    again = served.http.get("/v1/queries/spending/graph").json()
    assert again["epochs"] == 0 and not any("COUNT" in s["text"].upper() for s in again["steps"])
    assert served.http.get("/v1/queries/nope/graph").status_code == 404


def test_names_for_completion(serve: ServeFactory, tmp_path: Path) -> None:
    served = serve()
    orders(served, tmp_path)
    found = served.http.get("/v1/vocabulary").json()
    relations = {r["name"]: (r["kind"], [c["name"] for c in r["columns"]]) for r in found["relations"]}
    assert relations == {"spending": ("view", ["customer", "n", "amount"]), "orders": ("table", ["customer", "amount"])}
    assert {"sum", "count", "upper", "regexp_replace"} <= set(found["functions"]) and "+" not in found["functions"]
