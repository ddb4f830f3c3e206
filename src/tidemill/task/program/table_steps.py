"""Steps of tables that are kept: from messages in their order, or by file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tidemill.state.tables import StateTable
from tidemill.task.expressions.texts import Names, listed, names_of
from tidemill.task.program.costs import Cost, CostClass
from tidemill.task.program.operation import Operation, TableNames
from tidemill.task.program.row_steps import FILE, Arrange
from tidemill.task.program.tables import Changelog, FileVersions


@dataclass(frozen=True)
class ArrangeMessages(Operation):
    """Messages by (key, place in the epoch): what :class:`ApplyChangelog` and :class:`ApplyBook` read.

    ``key`` and ``values`` are columns of the input. ``table`` is the layout of what goes out; nothing is stored.
    """

    key: tuple[int, ...]
    values: tuple[int, ...]
    table: StateTable

    def text(self, inputs: Sequence[Names], output: Names) -> str:
        return f"Arrange messages by {listed(inputs[0], self.key)} and place"

    def exchange_names(self, output: Names, first_input: Names | None) -> Names | None:
        return names_of(output, self.key)


@dataclass(frozen=True)
class ApplyChangelog(Operation):
    """Applies messages to a keyed table: writes its rows, and emits old ones with -1 and new ones with +1.

    ``table`` has the primary key as key, and as values a weight, then the other columns.
    """

    messages: ArrangeMessages
    changelog: Changelog
    table: StateTable

    @property
    def written_tables(self) -> tuple[StateTable, ...]:
        return (self.table,)

    @property
    def read_tables(self) -> tuple[StateTable, ...]:
        return (self.table,)

    @property
    def cost(self) -> Cost:
        return Cost(CostClass.LOOKUPS)

    def column_names(self, inputs: Sequence[Names], arranged_in: TableNames) -> Names:
        return self.changelog.rows.names

    def text(self, inputs: Sequence[Names], output: Names) -> str:
        return f"Apply changelog of {listed(self.changelog.rows.names, self.changelog.key)}"

    def table_names(self, table: StateTable, first_input: Names, keyed: Names) -> Names:
        return names_of(self.changelog.rows.names, self.changelog.key)


@dataclass(frozen=True)
class ApplyBook(Operation):
    """Applies the messages of an exchange to its order book, or to one side of it.

    ``orders`` holds the live orders by id: a weight, then t, volume and price, and for both sides the place of the
    order's side in the rules. ``contents`` is the multiset of the table's rows, id first: what is read. ``row_order``
    says for each column of the table which of (t, id, broker, volume, price, side) it is.
    """

    messages: ArrangeMessages
    changelog: Changelog
    orders: StateTable
    contents: StateTable
    row_order: tuple[int, ...]

    @property
    def written_tables(self) -> tuple[StateTable, ...]:
        return (self.orders, self.contents)

    @property
    def read_tables(self) -> tuple[StateTable, ...]:
        return (self.orders,)

    @property
    def cost(self) -> Cost:
        return Cost(CostClass.LOOKUPS)

    def column_names(self, inputs: Sequence[Names], arranged_in: TableNames) -> Names:
        return self.changelog.rows.names

    def text(self, inputs: Sequence[Names], output: Names) -> str:
        return "Apply order book"


@dataclass(frozen=True)
class ApplyFileVersions(Operation):
    """Keeps the rows of a table by file, and emits what an epoch changes of them.

    Inputs: new rows (0), arranged as ``rows`` has it, and the files whose earlier rows are withdrawn (1), arranged as
    ``withdrawn`` has it, all of them for every partition. ``rows.table`` is what is stored: file, then all columns, of
    which every one chooses the vnode.
    """

    rows: Arrange
    withdrawn: Arrange
    versions: FileVersions

    @property
    def written_tables(self) -> tuple[StateTable, ...]:
        return (self.rows.table,)

    @property
    def read_tables(self) -> tuple[StateTable, ...]:
        return (self.rows.table,)

    @property
    def cost(self) -> Cost:
        return Cost(CostClass.CHANGES, "and the earlier rows of files that were overwritten")

    def column_names(self, inputs: Sequence[Names], arranged_in: TableNames) -> Names:
        return self.versions.rows.names

    def text(self, inputs: Sequence[Names], output: Names) -> str:
        return "Apply versions of files"

    def table_names(self, table: StateTable, first_input: Names, keyed: Names) -> Names:
        return (FILE, *self.versions.rows.names)
