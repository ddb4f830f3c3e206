"""A mill whose disk fails at random: whatever it claims to have sealed is what the rows give, before and after."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.local_jobs import local
from tests.state.buffer_under_test import LocalContext

from tidemill.errors import TidemillError
from tidemill.mill import Mill
from tidemill.state.store.store import RunStore
from tidemill.state.versions.objects import Objects, UncertainError

_SCRIPT = """
CREATE TABLE t (k INT, v INT) USING csv OPTIONS (path '{data}/t', header true, opColumn 'op', maxFilesPerTrigger 1);
CREATE MATERIALIZED VIEW sums AS SELECT k, COUNT(*) AS n, SUM(v) AS v FROM t GROUP BY k;
CREATE MATERIALIZED VIEW sizes AS SELECT n, COUNT(*) AS groups FROM sums GROUP BY n;
CREATE MATERIALIZED VIEW pairs AS SELECT a.k, a.v, b.v AS w FROM t a JOIN t b ON a.k = b.k AND a.v < b.v;
CREATE MATERIALIZED VIEW greatest AS SELECT k, MAX(v) AS v FROM t GROUP BY k;
"""
_EPOCHS = 14
Opener = Callable[..., Mill]


class Disk:
    """Lets reads and writes of objects, and writes of the buffer, fail at random."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self.chance = 0.0
        self.failures = 0

    def _may_fail(self, method: Callable[..., Any]) -> Callable[..., Any]:
        def failing(*args: Any, **kwargs: Any) -> Any:
            if self._rng.random() >= self.chance:
                return method(*args, **kwargs)
            self.failures += 1
            fate = self._rng.choice(("fails", "applied", "uncertain"))
            if fate != "fails":
                method(*args, **kwargs)
            if fate == "uncertain":
                raise UncertainError(5, "injected: it may have been done")
            raise OSError(28, "injected: No space left on device")

        return failing

    @contextmanager
    def failing(self, patch: pytest.MonkeyPatch) -> Iterator[None]:
        """Patch what all roots go through in this process."""
        with patch.context() as patched:
            for owner, names in ((Objects, ("put", "get", "list", "remove")), (RunStore, ("evict",))):
                for name in names:
                    patched.setattr(owner, name, self._may_fail(getattr(owner, name)))
            yield


class Rows:
    """What the files hold: file i has inserts, and deletions of rows there before."""

    def __init__(self, rng: random.Random, data: Path) -> None:
        (data / "t").mkdir(parents=True)
        self.after: list[Counter[tuple[int, int]]] = [Counter()]
        for number in range(_EPOCHS):
            rows, lines = Counter(self.after[-1]), []
            for _ in range(12):
                present = list(rows.elements())
                if present and rng.random() < 0.4:
                    row = rng.choice(present)
                    rows[row] -= 1
                    lines.append(f"{row[0]},{row[1]},D")
                else:
                    row = (rng.randrange(7), rng.randrange(5))
                    rows[row] += 1
                    lines.append(f"{row[0]},{row[1]},I")
            (data / "t" / f"{number:03d}.csv").write_text("\n".join(("k,v,op", *lines)) + "\n")
            self.after.append(+rows)

    def views(self, files: int) -> dict[str, Counter[tuple[Any, ...]]]:
        """The views after some files."""
        groups: dict[int, list[int]] = {}
        for k, v in self.after[files].elements():
            groups.setdefault(k, []).append(v)
        return {
            "sums": Counter((k, len(v), sum(v)) for k, v in groups.items()),
            "sizes": Counter(Counter(len(v) for v in groups.values()).items()),
            "pairs": Counter((k, v, w) for k, vs in groups.items() for v in vs for w in vs if v < w),
            "greatest": Counter((k, max(v)) for k, v in groups.items()),
        }


def check(mill: Mill, rows: Rows) -> None:
    """Every view is that of as many files as epochs have been sealed."""
    for name, expected in rows.views(mill.epoch).items():
        found = Counter(tuple(r.values()) for r in mill.read(name).to_pylist())
        assert found == expected, f"{name} in epoch {mill.epoch}"


def without_spark_jobs(mill: Mill) -> Mill:
    """Epochs, merges and uploads in this process."""
    context: Any = LocalContext(1)
    coordinator = local(mill)._coordinator
    coordinator._compactor._context = context
    upload: Any = coordinator._checkpoints._upload
    upload.args[0].__self__._context = context
    return mill


def abandon(mill: Mill) -> None:
    """The process dies."""
    mill._coordinator.close(checkpoint=False)
    mill._closed = True


@pytest.mark.parametrize("partitions", [1, 3])
def test_a_disk_that_fails_at_random(
    mill_factory: Opener, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int, partitions: int
) -> None:
    rng = random.Random(seed)
    rows, disk = Rows(rng, tmp_path / "data"), Disk(rng)
    settings = {"partitions": partitions, "checkpoint_seconds": 1e9, "compact_after": 2, "garbage_grace_seconds": 0.0}
    mill = without_spark_jobs(mill_factory(**settings))
    mill.script(_SCRIPT.format(data=tmp_path / "data"))
    durable, opened = 0, 1
    with disk.failing(monkeypatch):
        while durable < _EPOCHS:
            disk.chance = 0.2
            try:
                before = mill.epoch
                mill.advance()
                assert mill.epoch <= before + 1
                mill._coordinator._compactor.wait()
                if rng.random() < 0.5 or mill.epoch == _EPOCHS:
                    mill.checkpoint()
                    durable = mill.epoch
            except (TidemillError, OSError) as error:
                print(f"epoch {mill.epoch}, durable {durable}: {error}")
            disk.chance = 0.0
            assert mill.epoch >= durable, "what was durable is lost"
            check(mill, rows)
            if rng.random() < 0.25 or mill._coordinator._checkpoints._stopped:
                abandon(mill)
                mill = without_spark_jobs(mill_factory(**settings))
                opened += 1
                assert mill.epoch >= durable, "what was durable is lost"
                check(mill, rows)
    print(f"{disk.failures} failures, {opened} processes")
    assert disk.failures
    assert mill.epoch == _EPOCHS
    abandon(mill)
    check(mill_factory(**settings), rows)
