"""Deciding a merge of sorted runs: which run each row of the result comes from.

It goes block by block: some next rows of every run up to a common key, so few that what is known of them stays in the
processor's cache. There keys are one word each, merged two by two without branches.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from tidemill.kernels import types
from tidemill.kernels.columns import room
from tidemill.kernels.words import I64, I64_OUT, Ints, Words, compare, inlined, kernel
from tidemill.state.keys.run_table import RUN_TABLE, run_data, run_offsets, run_size
from tidemill.state.merge.key_words import choose_word_parts, load_words

MOST_RUNS = 1 << 15
RUN = MOST_RUNS - 1
SAME = 15
"""Bit of a source that says that the key is that of the row before; those below it are the run."""
_BLOCK = 16384

Sources = npt.NDArray[np.uint16]
_Marks = npt.NDArray[np.uint32]
"""Per row of a block its run (upper half) and which of the run's rows in the block it is."""
_GRID64 = types.array(types.uint64, 2, "C")
_GRID32 = types.array(types.uint32, 2, "C")
_U16_OUT = types.array(types.uint16, 1, "C")


@inlined
def _order(table: Words, a: int, a_row: int, b: int, b_row: int) -> int:
    """How a key of run ``a`` compares to one of run ``b`` (-1, 0 or 1)."""
    left = run_offsets(table, a)
    right = run_offsets(table, b)
    return compare(run_data(table, a), left[a_row], left[a_row + 1], run_data(table, b), right[b_row], right[b_row + 1])


@inlined
def _order_of_marks(table: Words, rows: Ints, a: int, b: int) -> int:
    """How the keys of two marks compare; ``rows`` are the first of the block in each run."""
    return _order(table, a >> 16, rows[a >> 16] + (a & 0xFFFF), b >> 16, rows[b >> 16] + (b & 0xFFFF))


@inlined
def _limiting_run(table: Words, rows: Ints, most: int) -> int:
    """The run with the smallest of the keys that lie ``most`` rows ahead; -1 if no run has so many rows left."""
    limit = -1
    for r in range(table.shape[0]):
        if run_size(table, r) - rows[r] > most and (
            limit < 0 or _order(table, r, rows[r] + most, limit, rows[limit] + most) < 0
        ):
            limit = r
    return limit


@inlined
def _first_not_less(table: Words, run: int, low: int, high: int, limit: int, limit_row: int) -> int:
    """The first of rows ``low`` to ``high - 1`` whose key is not less than that of the limit, or ``high``."""
    step = 1
    while low + step <= high:
        if _order(table, run, low + step - 1, limit, limit_row) >= 0:
            break
        low += step
        step *= 2
    high = min(low + step - 1, high)
    while low < high:
        middle = (low + high) >> 1
        if _order(table, run, middle, limit, limit_row) < 0:
            low = middle + 1
        else:
            high = middle
    return low


@inlined
def _load_block(table: Words, rows: Ints, ends: Ints, parts: Ints, words: Words, marks: _Marks) -> None:
    """Words and marks of the rows of a block, run after run."""
    at = 0
    for r in range(table.shape[0]):
        count = ends[r] - rows[r]
        if count > 0:
            load_words(run_offsets(table, r), run_data(table, r), rows[r], ends[r], parts, words, at)
            for i in range(count):
                marks[at + i] = np.uint32((r << 16) | i)
            at += count


@inlined
def _merge_pair(
    table: Words,
    rows: Ints,
    words: Words,
    marks: _Marks,
    low: int,
    middle: int,
    high: int,
    words_out: Words,
    marks_out: _Marks,
) -> None:
    """Merge two neighbouring parts of a block; of equal keys that of the left one, which is older, comes first."""
    left = low
    right = middle
    at = low
    while left < middle and right < high:
        x = words[left]
        y = words[right]
        a = marks[left]
        b = marks[right]
        later = y < x
        if x == y:
            later = _order_of_marks(table, rows, int(b), int(a)) < 0
        words_out[at] = y if later else x
        marks_out[at] = b if later else a
        step = int(later)
        right += step
        left += 1 - step
        at += 1
    while left < middle:
        words_out[at] = words[left]
        marks_out[at] = marks[left]
        left += 1
        at += 1
    while right < high:
        words_out[at] = words[right]
        marks_out[at] = marks[right]
        right += 1
        at += 1


