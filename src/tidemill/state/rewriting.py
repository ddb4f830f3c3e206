"""Carries out slices of compactions: reads runs, writes what takes their place."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from tidemill.state.compaction import Compaction, Slice
from tidemill.state.expiry import Expiry, spans, without_expired
from tidemill.state.keys import KeyColumn
from tidemill.state.merge import MergeOp, Rows, merge
from tidemill.state.sst import Part
from tidemill.state.store import RunStore
from tidemill.state.version import Run

DIRECT_BYTES = 4 << 20
"""What is larger is written straight into a durable object, not into a buffer and again by the next checkpoint."""


@dataclass(frozen=True)
class Rewrite:
    """One slice of a compaction, with what must be known of its table.

    ``drop_zero`` says that rows of weight zero go whatever is older (multisets), ``drop_full`` that they go when
    nothing is. ``epochs`` and ``level`` are those of the compaction.
    """

    part: Slice
    table: str
    level: int
    epochs: tuple[int, int]
    ops: tuple[MergeOp, ...]
    key: tuple[KeyColumn, ...]
    drop_zero: bool
    drop_full: bool
    expired: tuple[Expiry, ...]


def rewrites(
    compaction: Compaction,
    ops: tuple[MergeOp, ...],
    key: tuple[KeyColumn, ...],
    multiset: bool,
    settled: bool,
    expired: tuple[Expiry, ...] = (),
) -> list[Rewrite]:
    """The slices of a compaction.

    Parameters
    ----------
    multiset : bool
        Whether a row is its key and a weight, nothing else.
    settled : bool
        Whether a group that counts no rows is gone. Not while history is still being read: it may have sums of rows
        whose other half is to come.
    """
    counted = ops[0] is MergeOp.SUM and bool(key) and settled  # the weight of a row or the count of a group
    given = (compaction.table, compaction.level, compaction.epochs, ops, key, multiset, counted, expired)
    return [Rewrite(part, *given) for part in compaction.slices]


def rewrite(store: RunStore, work: Sequence[Rewrite], label: str, run_bytes: int) -> list[list[Run]]:
    """Merge some slices, one after the other.

    Parameters
    ----------
    label : str
        Part of the names of the files that are written.
    run_bytes : int
        About how large a run of a level is to be.

    Returns
    -------
    list of list of Run
        The new runs of each slice; when they are added is for the caller to say.

    Raises
    ------
    TidemillError
        TM1010 and TM1011 when a run cannot be read, TM1012, TM1014 and TM1015 when one cannot be written. What has been
        written then is garbage.
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
    runs = store.open_between(part.runs, part.low, part.high)
    if not runs:
        return
    rows = merge(runs, task.ops, drop_zero=task.drop_zero or (task.drop_full and part.full))
    if task.expired:
        rows = without_expired(rows, task.key, task.expired)
    if not len(rows):
        return
    pieces = max(1, min(len(rows), round(_size(rows) / run_bytes))) if task.level else 1
    low = max(part.low, rows.keys[0][:2])
    for i in range(pieces):
        start, stop = len(rows) * i // pieces, len(rows) * (i + 1) // pieces
        if i + 1 < pieces:
            high = separator(rows.keys[stop - 1], rows.keys[stop])
        else:
            high = min(part.high, (int.from_bytes(rows.keys[-1][:2], "big") + 1).to_bytes(2, "big"))
        yield low, rows if pieces == 1 else rows.slice(start, stop), high
        low = high


def separator(low: bytes, high: bytes) -> bytes:
    """The shortest bytes after ``low`` and not after ``high``, a larger key."""
    common = next((i for i, (a, b) in enumerate(zip(low, high)) if a != b), len(low))
    return high[: common + 1]


def _size(rows: Rows) -> int:
    """About how many bytes rows take in a file."""
    keys = rows.keys
    width = int(keys.offsets[-1] - keys.offsets[0]) + 8 * len(keys)
    return width + sum(int(v.nbytes) for v in rows.values)
