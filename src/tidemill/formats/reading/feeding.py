"""Between a file and a format: bytes are fetched, decoded if they are compressed, and fed to the reader of a split."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, Protocol

from tidemill.errors import FormatError
from tidemill.formats.base import RowError, RowReader, Rows, SplitReader, head_of
from tidemill.formats.reading.codecs import MOST_DECODED, Decoded, parse_codec_options
from tidemill.formats.reading.range_reads import RangeFile, ReadAhead
from tidemill.formats.reading.read_modes import ReadMode, parse_read_mode
from tidemill.formats.reading.split_unordered import feed_unordered
from tidemill.formats.rescue.options import rescue_column
from tidemill.formats.rescue.paths import with_file_path
from tidemill.formats.rows.malformed import Mode, fail_fast
from tidemill.formats.text.delimiter_split import DelimiterSplitReader
from tidemill.formats.text.line_split import ColumnBuilder, LineSplitReader

_COLUMN_BYTES, _MOST_JOINED = 4 << 10, 16 << 20
_BEGUN = "it was complete before: its rows in sealed epochs stay"
_NOT_BEGUN = "none of its rows count"
_HINTS = {
    "truncated_archive": "write it completely under another name, then rename it",
    "corrupt_archive": "write it again",
    "decompression_limit": "raise maxDecompressedRatio if it is meant to be so large",
}


class RawFile(Protocol):
    """The bytes of one file, as they are, one buffer after the other."""

    def open(self, position: int) -> Any:
        """Begin at a byte."""
        ...

    def fill(self) -> bytes | memoryview:
        """The next bytes, of any length; empty at the end."""
        ...

    def first_bytes(self, count: int) -> bytes:
        """The first bytes of the file, at most so many, whether or not it is open."""
        ...

    def close(self) -> None:
        """Close the file; may be called twice."""
        ...


def file_bytes(
    file: RangeFile,
    path: str,
    size: int,
    end: int,
    options: Mapping[str, str],
    mode: ReadMode | None = None,
    intact: bool = False,
) -> FileBytes:
    """The bytes of a file for a split that ends at ``end``, read by a mode, else by that of the table's options."""
    mode = parse_read_mode(options) if mode is None else mode
    raw: RawFile = ReadAhead(file, end=end, size=size, mode=mode) if mode.reads else file
    return FileBytes(raw, path, size, options, intact)


