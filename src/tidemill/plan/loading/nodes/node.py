"""What a node of a plan is."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from tidemill.errors import TidemillError, nearest
from tidemill.options.option import bad_option
from tidemill.plan.loading.nodes.lowering import Lowering
from tidemill.schema import Schema
from tidemill.state.keys.keys import KeyColumn
from tidemill.task.program import Input


class PlanNode:
    """Rows with named columns, in an order that its kind of node states. Immutable; it can be pickled.

    Attributes
    ----------
    schema : Schema
        Of its rows.
    """

    schema: Schema

    def children(self) -> tuple[PlanNode, ...]:
        """The nodes whose rows it takes."""
        return ()

    def lower(self, lowering: Lowering) -> Input:
        """Add its steps; the step that gives its rows."""
        raise NotImplementedError(type(self).__name__)


def check_columns(node: PlanNode, names: Sequence[str]) -> None:
    """TM4006 for a name that is no column of a node."""
    for name in names:
        if not isinstance(name, str):
            raise bad_option("columns", repr(name), "names of columns")
        if name not in node.schema.names:
            hint = nearest(name, node.schema.names)
            raise TidemillError("TM4006", "there is no column of this name", got=name, hint=hint)


def check_distinct(names: Sequence[str]) -> None:
    """TM9023 when two columns have one name."""
    for name in names:
        if names.count(name) > 1:
            raise TidemillError(
                "TM9023", "two columns would have one name", got=name, hint="select() one of them under another name"
            )


def key_column(type_: pa.DataType, descending: bool) -> KeyColumn:
    """How a column is sorted: NULL first, or from the greatest value on with NULL last."""
    return KeyColumn(type_, descending, nulls_first=not descending)
