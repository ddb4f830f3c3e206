"""What the steps of programs have done since the server began."""

from __future__ import annotations

import threading
from collections import OrderedDict
from dataclasses import dataclass, field

from tidemill.mill import Mill
from tidemill.plan.explain.graph import PlanStep, plan_steps
from tidemill.plan.lowering.assemble import Assembler
from tidemill.runtime.catalog.catalog import Catalog
from tidemill.runtime.epoch.report import EpochReport, OperatorReport
from tidemill.task.program import Program

_MOST = 16
"""Programs whose counters are kept: one for each combination of small tables that change."""

_RECENT = 50
"""Epochs. Of the programs that these ran, the one with the most epochs is shown."""


@dataclass
class Ran:
    """A program and the sums of what its steps did, by number, in the epochs that ran it."""

    program: Program
    first_epoch: int
    last_epoch: int = 0
    epochs: int = 0
    totals: list[OperatorReport] = field(default_factory=list)
    newest: tuple[OperatorReport, ...] = ()

    def add(self, report: EpochReport) -> None:
        """Add one epoch."""
        self.last_epoch, self.newest = report.epoch, report.operators
        self.epochs += 1
        before = self.totals or [OperatorReport(o.step, o.operation, o.depth, 0, 0, 0, 0.0) for o in report.operators]
        self.totals = [_sum(a, b) for a, b in zip(before, report.operators, strict=True)]

    @property
    def views(self) -> frozenset[str]:
        """The views that the program keeps fresh."""
        return frozenset().union(*(s.views for s in self.program.steps))


@dataclass(frozen=True)
class ViewPlan:
    """The steps of a view, and what they did; ``ran`` is None when no epoch has run them since the server began."""

    steps: tuple[PlanStep, ...]
    ran: Ran | None


class Programs:
    """The programs that the epochs of a mill run. All methods may be called from any thread."""

    def __init__(self, mill: Mill) -> None:
        self._mill = mill
        self._lock = threading.Lock()
        self._ran: OrderedDict[str, Ran] = OrderedDict()
        self._assembled: tuple[Catalog, Assembler] | None = None
        mill.on_epoch(self._note)

    def _note(self, report: EpochReport) -> None:
        if report.program is None:
            return
        with self._lock:
            name = report.program.fingerprint
            ran = self._ran.setdefault(name, Ran(report.program, report.epoch))
            ran.add(report)
            self._ran.move_to_end(name)
            while len(self._ran) > _MOST:
                self._ran.popitem(last=False)

    def plan(self, view: str) -> ViewPlan:
        """The plan of a view that there is, as most of the newest epochs ran it."""
        catalog = self._mill.snapshot().catalog
        assembler = self._assembler(catalog)
        small = assembler.small.looked_up
        with self._lock:
            ran = self._usual(view, catalog.views[view].created_at_epoch)
            if ran is not None:
                return ViewPlan(plan_steps(ran.program, view, small), ran)
        return ViewPlan(plan_steps(assembler.program(), view, small), None)

    def users(self) -> dict[str, set[str]]:
        """By state table of steps, the views that need it."""
        found: dict[str, set[str]] = {}
        for step in self._assembler(self._mill.snapshot().catalog).program().steps:
            for table in step.operation.written_tables:
                found.setdefault(table.id, set()).update(step.views)
        return found

    def _usual(self, view: str, created_at_epoch: int) -> Ran | None:
        newest = next(reversed(self._ran.values()), None)
        if newest is None or view not in newest.views:
            return None
        known = [
            r
            for r in self._ran.values()
            if r.views == newest.views
            and r.first_epoch > created_at_epoch
            and r.last_epoch > newest.last_epoch - _RECENT
        ]
        return max(known, key=lambda r: r.epochs, default=None)

    def _assembler(self, catalog: Catalog) -> Assembler:
        """Of epochs in which small tables do not change; the same again while the catalogue is."""
        kept = self._assembled
        if kept is not None and kept[0] is catalog:
            return kept[1]
        views = [v.definition for v in catalog.active_views()]
        made = Assembler(views, {t.name: t.source() for t in catalog.tables.values()}, frozenset())
        made.program()
        self._assembled = catalog, made
        return made


def _sum(a: OperatorReport, b: OperatorReport) -> OperatorReport:
    return OperatorReport(
        b.step,
        b.operation,
        b.depth,
        a.rows_in + b.rows_in,
        a.rows_out + b.rows_out,
        a.batches + b.batches,
        a.milliseconds + b.milliseconds,
    )
