"""Which runs of a table to merge: size-tiered over generations.

Runs that hold the same epochs form a generation (one run a partition). When a table has too many, its
newest generations are merged, taking in an older one as long as it is not much larger than all newer
ones together. So each row is rewritten O(log n) times, and the number of runs a reader meets stays small.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tidemill.state.version import Run

_RATIO = 1.5


@dataclass(frozen=True)
class Compaction:
    """Runs of one table to be replaced by their merge.

    ``full`` tells that nothing older remains, so that rows whose weight is zero can go.
    """

    table: str
    runs: tuple[Run, ...]
    full: bool


def choose(table: str, runs: Sequence[Run], most: int) -> Compaction | None:
    """What to merge in one table, or None while it has at most ``most`` generations.

    Parameters
    ----------
    runs : sequence of Run
        The visible runs, oldest changes first.
    """
    generations: list[list[Run]] = []
    for run in runs:
        if generations and generations[-1][0].epoch_high == run.epoch_high:
            generations[-1].append(run)
        else:
            generations.append([run])
    if len(generations) <= most:
        return None
    sizes = [sum(r.bytes for r in g) for g in generations]
    first = len(generations) - 1
    total = sizes[first]
    least = max(2, most // 3)
    while first > 0 and (len(generations) - first < least or sizes[first - 1] <= _RATIO * total):
        first -= 1
        total += sizes[first]
    chosen = tuple(r for g in generations[first:] for r in g)
    return Compaction(table, chosen, first == 0)
