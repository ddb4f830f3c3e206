"""The programs of a mill: one that serves every epoch, and faster ones for epochs in which small tables do not change.

All of them write the same state tables, so each epoch may take another one.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass

from pyspark import Broadcast

from tidemill.plan.lowering.analysis.event_time import Lag
from tidemill.plan.lowering.assemble import Assembler, state_tables
from tidemill.state.versions.version import Run
from tidemill.task.program import Program, ScanStep, StateTable

_MOST = 8
"""Programs kept besides the one for every epoch, which serves further combinations of changing tables."""


@dataclass(frozen=True)
class Prepared:
    """A program and what is derived from it. ``unchanged`` are state tables that must not be written in its epochs."""

    program: Program
    broadcast: Broadcast[Program]
    reads: tuple[str, ...]
    tables: dict[str, StateTable]
    retention: dict[str, tuple[Lag, ...]]
    unchanged: frozenset[str] = frozenset()

    def fits(self, runs: Iterable[Run]) -> bool:
        """Whether an epoch with these runs is right: nothing changed that the program takes to be unchanged."""
        return not any(run.table in self.unchanged for run in runs)


class EpochPrograms:
    """The programs of one catalog.

    Parameters
    ----------
    assembler : callable
        Gives an assembler for epochs with rows of some tables only, or for every epoch (None).
    broadcast : callable
        Sends a program to the workers.

    Attributes
    ----------
    usual : Prepared
        Serves every epoch.
    small : frozenset of str
        Tables that small sides of joins are made of.
    scanned : frozenset of str
        Tables that are read at all.
    """

    def __init__(
        self,
        assembler: Callable[[frozenset[str] | None], Assembler],
        broadcast: Callable[[Program], Broadcast[Program]],
    ) -> None:
        self._assembler = assembler
        self._broadcast = broadcast
        made = assembler(None)
        self.usual = self._prepared(made)
        self.small = frozenset(made.small.tables)
        steps = (s.operation for s in self.usual.program.steps)
        self.scanned = frozenset(s.source.name for s in steps if isinstance(s, ScanStep))
        self._others: dict[frozenset[str], Prepared] = {}

    def of(self, tables: Collection[str]) -> Prepared:
        """The program for an epoch that has rows of these tables."""
        moving = self.small & set(tables)
        if moving == self.small:
            return self.usual
        if moving not in self._others:
            if len(self._others) >= _MOST:
                return self.usual
            made = self._prepared(self._assembler(moving))
            self._others[moving] = made if made.tables == self.usual.tables else self.usual
        return self._others[moving]

    def _prepared(self, assembler: Assembler) -> Prepared:
        program = assembler.program()
        reads = tuple({t.id: None for s in program.steps for t in s.operation.read_tables})
        unchanged = frozenset(assembler.small.looked_up)
        return Prepared(
            program, self._broadcast(program), reads, state_tables(program), assembler.retention(), unchanged
        )