class FileBytes:
    """``open``, ``fill`` until ``ended``, ``close``; positions count decoded bytes.

    Parameters
    ----------
    file : RawFile
    path : str
        Its suffix may tell the codec.
    size : int
        Bytes of the file, before decoding.
    options : mapping
        Those of the table, with names in lower case.
    intact : bool
        Damage of a compressed file is an error, not its end.

    Attributes
    ----------
    path : str
    rescued : str or None
        The column in which texts name the file.
    compressed : bool
        The file can only be read from its beginning, and its decoded size is not known before its end.
    position : int
        Behind the last byte given.
    ended : bool
        What was given last are the final bytes of the file, or the last ones before its damage.
    damage : str or None
        See :class:`tidemill.formats.reading.codecs.Decoded`; valid once ``ended``.
    begun : bool
        A part of the compressed file has been read before, and with it the file was found to be whole.
    end : int
        Of a compressed file, the decoded byte before which the rows begin that are wanted.
    encoded : int or None
        Of a compressed file that has been fed to a reader, about how many of its bytes lie before ``end``; all of them
        where no row begins behind that.
    """

    def __init__(self, file: RawFile, path: str, size: int, options: Mapping[str, str], intact: bool = False) -> None:
        self._file = file
        self._intact = intact
        self.size = size
        self.path = path
        self.rescued = rescue_column(options)
        rules = parse_codec_options(options)
        self._codec = rules.of(path)
        self._most = rules.most_decoded(size)
        self._suspect = rules.suspect_from(size)
        self._decoded: Decoded | None = None
        self.compressed = self._codec is not None
        self.end = MOST_DECODED
        self.encoded: int | None = None
        self._fetched = 0
        self.begun = False
        self._ahead: bytes | None = None
        self.position = 0
        self.ended = False
        self.damage: str | None = None

    @property
    def ahead(self) -> ReadAhead | None:
        """The file, where pieces of it may be taken in any order."""
        return self._file if isinstance(self._file, ReadAhead) and not self.compressed else None

    def open(self, position: int) -> None:
        """Begin at a byte; in a compressed file all that is before it is decoded. Errors as :meth:`fill`."""
        self._file.open(0 if self.compressed else position)
        self.position = position
        self.ended, self.damage = False, None
        if self._codec is not None:
            self._fetched, self._ahead = 0, None
            self._decoded = Decoded(self._codec, self._encoded, self._most, self._suspect)
            self._pass(position)

    def _pass(self, position: int) -> None:
        """Decode up to a byte, and keep those behind it that come with the last ones before."""
        assert self._decoded is not None
        self.position = 0
        while self.position < position and not self.ended:
            found = self.fill()
            if self.position > position:
                self._ahead = bytes(found[len(found) - (self.position - position) :])
        self.position = min(self.position, position)

    def _encoded(self) -> bytes:
        data = bytes(self._file.fill())
        self._fetched += len(data)
        return data

    @property
    def consumed(self) -> int:
        """How many bytes of a compressed file have been decoded."""
        return self._fetched - (0 if self._decoded is None else self._decoded.waiting)

    def fill(self) -> bytes | memoryview:
        """The next bytes, perhaps none.

        Raises
        ------
        FormatError
            TM4045 at the damage of a file that is to be whole. Other errors as the file's own.
        """
        if self._decoded is None:
            buffer = self._file.fill()
            self.position += len(buffer)
            self.ended = self.position >= self.size or not buffer
            return buffer
        if self._ahead is not None:
            ahead, self._ahead = self._ahead, None
            self.position += len(ahead)
            return ahead
        decoded = self._decoded.fill()
        self.position += len(decoded)
        self.ended, self.damage = self._decoded.ended, self._decoded.damage
        if self._intact and self.damage is not None:
            raise FormatError(
                "TM4045",
                "a compressed file is damaged",
                got=f"{self.damage} behind {self.position} decoded bytes",
                hint=f"{_HINTS[self.damage]}; {_BEGUN if self.begun else _NOT_BEGUN}",
            )
        return decoded

    def first_bytes(self, count: int) -> tuple[bytes, bool]:
        """The first ``count`` bytes of the file, or all, and whether damage cut them short."""
        if self._codec is None:
            return self._file.first_bytes(count), False
        self.open(0)
        try:
            found = b""
            while len(found) < count and not self.ended:
                found += self.fill()
            return found[:count], len(found) < count and self.damage is not None
        finally:
            self.close()

    def close(self) -> None:
        """Close the file; may be called twice."""
        self._file.close()


def open_split(
    reader: RowReader, file: FileBytes, *, start: int, end: int, size: int, in_quotes: bool | None, part: bool
) -> SplitReader:
    """The reader of a split, which is a whole file if that is compressed, unless it is to be a ``part`` of one.

    Where damage has cut off what the format needs to know first, one of nothing. Errors as
    :meth:`tidemill.formats.base.RowReader.split`.
    """
    header, cut = None, False
    if file.compressed:
        end, size = end if part else MOST_DECODED, MOST_DECODED
        file.end, file.begun = end, part and start > 0
    if reader.header_bytes_needed():
        asked = 0

        def first_bytes(count: int) -> bytes:
            nonlocal cut, asked
            asked = count
            found, cut = file.first_bytes(count)
            return found

        header = head_of(reader, first_bytes)
        if file.compressed and len(header) < asked:
            size = len(header)
    try:
        return reader.split(start=start, end=end, file_size=size, in_quotes=in_quotes, header=header)
    except FormatError:
        if not cut:
            raise
        return reader.split(start=0, end=0, file_size=0, in_quotes=False, header=b"")