@inlined
def _merge_block(table: Words, rows: Ints, bounds: Ints, filled: int, word_room: Words, mark_room: _Marks) -> int:
    """Merge the parts of a block two by two until there is one; returns which half of the room has it."""
    half = 0
    while filled > 1:
        for pair in range(0, filled, 2):
            low = bounds[pair]
            high = bounds[min(pair + 2, filled)]
            _merge_pair(
                table,
                rows,
                word_room[half],
                mark_room[half],
                low,
                bounds[pair + 1],
                high,
                word_room[1 - half],
                mark_room[1 - half],
            )
            bounds[pair >> 1] = low
        bounds[(filled + 1) >> 1] = bounds[filled]
        filled = (filled + 1) >> 1
        half = 1 - half
    return half


@inlined
def _write_sources(
    table: Words, rows: Ints, words: Words, marks: _Marks, size: int, sources: Sources, done: int
) -> int:
    """Write the sources of a block in its order; returns how many different keys it has."""
    sources[done] = np.uint16(marks[0] >> np.uint32(16))
    segments = 1
    for i in range(1, size):
        mark = int(marks[i])
        same = 0
        if words[i] == words[i - 1]:
            same = int(_order_of_marks(table, rows, mark, int(marks[i - 1])) == 0)
        sources[done + i] = np.uint16((mark >> 16) | (same << SAME))
        segments += 1 - same
    return segments


@kernel(types.int64, RUN_TABLE, I64, _U16_OUT, _GRID64, _GRID32, I64_OUT, I64_OUT, I64_OUT)
def _interleave(
    table: Words,
    parts: Ints,
    sources: Sources,
    word_room: Words,
    mark_room: _Marks,
    rows: Ints,
    ends: Ints,
    bounds: Ints,
) -> int:
    """Fill ``sources``; returns the segments. What comes after is room: twice a block; for each run and one more."""
    runs = table.shape[0]
    most = word_room.shape[1] // runs
    segments = 0
    done = 0
    for r in range(runs):
        rows[r] = 0
    while done < sources.size:
        limit = _limiting_run(table, rows, most)
        size = 0
        filled = 0
        for r in range(runs):
            ends[r] = min(run_size(table, r), rows[r] + most)
            if limit >= 0 and r != limit:
                ends[r] = _first_not_less(table, r, rows[r], ends[r], limit, rows[limit] + most)
            if ends[r] > rows[r]:
                bounds[filled] = size
                filled += 1
                size += ends[r] - rows[r]
        bounds[filled] = size
        if filled > 1:
            _load_block(table, rows, ends, parts, word_room[0], mark_room[0])
            half = _merge_block(table, rows, bounds, filled, word_room, mark_room)
            segments += _write_sources(table, rows, word_room[half], mark_room[half], size, sources, done)
        else:
            for r in range(runs):
                if ends[r] > rows[r]:
                    for i in range(size):
                        sources[done + i] = np.uint16(r)
            segments += size
        done += size
        for r in range(runs):
            rows[r] = ends[r]
    return segments


def interleave(table: Words) -> tuple[Sources, int]:
    """Decide a merge.

    Parameters
    ----------
    table : np.ndarray
        At most ``MOST_RUNS`` runs of one or more keys (:func:`~tidemill.state.keys.run_table.run_table`), oldest
        first.

    Returns
    -------
    sources : np.ndarray
        uint16 per row in ascending order of keys, of equal keys from old to new: its run, and bit 15 where the key is
        that of the row before. Rows of one run come in their order.
    segments : int
        How many different keys there are.
    """
    runs, rows = len(table), int(table[:, 2].sum())
    parts = np.zeros(5, np.int64)
    choose_word_parts(table, parts)
    sources = room(rows, np.uint16)
    block = min(max(_BLOCK, 16 * runs), rows + runs)
    blocks = np.empty((2, block), np.uint64), np.empty((2, block), np.uint32)
    return sources, _interleave(table, parts, sources, *blocks, *np.empty((3, runs + 1), np.int64))
