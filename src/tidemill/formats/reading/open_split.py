"""A part of a file that is open: the one place where files become rows, whoever wants them."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

from tidemill.formats.base import FileRowReader, Format, RowReader, Rows, SplitReader, has_lines
from tidemill.formats.reading.codecs import parse_codec_options
from tidemill.formats.reading.feeding import FileBytes, feed, file_bytes, least_bytes, open_split
from tidemill.formats.reading.range_reads import RangeFile
from tidemill.formats.reading.read_modes import ReadMode, parse_read_mode
from tidemill.formats.rows.malformed import MODE, Mode
from tidemill.formats.text.line_numbers import LineNumbers


@dataclass(frozen=True)
class FilePart:
    """All rows of a file that begin at ``start <= position < end``.

    Parameters
    ----------
    path : str
        Its suffix may tell the codec.
    size : int
        Bytes of the file.
    in_quotes : bool or None
        Whether ``start`` is within quotes; None when that is to be guessed.
    decoded : bool
        ``start`` and ``end`` count decoded bytes of a compressed file. Else such a file is read as a whole.
    """

    path: str
    start: int
    end: int
    size: int
    in_quotes: bool | None = False
    decoded: bool = False


class OpenSplit:
    """Iterates over the rows of a part of a file, buffer by buffer; in the order of the file.

    Parameters
    ----------
    reader : RowReader or FileRowReader
        Of the format, for the columns that are wanted.
    file : RangeFile
        The bytes of the whole file. :meth:`close` closes it.
    part : FilePart
    options : mapping
        Those of the table, with names in lower case.
    mode : ReadMode, optional
        How bytes are fetched; as the options say unless given.
    malformed : Mode, optional
        What becomes of malformed rows; as the options say unless given.
    intact : bool
        Damage of a compressed file is an error, not its end.

    Attributes
    ----------
    reader : SplitReader or None
        Makes rows of bytes; None for a format that reads files in an order of its own.

    Raises
    ------
    TidemillError
        TM4040 for a compressed file of a format that needs random access; as opening the file, and as the format.
    """

    def __init__(
        self,
        reader: RowReader | FileRowReader,
        file: RangeFile,
        part: FilePart,
        options: Mapping[str, str],
        *,
        mode: ReadMode | None = None,
        malformed: Mode | None = None,
        intact: bool = False,
    ) -> None:
        self._file: RangeFile | FileBytes = file
        self._bytes: FileBytes | None = None
        self.reader: SplitReader | None = None
        self._rows: Iterator[Rows]
        try:
            if isinstance(reader, FileRowReader):
                parse_codec_options(options).refuse(part.path)
                stream: Any = file.open(0)
                self._rows = reader.rows(stream, start=part.start, end=part.end, file_size=part.size)
                return
            last = part.size if part.decoded else part.end
            self._file = self._bytes = file_bytes(file, part.path, part.size, last, options, mode, intact)
            place = {"start": part.start, "end": part.end, "size": part.size}
            self.reader = open_split(reader, self._bytes, **place, in_quotes=part.in_quotes, part=part.decoded)
            chosen = (parse_read_mode(options) if mode is None else mode).chosen
            least = 0 if chosen else least_bytes(self.reader)
            self._rows = feed(self.reader, self._bytes, MODE.of(options) if malformed is None else malformed, least)
        except BaseException:
            self.close()
            raise

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Rows:
        return next(self._rows)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the file; may be called twice."""
        self._file.close()

    @property
    def assumed_in_quotes(self) -> bool:
        """Whether the part was taken to begin within quotes."""
        return self.reader is not None and self.reader.assumed_in_quotes

    @property
    def quote_parity(self) -> int:
        """1 if exactly one of its two ends is within quotes, else 0; known when all has been read."""
        return 0 if self.reader is None else self.reader.quote_parity

    @property
    def encoded(self) -> int | None:
        """Of a compressed file, about how many of its bytes lie before the end of the part; known at that end."""
        return None if self._bytes is None else self._bytes.encoded

    @property
    def damage(self) -> tuple[str, int] | None:
        """Why the rows of a compressed file end before it does, and behind how many decoded bytes; None if whole."""
        if self._bytes is None or self._bytes.damage is None:
            return None
        return self._bytes.damage, self._bytes.position


def lines_of(
    format_: Format,
    file: RangeFile,
    path: str,
    size: int,
    options: Mapping[str, str],
    version: Hashable = None,
) -> LineNumbers | None:
    """What tells on which lines positions of a file are, by reading it; None for a format that is no text.

    Parameters
    ----------
    version : hashable, optional
        What was found of a file with the same is kept, and not looked for again.
    """
    return LineNumbers(FileBytes(file, path, size, options), version) if has_lines(format_) else None
