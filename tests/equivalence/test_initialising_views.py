"""Views that do not have their whole history yet: what rows do to them then concerns nobody."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from mill_factory import MillFactory
from tidemill.testing import assert_same_rows

QUERY = "SELECT x.k, (SELECT avg(b) FROM t) AS a FROM t x GROUP BY x.k"
ROWS = "k INT, b DECIMAL(18,6)"


def put(directory: Path, number: int, *lines: str) -> None:
    directory.mkdir(exist_ok=True)
    (directory / f"{number}.csv").write_text("".join(f"{line}\n" for line in lines))


@pytest.mark.parametrize("fits", [True, False])
def test_a_deletion_comes_before_its_row(
    mill_factory: MillFactory, spark: SparkSession, tmp_path: Path, fits: bool
) -> None:
    """Without the deleted row the average is beyond its type; with it, it fits, or a last row makes it fail."""
    directory = tmp_path / "in"
    for number in (1, 2):
        put(directory, number, f"{number},980902484320.911,I")
    mill = mill_factory(listing_seconds=0.0)
    options = f"path '{directory}', opColumn 'op', maxFilesPerTrigger 1"
    mill.sql(f"CREATE TABLE t ({ROWS}, op STRING) USING csv OPTIONS ({options})")
    mill.sql("CREATE MATERIALIZED VIEW rows AS SELECT k, b FROM t")
    list(mill.drain())
    mill.sql(f"CREATE MATERIALIZED VIEW v AS {QUERY}")
    gone = [f"{number},980902484320.911,D" for number in (1, 2)]
    put(directory, 3, *gone, "3,-999999999999.5,I", "4,-999999999999.5,I", "4,-999999999999.5,I")
    history, new = mill.advance(), mill.advance()
    assert history is not None and (history.rows_in, history.backfilled) == (0, 1)
    assert new is not None and (new.rows_in, new.backfilled) == (5, 0), "new rows come between those of history"
    status = {name: state for name, state, _, _ in mill.status()}
    assert (new.failed, status["v"]) == ({}, "initialising")
    if fits:
        put(directory, 4, "5,-999999999999.25,I")
    else:
        put(directory, 4, "3,-999999999999.5,D", "6,999999999999.5,D")  # of a row that never comes
    reports = list(mill.drain())
    failed = {name: error for report in reports for name, error in report.failed.items()}
    status = {name: state for name, state, _, _ in mill.status()}
    if not fits:
        assert ("TM3002" in failed["v"], status["v"]) == (True, "failing")
        return
    assert (failed, status["v"]) == ({}, "fresh")
    rows = "(3, -999999999999.5), (4, -999999999999.5), (4, -999999999999.5), (5, -999999999999.25)"
    session = spark.newSession()
    session.sql(
        f"SELECT CAST(col1 AS INT) AS k, CAST(col2 AS DECIMAL(18,6)) AS b FROM VALUES {rows}"
    ).createOrReplaceTempView("t")
    assert_same_rows(mill.read("v"), session.sql(QUERY).toArrow())
