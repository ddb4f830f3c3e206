"""Late rows: which are admitted, where the others go, what later views and a recovered mill make of it."""

from __future__ import annotations

import datetime
import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from oracle import Trial
from random_tables import COLUMNS, RandomTable, random_table

from tidemill.errors import TidemillError
from tidemill.mill import Mill
from tidemill.runtime.epoch.report import EpochReport
from tidemill.state.keys.keys import decode

DELAY = datetime.timedelta(days=30)
VIEWS = {
    "m_rows": "SELECT k, i, at FROM t",
    "m_windows": "SELECT window.start AS s, count(*) AS c, min(i) AS mi, max(s) AS ms, count(DISTINCT g) AS dg FROM t "
    "GROUP BY window(at, '10 days')",
    "m_hopping": "SELECT window.end AS e, k, max(i) AS x FROM t GROUP BY window(at, '20 days', '7 days'), k",
    "m_over": "SELECT c, count(*) AS n FROM m_windows GROUP BY c",
    "m_join": "SELECT x.w, x.c, y.x FROM (SELECT window AS w, count(*) AS c FROM t GROUP BY window(at, '30 days')) x "
    "JOIN (SELECT window AS w, max(d) AS x FROM t WHERE i > 0 GROUP BY window(at, '30 days')) y ON x.w = y.w",
    "m_pairs": "SELECT p.i, q.l FROM (SELECT window(at, '3 days') AS w, i FROM t WHERE b) p "
    "LEFT JOIN (SELECT window(at, '3 days') AS w, l FROM t WHERE k = 0) q ON p.w = q.w",
}


def growing(rng: random.Random, directory: Path, rows: int = 120, files: int = 6) -> RandomTable:
    """A table whose event times go up by about half a day a row, with delays of up to 60 days."""
    made = [0]

    def time(rng: random.Random) -> datetime.datetime:
        made[0] += 1
        start = datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC)
        hours = 12 * made[0] - rng.choice((0, 1, 24, 24 * 10, 24 * 29, 24 * 31, 24 * 60))
        return start + datetime.timedelta(hours=hours, microseconds=rng.choice((0, 1)))

    columns = tuple(replace(c, values=time) if c.name == "at" else c for c in COLUMNS)
    return random_table(rng, "t", columns, directory, rows=rows, deletes=True, files=files)


