"""Which runs of a table to merge: size-tiered while they are young, then levelled.

Level 0 holds young runs. Those of the same epochs form a generation (one run a partition or slice); of any two
generations all epochs of one are older. When there are too many, the newest are merged, taking in an older one as long
as it is not much larger than all newer ones together, so each row is rewritten O(log n) times there.

When level 0 has grown, its oldest generations go down: into the deepest level, ``DEEPEST``, while that is not much
larger than what comes down, else into the level above it, which may have a ``fan_out``-th of it, and so on; a level
that is too large gives runs to the next one. Runs of one level have disjoint key ranges, so a reader meets one of each
for any key, and deeper ones are older. Whatever the size of the table, a merge into a level takes only the runs of it
that it overlaps, cut into slices of key ranges that can be merged apart.

The sizes of levels follow from the deepest, as in RocksDB (``level_compaction_dynamic_level_bytes``), so little of what
is stored is out of date.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from tidemill.state.versions.expiry import Expiry
from tidemill.state.versions.version import Bound, Run

DEEPEST = 6
LOWEST, HIGHEST = b"", b"\xff\xff\xff"
"""Bounds below and above every key: keys begin with a vnode of two bytes, at most 256."""

_RATIO = 1.5
_WORTH_CLEANING = 64 << 10
_SHARE = 16
"""A run of a level has at most this part of a task's memory: four are merged at once, into as many bytes again."""
_LEAST_BYTES = 1 << 20
"""A run of a level may have so many bytes however little memory there is."""


