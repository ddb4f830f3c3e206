"""Views that are paused: by a statement, or because they exceeded a limit of theirs.

A view that is paused is not maintained, and neither are the views that read it: their input would be incomplete. It
costs nothing, and can be read as of the epochs up to its pause. Resuming it builds it again from its tables, beside the
old rows, as a replacement does (``runtime/catalog/replacements.py``). All functions are pure: catalog in, catalog out.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from tidemill.errors import TidemillError
from tidemill.plan.algebra.nodes import relations
from tidemill.runtime.catalog import replacements
from tidemill.runtime.catalog.catalog import NEXT, Catalog, View, not_maintained
from tidemill.runtime.catalog.pause import Pause

FIRST_RETRY, LONGEST_RETRY = 10_000, 3_600_000
"""Milliseconds until a view that exceeded a limit is tried again: they double."""


def paused(catalog: Catalog, name: str, epoch: int, admitted: Mapping[str, int]) -> Catalog:
    """The catalog with a view paused by a statement, and those that read it.

    What is being built to replace them is given up until they are resumed. A view that exceeded a limit is not tried
    again by itself.

    Parameters
    ----------
    admitted : mapping
        The bytes admitted of each table so far.

    Raises
    ------
    TidemillError
        TM2012 when there is no such view, TM2062 when it has failed.
    """
    view = found(catalog, name)
    if view.failure is not None:
        raise TidemillError(
            "TM2062",
            "this view has failed and is not maintained",
            got=f"{name}: {view.failure}",
            hint=f"ALTER VIEW {name} RESUME builds it again; DROP VIEW {name} removes it",
        )
    before = view.paused or Pause(epoch, admitted=admitted)
    return _with_pause(catalog, name, Pause(before.epoch, admitted=before.admitted), epoch)


def resumed(catalog: Catalog, name: str, epoch: int) -> Catalog:
    """The catalog in which a paused or failed view, and those that are paused because of it, are built again.

    A view that is maintained, or is being built again, is left as it is.

    Raises
    ------
    TidemillError
        TM2012 when there is no such view, TM2063 when it reads a view that is paused or has failed.
    """
    view = found(catalog, name)
    if name in catalog.pending or (view.paused is None and view.failure is None):
        return catalog
    still = _not_maintained(catalog, view.as_coming())
    if still:
        raise not_maintained(name, still)
    return replacements.begin(catalog, view.as_coming(), epoch)


def due(catalog: Catalog, now: int) -> str | None:
    """A view to be tried again at a time, in milliseconds since 1970; None when there is none.

    One that reads views that are paused, or have failed, waits for these, however long its own pause is over.
    """
    waiting = (v.as_coming() for n, v in catalog.views.items() if n not in catalog.pending and _is_due(v, now))
    return next((v.name for v in waiting if not _not_maintained(catalog, v)), None)


def exceeded(catalog: Catalog, errors: Mapping[str, str], epoch: int, admitted: Mapping[str, int], now: int) -> Catalog:
    """The catalog with views paused that exceeded a limit in the epoch after ``epoch``.

    Parameters
    ----------
    errors : mapping
        By (inner) names of views, views that read these included. A replacement is given up, and so is the attempt to
        build a paused view again.
    admitted : mapping
        The bytes admitted of each table by then.
    now : int
        Milliseconds since 1970.
    """
    broken: dict[str, str] = {}
    known = catalog.all_views
    for name in sorted(errors.keys() & known.keys()):
        target = name.removesuffix(NEXT)
        if catalog.views[target].paused is None and name.endswith(NEXT):
            broken[name] = errors[name]
        elif not errors.keys() & set(relations(known[name].root)):
            before = catalog.views[target].paused or Pause(epoch, admitted=admitted)
            retry_at = now + min(FIRST_RETRY << min(before.attempts, 16), LONGEST_RETRY)
            pause = Pause(before.epoch, "", errors[name], before.attempts + 1, before.admitted, retry_at)
            catalog = _with_pause(catalog, target, pause, epoch)
    broken = {n: e for n, e in broken.items() if n.removesuffix(NEXT) in catalog.pending}
    return replacements.fail(catalog, broken, epoch + 1) if broken else catalog


def _with_pause(catalog: Catalog, name: str, pause: Pause, epoch: int) -> Catalog:
    """The catalog with a view paused, and those that read it; nothing is built for them, or over them.

    Where a statement had begun to replace them they will be replaced when they are resumed. A replacement that would
    read them and whose old view does not is refused: the old view goes on.
    """
    paused_with = (name, *replacements.readers(catalog.views, name))
    catalog = replacements.remembered(catalog, paused_with)
    over = [n for n in replacements.readers(replacements.coming(catalog), name) if n not in paused_with]
    over = [n for n in over if n in catalog.pending]
    views = dict(catalog.views)
    views[name] = replace(views[name], paused=pause)
    for reader in paused_with[1:]:
        view = views[reader]
        if view.failure is None and view.paused is None:
            views[reader] = replace(view, paused=Pause(pause.epoch, because=name, admitted=pause.admitted))
    catalog = replace(catalog, views=views)
    for each in (*paused_with, *over):
        if each in catalog.pending:
            catalog = replacements.give_up(catalog, each, epoch)
    refused = {n: replace(catalog.views[n], refused=f"its replacement reads {name}, which was paused") for n in over}
    return replace(catalog, views={**catalog.views, **refused})


def found(catalog: Catalog, name: str) -> View:
    if name not in catalog.views:
        raise catalog.unknown(name, "view")
    return catalog.views[name]


def _reads(catalog: Catalog, view: View) -> list[str]:
    return sorted(replacements.read_names(view.root) & catalog.views.keys())


def _not_maintained(catalog: Catalog, view: View) -> list[str]:
    """The views that a view reads and that are paused, being built again, or have failed."""
    return [n for n in _reads(catalog, view) if (v := catalog.views[n]).paused or v.failure]


def _is_due(view: View, now: int) -> bool:
    return view.paused is not None and view.paused.retry_at is not None and view.paused.retry_at <= now
