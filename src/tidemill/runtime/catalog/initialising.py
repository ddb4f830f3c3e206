"""Which views are initialising: not complete yet."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from tidemill.errors import TidemillError
from tidemill.plan.lowering.analysis.small_sides import base_tables
from tidemill.plan.lowering.assemble import Assembler
from tidemill.runtime.catalog import replacements
from tidemill.runtime.catalog.catalog import Catalog, read_by


def initialising(
    catalog: Catalog, assembler: Assembler, remaining: Mapping[int, int], not_begun: Collection[str]
) -> dict[str, int]:
    """Views that wait for history or for their first epoch, each with the bytes of history that remain.

    A view over an older view has the rows of that one from its first epoch on.

    Parameters
    ----------
    remaining : mapping
        Bytes of history by the group of the views that wait for it.
    not_begun : collection of str
        Views that have had no epoch yet.
    """
    found: dict[str, int] = {}
    for view in catalog.active_views():
        upstream = [name for name in read_by(view.root) if name in found]
        behind = remaining.get(view.group, 0) + sum(found[name] for name in upstream)
        waits = view.name in not_begun and (assembler.begins_with_rows(view.name) or catalog.begins_with_snapshot(view))
        if behind or waits or upstream:
            found[view.name] = behind
    return found


def without_history(catalog: Catalog, lost: Mapping[tuple[str, int], TidemillError], epoch: int) -> Catalog:
    """The catalog with views, and replacements, failed that wait for history which cannot be read.

    Parameters
    ----------
    lost : mapping
        By table and group of views.
    """
    definitions = {v.name: v.definition for v in catalog.all_views.values()}
    messages = {}
    for view in catalog.active_views():
        errors = [lost[t, view.group] for t in base_tables(view.root, definitions) if (t, view.group) in lost]
        if errors and view.complete_since is None:
            messages[view.name] = errors[0].message()
    return replacements.with_failures(catalog, messages, epoch)
