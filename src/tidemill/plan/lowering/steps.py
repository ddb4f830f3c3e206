"""What the assembler offers to the files that lower one kind of node each."""

from __future__ import annotations

from typing import Protocol

from tidemill.plan.algebra.nodes import Node, Window
from tidemill.plan.lowering.analysis.placement import Placement
from tidemill.task.program import Arrange, Input, Operation, ReadPlan, StateTable


class Steps(Protocol):
    """What the assembler offers to those who lower a kind of node."""

    def rows(self, node: Node, created_at_epoch: int, single: bool = False) -> Input:
        """The step that gives the changes of a node's rows."""

    def place(self, rows: Input) -> Placement:
        """Where the rows of a step are."""

    def put(self, rows: Input, placement: Placement) -> None:
        """Note where the rows of a step are."""

    def placed_by(
        self, placement: Placement, operation: Operation, inputs: tuple[Input, ...], created_at_epoch: int
    ) -> Input:
        """A step whose rows are at a place."""

    def arranged(
        self,
        node: Node,
        created_at_epoch: int,
        keys: tuple[int, ...],
        required: tuple[int, ...],
        keys_only: bool = False,
    ) -> tuple[Arrange, Input, bool]:
        """A node's rows by key, the step that arranges them, and whether they must move to where they belong."""

    def look_up(self, table: StateTable, by: Node | None, keys: tuple[int, ...]) -> None:
        """Note that a table is looked up by the keys of the changes of a node; without one, that it is read whole."""

    def add(self, operation: Operation, inputs: tuple[Input, ...], created_at_epoch: int, *moves: bool) -> int:
        """The step that does this."""

    def keep(self, step: int) -> None:
        """The view being lowered depends on this step, which nothing reads."""

    def append_only(self, node: Node) -> bool:
        """Whether a node never retracts a row."""

    def read_plan(self, name: str) -> ReadPlan:
        """How the rows of a view, or of a table whose rows are kept, are read from state."""

    def identity(self, node: Node) -> str:
        """Names a stateful node: equal for equal work on the same relations, whatever they are called."""

    def window_names(self, node: Window) -> tuple[str, str]:
        """Names the rows of a window as they are ordered, and the node."""
