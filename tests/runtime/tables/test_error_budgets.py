"""How many malformed rows a table tolerates: what is counted, when the mill stops, and how it goes on."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from local_jobs import local
from tidemill.errors import TidemillError
from tidemill.mill import Mill
from tidemill.runtime.epoch.report import EpochReport
from tidemill.runtime.read.snapshot import Snapshot
from tidemill.runtime.tables.error_budget import ErrorBudget, RowCounts, parse_budget

Opener = Callable[..., Mill]


def script(data: Path, more: str = "", name: str = "t") -> str:
    return (
        f"CREATE TABLE {name} (k INT, s STRING) USING csv OPTIONS (path '{data / name}'{more});"
        f"CREATE MATERIALIZED VIEW v_{name} AS SELECT k, s FROM {name}"
    )


def put(data: Path, name: str, *lines: str) -> Path:
    path = data / name
    path.parent.mkdir(exist_ok=True)
    path.write_text("".join(f"{line}\n" for line in lines))
    return path


def begin(mill: Mill, data: Path, more: str = "") -> Mill:
    local(mill).script(script(data, more))
    return mill


def counts(snapshot: Snapshot, name: str = "t") -> tuple[int, int]:
    (row,) = [r for r in snapshot.show("tables").to_pylist() if r["name"] == name]
    return row["rows_read"], row["malformed"]


def advanced(mill: Mill) -> EpochReport:
    report = mill.advance()
    assert report is not None
    return report


def refused(mill: Mill) -> TidemillError:
    with pytest.raises(TidemillError) as caught:
        mill.advance()
    assert caught.value.number == "TM4025"
    return caught.value


def test_options() -> None:
    assert parse_budget({}) == ErrorBudget()
    assert parse_budget({"maxerrors": "0"}).most == 0
    budget = parse_budget({"maxerrors": "7", "maxerrorratio": "0.01"})
    assert budget.exceeded_by(RowCounts(10_000, 8)) == "maxErrors is 7"
    assert parse_budget({"maxerrorratio": "1"}).exceeded_by(RowCounts(5000, 5000)) is None


@pytest.mark.parametrize("text", ["-1", "1.5", "many", "", "1e3", "٣"])
def test_bad_numbers(text: str) -> None:
    with pytest.raises(TidemillError, match="TM4003"):
        parse_budget({"maxerrors": text})


@pytest.mark.parametrize("text", ["-0.1", "1.1", "1/2", "nan", "", "5%"])
def test_bad_ratios(text: str) -> None:
    with pytest.raises(TidemillError, match="TM4003"):
        parse_budget({"maxerrorratio": text})


def test_bad_options_are_refused_when_the_table_is_created(mill_factory: Opener, tmp_path: Path) -> None:
    put(tmp_path, "t/1.csv", "1,a")
    mill = local(mill_factory())
    with pytest.raises(TidemillError, match="TM4003"):
        mill.script(script(tmp_path, ", maxErrors 'lots'"))
    with pytest.raises(TidemillError, match="TM4005") as caught:
        mill.script(script(tmp_path, ", maxError '1'"))
    assert "maxerrors" in caught.value.hint.lower()


def test_a_ratio_is_exact_and_waits_for_rows() -> None:
    tenth = parse_budget({"maxErrorRatio".lower(): "0.1"})
    assert tenth.exceeded_by(RowCounts(999, 999)) is None
    assert tenth.exceeded_by(RowCounts(1000, 100)) is None
    assert tenth.exceeded_by(RowCounts(1000, 101)) == "maxErrorRatio is 0.1"


def test_the_epoch_that_exceeds_it_is_not_sealed(mill_factory: Opener, tmp_path: Path) -> None:
    put(tmp_path, "t/1.csv", "1,a", "x,b", "2,c,d,e")
    mill = begin(mill_factory(), tmp_path, ", maxErrors '2'")
    advanced(mill)
    assert counts(mill.snapshot()) == (3, 2)
    bad = put(tmp_path, "t/2.csv", "3,d", 'y,"e', 'f"')
    error = refused(mill)
    assert error.what == "too many rows of a table are malformed"
    assert error.got == (
        "t: 3 of 5 rows, 1 of them in this epoch, which is not sealed; maxErrors is 2; the first of this epoch: "
        f"{bad}, line 2, byte 4, column 'k': bad_int32: 'y,\"e\\nf\"'"
    )
    assert "ALTER TABLE t SET OPTIONS (maxErrors" in error.hint
    assert refused(mill).got == error.got, "nothing was counted twice"
    assert mill.epoch == 1
    assert counts(mill.snapshot()) == (3, 2)
    assert sorted(mill.read("v_t").column("s").to_pylist()) == ["a", "b", "c"]
    mill.sql("ALTER TABLE t SET OPTIONS (maxErrors '3')")
    advanced(mill)
    assert counts(mill.snapshot()) == (5, 3)
    assert sorted(mill.read("v_t").column("s").to_pylist()) == ["a", "b", "c", "d", "e\nf"]


def test_a_mended_file_is_read(mill_factory: Opener, tmp_path: Path) -> None:
    put(tmp_path, "t/1.csv", "1,a", "x,b")
    mill = begin(mill_factory(), tmp_path, ", maxErrors 0")
    refused(mill)
    put(tmp_path, "t/1.csv", "1,a", "22,b")
    advanced(mill)
    assert counts(mill.snapshot()) == (2, 0)


def test_a_row_with_two_flaws_is_one(mill_factory: Opener, tmp_path: Path) -> None:
    put(tmp_path, "t/1.csv")
    (tmp_path / "t/1.csv").write_bytes(b"x,\xff,y\n1,a\n")
    mill = begin(mill_factory(), tmp_path, ", maxErrors 1")
    report = advanced(mill)
    assert report.malformed == 3
    assert counts(mill.snapshot()) == (2, 1)
    errors = sorted(mill.read("t__errors").to_pylist(), key=lambda e: e["column"] or "")
    assert [(e["source"], e["line"], e["position"], e["at"], e["column"], e["reason"]) for e in errors] == [
        ("t", 1, 0, 4, None, "too_many_fields"),
        ("t", 1, 0, 0, "k", "bad_int32"),
        ("t", 1, 0, 2, "s", "bad_utf8"),
    ]


def test_counts_survive_a_restart(mill_factory: Opener, tmp_path: Path) -> None:
    put(tmp_path, "t/1.csv", "1,a", "x,b")
    mill = begin(mill_factory(), tmp_path, ", maxErrors 2")
    advanced(mill)
    mill.close()
    assert counts(Snapshot.open(tmp_path / "root")) == (2, 1)
    put(tmp_path, "t/2.csv", "y,a", "z,b")
    mill = local(mill_factory())
    assert counts(mill.snapshot()) == (2, 1)
    assert "t: 3 of 4 rows, 2 of them in this epoch" in refused(mill).got
    mill.close()
    mill = local(mill_factory())
    refused(mill)
    mill.script(script(tmp_path, ", maxErrors 3"))
    advanced(mill)
    mill.script(script(tmp_path))
    put(tmp_path, "t/3.csv", *["w,a"] * 50)
    advanced(mill)
    assert counts(mill.snapshot()) == (54, 53)


def test_a_ratio_is_of_all_epochs(mill_factory: Opener, tmp_path: Path) -> None:
    put(tmp_path, "t/1.csv", *["x,a"] * 9, *["1,b"] * 981)
    mill = begin(mill_factory(), tmp_path, ", maxErrorRatio '0.01'")
    advanced(mill)
    put(tmp_path, "t/2.csv", *["x,a"] * 1, *["1,b"] * 9)
    advanced(mill)
    assert counts(mill.snapshot()) == (1000, 10)
    put(tmp_path, "t/3.csv", "x,a")
    assert "maxErrorRatio is 0.01" in refused(mill).got
    put(tmp_path, "t/3.csv", "x,a", *["1,b"] * 99)
    advanced(mill)
    assert counts(mill.snapshot()) == (1100, 11)


def test_history_is_not_counted_again(mill_factory: Opener, tmp_path: Path) -> None:
    put(tmp_path, "t/1.csv", "1,a", "x,b")
    mill = begin(mill_factory(), tmp_path, ", maxErrors 1")
    advanced(mill)
    mill.sql("CREATE MATERIALIZED VIEW later AS SELECT k FROM t")
    reports = list(mill.drain())
    assert sum(r.backfilled for r in reports) == 2
    assert [r.warnings for r in reports] == [()] * len(reports)
    assert counts(mill.snapshot()) == (2, 1)


def test_rows_left_out_are_counted_and_late_ones_are_not_malformed(mill_factory: Opener, tmp_path: Path) -> None:
    (tmp_path / "t").mkdir()
    mill = local(mill_factory())
    mill.script(
        "CREATE TABLE t (k INT NOT NULL, at TIMESTAMP, op STRING) USING csv OPTIONS "
        f"(path '{tmp_path / 't'}', watermark 'at', opColumn 'op', maxErrors '2');"
        "CREATE MATERIALIZED VIEW v AS SELECT k FROM t"
    )
    put(tmp_path, "t/1.csv", "1,2020-01-02 00:00:00,I")
    advanced(mill)
    put(tmp_path, "t/2.csv", ",2020-01-03 00:00:00,I", "3,2020-01-01 00:00:00,I", "4,2020-01-03 00:00:00,X")
    report = advanced(mill)
    assert (report.late, report.dropped, report.rows_in) == (1, 2, 0)
    assert counts(mill.snapshot()) == (4, 2)
    errors = sorted(mill.read("t__errors").to_pylist(), key=lambda e: e["line"])
    assert [(e["line"], e["reason"]) for e in errors] == [(1, "null_in_not_null"), (2, "late"), (3, "bad_operation")]
    (warning,) = report.warnings
    assert "t: 2 of the 3 rows of this epoch, 2 of them left out" in warning


def test_one_warning_for_each_table_and_epoch(mill_factory: Opener, tmp_path: Path) -> None:
    bad = put(tmp_path, "t/1.csv", *["x,b"] * 500, "1,c")
    put(tmp_path, "u/1.csv", "1,a")
    mill = begin(mill_factory(), tmp_path)
    mill.script(script(tmp_path, name="u"))
    (warning,) = advanced(mill).warnings
    assert warning == (
        "TM4026: rows of a table are malformed\n"
        f"  got:  t: 500 of the 501 rows of this epoch, 0 of them left out; the first: {bad}, line 1, byte 0, "
        "column 'k': bad_int32: 'x,b'\n"
        "  hint: SELECT * FROM t__errors has them all"
    )
    put(tmp_path, "t/2.csv", "2,c")
    assert advanced(mill).warnings == ()
    ((epoch, changes),) = mill.subscribe("t__errors", timeout=0)
    assert (epoch, changes.num_rows) == (1, 500)
    assert set(changes.column("source").to_pylist()) == {"t"}
    assert sorted(changes.column("line").to_pylist()) == list(range(1, 501))


@pytest.mark.parametrize(
    ("statement", "number"),
    [
        ("ALTER TABLE t SET OPTIONS (maxErrors 'x')", "TM4003"),
        ("ALTER TABLE t SET OPTIONS (header 'true')", "TM2023"),
        ("ALTER TABLE t UNSET OPTIONS (path)", "TM2023"),
        ("ALTER TABLE nobody SET OPTIONS (maxErrors '1')", "TM2012"),
        ("ALTER TABLE t SET OPTIONS ()", "TM2001"),
        ("ALTER TABLE t SET OPTIONS (maxErrors)", "TM2001"),
        ("ALTER TABLE t UNSET OPTIONS (maxErrors '1')", "TM2001"),
        ("ALTER TABLE t SET OPTIONS (maxErrors '1',)", "TM2001"),
        ("ALTER TABLE t ADD COLUMN x INT", "TM2003"),
        ("ALTER TABLE t SET TBLPROPERTIES (maxErrors '1')", "TM2003"),
        ("ALTER TABLE a.t SET OPTIONS (maxErrors '1')", "TM2001"),
    ],
)
def test_what_cannot_be_altered(mill_factory: Opener, tmp_path: Path, statement: str, number: str) -> None:
    put(tmp_path, "t/1.csv", "1,a", "x,b")
    mill = begin(mill_factory(), tmp_path, ", maxErrors 0")
    with pytest.raises(TidemillError, match=number):
        mill.sql(statement)
    refused(mill)


@pytest.mark.parametrize(
    ("statement", "line", "column"),
    [
        ("ALTER TABLE t SET OPTIONS (maxErrors '1' ,)", 1, 43),
        ("ALTER TABLE t SET\n OPTIONS (maxErrors '1' ,)", 2, 26),
        ("ALTER TABLE t SET OPTIONS\n (maxErrors '1' ,)", 2, 18),
        ("ALTER TABLE t SET SET OPTIONS (maxErrors '1')", 1, 19),
    ],
)
def test_where_an_alter_table_cannot_be_parsed(mill_factory: Opener, statement: str, line: int, column: int) -> None:
    with pytest.raises(TidemillError, match="TM2001") as caught:
        mill_factory().sql(statement)
    assert caught.value.got.endswith(f"at line {line}, column {column}")


@pytest.mark.parametrize(
    "statement",
    [
        "ALTER TABLE t UNSET OPTIONS (maxErrors)",
        "alter table `t` set options ('MAXERRORS' = '1', maxErrorRatio 0.5);",
        "ALTER TABLE T SET OPTIONS (maxErrors 5)",
        "ALTER TABLE t -- of rows\n SET OPTIONS (maxErrors '5', `maxErrorRatio` '0.5')",
    ],
)
def test_forms_of_alter_table(mill_factory: Opener, tmp_path: Path, statement: str) -> None:
    put(tmp_path, "t/1.csv", "1,a", "x,b")
    mill = begin(mill_factory(), tmp_path, ", maxErrors 0")
    mill.sql(statement)
    advanced(mill)


def test_another_create_table_is_still_refused(mill_factory: Opener, tmp_path: Path) -> None:
    put(tmp_path, "t/1.csv", "1,a", "x,b")
    mill = begin(mill_factory(), tmp_path, ", maxErrors 0")
    with pytest.raises(TidemillError, match="TM2010"):
        mill.script(script(tmp_path, ", maxErrors 5, header 'true'"))
    refused(mill)
    with pytest.raises(TidemillError, match="TM2010"):
        mill.sql(script(tmp_path, ", maxErrors 5").split(";")[0])
    refused(mill)


def test_other_tables_go_on_once_the_budget_is_raised_or_the_table_dropped(
    mill_factory: Opener, tmp_path: Path
) -> None:
    put(tmp_path, "t/1.csv", "x,b")
    put(tmp_path, "u/1.csv", "1,a")
    mill = begin(mill_factory(), tmp_path, ", maxErrors 0")
    mill.script(script(tmp_path, name="u"))
    refused(mill)
    assert mill.snapshot().version.epoch == 0
    mill.sql("DROP VIEW v_t")
    mill.sql("DROP TABLE t")
    list(mill.drain())
    assert mill.read("v_u").num_rows == 1
    local(mill).script(script(tmp_path, ", maxErrors 1"))
    list(mill.drain())
    assert counts(mill.snapshot()) == (1, 1)


def test_with_spark(mill_factory: Opener, tmp_path: Path) -> None:
    """The same in workers of Spark, in small splits: counts, lines and the example are exact."""
    lines = [f"{i},{'x' * (i % 40)}" for i in range(4000)]
    for at in (7, 1999, 2000, 3999):
        lines[at] = f"bad{at},y"
    path = put(tmp_path, "t/1.csv", *lines)
    mill = mill_factory(epoch_bytes=20_000, split_bytes=3000)
    mill.script(script(tmp_path, ", maxErrors 3"))
    with pytest.raises(TidemillError) as caught:
        list(mill.drain())
    assert caught.value.number == "TM4025"
    assert f"{path}, line 4000, byte {path.read_text().index('bad3999')}, column 'k'" in caught.value.got
    mill.close()
    mill = mill_factory(epoch_bytes=1 << 20, split_bytes=5000)
    mill.script(script(tmp_path, ", maxErrors 4"))
    list(mill.drain())
    assert counts(mill.snapshot()) == (4000, 4)
    found = mill.query("SELECT line, position, at, raw, source FROM t__errors ORDER BY line").toArrow().to_pylist()
    assert [(e["line"], e["raw"], e["source"]) for e in found] == [
        (at + 1, f"bad{at},y".encode(), "t") for at in (7, 1999, 2000, 3999)
    ]
    assert all(e["position"] == e["at"] for e in found)
    assert mill.count("v_t") == 4000
