"""How far each table has been read: the List and Fetch state of a source.

For each file the position up to which its rows are admitted, and whether that position lies inside a
quoted field. It is state like any other: changed files are written to a state table of the epoch that
admitted them, so positions and rows are always of the same version.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

import pyarrow as pa

from tidemill.sources.file_info import FileInfo
from tidemill.sources.split import GROWING, Split, SplitResult
from tidemill.sources.streams.spool import HEAD, base_of
from tidemill.state.keys import KeyColumn, encode
from tidemill.state.merge import MergeOp, Rows, consolidate
from tidemill.task.program import StateTable

_LEAST_PIECE = 512 << 10
"""A task of its own is not worth less than so many bytes."""


@dataclass(frozen=True)
class FileProgress:
    """One file: listed with this size (bytes) and modification time (ns), read up to ``position``.

    Of a table with a watermark, ``latest`` is the greatest event time admitted from the file (microseconds), and
    ``marks`` are (position, watermark): which watermark rows were admitted under, from that position on. An object has
    the ``etag`` it was listed with.
    """

    path: str
    size: int
    modified: int
    position: int = 0
    in_quotes: bool = False
    latest: int | None = None
    marks: tuple[tuple[int, int], ...] = ()
    etag: str = ""

    @property
    def first(self) -> int:
        """Where its first row is."""
        return len(HEAD) if self.modified == GROWING else 0

    @property
    def remaining(self) -> int:
        """Bytes not admitted yet."""
        return self.size - self.position


_LEAST_TIME = -(2**63)
_MARKS = pa.list_(pa.struct([("position", pa.int64()), ("watermark", pa.int64())]))


def list_table(uid: str, watermark: bool = False, objects: bool = False) -> StateTable:
    """The state table of a source: path, then size, modified, position, in_quotes; with a watermark latest, marks; of
    objects the ETag.
    """
    types: tuple[pa.DataType, ...] = (pa.int64(), pa.int64(), pa.int64(), pa.int64(), pa.int64())
    if watermark:
        types = (*types, pa.int64(), _MARKS)
    if objects:
        types = (*types, pa.string())
    return StateTable(f"list:{uid}", (KeyColumn(pa.string()),), 1, types, (MergeOp.LAST,) * len(types))


def to_rows(table: StateTable, files: Iterable[FileProgress]) -> Rows:
    """Files as a run of the source's state table."""
    entries = list(files)
    keys = encode([pa.array([f.path for f in entries], pa.string())], table.key, table.distribution)
    columns = [
        pa.array([1] * len(entries), pa.int64()),
        pa.array([f.size for f in entries], pa.int64()),
        pa.array([f.modified for f in entries], pa.int64()),
        pa.array([f.position for f in entries], pa.int64()),
        pa.array([int(f.in_quotes) for f in entries], pa.int64()),
    ]
    if _MARKS in table.value_types:
        columns.append(pa.array([f.latest for f in entries], pa.int64()))
        marks = [[{"position": p, "watermark": w} for p, w in f.marks] for f in entries]
        columns.append(pa.array(marks, _MARKS))
    if len(table.value_types) > len(columns):
        columns.append(pa.array([f.etag for f in entries], pa.string()))
    return consolidate(keys, columns, table.ops, drop_zero=False)


def from_rows(paths: pa.Array, rows: Rows, objects: bool = False) -> dict[str, FileProgress]:
    """Files from a merged run; ``paths`` are its decoded keys."""
    columns = [v.to_pylist() for v in rows.values[1:]]
    tags = columns.pop() if objects else [""] * len(paths)
    return {
        path: FileProgress(path, size, modified, position, bool(quotes), *_times(*times), etag)
        for etag, path, size, modified, position, quotes, *times in zip(tags, paths.to_pylist(), *columns, strict=True)
    }


def _times(
    latest: int | None = None, marks: Iterable[dict[str, int]] = ()
) -> tuple[int | None, tuple[tuple[int, int], ...]]:
    return latest, tuple((m["position"], m["watermark"]) for m in marks)


