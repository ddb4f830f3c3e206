"""The steps of a recursion: all that it reads is gathered in one partition, where one step runs its levels."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import takewhile
from typing import Any

import pyarrow as pa

from tidemill.plan.algebra.identities import arrangement
from tidemill.plan.algebra.nodes import Recursion, StepJoin
from tidemill.plan.lowering.analysis.placement import ONE_PLACE
from tidemill.plan.lowering.joins import required_keys
from tidemill.plan.lowering.steps import Steps
from tidemill.state.keys.keys import KeyColumn
from tidemill.state.merge.merge import MergeOp
from tidemill.task.program import (
    Arrange,
    Calculate,
    Explode,
    Input,
    RecursionJoin,
    RecursionPath,
    RecursiveChanges,
    StateTable,
    StoreKeyed,
    multiset_table,
)

LEVEL = pa.int32()
"""The type of the column of levels."""


def recursion(steps: Steps, node: Recursion, created_at_epoch: int) -> Input:
    """The step that gives the changes of a recursion's rows."""
    source = steps.rows(node.anchor, created_at_epoch)
    types = node.anchor.schema.types
    name = f"recursion:{steps.identity(node)}:{created_at_epoch}"
    anchor = Arrange(tuple(range(len(types))), (), multiset_table(f"{name}:rows", types, 0))
    inputs = [Input(steps.add(anchor, (source,), created_at_epoch))]
    moves = [() not in steps.place(source)]
    relations: list[Arrange] = []
    paths = []
    for number, path in enumerate(node.paths):
        parts: list[Calculate | Explode | RecursionJoin] = []
        at = types
        behind: tuple[Calculate, ...] = ()
        for place, part in enumerate(path.parts):
            if behind:
                behind = behind[1:]  # it is done by the join before
            elif isinstance(part, StepJoin):
                arrange, arranged, moved = _relation(steps, part, created_at_epoch)
                if arrange not in relations:
                    relations.append(arrange)
                    inputs.append(arranged)
                    moves.append(moved)
                joined = (*at, *part.relation.schema.types)
                rows = _rows(f"{name}:{number}.{place}", at, part)
                behind = _calculations(path.parts[place + 1 :])
                at = joined
                for calculate in behind:
                    at = types_after(calculate, at)
                pending = multiset_table(f"{name}:{number}.{place}:pending", (LEVEL, *at), 0)
                parts.append(RecursionJoin(relations.index(arrange), rows, len(part.keys), behind, pending))
            else:
                parts.append(part)
                at = types_after(part, at)
        paths.append(RecursionPath(tuple(parts), path.sign))
    counted = StateTable(f"{name}:counted", (KeyColumn(LEVEL),), 0, (pa.int64(),), (MergeOp.SUM,))
    operation = RecursiveChanges(anchor, tuple(relations), tuple(paths), counted, node.levels, node.rows, node.last)
    found = Input(steps.add(operation, tuple(inputs), created_at_epoch, *moves))
    steps.put(found, ONE_PLACE)
    return found


def _calculations(parts: Sequence[Calculate | Explode | StepJoin]) -> tuple[Calculate, ...]:
    """The calculations that parts begin with."""
    return tuple(part for part in takewhile(lambda p: isinstance(p, Calculate), parts) if isinstance(part, Calculate))


def _relation(steps: Steps, part: StepJoin, created_at_epoch: int) -> tuple[Arrange, Input, bool]:
    """The rows of a relation by key, all with vnode 0, the step that arranges them, and whether they must move."""
    source = steps.rows(part.relation, created_at_epoch)
    types = part.relation.schema.types
    keys = tuple(dict.fromkeys(part.relation_keys))
    order = (*part.relation_keys, *(i for i in range(len(types)) if i not in keys))
    required = required_keys(part.relation_keys, part.null_safe)
    identity = arrangement(steps.identity(part.relation), order, required, len(part.relation_keys))
    table = multiset_table(f"gathered:{identity}:{created_at_epoch}", tuple(types[i] for i in order), 0)
    arrange = Arrange(order, required, table)
    arranged = Input(steps.add(arrange, (source,), created_at_epoch))
    steps.keep(steps.add(StoreKeyed(table), (arranged,), created_at_epoch))
    return arrange, arranged, () not in steps.place(source)


def _rows(name: str, types: tuple[pa.DataType, ...], part: StepJoin) -> Arrange:
    """How rows of the recursion are kept where they meet a relation: by key, then level, then the other columns."""
    width = len(types)
    order = (*part.keys, width, *(i for i in range(width) if i not in part.keys))
    both = (*types, LEVEL)
    table = multiset_table(name, tuple(both[i] for i in order), 0)
    return Arrange(order, required_keys(part.keys, part.null_safe), table)


def types_after(part: Calculate | Explode, types: tuple[pa.DataType, ...]) -> tuple[pa.DataType, ...]:
    """The types of the columns behind a part of a step."""
    if isinstance(part, Calculate):
        return types if part.expressions is None else tuple(e.type for e in part.expressions)
    array: Any = part.argument.type
    found = [types[k] for k in part.kept]
    if part.position:
        found.append(pa.int32())
    if pa.types.is_map(array):
        return (*found, array.key_type, array.item_type)
    return (*found, *(f.type for f in array.value_type)) if part.spread else (*found, array.value_type)
