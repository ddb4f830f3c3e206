"""Versions as manifests have them: young merges are not made durable, their inputs are there instead.

A merge of young runs has the rows of its inputs, which a checkpoint has made durable before or does now. So a manifest
has the inputs in its place, as if nothing had been merged, until they are too many. Most merges have become part of a
larger one by then, and are never written to durable storage. A mill that goes on from the manifest merges again.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tidemill.state.versions.version import Run, Version, as_removed, in_order

MOST_GENERATIONS = 96
"""Visible generations of young runs that a table has at most because merges are left out: readers of a manifest open
all of them."""


def unmerged(version: Version, most_bytes: int) -> Version:
    """The version without merges that only buffers have, where their inputs are kept.

    Parameters
    ----------
    most_bytes : int
        Of merges that are left out, and so stay in buffers alone, and of their inputs, which stay among the durable
        objects; the newest ones first.

    Returns
    -------
    Version
        With the same rows at every epoch that can be read. It holds nothing that no epoch sees.
    """
    merges: list[tuple[int, str, tuple[int, int], list[Run]]] = []
    for table in version.retired.keys() | version.held.keys() if most_bytes > 0 else ():
        outputs: dict[tuple[int, int, int], list[Run]] = {}
        for run in (*version.retired.get(table, ()), *version.runs(table)):
            if not run.level and not run.added == run.epoch_low == run.epoch_high:
                outputs.setdefault((run.added, run.epoch_low, run.epoch_high), []).append(run)
        for (added, low, high), runs in outputs.items():
            if not any(r.is_durable or r.spans for r in runs):
                merges.append((added, table, (low, high), runs))
    sealed: dict[str, set[int]] = {}
    for added, table, _, _ in merges:
        sealed.setdefault(table, set()).add(added)
    changed = {table: _Table(version, table, epochs) for table, epochs in sealed.items()}
    for added, table, epochs, runs in sorted(merges, key=lambda merge: -merge[0]):
        most_bytes -= changed[table].leave_out(added, epochs, runs, most_bytes)
    tables, retired = dict(version.tables), dict(version.retired)
    for table, found in changed.items():
        tables[table], retired[table] = found.visible(), found.retired()
    return Version(
        version.epoch,
        {t: runs for t, runs in tables.items() if runs},
        version.horizon,
        {t: runs for t, runs in retired.items() if runs},
    )


class _Table:
    """The runs of a table, from which merges are taken out.

    Parameters
    ----------
    sealed : set of int
        The epochs at which merges were sealed that may be left out.
    """

    def __init__(self, version: Version, table: str, sealed: set[int]) -> None:
        self._retired, self._visible = version.retired.get(table, ()), version.runs(table)
        # Both by the identity of objects of the version, which live as long as this.
        self._gone: set[int] = set()
        """Runs that are not where they were."""
        self._back: dict[int, tuple[Run, int | None]] = {}
        """Inputs that are there instead of their merges, and when they are removed now."""
        self._generations = _generations(self._visible)
        self._removed: dict[int | None, list[Run]] = {}
        for run in (*self._retired, *version.held.get(table, ())):
            if run.removed in sealed:
                self._removed.setdefault(run.removed, []).append(run)

    def leave_out(self, added: int, epochs: tuple[int, int], outputs: Sequence[Run], most_bytes: int) -> int:
        """Put the inputs of a merge in the place of its outputs, if they have no more bytes.

        Merges come in descending order of ``added``. Returns the bytes of the outputs or inputs, whichever are more; 0
        where the merge stays.
        """
        inputs = [r for r in self._removed.get(added, ()) if r.was_merged(added, epochs)]
        removed = self._end(outputs[0])
        # Where rows expire, runs may have been dropped that were no inputs; these and merges of such tables have spans.
        if not inputs or any(r.spans for r in inputs) or any(self._end(r) != removed for r in outputs):
            return 0
        size = max(sum(r.bytes for r in outputs), sum(r.bytes for r in inputs))
        if size > most_bytes:
            return 0
        if removed is None:
            generations = self._generations - 1 + _generations(inputs)
            if generations > MOST_GENERATIONS:
                return 0
            self._generations = generations
        for run in outputs:
            self._gone.add(id(run))
            self._back.pop(id(run), None)
        for run in inputs:
            self._gone.add(id(run))
            self._back[id(run)] = run, removed
        return size

    def _end(self, run: Run) -> int | None:
        """When a run is removed now."""
        return self._back[id(run)][1] if id(run) in self._back else run.removed

    def visible(self) -> tuple[Run, ...]:
        """The runs that are left and visible."""
        back = (run.until(None) for run, end in self._back.values() if end is None)
        return in_order((*(r for r in self._visible if id(r) not in self._gone), *back))

    def retired(self) -> tuple[Run, ...]:
        """The other ones that are left."""
        back = (run.until(end) for run, end in self._back.values() if end is not None)
        return as_removed((*(r for r in self._retired if id(r) not in self._gone), *back))


def _generations(runs: Iterable[Run]) -> int:
    return len({(r.epoch_low, r.epoch_high) for r in runs if not r.level})
