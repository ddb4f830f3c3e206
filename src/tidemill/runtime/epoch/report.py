"""The report of an epoch."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from tidemill.runtime.job.epoch_run import EpochRun
from tidemill.state.versions.version import Run
from tidemill.task.program import Program


@dataclass(frozen=True)
class OperatorReport:
    """One step of the program, summed over partitions; milliseconds are of task time."""

    step: int
    operation: str
    depth: int
    rows_in: int
    rows_out: int
    batches: int
    milliseconds: float


@dataclass(frozen=True, repr=False)
class EpochReport:
    """One sealed epoch.

    Attributes
    ----------
    epoch : int
        Its number.
    rows_in : int
        Rows admitted, malformed rows that were dropped not counted.
    rows_out : int
        Rows and groups appended to state.
    bytes_in, bytes_out : int
        Input read; state written.
    splits, malformed, dropped : int
        Splits read; malformed fields and rows in them; how many of these had their row left out.
    late : int
        Rows left out because they came after the watermark of their table had passed them.
    rows_malformed : int
        Rows with anything malformed in them, each counted once, whether or not they were left out.
    backfilled : int
        Rows of history read again for new views; not part of ``rows_in``.
    milliseconds : dict
        Wall time of the phases ``admit``, ``run``, ``seal`` and of the whole, ``total``.
    operators : tuple of OperatorReport
    failed : dict
        View name to error, for views that a row made fail in this epoch: for good, or until that row is gone.
    tables : dict
        Rows admitted per table.
    read : tuple
        (table, path, start, end) of the splits admitted: which rows the views have. Of a compressed file these
        are decoded bytes, and the file may end before them.
    redone : int
        How often the job was run again because a guess about quotes or about unchanged small tables was wrong.
    spilled_bytes, peak_memory_bytes : int
        Bytes written to files because memory was short; the largest size of the memtables of one task.
    waiting : dict
        Per table the number and bytes of files that are listed and not read yet.
    warnings : tuple of str
        Errors that did not stop the epoch and are tried again, such as a failed merge of state files.
    resident : bool
        Whether it ran in a task that stays (the setting ``mode``), not as a Spark job.
    program : Program or None
        What the epoch ran: ``operators`` are its steps, in their order. It differs from that of the epoch before when
        views have come or gone, and where small tables have changed.
    """

    epoch: int
    rows_in: int
    rows_out: int
    bytes_in: int
    bytes_out: int
    splits: int
    malformed: int
    dropped: int
    backfilled: int
    milliseconds: dict[str, float]
    operators: tuple[OperatorReport, ...] = ()
    failed: dict[str, str] = field(default_factory=dict)
    tables: dict[str, int] = field(default_factory=dict)
    read: tuple[tuple[str, str, int, int], ...] = ()
    redone: int = 0
    warnings: tuple[str, ...] = ()
    late: int = 0
    spilled_bytes: int = 0
    peak_memory_bytes: int = 0
    rows_malformed: int = 0
    waiting: dict[str, tuple[int, int]] = field(default_factory=dict)
    resident: bool = False
    program: Program | None = None

    def __repr__(self) -> str:
        shown = f"epoch={self.epoch}, rows_in={self.rows_in}, rows_out={self.rows_out}, bytes_in={self.bytes_in}"
        for name in ("malformed", "failed", "warnings"):
            value = getattr(self, name)
            shown += f", {name}={value if isinstance(value, int) else len(value)}" if value else ""
        return f"EpochReport({shown}, {self.milliseconds.get('total', 0.0):.0f} ms)"

    def line(self) -> str:
        """The report as one line of JSON, without operators and program."""
        return json.dumps(self.shown(), separators=(",", ":"))

    def shown(self) -> dict[str, Any]:
        """The fields of :meth:`line`."""
        shown: dict[str, Any] = {k: v for k, v in vars(self).items() if k not in ("operators", "read", "program")}
        return {**shown, "milliseconds": {k: round(v, 1) for k, v in self.milliseconds.items()}}


def epoch_report(
    epoch: int, run: EpochRun, written: Sequence[Run], milliseconds: dict[str, float], failed: dict[str, str]
) -> EpochReport:
    """The report of a sealed epoch; splits of history (with a backfill target) count as backfilled only.

    Parameters
    ----------
    written : sequence of Run
        Runs sealed for views and their state.
    """
    live = [r for r in run.results if r.split.backfill_target is None]
    per_table: dict[str, int] = {}
    for result in live:
        per_table[result.split.table] = per_table.get(result.split.table, 0) + result.rows
    operators = []
    for number, step in enumerate(run.prepared.program.steps):
        stats = [r.stats[number] for r in run.reports if number in r.stats]
        operators.append(
            OperatorReport(
                number,
                type(step.operation).__name__,
                step.depth,
                sum(s.rows_in for s in stats),
                sum(s.rows_out for s in stats),
                sum(s.batches for s in stats),
                sum(s.milliseconds for s in stats),
            )
        )
    return EpochReport(
        epoch=epoch,
        rows_in=sum(r.rows for r in live),
        rows_out=sum(r.rows for r in written),
        bytes_in=sum(r.bytes for r in live),
        bytes_out=sum(r.bytes for r in written),
        splits=len(live),
        malformed=sum(r.malformed for r in live),
        dropped=sum(r.dropped for r in live),
        backfilled=sum(r.rows for r in run.results) - sum(r.rows for r in live),
        milliseconds=milliseconds,
        operators=tuple(operators),
        failed=failed,
        tables=per_table,
        read=tuple((r.split.table, r.split.path, r.split.start, r.split.end) for r in live),
        redone=run.redone,
        late=sum(r.late for r in live),
        spilled_bytes=sum(r.spilled_bytes for r in run.reports),
        rows_malformed=sum(r.rows_malformed for r in live),
        peak_memory_bytes=max((r.peak_memory_bytes for r in run.reports), default=0),
        resident=any(r.resident for r in run.reports),
        program=run.prepared.program,
    )
