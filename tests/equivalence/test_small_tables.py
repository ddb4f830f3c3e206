"""Views over small tables that change equal Spark's answers after every epoch, whichever program it takes."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest
from change_tables import KeyedTrial, envelopes, upserts
from oracle import LaterTrial, Trial, usual_settings
from queries import read_views
from random_tables import COLUMNS, DIMENSION, RandomTable, random_table

from local_jobs import local
from tidemill.mill import Mill
from tidemill.runtime.job.epoch_programs import EpochPrograms, Prepared
from tidemill.task.program import JoinChanges, LookupJoin, PairSums, SemiChanges

Opener = Callable[..., Mill]
VIEWS = read_views(Path(__file__).with_name("static_tables.sql")) | read_views(
    Path(__file__).with_name("small_tables.sql")
)
NOT_ONLY_LOOKUPS = {"right_outer", "full_outer", "static_right_left", "static_only", "before_a_join"}
NOT_ONLY_LOOKUPS |= {"small_with_itself", "joined_small", "then_another"}
NOT_ONLY_LOOKUPS |= {"left_outer_residual", "semi_residual", "nobody", "star_rows", "appended_star"}
NO_LOOKUP = {"static_right_left", "static_only", "small_with_itself"}
KEYED = {
    "named": "SELECT c.k, c.s, d.name, d.w FROM c JOIN d ON c.k = d.id",
    "by_name": "SELECT d.name, count(*) AS n, sum(c.n) AS s FROM c JOIN d ON c.k = d.id GROUP BY d.name",
    "unnamed": "SELECT k, g FROM c WHERE NOT EXISTS (SELECT 1 FROM d WHERE d.id = c.k)",
    "all_named": "SELECT c.g, c.k, d.name FROM c LEFT JOIN d ON c.k = d.id AND d.w > c.n",
    "per_group": "SELECT c.g, c.k, max(d.w) AS w, count(*) AS n FROM c JOIN d ON c.k = d.id GROUP BY c.g, c.k",
}


class SmallTable(RandomTable):
    """May be the small side of a join whatever its size."""

    def create_statement(self) -> str:
        """With the option."""
        return super().create_statement().replace("OPTIONS (", "OPTIONS (broadcast 'true', ")


def small(table: RandomTable) -> SmallTable:
    return SmallTable(**vars(table))


def tables(rng: random.Random, directory: Path) -> list[RandomTable]:
    return [
        random_table(rng, "t", COLUMNS, directory / "t", rows=160, deletes=True, files=5),
        random_table(rng, "a", COLUMNS, directory / "a", rows=60, deletes=False, files=3),
        small(random_table(rng, "u", DIMENSION, directory / "u", rows=50, deletes=True, files=4)),
        small(random_table(rng, "s", COLUMNS, directory / "s", rows=30, deletes=True, files=2)),
    ]


def trial_of(seed: object, mill_factory: Opener, directory: Path) -> tuple[random.Random, Trial]:
    rng = random.Random(str(seed))
    made = tables(rng, directory / "data")
    given = {**usual_settings(rng, made, epochs=8), "small_epoch_bytes": rng.choice((0, 0, 1500))}
    print(given)
    return rng, Trial(local(mill_factory(**given)), made, sometimes=True)


@pytest.fixture
def taken(monkeypatch: pytest.MonkeyPatch) -> list[frozenset[str]]:
    """The state tables that are taken to be still, of each epoch that a program is chosen for."""
    found: list[frozenset[str]] = []
    of = EpochPrograms.of

    def noted(self: EpochPrograms, read: set[str]) -> Prepared:
        made = of(self, read)
        found.append(made.unchanged)
        return made

    monkeypatch.setattr(EpochPrograms, "of", noted)
    return found


def kinds(mill: Mill, view: str) -> tuple[int, int]:
    """How many joins a view has while small tables are still: by lookup, and others."""
    program = mill._coordinator._programs().of({"t", "a"}).program
    joins = [s.operation for s in program.steps if view in s.views and isinstance(s.operation, JOINS)]
    lookups = sum(isinstance(o, LookupJoin) or (isinstance(o, PairSums) and o.complete is not None) for o in joins)
    return lookups, len(joins) - lookups


JOINS = (JoinChanges, LookupJoin, SemiChanges, PairSums)


@pytest.mark.parametrize(
    "names",
    [pytest.param(list(VIEWS)[i::3], marks=[pytest.mark.slow] if i else []) for i in range(3)],
    ids=["first", "second", "third"],
)
def test_views_equal_spark(
    names: list[str], mill_factory: Opener, tmp_path: Path, seed: int, taken: list[frozenset[str]]
) -> None:
    rng, trial = trial_of((names, seed), mill_factory, tmp_path)
    needed = {n: q for n, q in VIEWS.items() if n in names or any(n in VIEWS[m].split() for m in names)}
    trial.create(needed)
    assert trial.run(rng) >= 3
    assert any(taken) and len(set(taken)) > 1, "other small tables are still in other epochs"
    assert len(trial.views.keys() - trial.ever - {"with_total"}) <= 1, "a join of values may have no row, by chance"
    for name in rng.sample(sorted(trial.views), 3):
        trial.check_history(name)


def test_small_sides_are_looked_up(mill_factory: Opener, tmp_path: Path) -> None:
    _, trial = trial_of(1, mill_factory, tmp_path)
    trial.create(VIEWS)
    programs = trial.mill._coordinator._programs()
    assert programs.small == {"u", "s"}
    assert programs.of({"t", "a"}).tables == programs.usual.tables, "the same state"
    assert programs.of({"t", "u"}).tables == programs.usual.tables
    found = {name: kinds(trial.mill, name) for name in VIEWS}
    assert {n for n, (_, others) in found.items() if others} == NOT_ONLY_LOOKUPS
    assert {n for n, (lookups, others) in found.items() if others and not lookups} == NO_LOOKUP


@pytest.mark.slow
def test_later_views_replacements_and_restarts(
    mill_factory: Opener, tmp_path: Path, seed: int, taken: list[frozenset[str]]
) -> None:
    rng = random.Random(f"later small {seed}")
    made = tables(rng, tmp_path / "data")
    given = {**usual_settings(rng, made, epochs=10), "small_epoch_bytes": rng.choice((0, 1500)), "compact_after": 3}
    print(given)
    trial = LaterTrial(local(mill_factory(**given)), made)
    trial.create({n: VIEWS[n] for n in ("left_outer", "sums")})
    for name in ("semi_residual", "grouped", "star", "over_a_lookup", "below_by_key", "over_a_view", "star_rows"):
        for _ in range(rng.randrange(3)):
            trial.advance()
        needed = [n for n in ("inner_join",) if name == "over_a_lookup"]
        trial.create({n: VIEWS[n] for n in (*needed, name)})
        if rng.random() < 0.4:
            trial.mill.checkpoint()
            trial.mill.close()
            given["broadcast_bytes"] = rng.choice((0, 10 << 20))
            trial.mill = local(mill_factory(**given))
        if rng.random() < 0.4:
            query = VIEWS["left_outer"] + rng.choice(("", " WHERE t.i > 0"))
            trial.mill.sql(f"CREATE OR REPLACE MATERIALIZED VIEW left_outer AS {query}")
    trial.run(rng)
    assert any(taken)


def test_a_program_that_does_not_fit_is_found_out(
    mill_factory: Opener, tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    of = EpochPrograms.of
    monkeypatch.setattr(EpochPrograms, "of", lambda self, read: of(self, read - self.small))
    rng, trial = trial_of(("wrong", seed), mill_factory, tmp_path)
    trial.create({n: VIEWS[n] for n in ("inner_join", "left_outer_residual", "grouped", "below_by_key", "one_row")})
    redone = 0
    for _ in range(40):
        waiting = [t for t in trial.tables.values() if t.waiting]
        if waiting:
            rng.choice(waiting).release(1)
        report = trial.advance()
        redone += 0 if report is None else report.redone
        if report is None and not waiting:
            break
    assert redone > 0


@pytest.mark.parametrize("later", [False, True])
def test_keyed_tables_as_small_sides(
    later: bool, mill_factory: Opener, tmp_path: Path, seed: int, taken: list[frozenset[str]]
) -> None:
    rng = random.Random(f"keyed small {seed}")
    made = [upserts(rng, tmp_path / "c", 160), envelopes(rng, tmp_path / "d", 60)]
    made[1].create = made[1].create.replace("OPTIONS (", "OPTIONS (broadcast 'true', ")
    given = {"epoch_bytes": rng.choice((700, 2500)), "partitions": rng.randrange(1, 5), "small_epoch_bytes": 0}
    print(given)
    trial = KeyedTrial(local(mill_factory(**given)), made)
    if later:
        trial.advance()
        trial.advance()
    trial.create(KEYED)
    trial.run(rng)
    trial.check_not_vacuous({"unnamed"} if later else ())
    assert any(taken) and len(set(taken)) > 1
