"""Every statement ends in an answer or a numbered error, and so do the epochs of views that come of them.

TIDEMILL_STATEMENTS says how many (``make statements COUNT=5000``), TIDEMILL_SEED which.
"""

from __future__ import annotations

import os
import random
import re
import time
import traceback
from collections import Counter
from pathlib import Path

import pytest
from fuzz_statements import StatementMaker
from fuzz_tables import random_tables
from oracle import usual_tables
from pyspark.sql import DataFrame, SparkSession
from tests.local_jobs import LocalJobs

from tidemill.config import Settings
from tidemill.errors import TidemillError
from tidemill.mill import Mill
from tidemill.runtime.read.view_frame import fetch

_STATEMENTS = int(os.environ.get("TIDEMILL_STATEMENTS", "60"))
_EPOCH = 40
"""Statements between two epochs, after which the views are dropped."""
_SHORT = 100
"""Queries of fewer characters are answered too; longer ones would take too long."""
_BATCH = 400
"""Statements to a mill."""
_NUMBERED = re.compile(r"TM\d{4}")


@pytest.mark.timeout(max(300, 3 * _STATEMENTS))
def test_a_statement_ends_in_an_answer_or_a_number(
    spark: SparkSession, tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    trial = _Trial(spark, tmp_path, seed)
    for number in range(0, _STATEMENTS, _BATCH):
        trial.batch(number // _BATCH, min(_BATCH, _STATEMENTS - number))
    print(trial.numbers.most_common())
    assert not trial.failures, "\n\n".join(trial.failures)
    assert trial.numbers["answer"] >= _STATEMENTS / 10, trial.numbers
    assert len(trial.numbers) > 4, trial.numbers


class _Trial:
    """What became of statements: how many had an answer or each number, and those that ended otherwise."""

    def __init__(self, spark: SparkSession, place: Path, seed: int) -> None:
        self._spark, self._place, self._seed = spark, place, seed
        self.numbers: Counter[str] = Counter()
        self.failures: list[str] = []

    def batch(self, number: int, size: int) -> None:
        """Statements to one mill."""
        rng = random.Random(f"statements {self._seed} {number}")
        place = self._place / str(number)
        tables = [t.placed(place / "data") for t in random_tables(rng)]
        settings = Settings(master="local[2]", partitions=2, listing_seconds=0.0)
        with Mill(place / "root", spark=self._spark, settings=settings) as mill:
            mill._coordinator._jobs = LocalJobs()
            for table in tables:
                for file in range(len(table.files)):
                    table.release(file)
                mill.sql(table.create_statement())
            for usual in usual_tables(rng, place / "usual", 40):
                usual.release(len(usual.waiting))
                mill.sql(usual.create_statement())
            maker = StatementMaker(rng, tables, place / "data")
            for count in range(1, size + 1):
                self._ask(mill, maker.statement())
                if count % _EPOCH == 0 or count == size:
                    self._run(mill)

    def _ask(self, mill: Mill, statement: str) -> None:
        began = time.monotonic()
        try:
            answer = mill.sql(statement)
            if isinstance(answer, DataFrame) and len(statement) < _SHORT:
                fetch(answer)
            self.numbers["answer"] += 1
        except TidemillError as error:
            assert _NUMBERED.fullmatch(error.number) and error.what, statement
            self.numbers[error.number] += 1
            if error.number == "TM2900":
                self._failed(statement, error)
        except Exception as error:
            self._failed(statement, error)
        if time.monotonic() - began > 20:
            print(f"{time.monotonic() - began:.0f} s: {statement[:1000]}")

    def _run(self, mill: Mill) -> None:
        """Epochs of the views that are there; then they go."""
        views = {name: view.query for name, view in mill.snapshot().catalog.views.items()}
        try:
            while (report := mill.advance()) is not None:
                assert all(isinstance(e, TidemillError) or _NUMBERED.search(str(e)) for e in report.failed.values())
        except TidemillError as error:
            self.numbers[error.number] += 1
        except Exception as error:
            self._failed(f"an epoch of {list(views.values())}", error)
        for name, query in views.items():
            try:
                mill.read(name)
            except TidemillError as error:
                self.numbers[error.number] += 1
            except Exception as error:
                self._failed(f"reading {query}", error)
        for name in reversed(views):
            self._ask(mill, f"DROP VIEW {name}")
        for name in [n for n in mill.snapshot().catalog.tables if n.startswith("made")]:
            self._ask(mill, f"DROP TABLE {name}")

    def _failed(self, statement: str, error: Exception) -> None:
        trace = "".join(traceback.format_exception(error)[-6:])
        what = f"{type(error).__name__}: {str(error)[:600]}"
        text = f"TIDEMILL_SEED={self._seed} {what}\n{statement[:3000]!r}\n{trace[-2500:]}"
        print(f"FAILED {text}")
        self.failures.append(text)
