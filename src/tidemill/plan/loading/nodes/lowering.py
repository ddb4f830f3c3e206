"""Plans of tasks to programs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import count
from typing import Protocol

import pyarrow as pa

from tidemill.plan.algebra.nodes import Node
from tidemill.plan.lowering.analysis.definition import ViewDefinition
from tidemill.plan.lowering.assemble import Assembler
from tidemill.schema import Schema
from tidemill.task.expressions import Ref
from tidemill.task.program import Calculate, Input, Operation, Program, ScanStep, Step, TableSource, multiset_table

_ERRORS = multiset_table("errors", (pa.string(), pa.string()), 2)


class Lowered(Protocol):
    """A node of a plan."""

    @property
    def schema(self) -> Schema:
        """Of its rows."""

    def lower(self, lowering: Lowering) -> Input:
        """Add its steps; the step that gives its rows."""


class Lowering:
    """Collects the steps of a plan. A node that is used several times is there once."""

    def __init__(self) -> None:
        self.steps: list[Step] = []
        self._found: dict[int, tuple[Lowered, Input]] = {}
        self._fragments = count()

    def rows(self, node: Lowered) -> Input:
        """The step that gives the rows of a node."""
        if id(node) not in self._found:
            self._found[id(node)] = node, node.lower(self)
        return self._found[id(node)][1]

    def add(self, operation: Operation, *inputs: Input) -> Input:
        """A new step."""
        self.steps.append(Step(operation, inputs, 0, 0, frozenset()))
        return Input(len(self.steps) - 1)

    def query(self, root: Node, inputs: Mapping[str, Lowered]) -> Input:
        """The steps of a query over named nodes: those that a view of it has."""
        number = next(self._fragments)
        tables = {name: _table(name, f"{number}:{name}", node.schema) for name, node in inputs.items()}
        steps, top = Assembler([ViewDefinition("query", f"query:{number}", root, 0)], tables).changes_of("query")
        places: dict[int, int] = {}
        for at, step in enumerate(steps):
            operation, given = step.operation, tuple(Input(places[i.step], i.port) for i in step.inputs)
            if isinstance(operation, ScanStep):
                node = inputs[operation.source.name]
                given = (self.rows(node),)
                operation = columns_of(node.schema, operation.columns)
            places[at] = self.add(operation, *given).step
        return replace(top, step=places[top.step], broadcast=False)

    def program(self, node: Lowered) -> Program:
        """The program of a plan; its last step passes on the rows of the node."""
        self.add(Calculate(None, None), self.rows(node))
        return Program(tuple(self.steps), "")


def columns_of(schema: Schema, names: tuple[str, ...]) -> Calculate:
    """The operation that gives columns by name."""
    places = [schema.names.index(name) for name in names]
    return Calculate(None, tuple(Ref(i, schema.fields[i].type, schema.fields[i].nullable) for i in places))


def _table(name: str, uid: str, schema: Schema) -> TableSource:
    return TableSource(name, uid, "rows", schema, (), None, ("", ""), _ERRORS)
