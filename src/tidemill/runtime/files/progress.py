"""How far the files of a table have been read: waiting files, their order, and the splits of an epoch.

A :class:`Progress` keeps in memory the files that are not read to their end. ``source_files.py`` is about those of
new rows, ``runtime/intake/history.py`` about what is read again for a new view.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from tidemill.formats.reading.codecs import MOST_DECODED
from tidemill.runtime.files.file_progress import FileProgress
from tidemill.sources.split import Split, SplitResult

_LEAST_PIECE = 512 << 10
"""The fewest bytes that are worth a task of their own."""

SPLITS_OF_PART, SHARE_OF_PART = 16, 4
"""A part of a compressed file has at least so many splits, and this share of the bytes that are decoded before it."""


@dataclass(frozen=True)
class Limits:
    """What an epoch may admit of a table.

    Parameters
    ----------
    bytes : int
        Most bytes; a file that is read as a whole may be more.
    files : int or None
        Most files.
    split_bytes : int
        Most bytes of a split.
    tasks : int
        The bytes of a file are cut evenly for so many readers.
    suspects : bool
        Admit only files that could not be read before; otherwise only the other files.
    together : bool
        All files are admitted, also those that could not be read before, in the same epoch.
    evenly : bool
        All files get their share of the bytes, by what waits of them, and readers are shared by files; else the first
        ones are read first, each by all readers.
    """

    bytes: int
    files: int | None = None
    split_bytes: int = 1 << 62
    tasks: int = 1
    suspects: bool = False
    evenly: bool = False
    together: bool = False


class Progress:
    """Progress of one table, or of the history of one table for views created at an epoch.

    Attributes
    ----------
    known : dict
        Files that are held in memory, by path.
    waiting : dict
        Paths of those with something left to admit, in the order they are read.
    """

    def __init__(self, table: str, backfill_target: int | None, files: Iterable[FileProgress] = ()) -> None:
        self.table = table
        self.backfill_target = backfill_target
        self.known: dict[str, FileProgress] = {f.path: f for f in files}
        self.waiting: dict[str, None] = {p: None for p, f in self.known.items() if f.waits and not f.failed}

    @property
    def ordered(self) -> bool:
        """Whether a file that cannot be read holds up those behind it."""
        return False

    @property
    def done(self) -> bool:
        """Whether there is nothing to admit now."""
        return not self.waiting

    @property
    def remaining(self) -> int:
        """Bytes waiting."""
        return sum(self.known[p].remaining for p in self.waiting)

    def admit(
        self,
        limits: Limits,
        watermark: int | None = None,
        unsplittable: Callable[[str], bool] = lambda _: False,
        compressed: Callable[[str], bool] = lambda _: False,
    ) -> list[Split]:
        """Splits for the next epoch; nothing is changed by asking.

        New rows are admitted under ``watermark``, those of history under the one they were first admitted under. A file
        that is ``unsplittable`` is one split, also where that exceeds the limits. A file that replaces an older version
        is admitted to its end, so that the change happens in one epoch. Of a ``compressed`` file there is one split an
        epoch; either all of these are ``unsplittable`` or none, so that only one is asked about.
        """
        splits: list[Split] = []
        uncut: bool | None = None
        budget, number, now = limits.bytes, 0, time.time_ns() // 1_000_000
        waiting = self.remaining if limits.evenly else 0
        tasks = -(-limits.tasks // max(1, len(self.waiting))) if limits.evenly else limits.tasks
        for path in self.waiting:
            file = self.known[path]
            suspect = file.attempts > 0
            if not limits.together and (suspect != limits.suspects or (suspect and (file.retry_at or 0) > now)):
                if self.ordered and suspect:
                    break
                continue
            if budget <= 0 or (limits.files is not None and number >= limits.files):
                break
            number += 1
            if file.remaining and compressed(path):
                uncut = unsplittable(path) if uncut is None else uncut
                splits.append(self._part(file, replace(limits, bytes=budget), watermark, uncut))
                budget -= splits[-1].length
                if self.ordered and splits[-1].end < MOST_DECODED:
                    break
                continue
            at = file.position
            most = budget if not waiting else min(budget, max(1, limits.bytes * file.remaining // waiting))
            end = file.size if self._undivided(file) else min(file.size, at + most)
            piece = _piece(end - at, limits.split_bytes, tasks)
            if (end < file.size or piece < end - at) and unsplittable(path):  # to ask may cost a look into the file
                end = file.size
                piece = end - at
            budget -= max(1, end - at)
            replaces = file.replaces
            while at < end or replaces:
                known = file.in_quotes if at == file.position else None
                splits.append(self._split(file, at, min(end, at + piece), watermark, known, replaces))
                at, replaces = splits[-1].end, False
        return splits

    def _part(self, file: FileProgress, limits: Limits, watermark: int | None, unsplittable: bool) -> Split:
        """The next decoded bytes of a compressed file.

        What is before them has to be decoded again, so that parts grow with it: in all that is decoding the file
        ``SHARE_OF_PART`` times, and less than once more for the last part. Where rows have an order, files behind it
        wait for its end; small ones are whole.
        """
        at, stop = file.decoded, MOST_DECODED
        small = self.ordered and file.size <= limits.split_bytes
        if not (unsplittable or small or file.replaces):
            least = SPLITS_OF_PART * limits.split_bytes
            stop = min(stop, at + max(limits.bytes, least, at // SHARE_OF_PART))
        if file.until is not None:
            stop = min(stop, file.until)
        return self._split(file, at, stop, watermark, file.in_quotes, file.replaces, file.position)

    def _split(
        self,
        file: FileProgress,
        at: int,
        stop: int,
        watermark: int | None,
        in_quotes: bool | None,
        replaces: bool,
        encoded: int | None = None,
    ) -> Split:
        """A split; of history it ends where the rows were first admitted under another watermark."""
        if self.backfill_target is not None:
            watermark = next((w for p, w in reversed(file.marks) if p <= at), None)
            stop = min((p for p, _ in file.marks if at < p < stop), default=stop)
        return Split(
            self.table,
            file.path,
            at,
            stop,
            file.size,
            file.modified,
            in_quotes,
            self.backfill_target,
            watermark=watermark,
            etag=file.etag,
            replaces=replaces,
            encoded=encoded,
        )

    def _undivided(self, file: FileProgress) -> bool:
        """Whether all of a file is admitted in one epoch."""
        return file.replaces

    def after(self, results: Iterable[SplitResult]) -> list[FileProgress]:
        """The files that splits were read from, as they are past these splits; nothing is changed."""
        changed: dict[str, FileProgress] = {}
        for result in sorted(results, key=lambda r: (r.split.path, r.split.start)):
            split = result.split
            file = changed.get(split.path, self.known[split.path])
            begin = file.position if split.encoded is None else file.decoded
            assert begin == split.start, f"{split.path}: {split.start} after {begin}"
            position, decoded = split.end, 0
            if split.encoded is not None and result.encoded is not None:
                ended = result.encoded == split.size or split.end == file.until
                position = file.size if ended else min(max(result.encoded, 1), file.size - 1)
                decoded = 0 if ended else split.end
            quotes = file.in_quotes ^ bool(result.quote_parity)
            marks = file.marks
            if (
                self.backfill_target is None
                and split.watermark is not None
                and (not marks or marks[-1][1] != split.watermark)
            ):
                marks = (*marks, (split.start, split.watermark))
            changed[split.path] = replace(
                file,
                position=position,
                decoded=decoded,
                in_quotes=quotes,
                marks=marks,
                rows=file.rows + result.rows,
                replaces=False,
                attempts=0,
                retry_at=0,
                error="",
            )
        return list(changed.values())

    def move(self, changed: Iterable[FileProgress]) -> None:
        """Take over what :meth:`after` gave, once it is sealed."""
        for file in changed:
            self.known[file.path] = file
            if not file.waits:
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
    """Check which splits begin inside quotes.

    Parameters
    ----------
    results : iterable of SplitResult
        Splits of one epoch; those of a file are consecutive.
    starts : dict
        Whether the first split of (table, backfill target, path) begins inside quotes.

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
        key = (split.table, split.backfill_target, split.path)
        truth[split] = state[key]
        right = right and result.assumed_in_quotes == state[key]
        state[key] ^= bool(result.quote_parity)
    return None if right else truth
