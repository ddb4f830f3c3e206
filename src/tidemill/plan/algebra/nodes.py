"""The relational algebra of a view: immutable nodes, columns by position, checked when built.

The nodes are what is left of Catalyst's optimised plan once names and ids are gone. Two equal
sub-plans are equal objects, which is how work is shared between views.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, TypeAlias

import pyarrow as pa

from tidemill.errors import TidemillError
from tidemill.schema import Field, Schema
from tidemill.task.aggregates.accumulators import Option
from tidemill.task.expressions import Expression, Ref, references
from tidemill.task.program import Calculate, Comparison, Explode
from tidemill.task.program.window_calls import WindowCall

LATER = {"later": True}
"""Marks a field that came later: at its default it is not written, so that older plans keep their names."""


def _check_references(node: str, expressions: tuple[Expression, ...], width: int) -> None:
    for expression in expressions:
        beyond = [i for i in references(expression) if not 0 <= i < width]
        if beyond:
            raise TidemillError(
                "TM2900",
                f"{node} refers to a column that its input does not have",
                got=f"column {beyond[0]} of {width}",
                hint="this is a bug in Tidemill's planner: please report the query",
            )


@dataclass(frozen=True)
class Scan:
    """Rows of a table or of another view.

    ``columns`` are the columns in use, by name, in the order they come out.
    """

    relation: str
    columns: tuple[Field, ...]

    @property
    def schema(self) -> Schema:
        """The columns in use."""
        return Schema(self.columns)


@dataclass(frozen=True)
class Project:
    """One output column per expression."""

    child: Node
    expressions: tuple[Expression, ...]
    names: tuple[str, ...]

    def __post_init__(self) -> None:
        _check_references("Project", self.expressions, len(self.child.schema))

    @cached_property
    def schema(self) -> Schema:
        """Names given by the query, types and nullability of the expressions."""
        return Schema(tuple(Field(n, e.type, e.nullable) for n, e in zip(self.names, self.expressions, strict=True)))


@dataclass(frozen=True)
class Filter:
    """Rows for which ``condition`` is true (neither false nor NULL)."""

    child: Node
    condition: Expression

    def __post_init__(self) -> None:
        _check_references("Filter", (self.condition,), len(self.child.schema))

    @property
    def schema(self) -> Schema:
        """Same as the child's."""
        return self.child.schema


@dataclass(frozen=True)
class Union:
    """All rows of all children (duplicates stay); children have equal types."""

    children: tuple[Node, ...]

    @cached_property
    def schema(self) -> Schema:
        """Names of the first child; nullable where any child is."""
        rows = zip(*(c.schema.fields for c in self.children), strict=True)
        return Schema(tuple(Field(f[0].name, f[0].type, any(g.nullable for g in f)) for f in rows))


@dataclass(frozen=True)
class Join:
    """Inner join: ``left_keys[i] = right_keys[i]`` for all i, and ``residual`` over both rows.

    Without keys it is a cross join. Keys are column positions of the sides; computed keys are columns of
    projections below. ``null_safe[i]`` marks ``<=>``, where NULL equals NULL. Output is the left columns, then
    the right. ``spread`` marks a cross join with one row or none on the right, which is sent to where the left rows
    are; with a node that always has exactly one row that is so anyway.
    """

    left: Node
    right: Node
    left_keys: tuple[int, ...]
    right_keys: tuple[int, ...]
    null_safe: tuple[bool, ...]
    residual: Expression | None = None
    spread: bool = field(default=False, metadata=LATER)

    def __post_init__(self) -> None:
        if self.residual is not None:
            _check_references("Join", (self.residual,), len(self.schema))

    @cached_property
    def schema(self) -> Schema:
        """Left columns, then right columns."""
        return Schema(self.left.schema.fields + self.right.schema.fields)


@dataclass(frozen=True)
class SemiJoin:
    """Left rows that have an equal key on the right, or with ``anti`` those that have none.

    Keys as in :class:`Join`. A NULL key equals nothing unless ``null_safe``. Output is the left columns;
    how often a right key occurs does not matter.
    """

    left: Node
    right: Node
    left_keys: tuple[int, ...]
    right_keys: tuple[int, ...]
    null_safe: tuple[bool, ...]
    anti: bool

    @property
    def schema(self) -> Schema:
        """Same as the left child's."""
        return self.left.schema


@dataclass(frozen=True)
class SortKey:
    """One column of ORDER BY, by position."""

    column: int
    descending: bool
    nulls_first: bool


@dataclass(frozen=True)
class TopRows:
    """The rows from ``offset`` on, at most ``limit`` of them (None: all), in the order of ``keys``.

    Rows that ``keys`` do not tell apart are taken in the order of all their columns, so that the result is
    decided by the rows.
    """

    child: Node
    keys: tuple[SortKey, ...]
    limit: int | None
    offset: int = 0

    @property
    def schema(self) -> Schema:
        """Same as the child's."""
        return self.child.schema