class WatermarkTrial(Trial):
    """Works out on its own which rows are late, from what each epoch read."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.late: list[int] = []
        self.times: list[datetime.datetime] = []
        self.counts: dict[int, int] = {}
        self.limits: dict[int, datetime.datetime] = {}

    def advance(self) -> EpochReport | None:
        table = self.tables["t"]
        place = [c.name for c in table.columns].index("at")
        before = [t for e in self._admitted["t"] if (t := table.events[e][2][place]) is not None]
        limit = max(before) - DELAY if before else None
        original = table.admitted
        left_out: list[int] = []

        def admitted(ranges: Any) -> Any:
            for event in original(ranges):
                time = table.events[event][2][place]
                if limit is not None and time is not None and time < limit:
                    left_out.append(event)
                else:
                    yield event

        table.admitted = admitted  # type: ignore[method-assign]
        try:
            report = super().advance()
        finally:
            table.admitted = original  # type: ignore[method-assign]
        if report is not None:
            assert report.late == len(left_out)
            self.late += left_out
            times = [t for e in self._admitted["t"] if (t := table.events[e][2][place]) is not None]
            self.times, self.counts[report.epoch] = times, len(times)
            self.limits[report.epoch] = max(times) - DELAY
        return report

    def check_errors(self) -> None:
        """Every late row, and nothing else, is among the errors with its line."""
        table = self.tables["t"]
        expected = sorted(f"{table.events[e][0]},{'I' if table.events[e][1] > 0 else 'D'}".encode() for e in self.late)
        errors = self.mill.read("t__errors").to_pylist()
        assert {(e["reason"], e["column"]) for e in errors} <= {("late", "at")}
        assert sorted(e["raw"] for e in errors) == expected


def _settings(rng: random.Random, table: RandomTable) -> dict[str, Any]:
    total = sum(len(content) for _, content, _ in table.waiting)
    return {
        "epoch_bytes": total // rng.randrange(5, 8),
        "split_bytes": rng.choice((200, 1000, 100_000)),
        "partitions": rng.randrange(1, 4),
        "compact_after": 2,
    }


def _with_watermark(trial_table: RandomTable) -> RandomTable:
    create = trial_table.create_statement()
    text = create[:-1] + ", watermark 'at', watermarkDelay '30 days')"
    trial_table.create_statement = lambda: text  # type: ignore[method-assign]
    return trial_table


def test_late_rows_are_not_admitted_and_not_lost(mill_factory: Callable[..., Mill], tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    table = _with_watermark(growing(rng, tmp_path / "t"))
    settings = _settings(rng, table)
    print(settings)
    trial = WatermarkTrial(mill_factory(**settings), [table])
    trial.create({name: VIEWS[name] for name in ("m_rows", "m_windows", "m_over", "m_pairs")})
    for _ in range(4):
        if table.waiting:
            table.release(1)
        trial.advance()
    assert trial.late, "no row was late: the test says nothing"
    trial.create({"m_hopping": VIEWS["m_hopping"], "m_join": VIEWS["m_join"]})
    trial.create({"m_again": VIEWS["m_rows"]})  # its history has late rows in it
    trial.mill.close()
    trial.mill = mill_factory(**settings)  # positions and times come back from the root
    trial.run(rng)
    trial.check_not_vacuous()
    trial.check_errors()
    trial.check_history("m_rows")
    trial.check_history("m_windows")


def test_state_lets_go_of_what_cannot_change(mill_factory: Callable[..., Mill], tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    table = _with_watermark(growing(rng, tmp_path / "t"))
    settings = {**_settings(rng, table), "partitions": 1}
    trial = WatermarkTrial(mill_factory(**settings), [table])
    trial.create({"m_windows": VIEWS["m_windows"], "m_join": VIEWS["m_pairs"]})
    trial.run(rng)
    coordinator = trial.mill._coordinator
    coordinator._compactor.wait()
    compacted: dict[str, int] = {}
    dropped = 0
    for name, lags in coordinator._programs().usual.retention.items():
        place = lags[0].place
        for run in coordinator.version.runs(name):
            if run.epoch_low == run.epoch_high:
                continue
            compacted[name.split(":")[0]] = run.rows
            times = decode(coordinator.store.open(run).keys, coordinator._programs().usual.tables[name].key)[
                place.column
            ]
            ends = times if place.field is None else times.flatten()[place.field]
            limit = trial.limits[run.epoch_high]
            assert all(end is None or end >= limit for end in ends.to_pylist()), f"{name}: {limit}, {ends}"
            dropped += sum(e + datetime.timedelta(days=10) < limit for e in trial.times[: trial.counts[run.epoch_high]])
    assert set(compacted) == {"rows", *(f"values{i}" for i in (1, 2, 3))}, compacted
    assert dropped, "nothing that was compacted could be let go: the test says nothing"
    trial.check_history("m_windows")


@pytest.mark.parametrize(
    ("options", "number", "got"),
    [
        ("watermark 'nothing'", "TM2021", "nothing"),
        ("watermark 'k'", "TM2021", "int"),
        ("watermarkDelay '10 minutes'", "TM4003", "10 minutes"),
        ("watermark 'at', watermarkDelay 'soon'", "TM4003", "soon"),
        ("watermark 'at', watermarkDelay '10 fortnights'", "TM4003", "fortnights"),
        ("watermark 'at', watermarkDelay '-10 minutes'", "TM4003", "-10"),
    ],
)
def test_watermarks_that_are_refused(
    mill_factory: Callable[..., Mill], tmp_path: Path, options: str, number: str, got: str
) -> None:
    (tmp_path / "data").mkdir()
    with pytest.raises(TidemillError, match=number) as error:
        mill_factory().sql(
            f"CREATE TABLE t (k INT, at TIMESTAMP) USING csv OPTIONS (path '{tmp_path}/data', {options})"
        )
    assert got in error.value.got