def least_bytes(reader: SplitReader) -> int:
    """How many bytes are to be fed at once: so many that a column of a wide table has some hundred values in them."""
    if not isinstance(reader, LineSplitReader | DelimiterSplitReader) or not isinstance(reader.builder, ColumnBuilder):
        return 0
    return min(len(reader.builder.columns) * _COLUMN_BYTES, _MOST_JOINED)


def feed(reader: SplitReader, file: FileBytes, mode: Mode, least: int = 0) -> Iterator[Rows]:
    """Feed a reader at least so many bytes at a time until it is done.

    What is wrong with a compressed file is a malformed row behind the others.
    Rows come in the order of the file, and what is raised is what comes first in it, whatever the mode of reading.
    """
    for rows in _rows(reader, file, mode, least):
        yield rows if file.rescued is None else with_file_path(rows, file.rescued, file.path)


class _Filling:
    """Gives the bytes of a file, at least so many at a time unless the file or the split ends before.

    What goes wrong behind some bytes is raised when they have been given, since something may be wrong with them, too.
    """

    def __init__(self, reader: SplitReader, file: FileBytes, least: int) -> None:
        self._file, self._least = file, least
        self._end = reader.boundary if isinstance(reader, LineSplitReader | DelimiterSplitReader) else 0
        self._error: Exception | None = None

    @property
    def failed(self) -> bool:
        """Whether the next call raises an error."""
        return self._error is not None

    def next(self) -> bytes | memoryview:
        """The next bytes. Errors as those of the file."""
        if self._error is not None:
            raise self._error
        buffer, file = self._file.fill(), self._file
        size = len(buffer)
        if size >= self._least or file.ended or file.position >= self._end:
            return buffer
        pieces = [bytes(buffer)]
        while size < self._least and not file.ended and file.position < self._end:
            try:
                pieces.append(bytes(file.fill()))
            except Exception as error:  # it is raised by the next call
                self._error = error
                break
            size += len(pieces[-1])
        return b"".join(pieces)


def _rows(reader: SplitReader, file: FileBytes, mode: Mode, least: int) -> Iterator[Rows]:
    if file.ahead is not None and isinstance(reader, LineSplitReader):
        yield from feed_unordered(reader, file.ahead, file.size)
        return
    file.open(reader.read_from)
    if file.compressed:
        yield from _decoded_rows(reader, file, mode, least)
        return
    filling = _Filling(reader, file, least)
    while not reader.done:
        yield reader.feed(filling.next(), file.ended)
        if file.ended:
            return


def _decoded_rows(reader: SplitReader, file: FileBytes, mode: Mode, least: int) -> Iterator[Rows]:
    """Rows of a compressed file, which is read to its end when it is begun: so that damage is found before they count.

    Whether there is more behind the split is known by whether its reader was done before the end of the file was known.
    """
    passed = file.consumed if reader.done else None
    more = True
    filling = _Filling(reader, file, least)
    while more:
        buffer = filling.next()
        if filling.failed:  # what is wrong with the file comes behind these bytes
            yield reader.feed(buffer, False)
            passed = file.consumed if passed is None and reader.done else passed
            more = not (file.begun and reader.done)
            continue
        last = file.ended and file.damage is None
        within = last and file.position <= file.end
        rows = reader.feed(buffer, within)
        if reader.done and not within and passed is None:
            passed = file.consumed
        if last and not reader.done:
            yield rows
            rows = reader.feed(b"", True)
        if file.damage is not None:
            flaw = RowError(file.position, None, file.damage, b"", True)
            fail_fast(mode, [flaw])
            rows = replace(rows, errors=(*rows.errors, flaw))
        yield rows
        more = not file.ended and (not file.begun or not reader.done)
    if passed is None or (file.ended and file.position <= file.end):
        file.encoded = file.size
    else:
        file.encoded = min(passed, file.size - 1)
