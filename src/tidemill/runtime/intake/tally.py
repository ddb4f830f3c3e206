"""What has been admitted of each table: rows, malformed rows, bytes and event times, and what follows from these."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from tidemill.options.tables import MAX_BYTES, MAX_ROWS
from tidemill.runtime.files.source_files import Sealing, SourceFiles
from tidemill.runtime.files.totals import Totals
from tidemill.runtime.tables import error_budget
from tidemill.runtime.tables.error_budget import RowCounts
from tidemill.runtime.tables.table import Table
from tidemill.sources.split import SplitResult

_ROW_BYTES = 32
"""The assumed bytes of a row before any has been read."""

_LEAST_TIME = -(2**63)


class Tally:
    """Counts of all tables, of sealed epochs.

    Parameters
    ----------
    kept : mapping
        What :meth:`to_json` gave; empty at first.
    """

    def __init__(self, kept: Mapping[str, Any]) -> None:
        self._counts = {table: RowCounts(*found) for table, found in kept.get("counts", {}).items()}
        self._totals = {table: Totals(*found) for table, found in kept.get("totals", {}).items()}

    def copy(self) -> Tally:
        """The same, to return to when a statement fails."""
        copied = Tally({})
        copied._counts, copied._totals = dict(self._counts), dict(self._totals)
        return copied

    def drop(self, table: str) -> None:
        """Forget a table."""
        self._counts.pop(table, None)
        self._totals.pop(table, None)

    def counts(self, table: str) -> RowCounts:
        """How many rows of a table have been read, and how many of these are malformed."""
        return self._counts.get(table, RowCounts())

    def totals(self, table: str) -> Totals:
        """What has been admitted of a table."""
        return self._totals.get(table, Totals())

    def most_bytes(self, table: Table, share: int) -> int:
        """How many bytes of a table an epoch may admit. The size of a row is estimated from those read so far."""
        limits = [share]
        if (most := MAX_BYTES.of(table.options)) is not None:
            limits.append(most)
        if (rows := MAX_ROWS.of(table.options)) is not None:
            read, admitted = self.counts(table.name).read, self.totals(table.name).admitted
            limits.append(max(1, rows * admitted // read if read else rows * _ROW_BYTES))
        return min(limits)

    def watermark(self, table: Table) -> int | None:
        """Rows of a table that come from now on are late when their event time is before this (microseconds)."""
        declared, latest = table.watermark, self.totals(table.name).latest
        return None if declared is None or latest is None else max(latest - declared.delay, _LEAST_TIME)

    def check_budgets(self, results: Sequence[SplitResult], tables: Mapping[str, Table]) -> None:
        """TM4025 when a table would have had more malformed rows than it tolerates, were the epoch sealed."""
        for table, epoch in sorted(error_budget.counted(results).items()):
            counts = self.counts(table) + epoch
            why = tables[table].budget.exceeded_by(counts) if epoch.malformed else None
            if why is not None:
                example = error_budget.first_example(table, results)
                raise error_budget.exceeded(table, counts, epoch, why, example)

    def read(self, results: Sequence[SplitResult]) -> None:
        """Count the rows of an epoch that is sealed."""
        for name, counts in error_budget.counted(results).items():
            self._counts[name] = self.counts(name) + counts

    def admitted(self, table: str, results: Iterable[SplitResult]) -> None:
        """Count the bytes and event times of a table's new rows in an epoch that is sealed."""
        totals = self.totals(table)
        found = list(results)
        times = [t for t in (totals.latest, *(r.latest for r in found)) if t is not None]
        admitted = totals.admitted + sum(r.bytes for r in found)
        self._totals[table] = replace(totals, admitted=admitted, latest=max(times, default=None))

    def finished(self, live: SourceFiles, sealing: Sealing) -> None:
        """Count files that were read to their end."""
        if sealing.finished:
            totals = self.totals(live.table)
            self._totals[live.table] = totals.sealed(sealing.finished, sealing.before, live.policy.forgets)

    def forgotten(self, table: str, totals: Totals) -> None:
        """Take over the totals of a table whose files were cleaned."""
        self._totals[table] = totals

    def counts_to_json(self) -> dict[str, list[int]]:
        """Rows read and malformed of each table."""
        return {table: [counts.read, counts.malformed] for table, counts in self._counts.items()}

    def to_json(self) -> dict[str, Any]:
        """As stored in a manifest."""
        totals = {table: list(vars(t).values()) for table, t in self._totals.items()}
        return {"counts": self.counts_to_json(), "totals": totals}
