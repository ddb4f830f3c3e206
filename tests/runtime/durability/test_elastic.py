"""A root opened again with another number of partitions, on another host: the same files, read by ranges of vnodes."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from tidemill.mill import Mill
from tidemill.runtime.intake.intake import Intake
from tidemill.runtime.read.snapshot import Snapshot
from tidemill.sources.split import Split, SplitResult
from tidemill.state.versions.version import Run

_SCRIPT = """
CREATE TABLE t (k INT, v INT) USING csv OPTIONS (path '{data}');
CREATE MATERIALIZED VIEW sums AS SELECT k, COUNT(*) AS n, SUM(v) AS v, MAX(v) AS most FROM t GROUP BY k;
CREATE MATERIALIZED VIEW sizes AS SELECT n, COUNT(*) AS groups FROM sums GROUP BY n;
CREATE MATERIALIZED VIEW pairs AS SELECT a.k, a.v, b.most FROM t a JOIN sums b ON a.k = b.k WHERE a.v >= b.most;
"""


def check(mill: Mill, rows: list[tuple[int, int]]) -> None:
    counts = Counter(k for k, _ in rows)
    totals: Counter[int] = Counter()
    most: dict[int, int] = {}
    for k, v in rows:
        totals[k] += v
        most[k] = max(v, most.get(k, v))
    found = {r["k"]: (r["n"], r["v"], r["most"]) for r in mill.read("sums").to_pylist()}
    assert found == {k: (n, totals[k], most[k]) for k, n in counts.items()}
    assert {r["n"]: r["groups"] for r in mill.read("sizes").to_pylist()} == Counter(counts.values())
    assert Counter((r["k"], r["v"], r["most"]) for r in mill.read("pairs").to_pylist()) == Counter(
        (k, v, most[k]) for k, v in rows if v >= most[k]
    )


@pytest.mark.parametrize("order", [(3, 5, 2), (1, 7, 4)])
def test_another_number_of_partitions_rewrites_nothing(
    mill_factory: Callable[..., Mill],
    tmp_path: Path,
    seed: int,
    order: tuple[int, ...],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    chance = random.Random(seed)
    data = tmp_path / "data"
    data.mkdir()
    rows: list[tuple[int, int]] = []
    kept: frozenset[str] = frozenset()
    for number, partitions in enumerate(order):
        monkeypatch.setenv("TIDEMILL_HOST", f"host {number}")
        mill = mill_factory(
            partitions=partitions, small_epoch_bytes=0, checkpoint_seconds=1e9, compact_after=100, history_epochs=100
        )
        if not rows:
            mill.script(_SCRIPT.format(data=data))
        assert mill.snapshot().version.files() == kept
        check(mill, rows)
        for part in range(2):
            new = [(chance.randrange(40), chance.randrange(1000)) for _ in range(100)]
            (data / f"{number}-{part}.csv").write_text("".join(f"{k},{v}\n" for k, v in new))
            rows += new
            mill.advance()
            check(mill, rows)
        mill.checkpoint()
        mill.advance()
        assert kept <= mill.snapshot().version.files(), "what was there is read as it is"
        mill.close()
        kept = Snapshot.open(tmp_path / "root").version.files()


def test_files_that_are_half_read_go_on_with_another_number_of_tasks(
    mill_factory: Callable[..., Mill], tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each byte of a file is dispatched once, whoever has read what stands before it; newlines stand within quotes."""
    chance = random.Random(seed)
    data = tmp_path / "data"
    data.mkdir()
    written: dict[str, list[tuple[int, str]]] = {}
    for name in ("a.csv", "b.csv", "c.csv", "d.csv"):
        rows = [(chance.randrange(1000), chance.choice(["x", "x,\n", "\n\n"]) * 9) for _ in range(500)]
        (data / name).write_text("".join(f'{k},"{s}"\n' for k, s in rows))
        written[name] = rows
    sealed: list[Split] = []
    apply = Intake.apply

    def noting(self: Intake, results: Sequence[SplitResult], epoch: int) -> list[Run]:
        sealed.extend(r.split for r in results)
        return apply(self, results, epoch)

    monkeypatch.setattr(Intake, "apply", noting)
    for number, partitions in enumerate((4, 2, 5)):
        monkeypatch.setenv("TIDEMILL_HOST", f"host {number}")
        mill = mill_factory(partitions=partitions, epoch_bytes=8000, split_bytes=1500)
        if number == 0:
            mill.sql(f"CREATE TABLE t (k INT, s STRING) USING csv OPTIONS (path '{data}')")
            mill.sql("CREATE MATERIALIZED VIEW v AS SELECT k, s FROM t")
        assert mill.count("v") == sum(r["rows"] for r in mill.read("t__files").to_pylist())
        if number == 2:
            break
        for _ in range(2):
            assert mill.advance() is not None
        assert "reading" in {r["state"] for r in mill.read("t__files").to_pylist()}
        mill.close()
    while mill.advance() is not None:
        pass
    found = Counter((r["k"], r["s"]) for r in mill.read("v").to_pylist())
    assert found == Counter(row for rows in written.values() for row in rows)
    files = [(Path(r["path"]).name, r["state"], r["rows"], r["bytes"]) for r in mill.read("t__files").to_pylist()]
    assert sorted(files) == [(n, "done", len(rows), (data / n).stat().st_size) for n, rows in written.items()]
    for name in written:
        pieces = sorted((s.start, s.end) for s in sealed if Path(s.path).name == name)
        assert len(pieces) > 3
        assert [0, *(end for _, end in pieces)] == [*(start for start, _ in pieces), (data / name).stat().st_size]
    mill.close()
