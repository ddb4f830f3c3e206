"""Versions: which immutable runs make up each state table at each sealed epoch.

A run is visible in the version of epoch e when ``added <= e < removed``. Compaction adds a merged run
and removes its inputs at one epoch, so earlier epochs stay readable for as long as their runs are kept.
"""

from __future__ import annotations

import bisect
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any, NamedTuple, TypeAlias

from tidemill.state.keys.keys import VNODES

Bound: TypeAlias = bytes
RUN, SST = ".run", ".sst"
"""Files of the buffer, which may be lost, and durable ones."""


class Span(NamedTuple):
    """The least and greatest time (microseconds) of a key column, or a field of it, in a run."""

    column: int
    field: int | None
    oldest: int
    newest: int


@dataclass(frozen=True)
class Run:
    """One sorted run of one table: a section of a run file.

    ``epoch_low..epoch_high`` are the epochs whose changes it holds, at most; ``vnode_low <= vnode < vnode_high``.
    Runs of level 0 are young; see :mod:`tidemill.state.store.compaction` for the others, whose keys are
    ``low <= key < high``. ``spans`` are ranges of times that a merge has recorded, to tell when
    all rows have expired.
    """

    table: str
    file: str
    section: int
    rows: int
    bytes: int
    epoch_low: int
    epoch_high: int
    added: int
    removed: int | None = None
    vnode_low: int = 0
    vnode_high: int = VNODES
    level: int = 0
    low: Bound = b""
    high: Bound = b""
    spans: tuple[Span, ...] = ()

    @property
    def is_durable(self) -> bool:
        """Whether its file is durable, and not of a buffer."""
        return self.file.endswith(SST)

    @property
    def keys(self) -> tuple[Bound, Bound]:
        """Bounds of the keys, the upper one excluded."""
        if self.level:
            return self.low, self.high
        return self.vnode_low.to_bytes(2, "big"), self.vnode_high.to_bytes(2, "big")

    def until(self, removed: int | None) -> Run:
        """The same run, removed at another epoch; ``dataclasses.replace`` takes five times as long."""
        if removed == self.removed:
            return self
        other = object.__new__(Run)
        other.__dict__.update(self.__dict__, removed=removed)
        return other

    def visible(self, epoch: int) -> bool:
        """Whether the run is part of the version of ``epoch``."""
        return self.added <= epoch and (self.removed is None or epoch < self.removed)

    def was_merged(self, at: int, epochs: tuple[int, int]) -> bool:
        """Whether a merge of young runs, sealed in the epoch ``at``, has replaced the run by others of ``epochs``."""
        return self.removed == at and epochs[0] <= self.epoch_low and self.epoch_high <= epochs[1] and not self.level

    def overlaps(self, low: int, high: int) -> bool:
        """Whether the run may hold keys with ``low <= vnode < high``."""
        return self.vnode_low < high and low < self.vnode_high


@dataclass(frozen=True)
class Swap:
    """Runs of the same epochs of one table, and the runs that replace them with the same rows.

    No two of the new runs have a key in common unless two of the old ones do; there is none if no row is left.
    """

    old: tuple[Run, ...]
    new: tuple[Run, ...]


