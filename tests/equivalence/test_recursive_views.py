"""WITH RECURSIVE over tables whose rows are replaced and deleted: trees that are moved about, cycles that come and go.

Two oracles: Spark, which also raises where a recursion has too many levels, and dictionaries for trees.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from oracle import ONE_TASK
from py4j.protocol import Py4JJavaError
from pyspark.sql import DataFrame, SparkSession

from tidemill.errors import TidemillError
from tidemill.mill import Mill
from tidemill.testing import assert_same_rows, weighted_rows

LEVELS = 5
VIEWS = {
    "chart": f"""
        WITH RECURSIVE r(id, path, depth) MAX RECURSION LEVEL {LEVELS} AS (
          SELECT id, name, 1 FROM e WHERE boss IS NULL
          UNION ALL
          SELECT e.id, concat(r.path, '/', e.name), r.depth + 1 FROM r JOIN e ON e.boss = r.id)
        SELECT id, path, depth FROM r""",
    "payroll": f"""
        WITH RECURSIVE r(top, id, pay) MAX RECURSION LEVEL {LEVELS} AS (
          SELECT id, id, pay FROM e
          UNION ALL
          SELECT r.top, e.id, e.pay FROM e JOIN r ON e.boss = r.id)
        SELECT top, count(*) AS people, sum(pay) AS pay FROM r GROUP BY top""",
    "reachable": """
        WITH RECURSIVE r(start, node, hops) AS (
          SELECT a, b, 1 FROM links
          UNION ALL
          SELECT r.start, links.b, hops + 1 FROM r JOIN links ON links.a = r.node WHERE hops < 3)
        SELECT start, node, min(hops) AS hops, count(*) AS paths FROM r GROUP BY start, node""",
    "deepest": "SELECT max(depth) AS depth, count(*) AS people FROM chart",
    "staff": """
        WITH RECURSIVE r(id, name, depth) MAX RECURSION LEVEL 3 AS (
          SELECT id, name, 0 FROM e WHERE pay > 4
          UNION ALL
          SELECT e.id, coalesce(e.name, r.name), depth + 1 FROM r LEFT JOIN e ON e.boss = r.id
          WHERE r.id IS NOT NULL AND depth < 2)
        SELECT id, name, depth FROM r""",
}
NUMBERS = {"RECURSION_LEVEL_LIMIT_EXCEEDED": "TM3021", "RECURSION_ROW_LIMIT_EXCEEDED": "TM3022"}
People = dict[int, tuple[int | None, str, int]]
Answer = Counter[tuple[object, ...]]


class _Company:
    """People and links between numbers, with files of what changes."""

    def __init__(self, rng: random.Random, directory: Path) -> None:
        self._rng, self._directory, self._files, self._employed = rng, directory, 0, 0
        self.people: People = {}
        self.links: Counter[tuple[int, int]] = Counter()
        for name in ("e", "links"):
            (directory / name).mkdir()

    def _depth(self, person: int | None) -> int:
        depth = 0
        while person is not None:
            depth, person = depth + 1, self.people[person][0] if person in self.people else None
        return depth

    def below(self, person: int) -> set[int]:
        """A person and all below."""
        found, new = set[int](), {person}
        while new:
            found |= new
            new = {i for i, (boss, _, _) in self.people.items() if boss in new} - found
        return found

    def employ(self, count: int) -> None:
        """New people, in trees of fewer than the greatest number of levels."""
        for _ in range(count):
            self._employed += 1
            person = self._employed
            bosses = [i for i in self.people if self._depth(i) < LEVELS - 2]
            boss = self._rng.choice(bosses) if bosses and self._rng.random() < 0.85 else None
            self.people[person] = (boss, f"p{person}", self._rng.randrange(1, 9))

    def change(self) -> None:
        """Someone gets another boss or pay, someone leaves, links come and go."""
        for person in self._rng.sample(sorted(self.people), min(3, len(self.people))):
            boss, name, pay = self.people[person]
            others = sorted(self.people.keys() - self.below(person))
            bosses = [i for i in others if self._depth(i) < 2 and len(self.below(person)) == 1]
            if bosses and self._rng.random() < 0.7:
                boss = self._rng.choice(bosses)
            self.people[person] = (boss, name, pay + self._rng.randrange(3))
        if self._rng.random() < 0.6:
            self.people.pop(self._rng.choice(sorted(self.people)))
        for _ in range(3):
            self.links[self._rng.randrange(6), self._rng.randrange(6)] += 1
        for link in self._rng.sample(sorted(self.links.elements()), self.links.total() // 3):
            self.links[link] -= 1

    def close_cycle(self) -> tuple[int, int]:
        """Let someone work for someone new, who works for them."""
        self._employed += 1
        first, second = min(self.people), self._employed
        self.people[first] = (second, f"p{first}", 3)
        self.people[second] = (first, f"p{second}", 4)
        return first, second

    def write(self, before: tuple[People, Counter[tuple[int, int]]]) -> None:
        """Files of what is not as it was."""
        people, links = before
        gone = [(i, *people[i], "D") for i in people.keys() - self.people.keys()]
        new = [(i, *row, "I") for i, row in self.people.items() if people.get(i) != row]
        changed = [(*link, "I") for link in (self.links - links).elements()]
        changed += [(*link, "D") for link in (links - self.links).elements()]
        for name, rows in (("e", [*gone, *new]), ("links", changed)):
            self._rng.shuffle(rows)
            text = "".join(",".join("" if v is None else str(v) for v in row) + "\n" for row in rows)
            (self._directory / name / f"{self._files}.csv").write_text(text)
        self._files += 1

    def payroll(self) -> Answer | None:
        """Who is below whom, and what all earn; None where there are too many levels."""
        found: Answer = Counter()
        for top in self.people:
            level, people, pay = [top], 0, 0
            for _ in range(LEVELS):
                people, pay = people + len(level), pay + sum(self.people[i][2] for i in level)
                level = [i for i, (boss, _, _) in self.people.items() for above in level if boss == above]
            if level:
                return None
            found[top, people, pay] += 1
        return found

    def chart(self) -> Answer:
        """Names from the top down."""
        found: Answer = Counter()
        for person in self.people:
            names, at = list[str](), person
            while at is not None and at in self.people and len(names) <= LEVELS:
                names.append(self.people[at][1])
                at = self.people[at][0]
            if at is None:
                found[person, "/".join(reversed(names)), len(names)] += 1
        return found


def _answer(frame: DataFrame) -> pa.Table | str:
    """Spark's rows, or the number of what is told in their place."""
    try:
        return frame.toArrow()
    except Py4JJavaError as error:
        return next(number for name, number in NUMBERS.items() if name in str(error))


