"""Error budgets: how many malformed rows a table tolerates, and how many it has had.

Rows are counted when they are first admitted: not again for views that are created later. A row with several
malformed fields is one malformed row, also when only these fields are NULL and the row is kept; a late row is none.
Columns that no view reads are not parsed unless they decide whether a row is kept, so what is in them is not counted.
An epoch that would exceed a budget is not sealed, so counts are those of the sealed epochs, and are kept with them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction

from tidemill.errors import TidemillError
from tidemill.options.tables import MAX_ERROR_RATIO, MAX_ERRORS
from tidemill.sources.split import SplitResult

LEAST_ROWS = 1000
"""``maxErrorRatio`` is checked once so many rows of the table have been read."""


@dataclass(frozen=True)
class RowCounts:
    """Rows read of a table, left-out ones included, and how many of them are malformed."""

    read: int = 0
    malformed: int = 0

    def __add__(self, other: RowCounts) -> RowCounts:
        return RowCounts(self.read + other.read, self.malformed + other.malformed)


@dataclass(frozen=True)
class ErrorBudget:
    """The limits of a table, over all its epochs; None for no limit.

    Attributes
    ----------
    most : int or None
        Malformed rows.
    ratio : Fraction or None
        Malformed rows by rows read, as soon as these are ``LEAST_ROWS``.
    """

    most: int | None = None
    ratio: Fraction | None = None

    def exceeded_by(self, counts: RowCounts) -> str | None:
        """Which option some counts exceed, if any."""
        if self.most is not None and counts.malformed > self.most:
            return f"maxErrors is {self.most}"
        if self.ratio is not None and counts.read >= LEAST_ROWS and counts.malformed > self.ratio * counts.read:
            return f"maxErrorRatio is {float(self.ratio):g}"
        return None


def parse_budget(options: Mapping[str, str]) -> ErrorBudget:
    """The budget in the options of a table, whose names are in lower case.

    Raises
    ------
    TidemillError
        TM4003 for a ``maxErrors`` that is no integer from 0 on, or a ``maxErrorRatio`` that is no number from 0 to 1.
    """
    return ErrorBudget(MAX_ERRORS.of(options), MAX_ERROR_RATIO.of(options))


def counted(results: Iterable[SplitResult]) -> dict[str, RowCounts]:
    """What an epoch read of each table for the first time."""
    found: dict[str, RowCounts] = {}
    for result in results:
        if result.split.backfill_target is None:
            table = result.split.table
            found[table] = found.get(table, RowCounts()) + RowCounts(result.rows_read, result.rows_malformed)
    return found


def first_example(table: str, results: Iterable[SplitResult]) -> str:
    """The error of the first malformed row of a table, by file and position."""
    examples = [r for r in results if r.split.table == table and r.split.backfill_target is None and r.example]
    return min(examples, key=lambda r: (r.split.path, r.split.start)).example if examples else "unknown"


def exceeded(table: str, counts: RowCounts, epoch: RowCounts, why: str, example: str) -> TidemillError:
    """TM4025: an epoch with which a table would have exceeded its budget."""
    return TidemillError(
        "TM4025",
        "too many rows of a table are malformed",
        got=f"{table}: {counts.malformed:,} of {counts.read:,} rows, {epoch.malformed:,} of them in this epoch, which "
        f"is not sealed; {why}; the first of this epoch: {example}",
        hint="mend or remove what is malformed; or raise the budget and run again: "
        f"ALTER TABLE {table} SET OPTIONS (maxErrors '...'), or in the CREATE TABLE of the script",
    )


def malformed_rows(results: Iterable[SplitResult]) -> tuple[str, ...]:
    """TM4026 as text, once for each table of which an epoch had malformed rows."""
    found = list(results)
    warnings = []
    for table, counts in sorted(counted(found).items()):
        if counts.malformed:
            mine = [r for r in found if r.split.table == table and r.split.backfill_target is None]
            left_out = counts.read - sum(r.rows + r.late for r in mine)
            warning = TidemillError(
                "TM4026",
                "rows of a table are malformed",
                got=f"{table}: {counts.malformed:,} of the {counts.read:,} rows of this epoch, {left_out:,} of them "
                f"left out; the first: {first_example(table, mine)}",
                hint=f"SELECT * FROM {table}__errors has them all",
            )
            warnings.append(warning.message())
    return tuple(warnings)
