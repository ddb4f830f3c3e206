"""GROUP BY ``session_window(time, gap)``: sessions as groups.

Catalyst gives every row a window of its own, from its time to its time plus the gap, and leaves it to Spark's
execution to merge those of a group that touch. Here that is done by two window functions over the rows of the same
other keys, in the order of time. Where no earlier row's window reaches a row's time a session begins; the latest
beginning up to a row is the key of its session. ::

    Window    partition by k order by start: max(end) over the rows before       -> reached
    Project   start where start > reached, or nothing is before                  -> begins
    Window    partition by k order by start: max(begins) over rows up to here    -> session
    Aggregate by k, session: max(end), and what the query asks for
"""

from __future__ import annotations

import pyarrow as pa

from tidemill.plan.algebra.build import columns_of, projection, where
from tidemill.plan.algebra.nodes import Aggregate, Node, SortKey, Window
from tidemill.plan.catalyst.trees.tree import JsonTree
from tidemill.task.expressions import Call, Expression, Literal, Ref
from tidemill.task.program.window_calls import Frame, WindowCall


def is_session(group: JsonTree) -> bool:
    """Whether a column to group by is a window of ``session_window``, which its metadata says under whatever name."""
    return group.name == "AttributeReference" and any("essionWindow" in key for key in group.fields["metadata"])


def merge_sessions(child: Node, session: int, keys: list[Expression]) -> tuple[Node, tuple[Expression, Expression]]:
    """The child with further columns, and of these the beginning of each row's session and the end of its own window.

    Parameters
    ----------
    session : int
        Position of the struct of start and end.
    keys : list of Expression
        The other keys of the groups.
    """
    fields = child.schema.fields
    type_ = fields[session].type
    own = Ref(session, type_, fields[session].nullable)
    time, end = (
        Call("struct_field", (own,), type_.field(i).type, True, (("ordinal", i),)) for i in range(type_.num_fields)
    )
    columns: list[Expression] = [*columns_of(child)]
    for added in (time, end, *keys):
        if added not in columns:
            columns.append(added)
    partition = tuple(columns.index(k) for k in keys)
    order = (SortKey(columns.index(time), False, True),)
    at, until = (Ref(columns.index(c), c.type, True) for c in (time, end))
    before = WindowCall("max", (until,), until.type, True, Frame(True, None, -1))
    rows: Node = Window(projection(child, columns), partition, order, (before,), ("reached",))
    reached = Ref(len(columns), until.type, True)
    first = Call(
        "coalesce", (Call("gt", (at, reached), pa.bool_(), True), Literal(True, pa.bool_())), pa.bool_(), False
    )
    begins = where(first, at)
    kept = [Ref(i, c.type, True) for i, c in enumerate(columns)]
    rows = projection(rows, [*kept, begins])
    latest = WindowCall("max", (Ref(len(columns), at.type, True),), at.type, True, Frame(False, None, 0))
    rows = Window(rows, partition, order, (latest,), ("session",))
    return rows, (Ref(len(columns) + 1, at.type, True), until)


def with_session(grouped: Aggregate, key: int, end: Expression) -> tuple[Node, int]:
    """The groups with one more column, the struct of a session's start and end; and where it is."""
    columns: list[Expression] = [*columns_of(grouped)]
    start = columns[key]
    type_ = pa.struct([pa.field("start", start.type), pa.field("end", end.type)])
    columns.append(Call("struct", (start, end), type_, False))
    return projection(grouped, columns), len(columns) - 1