@dataclass(frozen=True)
class Policy:
    """When and how much is merged.

    Parameters
    ----------
    most : int
        Generations that level 0 may have.
    run_bytes : int
        Size of a run in a level; level 0 goes down when it has as much, or several times as much if a large level is
        rewritten then.
    fan_out : int
        How much larger a level is than the one above it.
    job_bytes : int
        Most bytes of runs that one merge takes from one level.
    """

    most: int = 12
    run_bytes: int = 32 << 20
    fan_out: int = 10
    job_bytes: int = 256 << 20

    def within(self, memory: int) -> Policy:
        """The same with runs that a task merges in so much memory (bytes): it takes four of them at once."""
        return replace(self, run_bytes=min(self.run_bytes, max(_LEAST_BYTES, memory // _SHARE)))

    @property
    def down_bytes(self) -> int:
        """Most bytes that level 0 waits for before it goes down."""
        return 4 * self.run_bytes

    @property
    def slice_bytes(self) -> int:
        """About how many bytes are merged at a time."""
        return 2 * self.run_bytes


@dataclass(frozen=True)
class Slice:
    """Keys ``low <= key < high`` of some runs, oldest changes first, to be merged on their own.

    ``full`` tells that nothing older remains there, so that rows whose weight is zero can go.
    """

    low: Bound
    high: Bound
    runs: tuple[Run, ...]
    full: bool
    bytes: int


@dataclass(frozen=True)
class Compaction:
    """Runs of one table to be replaced, all together, by what their slices become in a level.

    Without slices nothing is read: the runs are ``moved`` into the level unchanged, or dropped since all has expired.
    """

    table: str
    runs: tuple[Run, ...]
    level: int
    slices: tuple[Slice, ...]
    moved: bool = False

    @property
    def epochs(self) -> tuple[int, int]:
        """The epochs whose changes the runs hold, both ends included."""
        return min(r.epoch_low for r in self.runs), max(r.epoch_high for r in self.runs)

    @property
    def keys(self) -> tuple[bytes, bytes]:
        """Bounds of the keys of all runs, the upper one excluded."""
        return _hull(self.runs)


def choose(
    table: str,
    runs: Sequence[Run],
    policy: Policy,
    expired: Sequence[Expiry] = (),
    aged: int = -1,
    busy: Sequence[Compaction] = (),
) -> list[Compaction]:
    """Choose compactions of one table; each can be done, or fail, independently.

    Parameters
    ----------
    runs : sequence of Run
        The visible runs.
    expired : sequence of Expiry
        Rows for which all of these hold can be dropped.
    aged : int
        A table that was not written after this epoch is cleaned even where it is not known whether rows have expired.
    busy : sequence of Compaction
        Compactions that are running.
    """
    young = sum(r.bytes for r in runs if not r.level)
    if len(runs) <= policy.most and young < policy.run_bytes // 2 and not expired and not any(r.level for r in runs):
        return []
    chosen = _Choice(table, runs, policy, busy)
    if expired:
        chosen.drop(expired)
    chosen.go_down()
    chosen.tier()
    if expired:
        chosen.clean(expired, aged)
    return chosen.found


def conflict(runs: Iterable[Run]) -> str | None:
    """Why a table could not be read from some visible runs; None when it can. See the module for what must hold."""
    levels = _by_level(runs)
    for level, held in levels.items():
        if level:
            for one, other in itertools.pairwise(held):
                if not one.low < one.high <= other.low < other.high:
                    return f"level {level}: {one} overlaps {other}"
    epochs = sorted({(r.epoch_low, r.epoch_high) for r in levels.get(0, ())})
    for before, after in itertools.pairwise(epochs):
        if before[1] >= after[0]:
            return f"generations of epochs {before} and {after} overlap"
    return None


class _Choice:
    """Compactions of one table that do not conflict with each other, nor with those under way."""

    def __init__(self, table: str, runs: Sequence[Run], policy: Policy, busy: Sequence[Compaction]) -> None:
        self.found: list[Compaction] = []
        self._table = table
        self._policy = policy
        self._busy = list(busy)
        self._taken = {_name(r) for c in busy for r in c.runs}
        levels = _by_level(runs)
        self._generations = _generations(levels.pop(0, []))
        self._levels = levels
        self._deepest = sum(r.bytes for r in levels.get(DEEPEST, ()))

    def drop(self, expired: Sequence[Expiry]) -> None:
        """Drop runs in which every row has expired."""
        gone = [r for r in self._every() if self._is_free(r) and _expired_part(r, expired) == 1.0]
        if gone:
            self.found.append(Compaction(self._table, tuple(gone), 0, ()))
            self._taken |= {_name(r) for r in gone}
            self._generations = [kept for g in self._generations if (kept := self._free_of(g, gone))]
            self._levels = {lv: kept for lv, held in self._levels.items() if (kept := self._free_of(held, gone))}

    def go_down(self) -> None:
        """Move runs of level 0, and of levels that are too large, into deeper levels; the most urgent first."""
        base = self._base()
        young = sum(r.bytes for g in self._generations for r in g)
        trigger = self._trigger(base)
        scores = [(young / trigger, 0)]
        for level, held in self._levels.items():
            if level < DEEPEST:
                scores.append((sum(r.bytes for r in held) / max(1, self._allowed(level)), level))
        for score, level in sorted(scores, reverse=True):
            if score >= 1 and level == 0:
                self._young_down(base)
            elif score > 1 and level:
                self._push(level)

    def tier(self) -> None:
        """Merge the newest generations when there are too many."""
        free = self._newest_free()
        most = self._policy.most
        if len(free) <= most:
            return
        sizes = [sum(r.bytes for r in g) for g in free]
        first = len(free) - 1
        total = sizes[first]
        least = max(2, most // 3)
        while first > 0 and (len(free) - first < least or sizes[first - 1] <= _RATIO * total):
            first -= 1
            total += sizes[first]
        self._merge_young(free[first:])

    def clean(self, expired: Sequence[Expiry], aged: int) -> None:
        """Rewrite runs of which half has expired, or may have in a table that was not written for long."""
        unknown = 0.5 if all(g[0].epoch_high <= aged for g in self._generations[-1:]) else 0.0
        for run in [r for held in self._levels.values() for r in held]:
            if self._is_free(run) and _expired_part(run, expired, unknown) >= 0.5:
                self._add([run], [], run.level)
        for generation in self._generations:
            size = sum(r.bytes for r in generation)
            part = sum(r.bytes * _expired_part(r, expired, unknown) for r in generation) / max(1, size)
            worth = size >= min(_WORTH_CLEANING, self._policy.run_bytes)
            if worth and part >= 0.5 and all(map(self._is_free, generation)):
                self._merge_young([generation])

    def _young_down(self, base: int) -> None:
        taken: list[Run] = []
        size = 0
        for generation in self._generations:
            size += sum(r.bytes for r in generation)
            if not all(map(self._is_free, generation)) or (taken and size > self._policy.job_bytes):
                break
            taken += generation
        if taken:
            self._add(taken, self._overlapped(base, _hull(taken)), base)

    def _push(self, level: int) -> None:
        """Move the runs of a level down that rewrite least of the next one, relative to their own size."""
        held = [r for r in self._levels[level] if self._is_free(r)]
        excess = sum(r.bytes for r in self._levels[level]) - self._allowed(level)
        costs = {_name(r): sum(o.bytes for o in self._overlapped(level + 1, r.keys)) / max(1, r.bytes) for r in held}
        limit = self._policy.job_bytes
        for run in sorted(held, key=lambda r: (costs[_name(r)], r.low)):
            if excess <= 0 or limit <= 0:
                return
            if self._add([run], self._overlapped(level + 1, run.keys), level + 1):
                excess -= run.bytes
                limit -= run.bytes

    def _add(self, upper: Sequence[Run], lower: Sequence[Run], level: int) -> bool:
        """Merge runs with those of a deeper level, unless that conflicts with another compaction; returns whether."""
        runs = [*lower, *upper]
        keys = _hull(runs)
        if not all(map(self._is_free, runs)) or any(
            c.level and _overlap(keys, c.keys) for c in (*self._busy, *self.found) if c.slices or c.moved
        ):
            return False
        moved = not lower and upper[0].level not in (0, level) and all(r.file.endswith(".sst") for r in upper)
        slices = () if moved else self._slices(upper, lower, keys, level)
        self._take(Compaction(self._table, tuple(runs), level, slices, moved))
        return True

    def _merge_young(self, generations: Sequence[Sequence[Run]]) -> None:
        runs = [r for g in generations for r in g]
        oldest = generations[0] is self._generations[0]
        pieces = -(-sum(r.bytes for r in runs) // self._policy.slice_bytes)
        bounds = [LOWEST, *_vnode_cuts(_hull(runs), pieces), HIGHEST]
        slices = [self._slice(runs, low, high, 0, oldest) for low, high in itertools.pairwise(bounds)]
        self._take(Compaction(self._table, tuple(runs), 0, tuple(s for s in slices if s.runs)))

    def _take(self, compaction: Compaction) -> None:
        self.found.append(compaction)
        self._taken |= {_name(r) for r in compaction.runs}

    def _slices(
        self, upper: Sequence[Run], lower: Sequence[Run], keys: tuple[bytes, bytes], level: int
    ) -> tuple[Slice, ...]:
        size = self._policy.slice_bytes
        total = sum(r.bytes for r in (*upper, *lower))
        pieces = -(-total // size)
        cuts: list[bytes] = []
        if len(lower) >= pieces:
            share = total / max(1, sum(r.bytes for r in lower))
            held = 0.0
            for run in lower:
                if held and held + run.bytes * share > 1.5 * size:
                    cuts.append(run.low)
                    held = 0.0
                held += run.bytes * share
        else:
            cuts = _vnode_cuts(keys, pieces)
        bounds = [keys[0], *(c for c in cuts if keys[0] < c < keys[1]), keys[1]]
        found = [self._slice([*lower, *upper], a, b, level, True) for a, b in itertools.pairwise(bounds)]
        return tuple(s for s in found if s.runs)

    def _slice(self, runs: Sequence[Run], low: bytes, high: bytes, level: int, oldest: bool) -> Slice:
        inside = tuple(r for r in runs if _overlap(r.keys, (low, high)))
        # Older rows on their way into a deeper level are still among the visible runs, where they come from.
        full = oldest and not any(self._overlapped(deeper, (low, high)) for deeper in self._levels if deeper > level)
        size = sum(round(r.bytes * _share(r.keys, (low, high))) for r in inside)
        return Slice(low, high, inside, full, size)

    def _base(self) -> int:
        """The level that level 0 goes down to: none above it holds anything, none below is too small."""
        base = DEEPEST
        while base > 1 and self._allowed(base - 1):
            base -= 1
        return min([base, *self._levels])

    def _allowed(self, level: int) -> float:
        """How large a level above the deepest may be; 0 when it would be too small to be of use."""
        size = self._deepest / self._policy.fan_out ** (DEEPEST - level)
        return size if 2 * size >= self._policy.down_bytes else 0.0

    def _trigger(self, base: int) -> float:
        """How much level 0 holds before it goes down: more when much is rewritten then, but not much beside that."""
        held = sum(r.bytes for r in self._levels.get(base, ()))
        return min(self._policy.down_bytes, max(self._policy.run_bytes, held / _RATIO))

    def _newest_free(self) -> list[list[Run]]:
        """The generations newer than any that is being merged."""
        free: list[list[Run]] = []
        for generation in reversed(self._generations):
            if not all(map(self._is_free, generation)):
                break
            free.append(generation)
        return free[::-1]

    def _overlapped(self, level: int, keys: tuple[bytes, bytes]) -> list[Run]:
        return [r for r in self._levels.get(level, ()) if _overlap(r.keys, keys)]

    def _every(self) -> list[Run]:
        return [r for held in (*self._generations, *self._levels.values()) for r in held]

    def _is_free(self, run: Run) -> bool:
        return _name(run) not in self._taken

    def _free_of(self, runs: Sequence[Run], gone: Sequence[Run]) -> list[Run]:
        return [r for r in runs if r not in gone]


def _name(run: Run) -> tuple[str, int]:
    return run.file, run.section


def _by_level(runs: Iterable[Run]) -> dict[int, list[Run]]:
    """Runs by level: level 0 by age, the others by key."""
    levels: dict[int, list[Run]] = {}
    for run in runs:
        levels.setdefault(run.level, []).append(run)
    for level, held in levels.items():
        held.sort(key=lambda r: (r.low, r.epoch_high) if level else (b"", r.epoch_high))
    return levels


def _generations(runs: Sequence[Run]) -> list[list[Run]]:
    return [list(g) for _, g in itertools.groupby(runs, key=lambda r: r.epoch_high)]


def _hull(runs: Iterable[Run]) -> tuple[bytes, bytes]:
    bounds = [r.keys for r in runs]
    return min(b[0] for b in bounds), max(b[1] for b in bounds)


def _overlap(one: tuple[bytes, bytes], other: tuple[bytes, bytes]) -> bool:
    return one[0] < other[1] and other[0] < one[1]


def _position(key: bytes) -> int:
    return int.from_bytes(key[:8].ljust(8, b"\0"), "big")


def _share(run: tuple[bytes, bytes], part: tuple[bytes, bytes]) -> float:
    """About which part of a run lies between two keys, if its keys are spread evenly."""
    low, high = _position(run[0]), _position(run[1])
    inside = min(high, _position(part[1])) - max(low, _position(part[0]))
    return min(1.0, max(inside, 0) / (high - low)) if high > low else 1.0


def _vnode_cuts(keys: tuple[bytes, bytes], pieces: int) -> list[bytes]:
    """Up to ``pieces - 1`` vnodes that cut a key range evenly."""
    low = int.from_bytes(keys[0][:2], "big")
    high = int.from_bytes(keys[1][:2], "big") + (len(keys[1]) > 2)
    pieces = max(1, min(pieces, high - low))
    cuts = sorted({low + (high - low) * i // pieces for i in range(1, pieces)})
    return [c.to_bytes(2, "big") for c in cuts if c > low]


def _expired_part(run: Run, expired: Sequence[Expiry], unknown: float = 0.0) -> float:
    """About which part of the rows of a run has expired; 1.0 when all have, for sure."""
    spans = {(s.column, s.field): s for s in run.spans}
    part = 1.0
    for condition in expired:
        span = spans.get((condition.column, condition.field))
        if span is None:
            return unknown
        if span.newest >= condition.before:
            passed = (condition.before - span.oldest) / (span.newest - span.oldest + 1)
            part = min(part, max(0.0, passed))
    return part
