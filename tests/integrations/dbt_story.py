"""What a user of dbt does with the project of ``integrations/dbt/example``, step by step, and dbt itself doing it."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

INTEGRATION = Path(__file__).parents[2] / "integrations" / "dbt"
_SPENDING = (INTEGRATION / "example" / "models" / "spending.sql").read_text()
_WIDER = _SPENDING.replace("SUM(amount) AS amount", "SUM(amount) AS amount, MAX(amount) AS largest")
_INLINE = "SELECT customer, level FROM {{ ref('best_customers') }} ORDER BY customer"


@dataclass(frozen=True)
class Step:
    """One command.

    Attributes
    ----------
    files : tuple
        Files of the project that are written before it, with their contents.
    errors : tuple of str
        What the server refuses.
    succeeds : bool
        Whether dbt ends with 0.
    says : str
        A text in dbt's output.
    """

    name: str
    command: tuple[str, ...]
    files: tuple[tuple[str, str], ...] = ()
    errors: tuple[str, ...] = ()
    succeeds: bool = True
    says: str = ""


STEPS = (
    Step("debug", ("debug",), says="All checks passed!"),
    Step("first run", ("run",), says="PASS=3"),
    Step("second run", ("run",), says="PASS=3"),
    Step("tests", ("test",), says="PASS=6"),
    Step("show", ("show", "--inline", _INLINE), says="silver"),
    Step("docs", ("docs", "generate"), says="Catalog written"),
    Step(
        "other columns, alone", ("run", "--select", "spending"), (("models/spending.sql", _WIDER),), ("TM2018",), False,
        "HINT:  keep names, types and NOT NULL of its columns",
    ),
    Step("other columns", ("run", "--select", "spending+"), (), ("TM2018",), says="dropping best_customers"),
    Step("columns removed", ("run",), (("models/spending.sql", _SPENDING),), ("TM2018",), says="PASS=3"),
    Step("all again", ("run", "--full-refresh"), says="dropping customers_seen"),
    Step("one again", ("run", "--full-refresh", "--select", "spending"), succeeds=False, says="--select spending+"),
    Step(
        "wrong column", ("run", "--select", "wrong"), (("models/wrong.sql", "SELECT nam FROM {{ ref('spending') }}"),),
        ("TM2004",), False, "UNRESOLVED_COLUMN",
    ),
    Step(
        "a failing row", ("run", "--select", "wrong"),
        (("models/wrong.sql", "SELECT 1 / (amount - 5) AS x FROM {{ ref('spending') }}"),), (), False, "TM3001",
    ),
    Step(
        "it is mended", ("run", "--select", "wrong"),
        (("models/wrong.sql", "SELECT try_divide(1, amount - 5) AS x FROM {{ ref('spending') }}"),), says="PASS=1",
    ),
    Step(
        "a table", ("run", "--select", "wrong"),
        (("models/wrong.sql", "{{ config(materialized='table') }} SELECT customer FROM {{ ref('spending') }}"),),
        (), False, "use materialized='materialized_view'",
    ),
    Step(
        "a schema", ("run", "--select", "wrong"),
        (("models/wrong.sql", "{{ config(schema='x') }} SELECT customer FROM {{ ref('spending') }}"),),
        (), False, "dbt-tidemill has no schema public_x",
    ),
    Step(
        "a seed", ("seed",), (("models/wrong.sql", "SELECT 1 AS one"), ("seeds/a.csv", "a,b\n1,2\n")), (), False,
        "dbt-tidemill has no seeds",
    ),
    Step("empty", ("run", "--empty"), (), (), False, "dbt-tidemill has no --empty"),
)  # fmt: skip


class Dbt:
    """dbt itself, over a copy of the example.

    Parameters
    ----------
    program : str
        The command ``dbt``.
    directory : Path
        Where the copy is made.
    port : int
        Where the server speaks PostgreSQL's protocol.
    """

    def __init__(self, program: str, directory: Path, port: int) -> None:
        self._program, self._project = program, directory / "project"
        shutil.copytree(INTEGRATION / "example", self._project)
        self._environment = {
            **os.environ,
            "PYTHONPATH": str(INTEGRATION),
            "PYTHONHASHSEED": "0",
            "TIDEMILL_PG_PORT": str(port),
        }

    def carry_out(self, step: Step) -> list[str]:
        """Carry out a step, check what dbt says, and give the statements that it sent."""
        for name, content in step.files:
            (self._project / name).parent.mkdir(exist_ok=True)
            (self._project / name).write_text(content)
        log = self._project / "logs" / "dbt.log"
        log.unlink(missing_ok=True)
        options = ("--no-use-colors", "--log-level-file", "debug", "--log-format-file", "json")
        threads = () if step.command[0] == "debug" else ("--threads", "1")
        finished = subprocess.run(
            [self._program, *options, *step.command, *threads],
            cwd=self._project, env=self._environment, capture_output=True, text=True, timeout=120, check=False,
        )  # fmt: skip
        assert (finished.returncode == 0) == step.succeeds and step.says in finished.stdout, finished.stdout
        assert all(number in finished.stdout or step.succeeds for number in step.errors), finished.stdout
        return list(_without_repeats(_statements(log)))


def _statements(log: Path) -> Iterator[str]:
    for line in log.read_text().splitlines():
        entry = json.loads(line)
        if entry["info"]["name"] == "SQLQuery":
            sql = re.sub(r'"dbt_version": "[^"]*"', '"dbt_version": "1"', entry["data"]["sql"])
            yield re.sub(r"\s*\n\s*", "\n", sql).strip()


def _without_repeats(statements: Iterator[str]) -> Iterator[str]:
    """The adapter asks for the status of a view until it has its whole history."""
    before = ""
    for statement in statements:
        if statement != before:
            yield statement
        before = statement