@dataclass(frozen=True)
class Version:
    """The runs of all tables up to a sealed epoch, history included. Immutable.

    ``tables`` are the runs visible at the newest epoch, oldest changes first; ``retired`` those that only older
    epochs see. Invariants: file and section of a run never change; no two visible runs hold the same change; of the
    visible runs that hold a key one is of each level at most, level 0 apart, where their epochs differ or values of the
    key are combined in any order: a task may store a row that another task of its epoch stores. Retired runs are in the
    order in which they were removed.
    """

    # History may have a hundred times as many runs as an epoch writes, so what an epoch does not change is not copied.

    epoch: int
    tables: Mapping[str, tuple[Run, ...]]
    horizon: int = 0
    """The oldest epoch that can still be read, of tables that keep history (:meth:`forget`)."""
    retired: Mapping[str, tuple[Run, ...]] = field(default_factory=dict)
    held: Mapping[str, tuple[Run, ...]] = field(default_factory=dict)
    """Inputs of young merges that are not durable, which no epoch sees that can be read."""

    @staticmethod
    def empty() -> Version:
        """Nothing sealed yet: epoch 0."""
        return Version(0, {})

    def runs(self, table: str, epoch: int | None = None) -> tuple[Run, ...]:
        """Runs of a table visible at an epoch (default: the newest), oldest changes first.

        At earlier epochs only tables that keep history have all that they had.
        """
        if epoch is None or epoch >= self.epoch:
            return self.tables.get(table, ())
        return in_order(r for r in self._all(table) if r.visible(epoch))

    def changes(self, table: str, epoch: int) -> tuple[Run, ...]:
        """Runs with exactly the changes of one epoch, whether or not compacted since; of a table that keeps history."""
        return in_order(r for r in self._all(table) if r.epoch_low == r.epoch_high == epoch and r.added == epoch)

    def seal(self, epoch: int, new: Iterable[Run], removed: Iterable[Run] = ()) -> Version:
        """The version of the next epoch, with ``new`` runs visible from it on and ``removed`` ones no longer."""
        tables, retired = dict(self.tables), dict(self.retired)
        gone: dict[str, set[tuple[str, int]]] = {}
        for run in removed:
            gone.setdefault(run.table, set()).add((run.file, run.section))
        for table, names in gone.items():
            runs = tables.get(table, ())
            tables[table] = tuple(r for r in runs if (r.file, r.section) not in names)
            old = (r.until(epoch) for r in runs if (r.file, r.section) in names)
            retired[table] = (*retired.get(table, ()), *old)
        added: dict[str, list[Run]] = {}
        for run in new:
            added.setdefault(run.table, []).append(run)
        for table, more in added.items():
            tables[table] = in_order((*tables.get(table, ()), *more))
        live = {t: runs for t, runs in tables.items() if runs}
        return Version(epoch, live, self.horizon, retired, self.held)

    def swapped(self, swaps: Iterable[Swap]) -> Version:
        """The version after some swaps; one is skipped unless all its runs are here and visible at the same epochs.

        Where one replaces what another one brings they must be given one after the other.
        """
        given = list(swaps)
        number = {(r.table, r.file, r.section): i for i, swap in enumerate(given) for r in swap.old}
        files = {r.file for swap in given for r in swap.old}
        here: list[list[Run]] = [[] for _ in given]
        concerned = {swap.old[0].table for swap in given}
        for table in concerned:
            for run in (*self._all(table), *self.held.get(table, ())):
                if run.file in files and (at := number.get((table, run.file, run.section))) is not None:
                    here[at].append(run)
        tables, retired, held = dict(self.tables), dict(self.retired), dict(self.held)
        done = {i for i, (s, runs) in enumerate(zip(given, here)) if _alike(runs) and len(runs) == len(s.old)}
        replacing: dict[int, list[Run]] = {}
        for i in sorted(done):
            first = here[i][0]
            replacing.update((id(r), []) for r in here[i])
            replacing[id(first)] = [r.until(first.removed) for r in given[i].new if r.rows]
        for table in concerned:
            for kept, order in ((tables, in_order), (retired, as_removed), (held, in_order)):
                runs = kept.get(table, ())
                if any(id(r) in replacing for r in runs):
                    kept[table] = order(new for r in runs for new in replacing.get(id(r), (r,)))
        merged = {s.old[0].table for s in given if s.old[0].added != s.old[0].epoch_high}
        for table in merged & held.keys():  # what became durable may be a merge, whose inputs are not needed any more
            held[table] = _held(held[table], (*retired.get(table, ()), *tables.get(table, ())))
        return Version(
            self.epoch,
            {t: runs for t, runs in tables.items() if runs},
            self.horizon,
            {t: runs for t, runs in retired.items() if runs},
            {t: runs for t, runs in held.items() if runs},
        )

    def forget(self, horizon: int, without_history: Collection[str] = ()) -> Version:
        """The version without runs that are visible at no epoch from ``horizon`` on.

        The inputs of young merges that are not durable are held as long as these are kept: a manifest has them instead
        (:mod:`tidemill.state.versions.unmerged`).

        Parameters
        ----------
        without_history : collection of str
            Tables that are read at the newest epoch only: of these nothing but the visible runs stays.
        """
        retired, held = {}, dict(self.held)
        for table, runs in self.retired.items():
            whole = table in without_history
            at = len(runs) if whole else bisect.bisect_right(runs, horizon, key=_removed)
            kept = runs[at:]  # the same object where all are kept
            if kept:
                retired[table] = kept
            if at:
                held[table] = _held((*runs[:at], *held.get(table, ())), (*kept, *self.runs(table)))
        held = {t: runs for t, runs in held.items() if runs}
        return Version(self.epoch, self.tables, max(horizon, self.horizon), retired, held)

    def drop(self, tables: Iterable[str]) -> Version:
        """The version without some tables."""
        gone = set(tables)
        live = {t: r for t, r in self.tables.items() if t not in gone}
        retired, held = ({t: r for t, r in kept.items() if t not in gone} for kept in (self.retired, self.held))
        return Version(self.epoch, live, self.horizon, retired, held)

    def every(self) -> Iterator[Run]:
        """All runs: visible, retired and held."""
        return chain.from_iterable(chain(self.retired.values(), self.tables.values(), self.held.values()))

    def files(self) -> frozenset[str]:
        """Names of the files of all runs."""
        return frozenset(run.file for run in self.every())

    def to_json(self) -> dict[str, Any]:
        """As stored in a manifest: file names once, runs as short arrays. Held runs are left out."""
        names = sorted({run.file for table in self._names() for run in self._all(table)})
        number = {name: i for i, name in enumerate(names)}
        tables = {
            t: [
                [
                    number[r.file],
                    r.section,
                    r.rows,
                    r.bytes,
                    r.epoch_low,
                    r.epoch_high,
                    r.added,
                    r.removed,
                    r.vnode_low,
                    r.vnode_high,
                    *([r.level, r.low.hex(), r.high.hex(), r.spans] if r.level or r.spans else []),
                ]
                for r in self._all(t)
            ]
            for t in self._names()
        }
        return {"epoch": self.epoch, "horizon": self.horizon, "files": names, "tables": tables}

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> Version:
        """The version that :meth:`to_json` wrote."""
        names = data["files"]
        tables, retired = {}, {}
        for table, stored in data["tables"].items():
            runs = [_levelled(Run(table, names[r[0]], *r[1:10]), *r[10:]) for r in stored]
            tables[table] = tuple(r for r in runs if r.removed is None)
            retired[table] = as_removed(r for r in runs if r.removed is not None)
        return Version(
            data["epoch"],
            {t: runs for t, runs in tables.items() if runs},
            data["horizon"],
            {t: runs for t, runs in retired.items() if runs},
        )

    def _names(self) -> list[str]:
        return [*self.tables, *(t for t in self.retired if t not in self.tables)]

    def _all(self, table: str) -> tuple[Run, ...]:
        return (*self.retired.get(table, ()), *self.tables.get(table, ()))


