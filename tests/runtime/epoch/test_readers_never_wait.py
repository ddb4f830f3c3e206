"""Readers see the last sealed epoch while the next one runs, and statements take effect between two epochs."""

from __future__ import annotations

import threading
import weakref
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.local_jobs import LocalJobs

from tidemill.errors import TidemillError
from tidemill.mill import Mill
from tidemill.runtime.job.superstep import TaskReport

SECONDS = 60.0
"""A limit for waits that are to end at once, so that a failure is no dead lock."""


class HeldJobs(LocalJobs):
    """The job of an epoch begins, and ends when it is let go."""

    def __init__(self) -> None:
        super().__init__()
        self.begun = threading.Event()
        self.go = threading.Event()

    def run(self, *given: Any) -> list[TaskReport]:
        """As that of `LocalJobs`."""
        self.begun.set()
        assert self.go.wait(SECONDS)
        return super().run(*given)


@contextmanager
def running(mill: Mill) -> Iterator[Callable[[], None]]:
    """An epoch runs in another thread until the function that is given is called, and has been sealed at the end."""
    jobs = HeldJobs()
    mill._coordinator._jobs = jobs
    with ThreadPoolExecutor(1) as threads:
        advance = threads.submit(mill.advance)
        assert jobs.begun.wait(SECONDS)

        def end() -> None:
            jobs.go.set()
            assert advance.result(SECONDS) is not None

        try:
            yield end
        finally:
            jobs.go.set()


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A directory with a file of two rows."""
    directory = tmp_path / "data"
    directory.mkdir()
    (directory / "0.csv").write_text("1\n2\n")
    return directory


@pytest.fixture
def mill(mill_factory, data: Path) -> Mill:  # type: ignore[no-untyped-def]
    """A view of one epoch, and a file that has not been read."""
    found: Mill = mill_factory(listing_seconds=0.0, garbage_grace_seconds=0.0)
    found.sql(f"CREATE TABLE t (k INT) USING csv OPTIONS (path '{data}')")
    found.sql("CREATE MATERIALIZED VIEW v AS SELECT k, COUNT(*) AS n FROM t GROUP BY k")
    found._coordinator._jobs = LocalJobs()
    list(found.drain())
    found.checkpoint()
    (data / "1.csv").write_text("2\n3\n")
    return found


def rows(table: Any) -> Counter[tuple[Any, ...]]:
    return Counter(tuple(row.values()) for row in table.to_pylist())


BEFORE = Counter([(1, 1), (2, 1)])
AFTER = Counter([(1, 1), (2, 2), (3, 1)])


def test_readers_see_the_last_sealed_epoch(mill: Mill) -> None:
    epoch = mill.epoch
    with running(mill) as end:
        assert rows(mill.read("v")) == BEFORE
        assert rows(mill.snapshot().read("v")) == rows(mill.read("v", durable=True)) == BEFORE
        assert Counter(map(tuple, mill.table("v").collect())) == BEFORE
        assert Counter(map(tuple, mill.query("SELECT * FROM v WHERE k > 1").collect())) == Counter([(2, 1)])
        assert Counter(map(tuple, mill.sql("SELECT * FROM v").collect())) == BEFORE  # type: ignore[union-attr]
        assert [row[0] for row in mill.sql("SHOW VIEWS").collect()] == ["v"]  # type: ignore[union-attr]
        assert [row[0] for row in mill.sql("DESCRIBE v").collect()] == ["k", "n"]  # type: ignore[union-attr]
        assert "t" in str(mill.sql("EXPLAIN INCREMENTAL SELECT DISTINCT k FROM t"))
        assert [name for name, _ in mill.explain_views()] == ["v"]
        assert [(name, status) for name, status, *_ in mill.status()] == [("v", "fresh")]
        assert mill.count("v") == 2
        assert mill.warnings() == ()
        assert mill.epoch == epoch >= mill.durable_epoch
        assert mill.relation("t").columns == ["k"]
        assert list(mill.subscribe("v", epoch, timeout=0.0)) == []
        assert sum((rows(t.drop(["__weight"])) for _, t in mill.subscribe("v", timeout=0.0)), Counter()) == BEFORE
        assert f"epoch {epoch}" in repr(mill)
        end()
    assert mill.epoch == epoch + 1
    assert rows(mill.read("v")) == AFTER
    assert rows(mill.read("v", epoch)) == BEFORE


def test_subscriber_gets_the_epoch_when_it_is_sealed(mill: Mill) -> None:
    with running(mill) as end, ThreadPoolExecutor(1) as threads:
        changes = mill.subscribe("v", mill.epoch, timeout=SECONDS)
        following = threads.submit(next, changes)
        assert not following.done()
        end()
        epoch, table = following.result(SECONDS)
    assert epoch == mill.epoch
    assert rows(table) == Counter([(2, 1, -1), (2, 2, 1), (3, 1, 1)])


def test_statements_take_effect_between_epochs_in_their_order(mill: Mill, data: Path) -> None:
    with running(mill) as end:
        results = [
            mill.submit("CREATE MATERIALIZED VIEW a AS SELECT MAX(k) AS m FROM t"),
            mill.submit("CREATE MATERIALIZED VIEW b AS SELECT m + 1 AS n FROM a"),
            mill.submit("DROP VIEW v"),
            mill.submit("ALTER TABLE t SET OPTIONS (maxErrors '7')"),
            mill.submit("DROP VIEW v"),
        ]
        assert [row[0] for row in mill.sql("SHOW VIEWS").collect()] == ["v"]  # type: ignore[union-attr]
        assert not any(r.done() for r in results)
        end()
        assert [r.result(SECONDS) for r in results[:4]] == [None] * 4
        with pytest.raises(TidemillError, match="TM2012"):
            results[4].result(SECONDS)
    mill._coordinator._jobs = LocalJobs()
    list(mill.drain())
    assert [name for name, *_ in mill.status()] == ["a", "b"]
    assert mill._coordinator.catalog.tables["t"].options["maxerrors"] == "7"
    assert rows(mill.read("b")) == Counter([(4,)])


def test_waiting_for_a_statement_has_a_limit(mill: Mill) -> None:
    """What was given up never happens."""
    with running(mill) as end:
        with pytest.raises(TidemillError, match="TM7014"):
            mill.sql("DROP VIEW v", timeout=0.0)
        with pytest.raises(TidemillError, match="TM7014"):
            mill.sql("DROP TABLE t", timeout=0.01)
        assert rows(mill.sql("SELECT * FROM v", timeout=0.0).toArrow()) == BEFORE  # type: ignore[union-attr]
        end()
    mill.sql("CREATE MATERIALIZED VIEW w AS SELECT k FROM v", timeout=SECONDS)
    assert [name for name, *_ in mill.status()] == ["v", "w"]


def test_a_submitted_statement_can_be_withdrawn(mill: Mill) -> None:
    with running(mill) as end:
        first, second, third = (mill.submit(f"CREATE MATERIALIZED VIEW w{i} AS SELECT k FROM v") for i in range(3))
        assert second.cancel()
        end()
        assert (first.result(SECONDS), third.result(SECONDS), second.cancelled()) == (None, None, True)
    assert [name for name, *_ in mill.status()] == ["v", "w0", "w2"]


def test_what_is_no_statement_is_not_taken(mill: Mill) -> None:
    for text, number in (("SELEC", "TM2001"), ("DROP VIEW v; DROP TABLE t", "TM7001"), ("DELETE FROM t", "TM2003")):
        with pytest.raises(TidemillError, match=number):
            mill.submit(text)
    assert mill.submit("SELECT * FROM v").result(SECONDS).count() == 2  # type: ignore[union-attr]


def test_statements_that_wait_when_the_mill_is_closed_are_told(mill: Mill) -> None:
    with ThreadPoolExecutor(1) as threads:
        with running(mill) as end:
            waiting = [mill.submit("DROP VIEW v"), mill.submit("DROP TABLE t")]
            closing = threads.submit(mill.close)
            for statement in waiting:
                with pytest.raises(TidemillError, match="TM7012"):
                    statement.result(SECONDS)
            end()
        closing.result(SECONDS)
    for call in (lambda: mill.sql("DROP VIEW v"), lambda: mill.submit("DROP VIEW v"), lambda: mill.read("v")):
        with pytest.raises(TidemillError, match="TM7012"):
            call()


def test_statements_are_not_starved_by_epochs(mill: Mill) -> None:
    """Epochs that run back to back let each statement in after the one in progress."""
    stop = threading.Event()

    def epochs() -> int:
        count = 0
        while not stop.is_set():
            mill.advance()
            count += 1
        return count

    with ThreadPoolExecutor(1) as threads:
        counting = threads.submit(epochs)
        for number in range(20):
            mill.sql(f"CREATE MATERIALIZED VIEW w{number} AS SELECT k, {number} AS n FROM t", timeout=SECONDS)
            mill.sql(f"DROP VIEW w{number}", timeout=SECONDS)
        stop.set()
        assert counting.result(SECONDS) > 0
    assert [name for name, *_ in mill.status()] == ["v"]


def test_files_stay_while_somebody_reads_them(mill: Mill, data: Path) -> None:
    """Epochs, merges and collection go on beside readers; what a reader has taken can be read to its end."""
    done, problems = threading.Event(), []
    held = mill.snapshot()
    expected = rows(held.read("v"))

    def read() -> int:
        count = 0
        while not done.is_set():
            snapshot = mill.snapshot(durable=count % 2 == 1)
            first = rows(snapshot.read("v"))
            if rows(snapshot.read("v")) != first:
                problems.append((first, count))
            count += 1
        return count

    with ThreadPoolExecutor(2) as threads:
        readers = [threads.submit(read) for _ in range(2)]
        for number in range(2, 30):
            (data / f"{number}.csv").write_text(f"{number}\n2\n")
            mill.advance()
            mill.checkpoint()
            mill._coordinator._compactor.wait()
            mill._coordinator._checkpoints.collect_garbage()
        done.set()
        assert all(reader.result(SECONDS) > 0 for reader in readers)
    assert not problems
    assert rows(held.read("v")) == expected
    taken = weakref.ref(held)
    del held
    assert taken() is None, "nothing else keeps a snapshot that is no longer the newest"
