"""Catalyst's Generate: explode, posexplode, inline, stack, json_tuple, each also outer, and LATERAL VIEW of them."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

from tidemill.errors import TidemillError
from tidemill.plan.algebra.nodes import Generate, Node
from tidemill.plan.catalyst.expressions.expressions import JsonTree, translate
from tidemill.plan.catalyst.expressions.json import json_tuple
from tidemill.task.expressions import Call, Expression, Literal

_EXPLODING = frozenset({"Explode", "PosExplode", "Inline", "Stack", "JsonTuple"})


def generate(
    child: Node,
    generator: JsonTree,
    inputs: Mapping[int, int],
    kept: tuple[int, ...],
    outer: bool,
    names: tuple[str, ...],
) -> Generate:
    """The algebra of a generator over ``child``.

    Raises
    ------
    TidemillError
        TM2103 for a generator that is not supported.
    """
    if generator.name not in _EXPLODING:
        raise TidemillError(
            "TM2103",
            "this part of a query is not supported yet in a materialized view",
            got=generator.name,
            hint="generators: explode, posexplode, inline, stack, json_tuple",
        )
    if generator.name == "Stack":
        argument = _stacked(generator, inputs)
    elif generator.name == "JsonTuple":
        argument = json_tuple(tuple(translate(c, inputs) for c in generator.children))
    else:
        argument = translate(generator.children[0], inputs)
    position, spread = generator.name == "PosExplode", generator.name in ("Inline", "Stack", "JsonTuple")
    return Generate(child, argument, kept, position, spread, outer, names)


def _stacked(generator: JsonTree, inputs: Mapping[int, int]) -> Expression:
    """``stack(n, values...)`` as an array of n structs."""
    count = int(generator.children[0].fields["value"])
    values = [translate(c, inputs) for c in generator.children[1:]]
    width = -(-len(values) // count)
    types = [next((v.type for v in values[i::width] if v.type != pa.null()), pa.null()) for i in range(width)]
    struct = pa.struct([pa.field(f"col{i}", t) for i, t in enumerate(types)])
    rows = []
    for start in range(0, count * width, width):
        row = [values[i] if i < len(values) else Literal(None, pa.null()) for i in range(start, start + width)]
        typed = tuple(Literal(None, t) if v.type != t else v for v, t in zip(row, types, strict=True))
        rows.append(Call("struct", typed, struct, False))
    return Call("array", tuple(rows), pa.list_(struct), False)
