"""A cache of assemblers: a statement needs the same plan in several places."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tidemill.plan.algebra.identities import Identities
from tidemill.plan.lowering.analysis.definition import ViewDefinition
from tidemill.plan.lowering.assemble import Assembler
from tidemill.runtime.catalog.catalog import View
from tidemill.runtime.tables.table import Table
from tidemill.task.program import TableSource

_MOST = 4
"""For the catalogs before and after a statement, each with and without failed views."""


class Assemblers:
    """Gives the assembler of some views, over all tables of a catalog."""

    def __init__(self) -> None:
        self._identities = Identities()
        self._kept: list[tuple[list[ViewDefinition], dict[str, TableSource], Assembler]] = []

    def of(self, views: Iterable[View], tables: Mapping[str, Table], moving: frozenset[str] | None = None) -> Assembler:
        """For every epoch, or for those with rows of the tables ``moving`` only, as far as small tables go.

        The former is the same one again when nothing has changed that plans depend on.
        """
        definitions = [v.definition for v in views]
        sources = {t.name: t.source() for t in tables.values()}
        if moving is not None:
            return Assembler(definitions, sources, moving, self._identities)
        at = next((i for i, kept in enumerate(self._kept) if kept[:2] == (definitions, sources)), None)
        if at is not None:
            found = self._kept.pop(at)
        else:
            found = (definitions, sources, self._made(definitions, sources))
        self._kept = [found, *self._kept[: _MOST - 1]]
        return found[2]

    def _made(self, definitions: list[ViewDefinition], sources: dict[str, TableSource]) -> Assembler:
        """An assembler that goes on from one that is kept, if it can."""
        for before, _, assembler in self._kept:
            extended = assembler.extended(definitions, sources) if before else None
            if extended is not None:
                return extended
        return Assembler(definitions, sources, None, self._identities)
