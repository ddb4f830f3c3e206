"""Steps of tasks that read files split by split, or give rows that are in memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from tidemill.task.expressions.texts import Names
from tidemill.task.files.divided_rows import DividedRows
from tidemill.task.indexes.digests import digest_of
from tidemill.task.program.operation import Operation, TableNames


@dataclass(frozen=True, eq=False)
class ReadFiles(Operation):
    """The rows of splits of files: of each split in the order of its file, splits in the order in which they are given.

    ``name`` is that under which splits are given to it.
    """

    name: str
    files: DividedRows

    def identity(self) -> str:
        return f"files {self.name} {self.files.plan_fingerprint()}"

    def column_names(self, inputs: Sequence[Names], arranged_in: TableNames) -> Names:
        return self.files.columns

    def text(self, inputs: Sequence[Names], output: Names) -> str:
        return f"Read {self.name} ({self.files.format}) [{', '.join(output)}]"


@dataclass(frozen=True, eq=False)
class GiveRows(Operation):
    """Rows in memory, all of them before each barrier; where state is kept, before the first one only."""

    rows: pa.Table

    def identity(self) -> str:
        return f"rows {digest_of(self.rows)}"

    def column_names(self, inputs: Sequence[Names], arranged_in: TableNames) -> Names:
        return tuple(self.rows.schema.names)

    def text(self, inputs: Sequence[Names], output: Names) -> str:
        return f"Rows [{', '.join(output)}]"
