"""Small tables: which ones may be looked up instead of shuffled, decided by size when a view is created.

The option ``broadcast`` decides for a table whatever its size; else a table may be a small side when its files have at
most ``broadcast_bytes`` and at least one. The decision is stored with the view (``View.sizes``).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from tidemill.errors import TidemillError
from tidemill.plan.lowering.analysis.small_sides import base_tables
from tidemill.runtime.catalog.catalog import Catalog, View


def with_sizes(catalog: Catalog, created_at_epoch: int, size_of: Callable[[str], int | None]) -> Catalog:
    """The catalog with the sizes that matter noted for its views of one epoch, where they are not.

    Views created at one epoch share state, so for each table the first of them decides.

    Parameters
    ----------
    size_of : callable
        The bytes of a table: None when they are too many or there are none.
    """
    known: dict[str, int | None] = {}
    for view in catalog.all_views.values():
        if view.created_at_epoch == created_at_epoch:
            known.update(view.sizes)

    def noted(view: View) -> View:
        if view.created_at_epoch != created_at_epoch or view.sizes:
            return view
        for table in sorted(base_tables(view.root, definitions)):
            if table not in known:
                forced = catalog.tables[table].broadcast
                known[table] = size_of(table) if forced is None else 0 if forced else None
        return replace(view, sizes={t: known[t] for t in sorted(base_tables(view.root, definitions))})

    definitions = {v.name: v.definition for v in catalog.all_views.values()}
    return catalog.map_views(noted)


class Outgrown:
    """Warns once of each table that has grown beyond ``most`` bytes since it was taken as small."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._warned: set[str] = set()

    def newly(self, sizes: Mapping[str, int]) -> tuple[str, ...]:
        """TM5009 as text for each such table that was not warned of yet; ``sizes`` are the present ones."""
        found = {t: size for t, size in sorted(sizes.items()) if size > self._most and t not in self._warned}
        self._warned |= found.keys()
        return tuple(_outgrown(table, size, self._most).message() for table, size in found.items())


def _outgrown(table: str, size: int, most: int) -> TidemillError:
    return TidemillError(
        "TM5009",
        "a table that was small when a view was created has grown",
        got=f"{table}: {size} bytes, broadcast_bytes is {most}",
        hint="results stay right; if epochs are slow, drop and create the views that join it: it is measured again",
    )
