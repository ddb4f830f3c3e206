"""Versions: which immutable runs make up each state table at each sealed epoch.

A run is visible in the version of epoch e when ``added <= e < removed``. Compaction adds a merged run
and removes its inputs at one epoch, so earlier epochs stay readable for as long as their runs are kept.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from tidemill.state.keys import VNODES


@dataclass(frozen=True)
class Run:
    """One sorted run of one table: a section of a run file.

    ``epoch_low..epoch_high`` are the epochs whose changes it holds; ``vnode_low <= vnode < vnode_high``.
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

    def visible(self, epoch: int) -> bool:
        """Whether the run is part of the version of ``epoch``."""
        return self.added <= epoch and (self.removed is None or epoch < self.removed)

    def overlaps(self, low: int, high: int) -> bool:
        """Whether the run may hold keys with ``low <= vnode < high``."""
        return self.vnode_low < high and low < self.vnode_high


@dataclass(frozen=True)
class Version:
    """The runs of all tables up to a sealed epoch, history included. Immutable.

    Invariants: file and section of a run never change; no two visible runs hold the same change.
    """

    epoch: int
    tables: Mapping[str, tuple[Run, ...]]
    horizon: int = 0
    """The oldest epoch that can still be read."""

    @staticmethod
    def empty() -> Version:
        """Nothing sealed yet: epoch 0."""
        return Version(0, {})

    def runs(self, table: str, epoch: int | None = None) -> tuple[Run, ...]:
        """Runs of a table visible at an epoch (default: the newest), oldest changes first."""
        at = self.epoch if epoch is None else epoch
        return tuple(r for r in self.tables.get(table, ()) if r.visible(at))

    def changes(self, table: str, epoch: int) -> tuple[Run, ...]:
        """Runs that hold exactly the changes of one epoch, whether or not compacted away since."""
        return tuple(r for r in self.tables.get(table, ()) if r.epoch_low == r.epoch_high == epoch and r.added == epoch)

    def seal(self, epoch: int, new: Iterable[Run], removed: Iterable[Run] = ()) -> Version:
        """The version of the next epoch: these runs added, those no longer visible from it on."""
        tables = {t: list(runs) for t, runs in self.tables.items()}
        gone = {(r.file, r.section) for r in removed}
        if gone:
            for table, runs in tables.items():
                tables[table] = [replace(r, removed=epoch) if (r.file, r.section) in gone else r for r in runs]
        for run in new:
            tables.setdefault(run.table, []).append(run)
        ordered = {t: tuple(sorted(rs, key=lambda r: (r.epoch_high, r.epoch_low))) for t, rs in tables.items()}
        return Version(epoch, ordered, self.horizon)

    def forget(self, horizon: int) -> Version:
        """The same without runs that no epoch from ``horizon`` on can see."""
        tables = {
            t: tuple(r for r in runs if r.removed is None or r.removed > horizon) for t, runs in self.tables.items()
        }
        return Version(self.epoch, {t: runs for t, runs in tables.items() if runs}, max(self.horizon, horizon))

    def drop(self, tables: Iterable[str]) -> Version:
        """The same without some tables."""
        gone = set(tables)
        return Version(self.epoch, {t: r for t, r in self.tables.items() if t not in gone}, self.horizon)

    def files(self) -> frozenset[str]:
        """Names of all files that any visible or remembered run lies in."""
        return frozenset(r.file for runs in self.tables.values() for r in runs)

    def to_json(self) -> dict[str, Any]:
        """As stored in a manifest: file names once, runs as short arrays."""
        names = sorted(self.files())
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
                ]
                for r in runs
            ]
            for t, runs in self.tables.items()
        }
        return {"epoch": self.epoch, "horizon": self.horizon, "files": names, "tables": tables}

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> Version:
        """The version that :meth:`to_json` wrote."""
        names = data["files"]
        tables = {t: tuple(Run(t, names[r[0]], *r[1:]) for r in runs) for t, runs in data["tables"].items()}
        return Version(data["epoch"], tables, data["horizon"])