def _check(mill: Mill, spark: SparkSession, company: _Company) -> set[str]:
    """Compare all views with both oracles; tells which are in error."""
    people = [(i, *row) for i, row in company.people.items()]
    links = list(company.links.elements())
    spark.createDataFrame(people, "id INT, boss INT, name STRING, pay INT").createOrReplaceTempView("e")
    spark.createDataFrame(links, "a INT, b INT").createOrReplaceTempView("links")
    status = {name: state for name, state, _, _ in mill.status()}
    failing = set()
    for name, query in VIEWS.items():
        frame = spark.sql(query)
        expected = _answer(frame)
        if not isinstance(expected, str):  # what reads this view need not compute it once more
            frame = spark.createDataFrame(expected, frame.schema).coalesce(1)
        frame.createOrReplaceTempView(name)
        where = f"{name} at epoch {mill.epoch}: {query}\n{people}\n{links}\nSpark: {expected}"
        if isinstance(expected, str):
            failing.add(name)
            assert status[name] == "failing", where
            with pytest.raises(TidemillError, match=rf"TM1039(.|\n)*{expected}"):
                mill.read(name)
        else:
            assert status[name] == "fresh", where
            assert_same_rows(mill.read(name), expected, where)
    payroll = company.payroll()
    assert (payroll is None) == ("payroll" in failing)
    if payroll is not None:
        assert weighted_rows(mill.read("payroll")) == payroll
    assert weighted_rows(mill.read("chart")) == company.chart()
    return failing


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_trees_links_and_cycles(
    mill_factory: Callable[..., Mill], spark: SparkSession, tmp_path: Path, seed: int
) -> None:
    rng = random.Random(seed)
    company = _Company(rng, tmp_path)
    session = spark.newSession()
    for setting, value in ONE_TASK.items():
        session.conf.set(setting, value)
    settings = {"partitions": rng.randrange(1, 4), "small_epoch_bytes": rng.choice((0, 1 << 20))}
    mill = mill_factory(**settings)
    mill.sql(
        f"CREATE TABLE e (id INT, boss INT, name STRING, pay INT, PRIMARY KEY (id)) USING csv "
        f"OPTIONS (path '{tmp_path / 'e'}', opColumn 'op')"
    )
    mill.sql(f"CREATE TABLE links (a INT, b INT) USING csv OPTIONS (path '{tmp_path / 'links'}', opColumn 'op')")
    before: tuple[People, Counter[tuple[int, int]]] = ({}, Counter())
    failed, cycle = [], (0, 0)
    for epoch in range(6):
        if epoch == 3:
            company.people[cycle[0]] = (None, "mended", 1)
        company.employ(10 if epoch == 0 else rng.randrange(3))
        company.change()
        if epoch == 2:
            cycle = company.close_cycle()
        company.write(before)
        before = dict(company.people), Counter(company.links)
        if epoch in (0, 4):
            for name, query in VIEWS.items():
                mill.sql(f"CREATE OR REPLACE MATERIALIZED VIEW {name} AS {query}")
        list(mill.drain())
        failed.append(_check(mill, session, company))
        if epoch % 2:
            mill.close()
            mill = mill_factory(**settings)
    assert "payroll" in failed[2]
    assert "payroll" not in failed[3]


