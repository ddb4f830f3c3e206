"""Models of dbt are views: a server answers what dbt sends.

The statements of dbt are recorded, because the packages that dbt needs conflict with those of the tests. ``make dbt``
(``TIDEMILL_DBT=the command dbt``) plays the same story with dbt itself, and compares what it sends with the record;
``TIDEMILL_DBT_RECORD=1`` writes the record.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from dbt_story import INTEGRATION, STEPS, Dbt, Step
from pyspark.sql import SparkSession

from tidemill.config import Settings
from tidemill.mill import Mill
from tidemill.serve.access.settings import ServerSettings
from tidemill.serve.running import Server
from tidemill.serve.service.service import Service

RECORD = Path(__file__).with_name("dbt_statements.json")
DBT = os.environ.get("TIDEMILL_DBT")
ORDERS = "1,1,10.00,paid\n2,1,20.00,open\n3,2,5.00,paid\n"
BEST = [(1, "Ada", 10, "gold"), (2, "Bob", 5, "silver")]


@pytest.fixture
def connection(spark: SparkSession, tmp_path: Path) -> Iterator[psycopg.Connection[Any]]:
    """To a server of the example's tables, whose epochs run in the background."""
    for name, content in (("orders", ORDERS), ("customers", "1,Ada\n2,Bob\n")):
        (tmp_path / "data" / name).mkdir(parents=True)
        (tmp_path / "data" / name / "a.csv").write_text(content)
    settings = Settings(master="local[2]", partitions=2, listing_seconds=0.0)
    with Mill(tmp_path / "root", spark=spark, settings=settings) as mill:
        script = (INTEGRATION / "example" / "server.sql").read_text()
        mill.script(script.replace("'data/", f"'{tmp_path}/data/"))
        mill.start()
        service = Service(mill, ServerSettings(port=0, pg_port=0))
        with Server(service) as server:
            port = int(server.addresses["postgresql"].rpartition(":")[2].partition("/")[0])
            with psycopg.connect(
                host="127.0.0.1", port=port, user="dbt", dbname="tidemill", autocommit=True,
                cursor_factory=psycopg.ClientCursor,
            ) as opened:  # fmt: skip
                yield opened
        service.close()
        mill.stop()


def test_story(connection: psycopg.Connection[Any], tmp_path: Path) -> None:
    sent: dict[str, list[str]] = {}
    recorded = json.loads(RECORD.read_text()) if RECORD.exists() else {}
    dbt = Dbt(DBT, tmp_path, connection.info.port) if DBT else None
    ages: dict[str, dict[str, int]] = {}
    for step in STEPS:
        if dbt is not None:
            sent[step.name] = dbt.carry_out(step)
        else:
            replay(connection, step, recorded[step.name])
        ages[step.name] = created(connection)
        if step.name != "debug":
            best = "SELECT customer, name, amount, level FROM best_customers ORDER BY customer"
            if step.name == "first run":
                wait_for_rows(connection, best)
            assert connection.execute(best).fetchall() == BEST, step.name
            columns = [c.name for c in connection.execute("SELECT * FROM spending").description or ()]
            assert columns == ["customer", "orders", "amount", *(["largest"] if step.name == "other columns" else [])]
    assert ages["first run"].keys() == {"customers_seen", "spending", "best_customers"}
    assert ages["first run"] == ages["second run"] == ages["other columns, alone"]
    assert ages["other columns"]["customers_seen"] == ages["first run"]["customers_seen"]
    assert all(age > ages["columns removed"][name] for name, age in ages["all again"].items())
    assert ages["empty"].items() - ages["all again"].items() == {("wrong", ages["it is mended"]["wrong"])}
    assert statuses(connection) == {"fresh"}
    if os.environ.get("TIDEMILL_DBT_RECORD"):
        RECORD.write_text(json.dumps(sent, indent=1) + "\n")
    elif dbt is not None:
        assert sent == recorded


def wait_for_rows(connection: psycopg.Connection[Any], query: str) -> None:
    """A view that is created before the first epoch has no rows until that is sealed."""
    end = time.monotonic() + 60
    while not connection.execute(query).fetchall():
        assert time.monotonic() < end, query
        time.sleep(0.05)


def created(connection: psycopg.Connection[Any]) -> dict[str, int]:
    """In which epoch each view was created."""
    return {name: epoch for name, _, epoch, _ in connection.execute("SHOW VIEWS").fetchall()}


def statuses(connection: psycopg.Connection[Any]) -> set[str]:
    """The statuses that views have."""
    return {status for _, status, _, _ in connection.execute("SHOW VIEWS").fetchall()}


def replay(connection: psycopg.Connection[Any], step: Step, statements: list[str]) -> None:
    """Send what dbt has sent, and wait for views where its adapter does."""
    errors = []
    for statement in statements:
        try:
            rows = answered(connection, statement)
            while "show views" in statement and any(s == "initialising" or "replaced" in d for _, s, _, d in rows):
                time.sleep(0.05)
                rows = answered(connection, statement)
        except psycopg.Error as error:
            errors.append(str(error).partition(":")[0])
            assert error.diag.message_hint
    assert errors == list(step.errors)


def answered(connection: psycopg.Connection[Any], statement: str) -> list[tuple[Any, ...]]:
    """The rows of a statement in the simple protocol, which the driver of dbt speaks."""
    cursor = connection.execute(statement.encode())
    return cursor.fetchall() if cursor.description else []
