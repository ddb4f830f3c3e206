"""On which line of its file a byte is: newlines are counted when a line is asked for, by reading the file again.

A split does not know how many lines lie before it, and almost none needs to. So nothing is counted while rows are
read; once something is malformed the bytes before it are read a second time. The number depends on the bytes of the
file alone: not on how it is cut into splits and buffers, on the order in which they are read, or on attempts that
failed.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from collections import OrderedDict
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import replace
from typing import Protocol

import numpy as np
import numpy.typing as npt

from tidemill.formats.base import RowError
from tidemill.formats.text.line_ends import NEWLINE

_MARK_BYTES = 1 << 20
_MOST_FILES = 256
_FEW = 200
_NOTHING = np.empty(0, np.uint8)

_counted: OrderedDict[Hashable, list[tuple[int, int]]] = OrderedDict()
"""Of files that this process counted in: (position, newlines before it), ascending, at least ``_MARK_BYTES`` apart."""


class Reread(Protocol):
    """A file that can be read once more, such as :class:`tidemill.formats.reading.feeding.FileBytes`."""

    @property
    def compressed(self) -> bool: ...

    @property
    def ended(self) -> bool: ...

    def open(self, position: int) -> None: ...

    def fill(self) -> bytes | memoryview: ...

    def close(self) -> None: ...


class LineNumbers:
    """Line numbers in one file, from 1 on; a line ends with its newline, also where that is in a quoted field.

    Parameters
    ----------
    file : Reread
        Not shared. Opened when it is first needed.
    key : hashable, optional
        Identifies the bytes of the file, which never change. Counts are remembered by it in this process, so that the
        next split of the file goes on from there.
    """

    def __init__(self, file: Reread, key: Hashable = None) -> None:
        self._file = file
        self._key = None if file.compressed else key
        self._open = False
        # The piece of the file that was read last: where it begins, and how many newlines are before it.
        self._begin = 0
        self._before = 0
        self._piece: npt.NDArray[np.uint8] = _NOTHING
        # How far into the piece newlines have been counted, and how many there were.
        self._looked = self._seen = 0

    def of(self, positions: Sequence[int] | npt.NDArray[np.int64]) -> list[int]:
        """The line of each position.

        Costs a look at the bytes from the last position of the call before to the greatest of these; any that lies
        before costs a new beginning.

        Parameters
        ----------
        positions : sequence of int
            Absolute byte offsets, in any order; one behind the end of the file counts as its end.

        Raises
        ------
        TidemillError
            As reading the file.
        """
        given = np.asarray(positions, np.int64)
        order = np.argsort(given, kind="stable")
        wanted = given[order]
        lines = np.empty(given.size, np.int64)
        done = 0
        if wanted.size and (not self._open or wanted[0] < self._begin):
            self._start(int(wanted[0]))
        while done < wanted.size:
            here = int(np.searchsorted(wanted, self._begin + self._piece.size, "right"))
            if here > done:
                lines[order[done:here]] = self._before + self._newlines(wanted[done:here] - self._begin) + 1
                done = here
            elif not self._advance():
                lines[order[done:]] = self._before + self._to(self._piece.size) + 1
                break
        return [int(line) for line in lines]

    def numbered(self, errors: Iterable[RowError]) -> tuple[RowError, ...]:
        """The same errors with the line of each row's first byte. Errors as :meth:`of`."""
        found = tuple(errors)
        if not found:
            return found
        lines = self.of([e.position for e in found])
        return tuple(replace(e, line=line) for e, line in zip(found, lines, strict=True))

    def close(self) -> None:
        """Close the file; may be called twice."""
        if self._open:
            self._file.close()
            self._open = False

    def _newlines(self, offsets: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """How many newlines are before each offset in the piece; offsets are ascending."""
        if offsets.size > _FEW:
            found: npt.NDArray[np.int64] = np.searchsorted(np.flatnonzero(self._piece == NEWLINE), offsets, "left")
            return found
        return np.array([self._to(int(offset)) for offset in offsets], np.int64)

    def _to(self, offset: int) -> int:
        """How many newlines are before one offset in the piece: each byte is looked at once while offsets ascend."""
        if offset < self._looked:
            self._looked = self._seen = 0
        self._seen += int(np.count_nonzero(self._piece[self._looked : offset] == NEWLINE))
        self._looked = offset
        return self._seen

    def _start(self, position: int) -> None:
        self.close()
        self._begin, self._before = _nearest(self._key, position)
        self._piece = _NOTHING
        self._looked = self._seen = 0
        self._file.open(self._begin)
        self._open = True

    def _advance(self) -> bool:
        """Read the next piece; tells whether there was one."""
        if self._file.ended:
            return False
        self._before += self._to(self._piece.size)
        self._begin += self._piece.size
        self._looked = self._seen = 0
        _remember(self._key, self._begin, self._before)
        piece = self._file.fill()
        self._piece = np.frombuffer(piece, np.uint8) if len(piece) else _NOTHING
        return True


def _nearest(key: Hashable, position: int) -> tuple[int, int]:
    """The last place not behind a position of which it is known how many newlines are before it, and how many."""
    marks = _counted.get(key, []) if key is not None else []
    number = bisect_right(marks, position, key=lambda mark: mark[0])
    return marks[number - 1] if number else (0, 0)


def _remember(key: Hashable, position: int, newlines: int) -> None:
    if key is None:
        return
    marks = _counted.setdefault(key, [])
    _counted.move_to_end(key)
    if position - _nearest(key, position)[0] >= _MARK_BYTES:
        insort(marks, (position, newlines))
    while len(_counted) > _MOST_FILES:
        _counted.popitem(last=False)
