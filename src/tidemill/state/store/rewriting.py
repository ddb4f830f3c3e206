"""Carries out slices of compactions: reads runs, writes the runs that replace them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidemill.state.keys.keys import KeyColumn
from tidemill.state.lookup.merge_chunks import merge_chunks
from tidemill.state.merge.merge import MergeOp, Rows
from tidemill.state.merge.operations import columns_by_op
from tidemill.state.runs.sst import Part
from tidemill.state.store.compaction import Compaction, Slice
from tidemill.state.store.store import RunStore
from tidemill.state.versions.expiry import Expiry, spans, without_expired
from tidemill.state.versions.version import Run

DIRECT_BYTES = 4 << 20
"""Runs from this size on are written directly to a durable object, not to the buffer and again by a checkpoint."""


@dataclass(frozen=True)
class Rewrite:
    """One slice of a compaction, with the properties of its table.

    ``multiset`` says that a row is its key and a weight, so that rows of weight zero can be dropped; ``counted`` that
    the first value is the weight of a row or the count of a group. ``epochs`` and ``level`` are the compaction's.
    """

    part: Slice
    table: str
    level: int
    epochs: tuple[int, int]
    ops: tuple[MergeOp, ...]
    key: tuple[KeyColumn, ...]
    multiset: bool
    counted: bool
    expired: tuple[Expiry, ...]


def rewrites(
    compaction: Compaction,
    ops: tuple[MergeOp, ...],
    key: tuple[KeyColumn, ...],
    multiset: bool,
    expired: tuple[Expiry, ...] = (),
) -> list[Rewrite]:
    """The slices of a compaction.

    Parameters
    ----------
    multiset : bool
        Whether rows are their key and a weight only, so that those of weight 0 can be dropped whatever is older.
    """
    counted = ops[0] is MergeOp.SUM and bool(key)
    given = (compaction.table, compaction.level, compaction.epochs, ops, key, multiset, counted, expired)
    return [Rewrite(part, *given) for part in compaction.slices]


def rewrite(store: RunStore, work: Sequence[Rewrite], label: str, run_bytes: int) -> list[list[Run]]:
    """Merge some slices, one after the other.

    Parameters
    ----------
    label : str
        Part of the names of the files that are written.
    run_bytes : int
        About how many bytes a run of a level has.

    Returns
    -------
    list of list of Run
        The new runs of each slice; the caller adds them to a version.

    Raises
    ------
    TidemillError
        TM1010 and TM1011 when a run cannot be read, TM1012, TM1014 and TM1015 when one cannot be written; runs
        that have been written then are garbage.
    """
    found: list[list[Run]] = []
    small: list[Part] = []
    owners: list[int] = []
    notes = []
    for i, task in enumerate(work):
        found.append([])
        for low, rows, high in _pieces(store, task, run_bytes):
            part = Part(task.table, rows, task.ops, task.epochs)
            noted = spans(rows, task.key, task.expired) if task.expired else ()
            if not task.level and _size(rows) < DIRECT_BYTES:
                small.append(part)
                owners.append(i)
                notes.append(noted)
                continue
            run = store.write_object(task.epochs[1], part, label)
            if task.level:
                run = replace(run, level=task.level, low=low, high=high)
            found[-1].append(replace(_dated(run, task), spans=noted))
    if small:
        newest = max(work[i].epochs[1] for i in owners)
        for i, run, noted in zip(owners, store.write(newest, small, label), notes, strict=True):
            found[i].append(replace(_dated(run, work[i]), spans=noted))
    return found


def _dated(run: Run, task: Rewrite) -> Run:
    low, high = task.epochs
    return replace(run, epoch_low=low, epoch_high=high, added=high)


def _pieces(store: RunStore, task: Rewrite, run_bytes: int) -> Iterator[tuple[bytes, Rows, bytes]]:
    """The rows of a slice, for a level cut into runs of about equal size; with bounds of their keys."""
    part = task.part
    low, before = b"", None
    for rows in _merged(store, task, run_bytes):
        if before is None:
            low = max(part.low, rows.keys[0][:2])
        else:
            high = separator(before.keys[-1], rows.keys[0])
            yield low, before, high
            low = high
        before = rows
    if before is not None:
        end = int.from_bytes(before.keys[-1][:2], "big") + 1
        yield low, before, min(part.high, end.to_bytes(2, "big"))


def _merged(store: RunStore, task: Rewrite, run_bytes: int) -> Iterator[Rows]:
    """The rows of a slice in ascending parts; one, unless there are many."""
    part = task.part
    runs = store.open_between(part.runs, part.low, part.high)
    for merged in merge_chunks(runs, task.ops, task.multiset, 4 * run_bytes):
        rows = without_expired(merged, task.key, task.expired) if task.expired else merged
        if part.full and task.counted and not task.multiset:
            rows = without_gone(rows, task.ops)
        if len(rows):
            pieces = max(1, min(len(rows), round(_size(rows) / run_bytes))) if task.level else 1
            for i in range(pieces):
                yield rows if pieces == 1 else rows.slice(len(rows) * i // pieces, len(rows) * (i + 1) // pieces)


def without_gone(rows: Rows, ops: Sequence[MergeOp]) -> Rows:
    """The rows without those that can be dropped when nothing is older: weight and all sums are 0, extremes are NULL.

    A weight of 0 is not enough. A deletion may come before its insertion, during a backfill or when files arrive in
    another order: then a group counts no rows but its sums are not 0.
    """
    gone = np.ones(len(rows), np.bool_)
    for op, at in columns_by_op(ops):
        if op is MergeOp.LAST:
            continue
        for values in rows.values[at : at + op.columns]:
            empty = pc.equal(values, pa.scalar(0)) if op.is_sum else pc.is_null(values)
            gone &= empty.to_numpy(zero_copy_only=False)
    return rows.take(np.flatnonzero(~gone)) if gone.any() else rows


def separator(low: bytes, high: bytes) -> bytes:
    """The shortest bytes after ``low`` and not after ``high``, a larger key."""
    common = next((i for i, (a, b) in enumerate(zip(low, high)) if a != b), len(low))
    return high[: common + 1]


def _size(rows: Rows) -> int:
    """About how many bytes rows take in a file."""
    keys = rows.keys
    width = int(keys.offsets[-1] - keys.offsets[0]) + 8 * len(keys)
    return width + sum(int(v.nbytes) for v in rows.values)
