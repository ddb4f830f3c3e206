"""Reads one split of a file of lines with several reads under way, and makes rows of its buffers as they come.

The :class:`tidemill.formats.text.line_split.LineSplitReader` reads the beginning of a split (is it within quotes? where
does its first row begin?) and its end (where does its last row end?) in order. Between them it hands over: what lies
there, the row that is open in front of it included, is a stream of its own, whose buffers go to the
:class:`tidemill.formats.unordered.reader.UnorderedReader`. The row that is open at its end goes back.

Rows come out in the order of the file, and an error when all rows before it have, as in the synchronous mode.
"""

from __future__ import annotations

from collections.abc import Iterator

from tidemill.formats.base import Rows
from tidemill.formats.reading.range_reads import RangeReads, ReadAhead
from tidemill.formats.rows.malformed import check_size
from tidemill.formats.text.line_split import LineSplitReader
from tidemill.formats.unordered.reader import Part, UnorderedReader, in_order


def feed_unordered(reader: LineSplitReader, file: ReadAhead, size: int) -> Iterator[Rows]:
    """Rows of a split, as :func:`tidemill.formats.reading.feeding.feed` gives them, perhaps in other portions.

    Parameters
    ----------
    reader : LineSplitReader
        Not fed yet.
    file : ReadAhead
        Is opened here, and closed by the caller.
    size : int
        Bytes of the file.

    Raises
    ------
    FormatError
        As the reader does; of several errors the first one in the file. Whatever the file raises.
    """
    reads = file.begin(reader.read_from)
    sequence = 0
    handed_over = False
    while not reader.done:
        if reader.in_middle and not handed_over:
            handed_over = True
            last = reads.last_before(reader.boundary)
            if last > sequence:
                before = reader.pause()
                unordered = UnorderedReader(reader.builder, behind=before)
                parts = _parts(unordered, reads, sequence + 1, last)
                yield from (part.rows for part in in_order(parts, before.begin))
                reader.resume(unordered.leave(last - sequence + 1, reads.position(last + 1)))
                sequence = last
        sequence += 1
        piece = reads.take(sequence)
        if piece.failure is not None:
            raise piece.failure
        reads.release(sequence)
        yield reader.feed(piece.data, piece.position + len(piece.data) >= size)


def _parts(unordered: UnorderedReader, reads: RangeReads, low: int, last: int) -> Iterator[Part]:
    """Rows that end within the pieces ``low`` to ``last``, as these come."""
    first = low
    failure: Exception | None = None
    come: set[int] = set()
    while low <= last:
        piece = reads.take_any(last)
        if piece.failure is not None:
            # What is before it may have rows, and errors, that come first.
            failure, last = piece.failure, piece.sequence - 1
            continue
        for settled in unordered.look(piece.sequence - first + 2, piece.position, piece.data):
            if (part := unordered.build(settled)) is not None:
                yield part
        check_size(unordered.held_bytes, reads.position(low))
        come.add(piece.sequence)
        while low in come:
            come.remove(low)
            low += 1
        reads.release(low - 1)
    if failure is not None:
        raise failure