@dataclass(frozen=True)
class Generate:
    """One row per element of an array or map: some columns of the input, then what the element gives.

    ``kept`` are column positions of the child. ``position`` adds a column that counts from 0; ``spread`` makes a
    column of each field of the elements (of a map: key and value). ``outer`` keeps a row without elements, once,
    with NULLs. ``names`` are those of the new columns.
    """

    child: Node
    argument: Expression
    kept: tuple[int, ...]
    position: bool
    spread: bool
    outer: bool
    names: tuple[str, ...]

    def __post_init__(self) -> None:
        width = len(self.child.schema)
        _check_references("Generate", (self.argument, *(Ref(k, pa.null()) for k in self.kept)), width)

    @cached_property
    def schema(self) -> Schema:
        """Kept columns, then the position, then the element or its fields."""
        fields = [self.child.schema.fields[k] for k in self.kept]
        types = [pa.int32()] if self.position else []
        type_: Any = self.argument.type
        if pa.types.is_map(type_):
            types += [type_.key_type, type_.item_type]
        else:
            types += [f.type for f in type_.value_type] if self.spread else [type_.value_type]
        return Schema((*fields, *(Field(n, t) for n, t in zip(self.names, types, strict=True))))


@dataclass(frozen=True)
class Repeat:
    """Every row of the child as often as its column ``count`` says; that column does not come out."""

    child: Node
    count: int

    def __post_init__(self) -> None:
        _check_references("Repeat", (Ref(self.count, pa.int64()),), len(self.child.schema))

    @cached_property
    def schema(self) -> Schema:
        """The child's columns without the count."""
        return Schema(tuple(f for i, f in enumerate(self.child.schema) if i != self.count))


@dataclass(frozen=True)
class AggregateCall:
    """``function([DISTINCT] column)``; ``argument`` is a column position of the child, None for ``COUNT(*)``.

    Computed arguments and FILTER clauses become columns of a projection below. A row whose ``argument`` is NULL
    does not count. ``others`` are further columns: the rest of ``COUNT(DISTINCT a, b)``, the value of ``min_by``
    (whose ``argument`` is the ordering), the y of a covariance. ``options`` are the constant arguments by name.
    """

    function: str
    argument: int | None
    type: pa.DataType
    nullable: bool
    distinct: bool = False
    others: tuple[int, ...] = field(default=(), metadata=LATER)
    options: tuple[tuple[str, Option], ...] = field(default=(), metadata=LATER)


@dataclass(frozen=True)
class PairTerm:
    """``coefficient * left * right``: one result of either side of :class:`Pairs`, by call; None is COUNT(*).

    The signs are calls that count the values above and below zero, of a product of two sums of doubles.
    """

    coefficient: float
    left: int | None
    right: int | None
    left_signs: tuple[int, int] | None = None
    right_signs: tuple[int, int] | None = None


@dataclass(frozen=True)
class Pairs:
    """An aggregate over a join, from sums of either side.

    The sides are grouped first by the ``key_width`` equality columns. Without ``comparisons`` any two groups of equal
    key meet. With them the left side's next columns are bounds (which the comparisons name by position), the right
    side's one further column is compared with them; they all hold, or with ``any_of`` one of them. Only partial
    groups of the sides are ever used, never their rows.

    ``keys`` are the group columns among those of the left side followed by those of the right side. ``sums`` and
    ``counts`` give for each call the sum of its argument and the number of its non-NULL arguments.
    """

    left: Aggregate
    right: Aggregate
    key_width: int
    comparisons: tuple[Comparison, ...]
    any_of: bool
    keys: tuple[int, ...]
    sums: tuple[tuple[PairTerm, ...], ...]
    counts: tuple[PairTerm, ...]


@dataclass(frozen=True)
class Aggregate:
    """One row per group. ``keys`` are column positions of the child; output is keys, then calls.

    Without keys there is exactly one row, also over no input at all, as SQL wants. Without calls
    it is DISTINCT. ``pairs`` says how the groups are summed without making the rows of the child, a join; ``parts``
    are the same aggregate over each part of the child, a union, whose groups add up to its own.
    """

    child: Node
    keys: tuple[int, ...]
    calls: tuple[AggregateCall, ...]
    names: tuple[str, ...]
    pairs: Pairs | None = field(default=None, metadata=LATER)
    parts: tuple[Aggregate, ...] = field(default=(), metadata=LATER)

    def __post_init__(self) -> None:
        width = len(self.child.schema)
        used = (*self.keys, *(a for c in self.calls if c.argument is not None for a in (c.argument, *c.others)))
        _check_references("Aggregate", tuple(Ref(k, pa.null()) for k in used), width)

    @cached_property
    def schema(self) -> Schema:
        """Group columns, then one column per call."""
        fields = [self.child.schema.fields[k] for k in self.keys]
        types = [(f.type, f.nullable) for f in fields] + [(c.type, c.nullable) for c in self.calls]
        return Schema(tuple(Field(n, t, null) for n, (t, null) in zip(self.names, types, strict=True)))


