"""Steps of tasks, whose rows have an order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.compute as pc

from tidemill.state.keys.keys import KeyColumn
from tidemill.task.aggregates.accumulators import AggregateLayout
from tidemill.task.expressions.arrow import computed, digest
from tidemill.task.expressions.texts import Names, listed, names_of
from tidemill.task.indexes.index import Index
from tidemill.task.program.operation import Operation, TableNames


@dataclass(frozen=True, eq=False)
class ArrowFilter(Operation):
    """The rows for which an expression of Arrow is true, in their order."""

    schema: pa.Schema
    condition: pc.Expression

    def identity(self) -> str:
        return f"filter {digest((self.condition,))}"

    def text(self, inputs: Sequence[Names], output: Names) -> str:
        return f"Filter {self.condition}"


@dataclass(frozen=True, eq=False)
class ArrowColumns(Operation):
    """A column for each expression of Arrow, for each row in its order."""

    schema: pa.Schema
    names: tuple[str, ...]
    expressions: tuple[pc.Expression, ...]

    def identity(self) -> str:
        return f"columns {self.names} {digest(self.expressions)}"

    def output_schema(self) -> pa.Schema:
        """The columns that come out."""
        return computed(self.schema.empty_table(), self.names, self.expressions).schema

    def column_names(self, inputs: Sequence[Names], arranged_in: TableNames) -> Names:
        return self.names

    def text(self, inputs: Sequence[Names], output: Names) -> str:
        return f"Columns [{', '.join(f'{e} AS {n}' for n, e in zip(self.names, self.expressions, strict=True))}]"


@dataclass(frozen=True)
class Limit(Operation):
    """At most ``rows`` rows from place ``offset`` on, by their order."""

    retains = False

    rows: int
    offset: int

    def text(self, inputs: Sequence[Names], output: Names) -> str:
        return f"Limit {self.rows}" + (f" offset {self.offset}" if self.offset else "")


@dataclass(frozen=True)
class PartRows(Operation):
    """Rows for ``parts`` pipelines, part i on output port i: batch by batch in turn, or by a hash of key columns."""

    parts: int
    keys: tuple[int, ...] | None

    def text(self, inputs: Sequence[Names], output: Names) -> str:
        by = "in turn" if self.keys is None else f"by hash of {listed(inputs[0], self.keys)}"
        return f"Part rows for {self.parts} pipelines {by}"


@dataclass(frozen=True)
class Gather(Operation):
    """The rows of all inputs in the order of the batches that they come from, before they were parted."""


@dataclass(frozen=True)
class MergeSorted(Operation):
    """The rows of all inputs, which are sorted by key columns, in that order; of equal keys the first input first."""

    retains = False

    inputs: int
    columns: tuple[int, ...]
    keys: tuple[KeyColumn, ...]

    def text(self, inputs: Sequence[Names], output: Names) -> str:
        return f"Merge sorted by {listed(inputs[0], self.columns)}"


@dataclass(frozen=True)
class MergeJoin(Operation):
    """Rows of two inputs that are sorted by keys and match where the keys are equal.

    ``kind`` is inner, left, right, full, semi or anti. With ``drop_input`` a side is read no further when nothing of it
    can match any more.
    """

    retains = False

    left_keys: tuple[int, ...]
    right_keys: tuple[int, ...]
    keys: tuple[KeyColumn, ...]
    kind: str
    drop_input: bool
    left_types: tuple[pa.DataType, ...]
    right_types: tuple[pa.DataType, ...]

    def identity(self) -> str:
        return repr(replace(self, drop_input=True))

    def column_names(self, inputs: Sequence[Names], arranged_in: TableNames) -> Names:
        return inputs[0] if self.kind in ("semi", "anti") else (*inputs[0], *inputs[1])

    def text(self, inputs: Sequence[Names], output: Names) -> str:
        on = ", ".join(
            f"{left} = {right}"
            for left, right in zip(
                names_of(inputs[0], self.left_keys), names_of(inputs[1], self.right_keys), strict=True
            )
        )
        return f"Merge join {self.kind} on {on}"


@dataclass(frozen=True)
class StreamingGroups(Operation):
    """A row for each group of rows that are sorted by its keys: the keys, then results.

    No accumulator of the layout needs more than its own columns.
    """

    retains = False

    keys: tuple[int, ...]
    key_columns: tuple[KeyColumn, ...]
    layout: AggregateLayout
    input_types: tuple[pa.DataType, ...]

    def column_names(self, inputs: Sequence[Names], arranged_in: TableNames) -> Names:
        return (*names_of(inputs[0], self.keys), *(r.function for r in self.layout.results))

    def text(self, inputs: Sequence[Names], output: Names) -> str:
        return f"Groups of sorted rows by {listed(inputs[0], self.keys)}"


@dataclass(frozen=True)
class Unnest(Operation):
    """A row for each element of arrays or maps side by side, the shorter ones with NULL.

    The ``kept`` columns, then for each of ``arrays`` the element (of a map key and value), with ``ordinality`` the
    place of the element from 1 on. With ``outer`` a row without elements is kept, with NULL.
    """

    arrays: tuple[int, ...]
    kept: tuple[int, ...]
    ordinality: bool
    outer: bool

    def text(self, inputs: Sequence[Names], output: Names) -> str:
        return f"Unnest{' outer' if self.outer else ''} {listed(inputs[0], self.arrays)}"


@dataclass(frozen=True, eq=False)
class LookUp(Operation):
    """Rows with those of an index that have their keys, found asynchronously, ``prefetch`` batches at a time.

    ``kind`` is inner or left.
    """

    keys: tuple[int, ...]
    index: Index
    kind: str
    prefetch: int

    def identity(self) -> str:
        return f"lookup {self.keys} {self.kind} {self.index.schema.to_ddl()} {self.index.fingerprint()}"

    def column_names(self, inputs: Sequence[Names], arranged_in: TableNames) -> Names:
        return (*inputs[0], *self.index.schema.names)

    def text(self, inputs: Sequence[Names], output: Names) -> str:
        return f"Look up {listed(inputs[0], self.keys)} in {self.index}, {self.kind}"
