"""The sequence of actions, and what is measured meanwhile."""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from benchmarks.soak import actions, kills
from benchmarks.soak.checks import audit, checkpoint, no_client_is_left
from benchmarks.soak.error import SoakError
from benchmarks.soak.feeds import FileFeed, SocketFeed
from benchmarks.soak.memory import Sample, Sampler
from benchmarks.soak.world import World

_ACTIONS: tuple[tuple[Callable[[World], None], int], ...] = (
    (actions.push, 40),
    (actions.fetch, 12),
    (actions.add_query, 7),
    (audit, 6),
    (actions.crowd, 5),
    (actions.follow, 5),
    (actions.drop_connection, 4),
    (actions.wrong, 4),
    (kills.kill_workers, 4),
    (actions.open_cursor, 3),
    (actions.drop_query, 3),
    (actions.replace_query, 3),
    (actions.pause_table, 3),
    (actions.pause_view, 3),
    (actions.set_priority, 2),
    (actions.limit_view, 2),
    (kills.lose_sender, 2),
    (actions.silent_reader, 2),
    (actions.add_reader, 2),
    (actions.drop_read_table, 1),
)
"""Actions, and how often each comes."""


@dataclass(frozen=True)
class Result:
    """What a soak did and measured.

    Attributes
    ----------
    counts : Counter of str
        How often everything happened.
    numbers : Counter of str
        Numbers of the errors that requests were answered with.
    samples : list of Sample
        Of the newest process, without those of its first seconds.
    epoch : int
        The last one.
    """

    seconds: float
    counts: Counter[str]
    numbers: Counter[str]
    samples: list[Sample]
    epoch: int


@dataclass(frozen=True)
class Plan:
    """How long a soak is, and how often the rare things happen.

    Parameters
    ----------
    seconds : float
        Without start and end.
    checkpoint_seconds : float
        Between two comparisons of everything.
    kill_seconds : float
        Between two kills of the server; the first one comes after half of it.
    observe : bool
        Whether the server is restarted before the calm part, and not killed in it, so that its memory can be observed.
    warm_up_seconds : float
        Of the process whose memory is observed.
    calm : float
        The part at the end in which the server is not killed.
    settings : tuple of str
        More of the server's, as ``NAME=VALUE``.
    """

    seconds: float
    checkpoint_seconds: float = 30.0
    kill_seconds: float = 75.0
    observe: bool = True
    warm_up_seconds: float = 120.0
    master: str = "local[2]"
    calm: float = 0.5
    settings: tuple[str, ...] = ()


def run(place: Path, seed: int, plan: Plan) -> Result:
    """Run a soak in a directory.

    Raises
    ------
    SoakError
        With the seed and the newest actions; the file ``described`` has what the server said of itself.
    """
    world = World(place, seed, plan.master, plan.settings)
    began, sampler = time.monotonic(), Sampler(world.server)
    try:
        world.server.start()
        sampler.start()
        try:
            _begin(world)
            _act(world, plan)
            checkpoint(world)
            epoch = world.client.status()["epoch"]
            _end(world)
        finally:
            sampler.end()
            sampler.write(place / "samples")
        return Result(
            time.monotonic() - began,
            world.counts,
            world.numbers,
            sampler.of_last_process(plan.warm_up_seconds),
            epoch,
        )
    except Exception as error:
        newest = "\n  ".join(world.newest)
        (place / "described").write_text(world.server.describe())
        failed = SoakError(f"seed {seed}: {type(error).__name__}: {error}\nthe newest actions:\n  {newest}")
        failed.samples = sampler.of_last_process(plan.warm_up_seconds)
        raise failed from error
    finally:
        world.close()


def _begin(world: World) -> None:
    """A table of each kind, and some views."""
    chance, place = world.chance, world.server.root.parent
    world.create_reader(FileFeed(chance, "csv", 101, place / "first"))
    world.create_reader(SocketFeed(chance, "json", 102, listens=False))
    world.create_reader(SocketFeed(chance, "csv", 103, listens=True))
    for _ in range(4):
        actions.add_query(world)
        actions.push(world)


def _act(world: World, plan: Plan) -> None:
    """Actions at random until the time is over."""
    functions, weights = zip(*_ACTIONS, strict=True)
    begin = time.monotonic()
    end, calm = begin + plan.seconds, begin + plan.seconds * (1 - plan.calm)
    compare, kill, restarted = begin + plan.checkpoint_seconds, begin + plan.kill_seconds / 2, False
    while (now := time.monotonic()) < end or (kill < end and not restarted):  # a kill that is due is not left out
        if now > kill and not restarted:
            kill = time.monotonic() + plan.kill_seconds
            kills.kill_server(world)
        elif now > calm and plan.observe and not restarted:
            restarted = True
            kills.restart(world)
        elif now > compare:
            checkpoint(world)
            compare = time.monotonic() + plan.checkpoint_seconds
        else:
            action = world.chance.choices(functions, weights)[0]
            action(world)
            world.counts["actions"] += 1
            world.counts[f"action {action.__name__}"] += 1
        for follower in world.followers:
            follower.check()


def _end(world: World) -> None:
    """All clients go, which the server must notice; then it is stopped."""
    for follower in world.followers:
        follower.close()
    for connection in world.silent:
        connection.close()
    world.silent.clear()
    actions.push(world)  # the Python client leaves its loop with the next epoch
    no_client_is_left(world)
    world.counts["HTTP answers of the last process"] = sum(world.server.count_answers().values())
    world.server.stop()


def new_seed() -> int:
    """A seed of its own for each run."""
    return random.SystemRandom().randrange(10**6)
