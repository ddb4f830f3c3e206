"""Columns and conditions for the rows of one view, as a subscription or cursor asks for them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pyarrow as pa

from tidemill.errors import TidemillError
from tidemill.plan.algebra.nodes import Filter, Node, Project, Scan
from tidemill.plan.lowering.analysis.calculations import calculation
from tidemill.plan.sql.sent_text import Sent, places_in
from tidemill.plan.sql.statements import tokens
from tidemill.schema import WEIGHT, Field, Schema, quoted
from tidemill.task.dataflow.calculate import calculate
from tidemill.task.dataflow.deltas import Delta, batch_of
from tidemill.task.program import Calculate


@dataclass(frozen=True)
class Selection:
    """What is given of a view's rows.

    Attributes
    ----------
    view : str
        Its name.
    schema : Schema
        The columns that come out.
    inputs : tuple of Field
        The columns of the view that are read, in the order of the first step's input; none: all of them, as they are.
    steps : tuple of Calculate
        Applied one after the other; none gives the columns that are read.
    """

    view: str
    schema: Schema
    inputs: tuple[Field, ...] = ()
    steps: tuple[Calculate, ...] = ()

    def apply(self, table: pa.Table) -> pa.Table:
        """The selected rows of a table of the view.

        Parameters
        ----------
        table : pyarrow.Table
            Columns of the view, and ``__weight`` where these are changes; it stays as the last column.

        Raises
        ------
        TidemillError
            TM1035 when the view has been replaced by one without these columns, or with other types; TM3xxx when a row
            makes an expression fail.
        """
        if not self.inputs and not self.steps:
            return table
        changes = WEIGHT in table.column_names
        self._check(table.schema)
        if not self.steps:
            return table.select([*(f.name for f in self.inputs), *([WEIGHT] * changes)])
        columns = [table.column(f.name).combine_chunks() for f in self.inputs]
        weights = table.column(WEIGHT).to_numpy() if changes else None
        delta = Delta(batch_of(columns, table.num_rows), weights)
        for step in self.steps:
            delta = calculate(step, delta)
        fields = [pa.field(f.name, f.type) for f in self.schema]
        arrays = list(delta.batch.columns)
        if changes:
            fields.append(pa.field(WEIGHT, pa.int64(), False))
            arrays.append(pa.array(delta.explicit_weights()))
        return pa.Table.from_arrays(arrays, schema=pa.schema(fields))

    def _check(self, schema: pa.Schema) -> None:
        types = dict(zip(schema.names, schema.types, strict=True))
        wrong = [f.name for f in self.inputs if types.get(f.name) != f.type]
        if wrong:
            raise TidemillError(
                "TM1035",
                "the columns of this view changed at this epoch",
                got=f"{self.view}: {', '.join(wrong)}",
                hint="follow it again, with columns and conditions of the new view",
            )


_EXAMPLES = {"columns": "k, n + 1 AS m", "where": "n > 1"}


def select_rows(
    plan: Callable[[str], Node], view: str, schema: Schema, columns: str = "*", where: str | None = None
) -> Selection:
    """The selection that a SELECT list and a condition describe.

    Parameters
    ----------
    plan : callable
        Gives the algebra of a query.
    schema : Schema
        Of the view.

    Raises
    ------
    TidemillError
        TM2060 for an empty list or condition, and for aggregates, joins, subqueries and whatever else needs more than
        one row at a time; otherwise as ``plan``, with places in ``columns`` or ``where``.
    """
    if columns.strip() == "*" and where is None:
        return Selection(view, schema)
    text = f"SELECT {_one_part('columns', columns)}"
    sent = [Sent("`columns`", columns, len("SELECT "))]
    text += f" FROM {quoted(view)}"
    if where is not None:
        text += " WHERE "
        sent.append(Sent("`where`", where, len(text)))
        text += _one_part("where", where)
    with places_in(text, *sent):
        node = plan(text)
    steps: list[Calculate] = []
    top = node
    while isinstance(node, Project | Filter):
        step, node = calculation(node)
        steps.insert(0, step)
    if not isinstance(node, Scan) or node.relation != view:
        raise TidemillError(
            "TM2060",
            "columns and conditions of a subscription are about one row at a time",
            got=text,
            hint="create a materialized view with this query, and subscribe to that",
        )
    return Selection(view, top.schema, node.columns, tuple(steps))


def _one_part(name: str, text: str) -> str:
    """The text, when it cannot end the clause that it stands in."""
    found = tokens(text)
    if not found:
        raise TidemillError(
            "TM2060",
            "the list of columns or the condition is empty",
            got=f"`{name}` is {text[:40]!r}",
            hint=f"leave out `{name}`, or write Spark SQL into it, such as {_EXAMPLES[name]}",
        )
    depth = 0
    for token, _, _ in found:
        depth += (token == "(") - (token == ")")
        if depth < 0 or token == ";" or token.startswith("--"):
            raise TidemillError(
                "TM2060",
                "columns and conditions of a subscription are about one row at a time",
                got=text[:80],
                hint="a list of columns, or a condition: names, functions and operators of Spark SQL",
            )
    return f"{text}\n"
