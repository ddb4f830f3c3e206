"""Finds durable objects that are kept for a few of their bytes, as the cleaner of a log-structured file system does.

A checkpoint writes runs of all tables into one object. Most of them are merged soon; a run of a table that is seldom
written stays, and the object with it. So a checkpoint also writes anew what is left in such objects, and these become
garbage. (Rosenblum and Ousterhout, The design and implementation of a log-structured file system, 1992.)
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping

from tidemill.state.versions.version import Run, Version

SHARE = 4
"""At most one in so many bytes of an object is still needed when they are written anew, so that at least three times
as many are freed."""
LEAST_BYTES = 4 << 20
"""Objects may have so many bytes that are not needed, whatever else is needed."""
MOST_BYTES = 8 << 20
"""What one checkpoint writes anew at most."""


def to_move(version: Version, sizes: Mapping[str, int], settled: Collection[str] = ()) -> list[Run]:
    """The runs that a checkpoint writes anew, so that objects hold at most twice the bytes that are needed.

    Parameters
    ----------
    version : Version
        As a manifest has it, before the checkpoint.
    sizes : mapping
        Bytes of durable objects, by name. Objects that are not in it stay as they are.
    settled : collection of str
        Others that stay.

    Returns
    -------
    list of Run
        All runs of some objects, those first of which the least part is needed. None of them has a run that only
        earlier epochs see, which goes soon anyway, or one of a level: these have objects of their own, and compaction
        may move them to another level meanwhile.
    """
    present = [run for run in version.every() if run.file in sizes]
    excess = sum(sizes[file] for file in {run.file for run in present})
    excess -= 2 * sum(run.bytes for run in present) + LEAST_BYTES
    if excess <= 0:
        return []
    runs: dict[str, list[Run]] = defaultdict(list)
    for run in present:
        runs[run.file].append(run)
    needed = {file: sum(run.bytes for run in here) for file, here in runs.items()}
    found: list[Run] = []
    left = MOST_BYTES
    for file in sorted(runs, key=lambda f: (needed[f] / max(1, sizes[f]), f)):
        if excess <= 0 or SHARE * needed[file] > sizes[file]:
            break
        if needed[file] > left or file in settled or any(r.removed is not None or r.level for r in runs[file]):
            continue
        found += runs[file]
        left -= needed[file]
        excess -= sizes[file] - needed[file]
    return found
