"""``CREATE OR REPLACE``: new views are built beside the old ones, and take their places at one epoch.

A replacement is a view of its own under an inner name, ``v`` + :data:`NEXT`, which reads history like any new view.
Views that read ``v`` are built again over it. When all replacements are complete, the next epoch ends with all of them
in place; the old views can be read as of earlier epochs until these expire. All functions are pure: catalog in, catalog
out.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace

from tidemill.errors import TidemillError
from tidemill.plan.algebra.nodes import Node, Scan, relations
from tidemill.plan.algebra.traverse import map_children
from tidemill.runtime.catalog.catalog import NEXT, Catalog, Coming, Former, View
from tidemill.schema import Schema


def renamed(node: Node, names: Mapping[str, str]) -> Node:
    """The same plan over relations of other names."""
    if isinstance(node, Scan):
        return replace(node, relation=names.get(node.relation, node.relation))
    return map_children(node, lambda child: renamed(child, names))


def public(node: Node) -> Node:
    """A plan over the names that users know."""
    return renamed(node, {r: r.removesuffix(NEXT) for r in relations(node)})


def read_names(node: Node) -> set[str]:
    """The names that users know of what a plan reads."""
    return {r.removesuffix(NEXT) for r in relations(node)}


def coming(catalog: Catalog) -> dict[str, View]:
    """Every view as it will be once the replacements are in place."""
    return {n: catalog.pending.get(n) or v.as_coming() for n, v in catalog.views.items()}


def readers(views: Mapping[str, View], name: str) -> list[str]:
    """The views that read ``name``, directly or not, each after those it reads."""
    found = {name}
    while True:
        more = {n for n, v in views.items() if n not in found and read_names(v.root) & found}
        if not more:
            break
        found |= more
    return [n for n in ordered(views) if n in found and n != name]


def ordered(views: Mapping[str, View]) -> list[str]:
    """Names so that each view comes after those it reads, otherwise as they are."""
    done: dict[str, None] = {}

    def visit(name: str) -> None:
        if name in done:
            return
        for below in sorted(read_names(views[name].root) & views.keys(), key=list(views).index):
            visit(below)
        done[name] = None

    for name in views:
        visit(name)
    return list(done)


def replaced(catalog: Catalog, view: View, created_at_epoch: int) -> Catalog:
    """Begin to replace the view of this name, unless it is, or will be, the same: then the catalog as it is.

    A view that is the same no longer says why it could not be replaced before. Errors as :func:`begin`.
    """

    def same(other: View) -> bool:
        alike = public(other.root) == view.root and dict(other.properties) == dict(view.properties)
        return alike and other.failure is None and other.paused is None

    present, pending = catalog.views[view.name], catalog.pending.get(view.name)
    if pending is None and same(present):
        if present.refused is None:
            return catalog
        return replace(catalog, views={**catalog.views, view.name: replace(present, refused=None)})
    if pending is not None and same(pending):
        return catalog
    return give_up(catalog, view.name, created_at_epoch) if same(present) else begin(catalog, view, created_at_epoch)


def begin(catalog: Catalog, view: View, created_at_epoch: int) -> Catalog:
    """Begin to replace the view of this name; one that is being built in its place already is given up.

    Views that read it are built again, too, unless they were paused themselves or read others that are.

    Raises
    ------
    TidemillError
        TM2019 when the new query reads the view itself, TM2018 when its columns differ and views read it.
    """
    name = view.name
    future = coming(catalog)
    _check_circle(future, name, view.root)
    _check_steady(catalog, view.root)
    paused = [n for n, v in future.items() if n != name and _stays_paused(v)]
    blocked = {*paused, *(reader for n in paused for reader in readers(future, n))}
    below = [n for n in readers(future, name) if n not in blocked]
    if below or readers(catalog.views, name):
        _check_columns(catalog.views[name], view.root.schema, [*below, *readers(catalog.views, name)])
    kept = {n: p for n, p in catalog.pending.items() if n != name and n not in below}
    inner = {n: n + NEXT for n in (*kept, name, *below)}
    uid = catalog.next_uid
    for n in (name, *below):
        source = view if n == name else future[n]
        root = renamed(source.root, inner)
        kept[n] = View(n + NEXT, f"{n}#{uid}", source.query, root, created_at_epoch, properties=source.properties)
        uid += 1
    target = replace(catalog.views[name], refused=None)
    return replace(catalog, views={**catalog.views, name: target}, pending=kept, next_uid=uid)


def _stays_paused(view: View) -> bool:
    """Whether a view was paused itself, and not because of one that it reads."""
    return view.paused is not None and not view.paused.because


def over_replacements(catalog: Catalog, name: str, created_at_epoch: int) -> Catalog:
    """The catalog in which a new view has a replacement if views that it reads have one. TM2018 for other columns."""
    view = catalog.views[name]
    _check_steady(catalog, view.root)
    inner = {n: n + NEXT for n in catalog.pending}
    if not inner.keys() & set(relations(view.root)):
        return catalog
    root = renamed(view.root, inner)
    moved = View(
        name + NEXT, f"{name}#{catalog.next_uid}", view.query, root, created_at_epoch, properties=view.properties
    )
    return replace(catalog, pending={**catalog.pending, name: moved}, next_uid=catalog.next_uid + 1)


def explicit(catalog: Catalog) -> list[str]:
    """Views that a statement replaced, without those that are only built again over them."""
    return [n for n, p in catalog.pending.items() if public(p.root) != catalog.views[n].root]


def remembered(catalog: Catalog, names: Iterable[str]) -> Catalog:
    """The catalog in which views that are being replaced will be so when they are resumed."""
    views = dict(catalog.views)
    for name in catalog.pending.keys() & set(names):
        view, pending = views[name], catalog.pending[name]
        later = Coming(pending.query, public(pending.root), pending.properties)
        views[name] = replace(view, coming=None if later.root == view.root else later)
    return replace(catalog, views=views)


def give_up(catalog: Catalog, name: str, created_at_epoch: int) -> Catalog:
    """Give up the replacement of a view; connected replacements begin again without it."""
    gone = connected(catalog, {name})
    others = [catalog.pending[n] for n in explicit(catalog) if n in gone and n != name]
    catalog = without(catalog, gone)
    for other in others:
        target = other.name.removesuffix(NEXT)
        catalog = begin(catalog, replace(other, name=target, root=public(other.root)), created_at_epoch)
    return catalog


def with_failures(catalog: Catalog, failed: Mapping[str, str], epoch: int) -> Catalog:
    """The catalog with views, and replacements, marked as failed; ``failed`` are messages by name."""
    for name in failed.keys() & catalog.views.keys():
        catalog = catalog.with_failure(name, failed[name], epoch)
    broken = {n: e for n, e in failed.items() if n not in catalog.views}
    return fail(catalog, broken, epoch) if broken else catalog


def without_failing(catalog: Catalog, epoch: int) -> Catalog:
    """The catalog without complete replacements that a row makes fail."""
    pending = [p for p in catalog.pending.values() if p.complete_since is not None]
    broken = {p.name: p.failing.error for p in pending if p.failing.since is not None}
    return fail(catalog, broken, epoch) if broken else catalog


def fail(catalog: Catalog, failed: Mapping[str, str], epoch: int) -> Catalog:
    """Without the replacements that a row made fail, and all connected with them.

    ``failed`` has inner names with errors. The views to be replaced stay, and say why.
    """
    names = {n.removesuffix(NEXT) for n in failed}
    gone = connected(catalog, names & catalog.pending.keys())
    error = next(iter(failed.values()))
    marked = set(explicit(catalog)) & gone or gone
    views = {
        n: replace(v, refused=f"its replacement failed in epoch {epoch}: {error}") if n in marked else v
        for n, v in catalog.views.items()
    }
    return without(replace(catalog, views=views), gone)


def without(catalog: Catalog, names: Collection[str]) -> Catalog:
    """Without some replacements."""
    return replace(catalog, pending={n: p for n, p in catalog.pending.items() if n not in names})


def connected(catalog: Catalog, names: Iterable[str]) -> set[str]:
    """All replacements connected with these, because one reads the other, now or after the swap."""
    found = set(names)
    while True:
        more = set()
        for n, p in catalog.pending.items():
            near = (read_names(p.root) | read_names(catalog.views[n].root)) & catalog.pending.keys()
            if n in found:
                more |= near
            elif near & found:
                more.add(n)
        if more <= found:
            return found
        found |= more


def ready(catalog: Catalog) -> bool:
    """Whether there are replacements, and all of them are complete."""
    return bool(catalog.pending) and all(p.complete_since is not None for p in catalog.pending.values())


def swap(catalog: Catalog, epoch: int) -> Catalog:
    """All replacements take their places from an epoch on."""
    outer = {p.name: n for n, p in catalog.pending.items()}
    views = dict(catalog.views)
    former = list(catalog.former)
    for name, view in catalog.pending.items():
        if views[name].complete_since is not None:
            former.append(Former(views[name], epoch))
        views[name] = replace(view, name=name, root=renamed(view.root, outer), complete_since=epoch)
    return replace(catalog, views={n: views[n] for n in ordered(views)}, pending={}, former=tuple(former))


def expire(catalog: Catalog, horizon: int) -> Catalog:
    """Without former views that no epoch from ``horizon`` on shows."""
    kept = tuple(f for f in catalog.former if f.until > horizon)
    return catalog if len(kept) == len(catalog.former) else replace(catalog, former=kept)


def former_groups(catalog: Catalog) -> list[dict[str, View]]:
    """For each epoch at which views were replaced, those that were, with all that they read."""
    groups = []
    for until in sorted({f.until for f in catalog.former}):
        then = catalog.views_at(until - 1)
        names = {f.view.name for f in catalog.former if f.until == until}
        while more := {r for n in names for r in read_names(then[n].root) & then.keys()} - names:
            names |= more
        groups.append({n: v for n, v in then.items() if n in names})
    return groups


def reads_itself(path: tuple[str, ...]) -> TidemillError:
    """TM2019, with the views on the way."""
    return TidemillError(
        "TM2019",
        "a view cannot read itself",
        got=" reads ".join(path),
        hint="write the query over other tables and views",
    )


def _check_circle(views: Mapping[str, View], name: str, root: Node) -> None:
    paths: list[tuple[str, ...]] = [(r,) for r in sorted(read_names(root))]
    seen: set[str] = set()
    while paths:
        path = paths.pop()
        if path[-1] == name:
            raise reads_itself((name, *path))
        if path[-1] in views and path[-1] not in seen:
            seen.add(path[-1])
            paths += [(*path, r) for r in sorted(read_names(views[path[-1]].root))]


def _check_steady(catalog: Catalog, root: Node) -> None:
    """TM2018 when a query reads a view whose columns its replacement changes."""
    for name in sorted(read_names(root) & catalog.pending.keys()):
        _check_columns(catalog.views[name], catalog.pending[name].root.schema, ["the new query"])


def _check_columns(old: View, new: Schema, by: Collection[str]) -> None:
    fields = old.root.schema.fields
    same = len(fields) == len(new.fields) and all(
        a.name.lower() == b.name.lower() and a.type == b.type and (a.nullable or not b.nullable)
        for a, b in zip(fields, new.fields, strict=False)
    )
    if same:
        return
    raise TidemillError(
        "TM2018",
        "the columns of a view that others read cannot change",
        got=f"{old.name} ({old.root.schema.to_ddl()}) becomes ({new.to_ddl()}); read by {', '.join(dict.fromkeys(by))}",
        hint="keep names, types and NOT NULL of its columns, or drop the views that read it first",
    )
