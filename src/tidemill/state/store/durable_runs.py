"""Makes runs of buffers durable, as a checkpoint does: runs of the same epochs become one, of several files one object.

What is left in objects of which little is needed is written there, too (:mod:`tidemill.state.store.sparse_objects`).

Large files of a buffer become objects as they are where that takes no copy: to write rows again costs more than the
merge saves, which is left to compaction.
"""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import chain, pairwise

from tidemill.errors import TidemillError
from tidemill.state.lookup.memtable import UNORDERED_BYTES
from tidemill.state.lookup.merge_chunks import merge_chunks
from tidemill.state.merge.merge import MergeOp
from tidemill.state.merge.operations import is_multiset
from tidemill.state.merge.unordered import concatenated
from tidemill.state.runs.sst import Part
from tidemill.state.store.file_names import this_host
from tidemill.state.store.store import RunStore
from tidemill.state.versions.expiry import joint_spans
from tidemill.state.versions.version import SST, Run, Swap

_VNODE_BYTES = 2
_CHUNK = 64 << 20
"""Bytes that go into one merge of a checkpoint."""
_KEPT_BYTES = 4 << 20
_KEPT_SHARE = 0.75
_KEPT_RUNS = 4
"""A checkpoint keeps files of so many bytes as they are, if this share of them is needed, and their runs do not overlap
so many others of their epochs. It merges other ones."""


def make_durable(
    store: RunStore,
    groups: Sequence[Sequence[Run]],
    number: int,
    target_bytes: int,
    in_order: Collection[str] = (),
    moved: Sequence[Run] = (),
) -> list[Swap]:
    """Make runs of the buffer durable: in one object, or several of about ``target_bytes``.

    Groups are merged and written in parts, so that no whole group is in memory.

    Parameters
    ----------
    groups : sequence of sequences of Run
        The runs of a group hold changes of the same epochs of one table; they are merged.
    number : int
        Of the checkpoint; for the name.
    in_order : collection of str
        Tables whose unordered runs are put in order.
    moved : sequence of Run
        Durable runs that are written again as they are, beside those of the groups. All runs of an object stay where
        they are if one is damaged, or if this host has no copy of it.

    Returns
    -------
    list of Swap
        For each group the runs that replace it: one, unless the group is large; and one for each run of a file
        that is kept, and for each that was moved.

    Raises
    ------
    TidemillError
        TM1010 and TM1011 when a run cannot be read, TM1012 when an object cannot be written.
    """
    large = _large(store, groups, in_order)
    kept = {file: name for file in large if (name := _keep(store, file, number)) is not None}
    swaps = [Swap((r,), (replace(r, file=kept[r.file]),)) for group in groups for r in group if r.file in kept]
    groups = [rest for group in groups if (rest := [r for r in group if r.file not in kept])]
    stay = {run.file for run in moved if not _may_move(store, run)}
    moved = [run for run in moved if run.file not in stay]
    new: list[list[Run]] = [[] for _ in groups]
    merged = _Ahead(
        chain(
            (
                part
                for i, group in enumerate(groups)
                for part in _merged(store, i, group, target_bytes, group[0].table in in_order)
            ),
            ((i, _as_it_is(store, run)) for i, run in enumerate(moved, len(groups))),
        )
    )
    while merged.more():
        name = _durable_name(number)
        owners: list[int] = []
        sections = store.write_durable(name, _parts(merged, owners, target_bytes))
        for at, (i, section) in enumerate(zip(owners, sections, strict=True)):
            if i >= len(groups):
                old = moved[i - len(groups)]
                same = replace(old, file=name, section=at, rows=section.rows, bytes=section.length)
                swaps.append(Swap((old,), (same,)))
                continue
            old = groups[i][0]
            epochs = (old.epoch_low, old.epoch_high, old.added, old.removed)
            place = (old.table, name, at, section.rows, section.length)
            spans = joint_spans([r.spans for r in groups[i]])
            new[i].append(Run(*place, *epochs, *section.vnodes, spans=spans))
    return swaps + [Swap(tuple(group), tuple(runs)) for group, runs in zip(groups, new, strict=True)]


