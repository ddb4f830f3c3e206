"""Versions as manifests have them: young merges are not made durable, their inputs are there instead.

A merge of young runs has the rows of its inputs, which a checkpoint has made durable before or does now. So a manifest
has the inputs in its place, as if nothing had been merged, until they are too many. Most merges have become part of a
larger one by then, and are never written to durable storage. A mill that goes on from the manifest merges again.
"""

from __future__ import annotations

from dataclasses import replace

from tidemill.state.versions.version import Run, Version, in_order

MOST_RUNS = 96
"""Visible runs that a table has at most because merges are left out: readers of a manifest open all of them."""


def unmerged(version: Version) -> Version:
    """The version without merges that only buffers have, where their inputs are kept; it has the same rows."""
    tables, retired = dict(version.tables), dict(version.retired)
    for table, gone in version.retired.items():
        runs = [*gone, *version.runs(table)]
        merges = {(r.added, r.epoch_low, r.epoch_high) for r in runs if not r.level and not r.is_durable}
        for added, *epochs in sorted(merges, reverse=True):
            runs = _without(runs, added, (epochs[0], epochs[1]))
        tables[table] = in_order(r for r in runs if r.removed is None)
        retired[table] = in_order(r for r in runs if r.removed is not None)
    return Version(
        version.epoch,
        {t: runs for t, runs in tables.items() if runs},
        version.horizon,
        {t: runs for t, runs in retired.items() if runs},
    )


def _without(runs: list[Run], added: int, epochs: tuple[int, int]) -> list[Run]:
    """The runs with the inputs of a merge instead of its outputs; the same ones if that cannot be."""
    outputs = [r for r in runs if r.added == added and (r.epoch_low, r.epoch_high) == epochs and not r.level]
    inputs = [r for r in runs if r.was_merged(added, epochs)]
    removed = outputs[0].removed
    if not inputs or any(r.is_durable or r.removed != removed for r in outputs):
        return runs
    # Where rows expire, runs may have been dropped that were no inputs; these and merges of such tables have spans.
    if any(r.spans for r in (*outputs, *inputs)):
        return runs
    if removed is None:
        visible = sum(r.removed is None for r in runs)
        if visible - len(outputs) + len(inputs) > MOST_RUNS:
            return runs
    changed = {id(r) for r in (*outputs, *inputs)}
    return [*(r for r in runs if id(r) not in changed), *(replace(r, removed=removed) for r in inputs)]
