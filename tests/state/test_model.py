"""Random operations on a shared buffer against dictionaries; `make model SEEDS=200` is the long form."""

from __future__ import annotations

import os
import shutil
import uuid
from pathlib import Path

import pytest
from buffer_model import Trial
from buffer_under_test import Clock, Place

from tidemill.state.store import durable_runs

SEEDS = int(os.environ.get("TIDEMILL_MODEL_SEEDS", "4"))
OPERATIONS = int(os.environ.get("TIDEMILL_MODEL_OPERATIONS", "1500"))


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("number", [0, 1, *(pytest.param(n, marks=pytest.mark.slow) for n in range(2, SEEDS))])
def test_random_operations(number: int, seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seed += number
    if seed % 4 == 0:  # in half of the directories checkpoints keep all files as they are
        monkeypatch.setattr(durable_runs, "_KEPT_BYTES", 1)
    if seed % 4 in (1, 2):  # half in a directory, where files are synced
        place = Place(f"memory:///{uuid.uuid4().hex}", tmp_path / "buffer", Clock())
    else:
        place = Place(tmp_path / "root", tmp_path / "root" / "buffer", Clock())
    print(run(place, seed, OPERATIONS))
    assert place.moved > 5, seed
    shutil.rmtree(tmp_path)


def run(place: Place, seed: int, operations: int) -> str:
    """One seed; a failure tells the last operations. Says how many there were of which."""
    with place.clock.running():
        trial = Trial(place, seed)
        try:
            trial.run(operations)
        except BaseException:
            print(f"TIDEMILL_SEED={seed} fails after {sum(trial.counts.values())} operations; the last:")
            print("\n".join(f"  {line}" for line in trial.trace))
            raise
    place.forget()
    counts = {**trial.counts, "runs to move": place.moved}
    return f"seed {seed}: " + ", ".join(f"{n} {name}" for name, n in sorted(counts.items()))
