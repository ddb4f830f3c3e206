"""The spans of an epoch."""

from __future__ import annotations

from tidemill.observing import SUPERSTEP, Observers, Value
from tidemill.runtime.epoch.report import EpochReport
from tidemill.runtime.job.epoch_run import EpochRun
from tidemill.runtime.job.superstep import TaskReport


def tell_supersteps(observers: Observers, run: EpochRun) -> None:
    """Tell of the supersteps of a run, whose times come from the tasks."""
    if not observers.watches(SUPERSTEP):
        return
    depths: dict[int, list[TaskReport]] = {}
    for report in run.reports:
        depths.setdefault(report.depth, []).append(report)
    for depth, reports in sorted(depths.items()):
        stats = [s for r in reports for s in r.stats.values()]
        attributes: dict[str, Value] = {
            "superstep": depth,
            "tasks": len(reports),
            "rows.in": sum(s.rows_in for s in stats),
            "rows.out": sum(s.rows_out for s in stats),
            "operators.ms": round(sum(s.milliseconds for s in stats), 3),
        }
        observers.past_at(SUPERSTEP, min(r.began for r in reports), max(r.ended for r in reports), attributes)


def sealed_attributes(report: EpochReport) -> dict[str, Value]:
    """What is known of an epoch once it is sealed."""
    return {
        "epoch": report.epoch,
        "rows": report.rows_in,
        "bytes": report.bytes_in,
        "bytes.written": report.bytes_out,
        "splits": report.splits,
        "rows.backfilled": report.backfilled,
        "rows.malformed": report.rows_malformed,
        "views.failed": tuple(sorted(report.failed)),
    }