class Progress:
    """Progress of one table, or of the history of one table for views born at an epoch.

    ``known`` holds every file ever listed; ``waiting`` those with bytes left, in the order they are read.
    """

    def __init__(self, table: str, audience: int | None, files: Iterable[FileProgress] = ()) -> None:
        self.table = table
        self.audience = audience
        self.known: dict[str, FileProgress] = {f.path: f for f in files}
        self.waiting: dict[str, None] = {p: None for p, f in self.known.items() if f.remaining}

    def discover(self, listed: Iterable[FileInfo]) -> int:
        """Remember files not seen before, each exactly once; returns how many were new.

        A file without bytes is not remembered, so it is seen once it has some. A file that changed before
        anything of it was read is taken as it is now, and forgotten when it is gone.
        """
        new = 0
        unread = {p for p in self.waiting if self.known[p].position == 0}
        for info in listed:
            known = self.known.get(info.path)
            if info.size and (known is None or known.position == 0):
                unread.discard(info.path)
                self.known[info.path] = FileProgress(info.path, info.size, info.modified, etag=info.etag)
                self.waiting[info.path] = None
                new += known is None
        for path in unread:
            del self.known[path], self.waiting[path]
        return new

    def follow(self, segments: Iterable[FileInfo]) -> set[str]:
        """Take over how far the files of a spool have grown; those that are not listed are forgotten.

        Returns
        -------
        set of str
            Files that have gone and were not read to their end; when nobody knows their names, the first one behind.
        """
        segments = list(segments)
        listed: dict[str, None] = {}
        newest = max(self.known, default=None)
        if segments and newest not in {s.path for s in segments}:
            read_to = 0 if newest is None else base_of(newest) + self.known[newest].size - len(HEAD)
            if base_of(segments[0].path) != read_to:
                return {segments[0].path}
        for info in segments:
            listed[info.path] = None
            known = self.known.get(info.path)
            if known is None and info.size > len(HEAD):
                self.known[info.path] = FileProgress(info.path, info.size, GROWING, len(HEAD))
            elif known is not None and info.size > known.size:
                self.known[info.path] = replace(known, size=info.size)
            else:
                continue
            self.waiting[info.path] = None
        self.known = {p: f for p, f in self.known.items() if p in listed or p in self.waiting}
        return self.waiting.keys() - listed.keys()

    @property
    def done(self) -> bool:
        """Whether every known file has been admitted whole."""
        return not self.waiting

    @property
    def remaining(self) -> int:
        """Bytes waiting."""
        return sum(self.known[p].remaining for p in self.waiting)

    def watermark(self, delay: int) -> int | None:
        """The watermark of the next epoch (microseconds), None before any row with an event time."""
        latest = [f.latest for f in self.known.values() if f.latest is not None]
        return max(max(latest) - delay, _LEAST_TIME) if latest else None

    def admit(
        self,
        budget: int,
        split_bytes: int,
        max_files: int | None,
        tasks: int = 1,
        watermark: int | None = None,
        whole: Callable[[str], bool] = lambda _: False,
    ) -> list[Split]:
        """Splits for the next epoch, at most ``budget`` bytes; nothing is changed by asking.

        The bytes of a file are cut evenly for ``tasks`` readers, into pieces of at most ``split_bytes``. New rows
        are admitted under ``watermark``, those of history under the one they were first admitted under. A file that is
        ``whole`` is one split, also where that exceeds the budget.
        """
        splits: list[Split] = []
        for number, path in enumerate(self.waiting):
            if budget <= 0 or (max_files is not None and number >= max_files):
                break
            file = self.known[path]
            at, quotes = file.position, file.in_quotes
            end = min(file.size, at + budget)
            piece = _piece(end - at, split_bytes, tasks)
            if (end < file.size or piece < end - at) and whole(path):  # to ask may cost a look into the file
                end = file.size
                piece = end - at
            budget -= end - at
            while at < end:
                stop = min(end, at + piece)
                late = watermark
                if self.audience is not None:
                    late = next((w for p, w in reversed(file.marks) if p <= at), None)
                    stop = min((p for p, _ in file.marks if at < p < stop), default=stop)
                known: bool | None = quotes if at == file.position else None
                place = (self.table, path, at, stop, file.size, file.modified)
                splits.append(Split(*place, known, self.audience, watermark=late, etag=file.etag))
                at = stop
        return splits

    def after(self, results: Iterable[SplitResult]) -> list[FileProgress]:
        """The files that splits were read from, as they are past these splits; nothing is changed."""
        changed: dict[str, FileProgress] = {}
        for result in sorted(results, key=lambda r: (r.split.path, r.split.start)):
            split = result.split
            file = changed.get(split.path, self.known[split.path])
            assert file.position == split.start, f"{split.path}: {split.start} after {file.position}"
            quotes = file.in_quotes ^ bool(result.quote_parity)
            times = [t for t in (file.latest, result.latest) if t is not None]
            marks = file.marks
            if self.audience is None and split.watermark is not None and (not marks or marks[-1][1] != split.watermark):
                marks = (*marks, (split.start, split.watermark))
            changed[split.path] = replace(
                file, position=split.end, in_quotes=quotes, latest=max(times, default=None), marks=marks
            )
        return list(changed.values())

    def move(self, changed: Iterable[FileProgress]) -> None:
        """Take over what :meth:`after` gave, once it is sealed."""
        for file in changed:
            self.known[file.path] = file
            if not file.remaining:
                self.waiting.pop(file.path, None)


def _piece(length: int, most: int, tasks: int) -> int:
    """How long splits of ``length`` bytes should be so that all tasks have as much to read."""
    if length < tasks * _LEAST_PIECE:
        return most
    rounds = -(-length // (most * tasks))
    return -(-length // (rounds * tasks))


def verify_quotes(
    results: Iterable[SplitResult], starts: dict[tuple[str, int | None, str], bool]
) -> dict[Split, bool] | None:
    """Check the guesses of where quotes are.

    Parameters
    ----------
    results : iterable of SplitResult
        Splits of one epoch; those of a file are consecutive.
    starts : dict
        Whether the first split of (table, audience, path) begins inside quotes.

    Returns
    -------
    dict or None
        None when every guess was right, else the truth for every split.
    """
    truth: dict[Split, bool] = {}
    right = True
    state = dict(starts)
    for result in sorted(results, key=lambda r: (r.split.path, r.split.start)):
        split = result.split
        key = (split.table, split.audience, split.path)
        truth[split] = state[key]
        right = right and result.assumed_in_quotes == state[key]
        state[key] ^= bool(result.quote_parity)
    return None if right else truth