def _large(store: RunStore, groups: Sequence[Sequence[Run]], in_order: Collection[str]) -> list[str]:
    """Files of the buffer that become objects as they are. TM1018 when a large one is corrupt."""
    needed: Counter[str] = Counter()
    mixed: set[str] = set()
    for group in groups:
        for run in group:
            needed[run.file] += run.bytes
        if not _may_stay_apart(store, group, group[0].table in in_order):
            mixed.update(run.file for run in group)
    found = sorted(f for f, size in needed.items() if size >= _KEPT_SHARE * _KEPT_BYTES and f not in mixed)
    if not found or not store.takes_files():
        return []
    large = []
    for name in found:
        file = store.file(name)
        if file.bytes >= _KEPT_BYTES and needed[name] >= _KEPT_SHARE * file.bytes:
            file.verify()  # as merging does: the input is read again while the file is not durable
            large.append(name)
    return large


def _may_stay_apart(store: RunStore, group: Sequence[Run], in_order: bool) -> bool:
    """Whether no key is in two of the runs, or in a few, whose values can be combined in any order."""
    if in_order and not all(store.section(run).ordered for run in group):
        return False
    ordered = sorted(group, key=lambda run: run.vnode_low)
    if all(one.vnode_high <= other.vnode_low for one, other in pairwise(ordered)):
        return True
    sections = [store.section(run) for run in group]
    if MergeOp.LAST in sections[0].ops:
        return False
    return len(group) <= _KEPT_RUNS or not any(section.ordered for section in sections)


def _keep(store: RunStore, file: str, number: int) -> str | None:
    """Make a file of the buffer an object, as it is; returns its name, or None where only a copy can be made."""
    name = _durable_name(number)
    try:
        store.keep(file, name)
    except TidemillError as error:
        if isinstance(error.__cause__, (FileNotFoundError, PermissionError)):
            return None  # it has gone and is mapped still, or belongs to another user: it is merged
        raise
    return name


def _merged(
    store: RunStore, number: int, group: Sequence[Run], target_bytes: int, in_order: bool
) -> Iterator[tuple[int, Part]]:
    first = group[0]
    sections = [store.section(run) for run in group]
    ops, epochs = sections[0].ops, (first.epoch_low, first.epoch_high)
    size = 0 if in_order or any(section.ordered for section in sections) else sum(s.length for s in sections)
    if 0 < size <= UNORDERED_BYTES:
        loose = concatenated([store.open_unordered(run) for run in group])
        yield number, Part(first.table, loose, ops, epochs)
        return
    opened = [store.open(run) for run in group]
    multiset = is_multiset(ops, opened[0].value_types())
    keyless = all(len(rows) == 1 and len(rows.keys[0]) == _VNODE_BYTES for rows in opened)
    # The one row of an aggregate without GROUP BY must exist also while it counts no rows.
    for rows in merge_chunks(opened, ops, multiset and not keyless, min(target_bytes, _CHUNK)):
        yield number, Part(first.table, rows, ops, epochs)


def _may_move(store: RunStore, run: Run) -> bool:
    """Whether this host has the file of a durable run, and the run is intact; a reader reports one that is not."""
    if not store.has(run.file):
        return False
    try:
        return not store.file(run.file).damage_of(run.section)
    except TidemillError as error:
        if error.number in ("TM1010", "TM1011"):
            return False
        raise


def _as_it_is(store: RunStore, run: Run) -> Part:
    section = store.section(run)
    rows = store.open(run) if section.ordered else concatenated([store.open_unordered(run)])
    return Part(run.table, rows, section.ops, (run.epoch_low, run.epoch_high))


class _Ahead:
    """An iterator with a test for whether there is more."""

    def __init__(self, parts: Iterable[tuple[int, Part]]) -> None:
        self._parts = iter(parts)
        self._next = next(self._parts, None)

    def more(self) -> bool:
        """Whether :meth:`take` can be called."""
        return self._next is not None

    def take(self) -> tuple[int, Part]:
        """The next item; :meth:`go_on` must be called before the one after it."""
        assert self._next is not None
        taken, self._next = self._next, None
        return taken

    def go_on(self) -> None:
        """Produce the next item."""
        self._next = next(self._parts, None)


def _parts(merged: _Ahead, owners: list[int], target_bytes: int) -> Iterator[Part]:
    """The parts of one object; appends the group of each to ``owners``."""
    size = 0
    while merged.more():
        owner, part = merged.take()
        size += part.rows.nbytes
        owners.append(owner)
        yield part
        del part
        merged.go_on()
        if size >= target_bytes:
            return


def _durable_name(number: int) -> str:
    return f"c{number:010d}-{this_host()}-{uuid.uuid4().hex}{SST}"