def test_limits_are_those_of_the_session(
    mill_factory: Callable[..., Mill], spark: SparkSession, tmp_path: Path
) -> None:
    """At most 4 levels and 7 rows; each number n of the table makes n levels of one row."""
    query = "WITH RECURSIVE r(i) AS (SELECT n FROM t UNION ALL SELECT i - 1 FROM r WHERE i > 1) SELECT i FROM r"
    limits = {"spark.sql.cteRecursionLevelLimit": "4", "spark.sql.cteRecursionRowLimit": "8"}
    session = spark.newSession()
    for setting, value in (ONE_TASK | limits).items():
        session.conf.set(setting, value)
    (tmp_path / "t").mkdir()
    mill = mill_factory()
    mill.sql(f"CREATE TABLE t (n INT) USING csv OPTIONS (path '{tmp_path / 't'}', opColumn 'op')")
    try:
        for setting, value in limits.items():
            spark.conf.set(setting, value)
        mill.sql(f"CREATE MATERIALIZED VIEW v AS {query}")
    finally:
        for setting in limits:
            spark.conf.unset(setting)
    seen, numbers = [], Counter[int]()
    for epoch, changes in enumerate(((4, 3), (1,), (-1,), (-4, 5), (-5, 2))):
        numbers.update({abs(n): 1 if n > 0 else -1 for n in changes})
        text = "".join(f"{abs(n)},{'I' if n > 0 else 'D'}\n" for n in changes)
        (tmp_path / "t" / f"{epoch}.csv").write_text(text)
        list(mill.drain())
        rows = [(n,) for n in numbers.elements()]
        session.createDataFrame(rows, "n INT").createOrReplaceTempView("t")
        expected = _answer(session.sql(query))
        if isinstance(expected, str):
            seen.append(expected)
            with pytest.raises(TidemillError, match=rf"TM1039(.|\n)*{expected}"):
                mill.read("v")
        else:
            seen.append("rows")
            assert_same_rows(mill.read("v"), expected, f"{rows}")
    assert seen == ["rows", "TM3022", "rows", "TM3021", "rows"]
