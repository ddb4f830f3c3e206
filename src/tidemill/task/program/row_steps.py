"""Steps over single rows: scans, projections and filters, unions, explode, stores."""

from __future__ import annotations

from dataclasses import dataclass

from tidemill.task.expressions import Expression
from tidemill.task.program.operation import Operation
from tidemill.task.program.tables import StateTable, TableSource


@dataclass(frozen=True)
class ScanStep(Operation):
    """Rows of a table: ``columns`` by name. Serves every step of every view on the table.

    With ``sequenced`` the rows are messages: two int64 columns follow, 1 or -1 by the operation, and the row's
    place in the epoch. With ``by_file`` a binary column follows, the name of the row's file as
    :func:`tidemill.sources.split.file_digest` shortens it, and port 1 gives the names of files of which all that was
    read before is withdrawn.

    A row of which ``condition``, over ``columns``, is not true may be left out: no reader wants it.
    """

    source: TableSource
    columns: tuple[str, ...]
    sequenced: bool = False
    condition: Expression | None = None
    by_file: bool = False

    @property
    def written_tables(self) -> tuple[StateTable, ...]:
        """See :class:`Operation`."""
        return (self.source.errors,)

    @property
    def read_tables(self) -> tuple[StateTable, ...]:
        """See :class:`Operation`."""
        return (self.source.errors,) if self.by_file else ()


@dataclass(frozen=True)
class Calculate(Operation):
    """Filter by ``condition`` (None keeps all), then one output column per expression (None keeps the columns)."""

    condition: Expression | None
    expressions: tuple[Expression, ...] | None


@dataclass(frozen=True)
class Explode(Operation):
    """One row per element of an array or map: the ``kept`` columns, then position, element or its fields."""

    argument: Expression
    kept: tuple[int, ...]
    position: bool
    spread: bool
    outer: bool


@dataclass(frozen=True)
class Concatenate(Operation):
    """All rows of all inputs."""


@dataclass(frozen=True)
class RepeatRows(Operation):
    """Every row as often as ``column`` says; that column does not come out."""

    column: int


@dataclass(frozen=True)
class StoreKeyed(Operation):
    """Writes keyed rows into their table; nothing comes out. Needs no exchange: merging is done by readers."""

    table: StateTable

    @property
    def written_tables(self) -> tuple[StateTable, ...]:
        """See :class:`Operation`."""
        return (self.table,)


@dataclass(frozen=True)
class StoreRows(Operation):
    """Writes rows with their weights into a multiset table keyed by the whole row."""

    table: StateTable

    @property
    def written_tables(self) -> tuple[StateTable, ...]:
        """See :class:`Operation`."""
        return (self.table,)


@dataclass(frozen=True)
class Arrange(Operation):
    """Rows keyed by ``keys`` first, then all other columns: what a join needs on either side."""

    columns: tuple[int, ...]
    """Columns of the input in key order: join keys first. All of them, or for counting only the keys."""
    required: tuple[int, ...]
    """Join keys that cannot match when NULL; such rows are left out."""
    table: StateTable
