"""Sums and averages that do not drift, overflow that is an error, decimals that are exact."""

from __future__ import annotations

import csv
import math
import random
from collections.abc import Callable, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from oracle import Oracle

from mill_factory import MillFactory
from tidemill.errors import TidemillError
from tidemill.testing import assert_same_rows


def write(directory: Path, number: int, rows: Sequence[Sequence[Any]]) -> None:
    directory.mkdir(exist_ok=True)
    with (directory / f"{number:03}.csv").open("w", newline="") as file:
        csv.writer(file).writerows(rows)


def test_float_sums_do_not_drift(mill_factory: MillFactory, tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    mill = mill_factory(epoch_bytes=2500, split_bytes=700)
    data = tmp_path / "data"
    live: list[tuple[int, float]] = []
    events: list[tuple[int, float, str]] = []
    for _ in range(400):
        if live and rng.random() < 0.4:
            large = [e for e in live if abs(e[1]) > 1e12]
            row = rng.choice(large or live)
            live.remove(row)
            events.append((*row, "D"))
        else:
            size = rng.choice((1.0, 1.0, 1e-6, 1e17, 1e9))
            row = (rng.randrange(3), rng.uniform(-1, 1) * size)
            live.append(row)
            events.append((*row, "I"))
    for row in [e for e in live if abs(e[1]) > 1e12]:
        live.remove(row)
        events.append((*row, "D"))
    for start in range(0, len(events), 150):
        write(data, start, events[start : start + 150])
    mill.sql(f"CREATE TABLE f (k INT, x DOUBLE) USING csv OPTIONS (path '{data}', opColumn 'op')")
    mill.sql("CREATE MATERIALIZED VIEW s AS SELECT k, sum(x) AS s, avg(x) AS a, count(*) AS c FROM f GROUP BY k")
    mill.sql("CREATE MATERIALIZED VIEW over AS SELECT sum(s) AS s, max(a) AS a FROM s")
    assert len(list(mill.drain())) >= 3
    found = {r["k"]: r for r in mill.read("s").to_pylist()}
    groups = {k: [x for j, x in live if j == k] for k in {j for j, _ in live}}
    assert found.keys() == groups.keys()
    for k, values in groups.items():
        assert math.isclose(found[k]["s"], math.fsum(values), rel_tol=1e-9)
        assert math.isclose(found[k]["a"], math.fsum(values) / len(values), rel_tol=1e-9)
        assert found[k]["c"] == len(values)
    (total,) = mill.read("over").to_pylist()
    assert math.isclose(total["s"], math.fsum(x for _, x in live), rel_tol=1e-9)


def test_infinities_and_nan_go_away_with_their_rows(mill_factory: MillFactory, tmp_path: Path) -> None:
    mill = mill_factory()
    data = tmp_path / "data"
    write(data, 0, [("1.5", "I"), ("Infinity", "I"), ("-Infinity", "I"), ("NaN", "I")])
    mill.sql(f"CREATE TABLE f (x DOUBLE) USING csv OPTIONS (path '{data}', opColumn 'op')")
    mill.sql("CREATE MATERIALIZED VIEW s AS SELECT sum(x) AS s, avg(x) AS a, max(x) AS x FROM f")
    seen = []
    for number, gone in enumerate(["NaN", "-Infinity", "Infinity", "1.5"], 1):
        list(mill.drain())
        seen.append(mill.read("s").to_pylist()[0]["s"])
        write(data, number, [(gone, "D")])
    list(mill.drain())
    seen.append(mill.read("s").to_pylist()[0]["s"])
    assert math.isnan(seen[0]) and math.isnan(seen[1])
    assert seen[2:] == [math.inf, 1.5, None]


HUGE_SUMS = {
    "s": "SELECT k, sum(x) AS s, avg(x) AS a, try_sum(x) AS t FROM f GROUP BY k",
    "d": "SELECT k, sum(DISTINCT x) AS s FROM f GROUP BY k",
    "w": "SELECT k, x, sum(x) OVER (PARTITION BY k) AS s, avg(x) OVER (PARTITION BY k, x > 0) AS a FROM f",
    "j": "SELECT f.k, sum(f.x) AS s, avg(g.x) AS a FROM f JOIN g ON f.k = g.k GROUP BY f.k",
    "p": "SELECT f.k, sum(f.x * g.y) AS s FROM f JOIN g ON f.k = g.k GROUP BY f.k",
    "i": "SELECT sum(f.x) AS s, sum(g.x * 0.5D) AS a FROM f JOIN g ON f.k < g.k",
}


def test_sums_that_a_double_does_not_hold_come_back(mill_factory: MillFactory, tmp_path: Path, seed: int) -> None:
    """Finite doubles of one sign, with sums of 1.8e308 and more, which rows that go bring back."""
    rng = random.Random(seed)
    mill = mill_factory()
    options = ", opColumn 'op'"
    write(tmp_path / "f", 99, [])
    write(tmp_path / "g", 99, [])
    mill.sql(f"CREATE TABLE f (k INT, x DOUBLE) USING csv OPTIONS (path '{tmp_path / 'f'}'{options})")
    mill.sql(f"CREATE TABLE g (k INT, x DOUBLE, y DOUBLE) USING csv OPTIONS (path '{tmp_path / 'g'}'{options})")
    for name, query in HUGE_SUMS.items():
        mill.sql(f"CREATE MATERIALIZED VIEW {name} AS {query}")
    oracle = Oracle(mill.spark)
    live: dict[str, list[tuple[Any, ...]]] = {"f": [], "g": []}
    kept, seen = ("1.0", "2.5", "1e280"), set()
    for number in range(8):
        for table, rows in live.items():
            gone = [r for r in rows if rng.random() < 0.5] if number % 4 < 3 else [r for r in rows if r[1] not in kept]
            for row in gone:
                rows.remove(row)
            come = [(k, rng.choice((*kept, "1e308", "1.7e308", "9e307")), "1.5") for k in (1, 2, 3) for _ in range(2)]
            come = [r if table == "g" else r[:2] for r in come if number % 4 < 3 or r[1] in kept]
            rows += come
            changes = [(*r, "D") for r in gone] + [(*r, "I") for r in come]
            rng.shuffle(changes)
            write(tmp_path / table, number, changes)
        list(mill.drain())
        tables = {}
        for table, names in (("f", "kx"), ("g", "kxy")):
            columns = zip(*live[table]) if live[table] else [[] for _ in names]
            types = [pa.int32(), pa.float64(), pa.float64()]
            arrays = [pa.array(list(c)).cast(t) for c, t in zip(columns, types)]
            tables[table] = pa.table(dict(zip(names, arrays)))
        for name, expected in oracle.answers(tables, HUGE_SUMS).items():
            assert_same_rows(mill.read(name), expected)
            if expected.num_rows and "s" in expected.column_names:
                seen |= {(name, math.isinf(s)) for s in expected["s"].to_pylist() if s is not None}
    assert seen >= {(name, infinite) for name in ("s", "d", "w", "j", "p", "i") for infinite in (True, False)}


@pytest.mark.parametrize("deletes", [True, False])
def test_extremes_over_nothing_are_null_and_not_zero(mill_factory: MillFactory, tmp_path: Path, deletes: bool) -> None:
    mill = mill_factory()
    data, last = tmp_path / "data", ("I",) if deletes else ()
    data.mkdir()
    option = ", opColumn 'op'" if deletes else ""
    mill.sql(f"CREATE TABLE n (x BIGINT, y DOUBLE) USING csv OPTIONS (path '{data}'{option})")
    mill.sql("CREATE MATERIALIZED VIEW s AS SELECT max(x) AS x, min(y) AS y, max(DISTINCT y) AS z FROM n")
    mill.sql("CREATE MATERIALIZED VIEW over AS SELECT x, y FROM s")
    list(mill.drain())
    assert mill.read("s").to_pylist() == [{"x": None, "y": None, "z": None}]
    assert mill.read("over").to_pylist() == [{"x": None, "y": None}]
    write(data, 0, [(-5, 7.5, *last)])
    list(mill.drain())
    assert mill.read("s").to_pylist() == [{"x": -5, "y": 7.5, "z": 7.5}]
    assert mill.read("over").to_pylist() == [{"x": -5, "y": 7.5}]
    deltas = [[tuple(r.values()) for r in d.to_pylist()] for _, d in mill.subscribe("s", timeout=0)]
    assert deltas[-1] == [(None, None, None, -1), (-5, 7.5, 7.5, 1)]


@pytest.mark.parametrize("deletes", [True, False])
def test_a_sum_of_bigint_that_does_not_fit_is_an_error_when_read(
    mill_factory: MillFactory, tmp_path: Path, deletes: bool
) -> None:
    mill = mill_factory()
    data, most = tmp_path / "data", 2**63 - 1
    last = ("I",) if deletes else ()
    write(data, 0, [(1, most, *last), (1, 5, *last), (2, 7, *last)])
    option = ", opColumn 'op'" if deletes else ""
    mill.sql(f"CREATE TABLE n (k INT, x BIGINT) USING csv OPTIONS (path '{data}'{option})")
    mill.sql("CREATE MATERIALIZED VIEW s AS SELECT k, sum(x) AS s FROM n GROUP BY k")
    mill.sql("CREATE MATERIALIZED VIEW c AS SELECT k, count(x) AS c FROM n GROUP BY k")
    list(mill.drain())
    with pytest.raises(TidemillError, match="TM3002"):
        mill.read("s")
    assert mill.read("c").num_rows == 2
    if deletes:
        write(data, 1, [(1, 5, "D")])
    else:
        write(data, 1, [(1, -5)])
    list(mill.drain())
    assert sorted(mill.read("s").to_pylist(), key=str) == [{"k": 1, "s": most}, {"k": 2, "s": 7}]


def test_an_overflow_inside_a_pipeline_stops_only_its_views(mill_factory: MillFactory, tmp_path: Path) -> None:
    mill = mill_factory()
    data = tmp_path / "data"
    write(data, 0, [(1, 2**63 - 1)])
    mill.sql(f"CREATE TABLE n (k INT, x BIGINT) USING csv OPTIONS (path '{data}')")
    mill.sql("CREATE MATERIALIZED VIEW s AS SELECT k, sum(x) AS s FROM n GROUP BY k")
    mill.sql("CREATE MATERIALIZED VIEW over AS SELECT max(s) AS m FROM s")
    mill.sql("CREATE MATERIALIZED VIEW plus AS SELECT x + 1 AS y FROM n WHERE k > 1")
    mill.sql("CREATE MATERIALIZED VIEW fine AS SELECT count(*) AS c FROM n")
    (report,) = mill.drain()
    assert report.failed == {}
    write(data, 1, [(1, 1), (2, 2**63 - 1)])
    (report,) = mill.drain()
    assert report.failed.keys() >= {"over", "plus"}
    assert "TM3002" in report.failed["over"] and "TM3" in report.failed["plus"]
    assert "fine" not in report.failed
    assert mill.read("fine").to_pylist() == [{"c": 3}]
    status = {name: state for name, state, _, _ in mill.status()}
    assert status["fine"] == "fresh" and status["over"] == "failing"


def test_decimals_are_exact(mill_factory: MillFactory, tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    data = tmp_path / "data"
    rows: list[tuple[int, Decimal, Decimal]] = []
    events: list[tuple[Any, ...]] = []
    for _ in range(120):
        if rows and rng.random() < 0.3:
            row = rows.pop(rng.randrange(len(rows)))
            events.append((*row, "D"))
        else:
            wide = Decimal(rng.randrange(-(10**22), 10**22)).scaleb(-4)
            row = (rng.randrange(3), wide, Decimal(rng.randrange(-999, 999)).scaleb(-2))
            rows.append(row)
            events.append((*row, "I"))
    write(data, 0, events[:70])
    write(data, 1, events[70:])
    mill = mill_factory(epoch_bytes=1500, split_bytes=333)
    mill.sql(
        f"CREATE TABLE m (k INT, w DECIMAL(26,4), d DECIMAL(5,2)) USING csv OPTIONS (path '{data}', opColumn 'op')"
    )
    query = """SELECT k, sum(w) AS sw, avg(w) AS aw, sum(d) AS sd, avg(d) AS ad, avg(d * 2) AS a2, min(w) AS mw,
               sum(DISTINCT d) AS dd, avg(w) FILTER (WHERE d > 0) AS fw FROM m GROUP BY k"""
    mill.sql(f"CREATE MATERIALIZED VIEW v AS {query}")
    list(mill.drain())
    table = pa.table(
        {
            "k": pa.array([r[0] for r in rows], pa.int32()),
            "w": pa.array([r[1] for r in rows], pa.decimal128(26, 4)),
            "d": pa.array([r[2] for r in rows], pa.decimal128(5, 2)),
        }
    )
    expected = Oracle(mill.spark).answers({"m": table}, {"v": query})["v"]
    assert_same_rows(mill.read("v"), expected)
    sums = {r["k"]: r["sw"] for r in mill.read("v").to_pylist()}
    assert sums == {k: sum((r[1] for r in rows if r[0] == k), Decimal(0)) for k in sums}


def test_sums_of_38_digits_are_right_or_do_not_fit(mill_factory: MillFactory, tmp_path: Path) -> None:
    """Sums of 128 bits go round: of three or four times 9e37 they have 38 digits again."""
    large, most = 9 * 10**37, 10**38 - 1
    groups = {
        "most": [most], "least": [-most], "one more": [most, 1], "three": [large] * 3, "four": [large] * 4,
        "minus four": [-large] * 4, "many": [large] * 40, "back": [large, large, large, -large, -large, -7], "few": [5],
    }  # fmt: skip
    data, other = tmp_path / "data", tmp_path / "other"
    write(data, 0, [(g, v, "I") for g, values in groups.items() for v in values])
    write(other, 0, [(g, "I") for g in ("few", "three", "three", "most")])
    mill = mill_factory()
    mill.sql(f"CREATE TABLE m (g STRING, w DECIMAL(38,0)) USING csv OPTIONS (path '{data}', opColumn 'op')")
    mill.sql(f"CREATE TABLE n (g STRING) USING csv OPTIONS (path '{other}', opColumn 'op')")
    mill.sql("CREATE MATERIALIZED VIEW t AS SELECT g, try_sum(w) AS s FROM m GROUP BY g")
    mill.sql("CREATE MATERIALIZED VIEW s AS SELECT g, sum(w) AS s FROM m GROUP BY g")
    mill.sql("CREATE MATERIALIZED VIEW j AS SELECT g, try_sum(w) AS s FROM m JOIN n USING (g) GROUP BY g")
    mill.sql("CREATE MATERIALIZED VIEW o AS SELECT DISTINCT g, try_sum(w) OVER (PARTITION BY g) AS s FROM m")

    def model(times: Callable[[str], int] = lambda g: 1) -> dict[str, int | None]:
        sums = {g: sum(values) * times(g) for g, values in groups.items() if times(g)}
        return {g: s if abs(s) <= most else None for g, s in sums.items()}

    def found(view: str) -> dict[str, int | None]:
        return {r["g"]: r["s"] if r["s"] is None else int(r["s"]) for r in mill.read(view).to_pylist()}

    list(mill.drain())
    assert found("t") == found("o") == model()
    assert found("j") == model(lambda g: {"few": 1, "three": 2, "most": 1}.get(g, 0))
    with pytest.raises(TidemillError, match="TM3002"):
        mill.read("s")
    beyond = [g for g, s in model().items() if s is None]
    assert len(beyond) == 5
    gone = [(g, groups[g].pop(), "D") for g in beyond for _ in range(len(groups[g]) - 1)]
    write(data, 1, gone)
    list(mill.drain())
    assert found("t") == found("o") == found("s") == model()


def test_an_infinity_that_stays_on_one_side_of_pairs_that_go(mill_factory: MillFactory, tmp_path: Path) -> None:
    """Rows of ``a`` are only inserted, so its infinity never goes; its pairs go with the rows of ``u``."""
    mill = mill_factory(epoch_bytes=1 << 20)
    a, u = tmp_path / "a", tmp_path / "u"
    write(a, 0, [(2, "x", 5.0), (1, "x", 3.0)])
    write(u, 0, [(2, 10.0, "I"), (1, 7.0, "I")])
    mill.sql(f"CREATE TABLE a (k INT, g STRING, d DOUBLE) USING csv OPTIONS (path '{a}')")
    mill.sql(f"CREATE TABLE u (k INT, w DOUBLE) USING csv OPTIONS (path '{u}', opColumn 'op')")
    query = "SELECT a.g, sum(a.d * u.w) AS s, count(*) AS n FROM a JOIN u ON a.k = u.k GROUP BY a.g"
    mill.sql(f"CREATE MATERIALIZED VIEW v AS {query}")
    found = []
    for step in range(4):
        mill.advance()
        found += mill.read("v").to_pylist()
        if step == 0:
            write(a, 1, [(2, "x", "Infinity")])
        elif step == 1:
            write(u, 1, [(2, 10.0, "D")])
        else:
            write(u, 2, [(2, -1.0, "I")])
    sums = [71.0, math.inf, 21.0, -math.inf]
    assert found == [{"g": "x", "s": s, "n": n} for s, n in zip(sums, (2, 3, 1, 3), strict=True)]
