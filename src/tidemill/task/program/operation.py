"""What a step does, as plain data."""

from __future__ import annotations

from tidemill.task.program.tables import StateTable


class Operation:
    """One operation of a program: a frozen dataclass that says what its operator needs, and which state it touches.

    The operator of a class of operations is declared where it is defined, in ``task/operators/``; how EXPLAIN shows it
    in ``plan/explain/``.
    """

    @property
    def written_tables(self) -> tuple[StateTable, ...]:
        """State tables that a step appends to."""
        return ()

    @property
    def read_tables(self) -> tuple[StateTable, ...]:
        """State tables that a step looks up while it runs."""
        return ()