def _held(candidates: Iterable[Run], kept: Iterable[Run]) -> tuple[Run, ...]:
    """Of runs that no epoch sees, those whose rows young merges in buffers have; ``removed`` says which merge.

    Of a merge that is itself among the candidates its inputs are held instead.
    """
    candidates, young = list(candidates), [r for r in kept if not r.level]
    durable = {_merge(r) for r in (*candidates, *young) if r.is_durable}
    holders: dict[int, list[tuple[tuple[int, int], int]]] = {}
    for run in young:
        if not run.is_durable and _merge(run) not in durable:
            holders.setdefault(run.added, []).append((_epochs(run), run.added))
    removed_at: dict[int, list[Run]] = {}
    for run in candidates:
        removed_at.setdefault(run.removed or 0, []).append(run)
    found = []
    for at in sorted(removed_at, reverse=True):
        for run in removed_at[at]:
            holder = next((h for epochs, h in holders.get(at, ()) if run.was_merged(at, epochs)), None)
            if holder is None:
                continue
            whole = run.is_durable or _merge(run) in durable
            if not whole and any(r.was_merged(run.added, _epochs(run)) for r in removed_at.get(run.added, ())):
                holders.setdefault(run.added, []).append((_epochs(run), holder))
            else:
                found.append(run.until(holder))
    return tuple(found)


def _merge(run: Run) -> tuple[int, int, int]:
    return run.added, run.epoch_low, run.epoch_high


def _epochs(run: Run) -> tuple[int, int]:
    return run.epoch_low, run.epoch_high


def _removed(run: Run) -> int:
    """The epoch from which on a retired run is not visible."""
    assert run.removed is not None, run
    return run.removed


def _alike(runs: Sequence[Run]) -> bool:
    """Whether the runs are visible at the same epochs."""
    return len({r.removed for r in runs}) == 1


def _levelled(run: Run, level: int = 0, low: str = "", high: str = "", spans: Sequence[Sequence[Any]] = ()) -> Run:
    """A run with what a manifest says of it if it has been merged."""
    if not level and not spans:
        return run
    bounds = bytes.fromhex(low), bytes.fromhex(high)
    return replace(run, level=level, low=bounds[0], high=bounds[1], spans=tuple(Span(*s) for s in spans))


def in_order(runs: Iterable[Run]) -> tuple[Run, ...]:
    """Oldest changes of any key first: deeper levels, each by key, then those of level 0 by epoch."""
    return tuple(sorted(runs, key=lambda r: (-r.level, r.low if r.level else b"", r.epoch_high, r.epoch_low)))


def as_removed(runs: Iterable[Run]) -> tuple[Run, ...]:
    """Retired runs in the order in which they were removed."""
    return tuple(sorted(runs, key=_removed))