@dataclass(frozen=True)
class Window:
    """Each row with one more column per call, over the rows that have its values in the ``partition`` columns.

    Without ``partition`` that is all rows. With ``limit`` only the first rows of each partition come out, those whose
    ``limited`` (``row_number``, ``rank`` or ``dense_rank``) is at most that, and no call looks beyond the row it is
    for; with the ranks, beyond its peers. Rows that ``order`` does not tell apart are taken in the order of all their
    columns, so that the result is decided by the rows.
    """

    child: Node
    partition: tuple[int, ...]
    order: tuple[SortKey, ...]
    calls: tuple[WindowCall, ...]
    names: tuple[str, ...]
    limit: int | None = None
    limited: str = field(default="row_number", metadata=LATER)

    def __post_init__(self) -> None:
        width = len(self.child.schema)
        columns = tuple(Ref(c, pa.null()) for c in (*self.partition, *(k.column for k in self.order)))
        bounds = (b for c in self.calls for b in (c.frame.lower, c.frame.upper))
        frames = tuple(b for b in bounds if b is not None and not isinstance(b, int))
        arguments = tuple(a for c in self.calls for a in c.arguments)
        _check_references("Window", (*columns, *frames, *arguments), width)

    @cached_property
    def schema(self) -> Schema:
        """The child's columns, then one per call."""
        results = tuple(Field(n, c.type, c.nullable) for n, c in zip(self.names, self.calls, strict=True))
        return Schema(self.child.schema.fields + results)


@dataclass(frozen=True)
class StepJoin:
    """A part of the step of a :class:`Recursion`: its rows joined with a relation that is not the recursion itself.

    Keys as in :class:`Join`. Output is the columns of the rows, then those of the relation.
    """

    relation: Node
    keys: tuple[int, ...]
    relation_keys: tuple[int, ...]
    null_safe: tuple[bool, ...]


@dataclass(frozen=True)
class StepPath:
    """What the step of a :class:`Recursion` does with its rows, part after part.

    ``sign`` is -1 for rows that another path has and that are to be taken out again.
    """

    parts: tuple[Calculate | Explode | StepJoin, ...]
    sign: int = 1


@dataclass(frozen=True)
class Recursion:
    """The rows of ``anchor``, of the step over these, of the step over those, and so on until there are none.

    The step is the sum of ``paths``, each linear in the rows that it begins with. More than ``levels`` levels, the
    anchor being the first, are an error, as are more than ``rows`` rows; None for no bound. With ``last`` the levels
    behind it are left out without an error.
    """

    anchor: Node
    paths: tuple[StepPath, ...]
    levels: int | None
    rows: int | None
    last: int | None = None

    @property
    def relations(self) -> tuple[Node, ...]:
        """What the step joins its rows with, path after path."""
        return tuple(part.relation for path in self.paths for part in path.parts if isinstance(part, StepJoin))

    @cached_property
    def schema(self) -> Schema:
        """The anchor's columns; any may be NULL."""
        return Schema(tuple(replace(f, nullable=True) for f in self.anchor.schema.fields))

    def over(self, anchor: Node, relations: tuple[Node, ...]) -> Recursion:
        """The same over other inputs of the same columns."""
        rest = iter(relations)
        paths = tuple(
            replace(
                path,
                parts=tuple(replace(p, relation=next(rest)) if isinstance(p, StepJoin) else p for p in path.parts),
            )
            for path in self.paths
        )
        return replace(self, anchor=anchor, paths=paths)


Node: TypeAlias = (
    Scan | Project | Filter | Union | Join | SemiJoin | TopRows | Repeat | Generate | Aggregate | Window | Recursion
)


def children(node: Node) -> tuple[Node, ...]:
    """The inputs of a node, left to right."""
    if isinstance(node, Scan):
        return ()
    if isinstance(node, Aggregate) and node.pairs is not None:
        return (node.pairs.left, node.pairs.right)
    if isinstance(node, Aggregate) and node.parts:
        return node.parts
    if isinstance(node, Union):
        return node.children
    if isinstance(node, Join | SemiJoin):
        return (node.left, node.right)
    if isinstance(node, Recursion):
        return (node.anchor, *node.relations)
    return (node.child,)


def relations(node: Node) -> tuple[str, ...]:
    """Names of the tables and views that a plan reads, each once, in order of appearance."""
    if isinstance(node, Scan):
        return (node.relation,)
    found: dict[str, None] = {}
    for child in children(node):
        found.update(dict.fromkeys(relations(child)))
    return tuple(found)


def summed(node: Aggregate) -> tuple[Node, ...]:
    """The nodes whose rows an aggregate sums: its child, or what is below the sides of its pairs."""
    if node.parts:
        return tuple(child for part in node.parts for child in summed(part))
    if node.pairs is None:
        return (node.child,)
    return summed(node.pairs.left) + summed(node.pairs.right)
