"""Durable names of a view's nodes and its read plan, made when the view is created and stored with it."""

from __future__ import annotations

from dataclasses import replace

from tidemill.plan.algebra.identities import Identities
from tidemill.plan.lowering.assemble import Assembler
from tidemill.runtime.catalog.catalog import Catalog, View

_FINGERPRINTS = Identities()
"""Remembers those of all views: names are given to each new view, and for each EXPLAIN, beside all that there are."""


def with_names(catalog: Catalog) -> Catalog:
    """The catalog with names for the nodes of views that have none; the catalog itself when all have.

    Equal work on the same relations has the name that a view has for it already, so that both use the same state.
    Otherwise a name is the number of the view, which no other view ever has, and that of the node within it.
    """
    if all(view.node_names for view in catalog.all_views.values()):
        return catalog
    uids = {name: uid for uid, name in catalog.names().items()} | {v.name: v.uid for v in catalog.pending.values()}
    known: dict[str, str] = {}
    found: dict[str, View] = {}
    for view in sorted(catalog.all_views.values(), key=lambda v: not v.node_names):
        prints = _FINGERPRINTS.fingerprints(view.root, uids.__getitem__)
        number = view.uid.rpartition("#")[2]
        names = view.node_names or (f"{number}.{position}" for position in range(len(prints)))
        for fingerprint, name in zip(prints, names, strict=True):
            known.setdefault(fingerprint, name)
        found[view.name] = view if view.node_names else replace(view, node_names=tuple(known[p] for p in prints))
    return catalog.map_views(lambda v: found[v.name])


def with_read_plans(catalog: Catalog, assembler: Assembler) -> Catalog:
    """The catalog with a read plan for each view that is maintained and has none; the catalog itself when all have."""
    planned = {v.name: replace(v, read=assembler.read_plan(v.name)) for v in catalog.active_views() if v.read is None}
    return catalog.map_views(lambda v: planned.get(v.name, v)) if planned else catalog
