"""Views over static tables equal Spark's answers after every epoch, also those created later."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest
from oracle import LaterTrial, Trial, usual_settings
from queries import read_views
from random_tables import COLUMNS, DIMENSION, RandomTable, random_table

from local_jobs import local
from tidemill.mill import Mill
from tidemill.task.program import JoinChanges, LookupJoin, PairSums, SemiChanges

Opener = Callable[..., Mill]
VIEWS = read_views(Path(__file__).with_name("static_tables.sql"))
WITHOUT_LOOKUP = {"right_outer", "full_outer", "static_right_left", "static_only", "union_with_static", "before_a_join"}
WITHOUT_LOOKUP |= {"total_with_static"}


class StaticTable(RandomTable):
    """Has all its files from the beginning."""

    def create_statement(self) -> str:
        """With the word STATIC."""
        self.release(len(self.waiting))
        return super().create_statement().replace("CREATE", "CREATE STATIC")


def static(table: RandomTable) -> StaticTable:
    return StaticTable(**vars(table))


def tables(rng: random.Random, directory: Path) -> list[RandomTable]:
    return [
        random_table(rng, "t", COLUMNS, directory / "t", rows=160, deletes=True, files=4),
        random_table(rng, "a", COLUMNS, directory / "a", rows=60, deletes=False, files=3),
        static(random_table(rng, "u", DIMENSION, directory / "u", rows=50, deletes=True, files=3)),
        static(random_table(rng, "s", COLUMNS, directory / "s", rows=30, deletes=False, files=1)),
    ]


def settings(rng: random.Random, of: list[RandomTable]) -> dict[str, int]:
    return {**usual_settings(rng, of), "epoch_bytes": rng.choice((700, 2000, 6000))}


def trial_of(seed: object, mill_factory: Opener, directory: Path) -> tuple[random.Random, Trial]:
    rng = random.Random(str(seed))
    made = tables(rng, directory / "data")
    given = settings(rng, made)
    print(given)
    return rng, Trial(local(mill_factory(**given)), made, sometimes=True)


def kinds(mill: Mill, view: str) -> set[type]:
    """What joins a view is made of."""
    program = mill._coordinator._programs().usual.program
    found = {type(s.operation) for s in program.steps if view in s.views and isinstance(s.operation, JOINS)}
    complete = {s.operation.complete for s in program.steps if view in s.views and isinstance(s.operation, PairSums)}
    return found - ({PairSums} if complete and None not in complete else set())


JOINS = (JoinChanges, LookupJoin, SemiChanges, PairSums)


@pytest.mark.parametrize(
    "names",
    [pytest.param(list(VIEWS)[i::3], marks=[pytest.mark.slow] if i else []) for i in range(3)],
    ids=["first", "second", "third"],
)
def test_views_equal_spark(names: list[str], mill_factory: Opener, tmp_path: Path, seed: int) -> None:
    rng, trial = trial_of((names, seed), mill_factory, tmp_path)
    needed = {n: q for n, q in VIEWS.items() if n in names or any(n in VIEWS[m].split() for m in names)}
    trial.create(needed)
    assert trial.run(rng) >= 3
    trial.check_not_vacuous()
    for name in rng.sample(sorted(trial.views), 3):
        trial.check_history(name)


def test_static_sides_are_looked_up(mill_factory: Opener, tmp_path: Path) -> None:
    _, trial = trial_of(1, mill_factory, tmp_path)
    trial.create(VIEWS)
    for name in VIEWS:
        used = kinds(trial.mill, name)
        regular = used & {JoinChanges, SemiChanges, PairSums}
        assert bool(regular) == (name in WITHOUT_LOOKUP), (name, used)


@pytest.mark.slow
def test_later_views_replacements_and_restarts(mill_factory: Opener, tmp_path: Path, seed: int) -> None:
    rng = random.Random(f"later {seed}")
    made = tables(rng, tmp_path / "data")
    given = settings(rng, made)
    print(given)
    trial = LaterTrial(local(mill_factory(**given)), made)
    trial.create({n: VIEWS[n] for n in ("left_outer", "sums")})
    for name in (
        "semi_residual",
        "grouped",
        "inner_join",
        "over_a_lookup",
        "below_by_key",
        "over_a_view",
        "two_static",
    ):
        for _ in range(rng.randrange(3)):
            trial.advance()
        trial.create({name: VIEWS[name]})
        if rng.random() < 0.4:
            trial.mill.checkpoint()
            trial.mill.close()
            trial.mill = local(mill_factory(**given))
        if rng.random() < 0.4:
            query = VIEWS["left_outer"] + rng.choice(("", " WHERE t.i > 0"))
            trial.mill.sql(f"CREATE OR REPLACE MATERIALIZED VIEW left_outer AS {query}")
    trial.run(rng)
    trial.check_not_vacuous()
