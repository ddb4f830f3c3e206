"""Steps over single rows: scans, projections and filters, unions, explode, stores."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tidemill.state.tables import StateTable
from tidemill.task.expressions import Expression, Ref
from tidemill.task.expressions.texts import Names, listed, names_of, show, show_short
from tidemill.task.program.operation import Operation, TableNames
from tidemill.task.program.tables import TableSource

FILE = "file"
"""The name that EXPLAIN gives to the file of a row, where rows are kept by file."""


@dataclass(frozen=True)
class ScanStep(Operation):
    """Rows of a table: ``columns`` by name. Serves every step of every view on the table.

    With ``sequenced`` the rows are messages: two int64 columns follow, 1 or -1 by the operation, and the row's
    place in the epoch. With ``by_file`` a binary column follows, the name of the row's file as
    :func:`tidemill.sources.split.file_digest` shortens it, and port 1 gives the names of files whose
    earlier rows are withdrawn.

    A row for which ``condition``, over ``columns``, is not true may be left out: every reader filters it out.
    """

    source: TableSource
    columns: tuple[str, ...]
    sequenced: bool = False
    condition: Expression | None = None
    by_file: bool = False

    @property
    def written_tables(self) -> tuple[StateTable, ...]:
        return (self.source.errors,)

    @property
    def read_tables(self) -> tuple[StateTable, ...]:
        return (self.source.errors,) if self.by_file else ()

    def column_names(self, inputs: Sequence[Names], arranged_in: TableNames) -> Names:
        if self.by_file:
            return (*self.columns, FILE)
        return (*self.columns, "operation", "place") if self.sequenced else self.columns

    def port_names(self, port: int, output: Names) -> Names:
        return (FILE,) if port else output

    def text(self, inputs: Sequence[Names], output: Names) -> str:
        kept = "" if self.condition is None else f" where {show(self.condition, output)}"
        return f"Scan {self.source.name} {listed(output, range(len(output)))}{kept}"


@dataclass(frozen=True)
class Calculate(Operation):
    """Filter by ``condition`` (None keeps all), then one output column per expression (None keeps the columns)."""

    condition: Expression | None
    expressions: tuple[Expression, ...] | None

    @property
    def picked(self) -> tuple[int, ...] | None:
        """The columns that come out, by position, where nothing is computed; else None."""
        if self.condition is not None or self.expressions is None:
            return None
        refs = [e.index for e in self.expressions if isinstance(e, Ref)]
        return tuple(refs) if len(refs) == len(self.expressions) else None

    def column_names(self, inputs: Sequence[Names], arranged_in: TableNames) -> Names:
        if self.expressions is None:
            return inputs[0]
        return tuple(show_short(e, inputs[0]) for e in self.expressions)

    def text(self, inputs: Sequence[Names], output: Names) -> str:
        parts = [] if self.condition is None else [f"where {show(self.condition, inputs[0])}"]
        if self.expressions is not None:
            parts.append("[" + ", ".join(show(e, inputs[0]) for e in self.expressions) + "]")
        return "Calculate " + " ".join(parts)


@dataclass(frozen=True)
class Explode(Operation):
    """One row per element of an array or map: the ``kept`` columns, then position, element or its fields."""

    argument: Expression
    kept: tuple[int, ...]
    position: bool
    spread: bool
    outer: bool

    def column_names(self, inputs: Sequence[Names], arranged_in: TableNames) -> Names:
        return (*names_of(inputs[0], self.kept), *(("pos",) if self.position else ()), "col")

    def text(self, inputs: Sequence[Names], output: Names) -> str:
        return f"Explode{' outer' if self.outer else ''} {show(self.argument, inputs[0])}"


@dataclass(frozen=True)
class Concatenate(Operation):
    """All rows of all inputs."""

    def exchange_names(self, output: Names, first_input: Names | None) -> Names | None:
        return first_input


@dataclass(frozen=True)
class RepeatRows(Operation):
    """Every row as often as ``column`` says; that column does not come out."""

    column: int

    def column_names(self, inputs: Sequence[Names], arranged_in: TableNames) -> Names:
        return tuple(n for i, n in enumerate(inputs[0]) if i != self.column)

    def text(self, inputs: Sequence[Names], output: Names) -> str:
        return f"Repeat {listed(inputs[0], (self.column,))} times"


@dataclass(frozen=True)
class StoreKeyed(Operation):
    """Writes keyed rows into their table; nothing comes out. Needs no exchange: merging is done by readers."""

    table: StateTable

    @property
    def written_tables(self) -> tuple[StateTable, ...]:
        return (self.table,)

    def table_names(self, table: StateTable, first_input: Names, keyed: Names) -> Names:
        return keyed

    def text(self, inputs: Sequence[Names], output: Names) -> str:
        return "Store"


@dataclass(frozen=True)
class StoreRows(Operation):
    """Writes rows with their weights into a multiset table keyed by the whole row."""

    table: StateTable

    @property
    def written_tables(self) -> tuple[StateTable, ...]:
        return (self.table,)

    def table_names(self, table: StateTable, first_input: Names, keyed: Names) -> Names:
        return first_input

    def text(self, inputs: Sequence[Names], output: Names) -> str:
        return "Store"


@dataclass(frozen=True)
class Arrange(Operation):
    """Rows keyed by ``keys`` first, then all other columns: what a join needs on either side."""

    columns: tuple[int, ...]
    """Columns of the input in key order: join keys first. All of them, or for counting only the keys."""
    required: tuple[int, ...]
    """Join keys that cannot match when NULL; such rows are left out."""
    table: StateTable

    def text(self, inputs: Sequence[Names], output: Names) -> str:
        return f"Arrange by {listed(inputs[0], self.columns[: self.table.distribution])}"

    def exchange_names(self, output: Names, first_input: Names | None) -> Names | None:
        return names_of(output, self.columns[: self.table.distribution])

    def keyed_names(self, table: StateTable, first_input: Names, output: Names) -> Names:
        return tuple(output[c] for c in self.columns if c < len(output))
