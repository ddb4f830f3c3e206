"""Divides files into splits that know whether they begin within quotes."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from typing import TypeVar

from tidemill.errors import FormatError, TidemillError
from tidemill.formats.base import (
    BEGINNING_BYTES,
    FileRowReader,
    RowReader,
    Rows,
    WholeByBeginning,
    WholeFiles,
)
from tidemill.formats.reading.codecs import parse_codec_options
from tidemill.formats.reading.open_split import FilePart, OpenSplit
from tidemill.formats.reading.read_modes import parse_read_mode
from tidemill.formats.registry import lookup
from tidemill.formats.rows.malformed import MODE, Mode
from tidemill.formats.text.delimiter_split import DelimiterSplitReader
from tidemill.formats.text.delimiters import Delimiters
from tidemill.formats.text.line_ends import Bytes, LineRules
from tidemill.formats.text.line_split import NOTHING, LineSplitReader
from tidemill.schema import Field, Schema
from tidemill.sources.file_info import FileInfo
from tidemill.sources.locations.location import location_of, reader_of
from tidemill.sources.split import Split

_T = TypeVar("_T")


@dataclass(frozen=True)
class Piece:
    """Bytes of a file, from ``start`` (where a row begins) to ``end`` (where another one does, or the file ends)."""

    file: FileInfo
    start: int
    end: int

    def split(self, table: str, start: int, end: int, in_quotes: bool | None = None) -> Split:
        """A part of the file."""
        file, known = self.file, False if start == 0 else in_quotes
        return Split(table, file.path, start, end, file.size, file.modified, known, etag=file.etag)


def _none(_: TidemillError) -> bool:
    return False


class SplitPlanner:
    """Divides files of one format into splits.

    Which splits begin within quotes is found out by scanning: all splits of such files in parallel, each on a guess,
    and those that were guessed wrong again.

    Parameters
    ----------
    format_ : str
    schema : Schema
        The columns of the files.
    options : mapping
        Those of the format, with names in lower case.
    given : mapping
        The same, and those of the location of files.
    table : str
        The name that splits get.
    ignored : callable
        Whether an error of a file is ignored. Such a file becomes one split, and reading it raises the error again.
    """

    def __init__(
        self,
        format_: str,
        schema: Schema,
        options: Mapping[str, str],
        given: Mapping[str, str],
        table: str,
        ignored: Callable[[TidemillError], bool] = _none,
    ) -> None:
        self._format, self._schema, self._options, self._given = format_, schema, options, given
        self._table, self._ignored = table, ignored

    def splits(self, pieces: Iterable[Piece], most_bytes: int) -> list[Split]:
        """Splits of at most so many bytes, in the order of the pieces. Files that cannot be divided are one split.

        Errors as reading the files.
        """
        found: list[list[Split]] = []
        for piece in pieces:
            length = piece.end - piece.start
            parts = max(-(-length // most_bytes), 1)
            parts = 1 if parts > 1 and self.is_unsplittable(piece.file) else parts
            cuts = [piece.start + length * k // parts for k in range(parts + 1)]
            found.append([piece.split(self._table, start, end) for start, end in pairwise(cuts)])
        return self._with_known_quotes(found)

    def is_unsplittable(self, file: FileInfo) -> bool:
        """Whether a file can only be read from its beginning to its end."""
        format_ = lookup(self._format)
        if isinstance(format_, WholeFiles) and format_.reads_whole_files(self._schema, self._options):
            return True
        if parse_codec_options(self._options).of(file.path):
            return True
        if not isinstance(format_, WholeByBeginning):
            return False
        head = location_of(file.path, self._given).beginning(file.path, BEGINNING_BYTES)
        return format_.begins_whole(self._schema, self._options, head)

    def _with_known_quotes(self, files: list[list[Split]]) -> list[Split]:
        """The splits of all files; each knows whether it begins within quotes."""
        finder = _QuoteFinder(self._format, self._schema, self._options)
        needed = [s for s in files if len(s) > 1 and self._unless_ignored(finder.needed, s[0]) is not False]
        uncertain = [split for splits in needed for split in splits]
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            looked = pool.map(partial(self._unless_ignored, finder.look), uncertain)
            guesses = dict(zip(uncertain, looked, strict=True))
        found: list[Split] = []
        for splits in files:
            if splits[0] not in guesses:
                found += [replace(split, in_quotes=False) for split in splits]
            else:
                sure = self._without_guesses(finder, [(split, guesses[split]) for split in splits])
                found += sure or [replace(splits[0], end=splits[-1].end, in_quotes=False)]
        return found

    def _without_guesses(
        self, finder: _QuoteFinder, guesses: Sequence[tuple[Split, tuple[bool, int] | None]]
    ) -> list[Split] | None:
        """The splits of a file, given a guess for each; None when the file cannot be scanned."""
        found: list[Split] = []
        inside = False
        for split, guess in guesses:
            sure = replace(split, in_quotes=inside)
            if guess is not None and guess[0] != inside:
                guess = self._unless_ignored(finder.look, sure)
            if guess is None:
                return None
            inside ^= bool(guess[1])
            found.append(sure)
        return found

    def _unless_ignored(self, look: Callable[[Split], _T], split: Split) -> _T | None:
        """What ``look`` finds in a split; None when its file cannot be read, and may be left out."""
        try:
            return look(split)
        except TidemillError as error:
            if not self._ignored(error):
                raise
            return None


class _QuoteFinder:
    """Scans splits for quotes."""

    def __init__(self, format_: str, schema: Schema, options: Mapping[str, str]) -> None:
        self._options = {**options, MODE.key: Mode.PERMISSIVE.value}
        fields = tuple(Field(f.name, f.type) for f in schema)
        self._reader = lookup(format_).reader(Schema(fields), self._options, ())

    def needed(self, split: Split) -> bool:
        """Whether a part of this file may begin within quotes."""
        if isinstance(self._reader, FileRowReader):
            return False
        with self._open(replace(split, start=1, end=2, in_quotes=True)) as part:
            return part.assumed_in_quotes

    def look(self, split: Split) -> tuple[bool, int]:
        """Whether the split was assumed to begin within quotes, and the parity of its quotes."""
        with self._open(split) as part:
            reader = part.reader
            if isinstance(reader, LineSplitReader | DelimiterSplitReader):
                reader.builder = _NoRows(reader.builder.lines, reader.builder.build(NOTHING, 0, 0, False, False))
            for _ in part:
                pass
            return part.assumed_in_quotes, part.quote_parity

    def _open(self, split: Split) -> OpenSplit:
        with naming_file(split):
            return opened(self._reader, split, self._options, Mode.PERMISSIVE, True)


def opened(
    reader: RowReader | FileRowReader, split: Split, options: Mapping[str, str], malformed: Mode | None, intact: bool
) -> OpenSplit:
    """The rows of a split. ``malformed`` and ``intact`` as for :class:`OpenSplit`."""
    file = reader_of(split, options, parse_read_mode(options).buffer_bytes)
    part = FilePart(split.path, split.start, split.end, split.size, split.in_quotes)
    return OpenSplit(reader, file, part, options, malformed=malformed, intact=intact)


@contextmanager
def naming_file(split: Split) -> Iterator[None]:
    """Add the file to errors of formats."""
    try:
        yield
    except FormatError as error:
        raise FormatError(error.number, error.what, f"{split.path}: {error.got}", error.hint) from error


@dataclass(frozen=True)
class _NoRows:
    """Discards lines."""

    lines: LineRules | Delimiters
    none: Rows

    def build(self, data: Bytes, position: int, row_ends: int, quotes: bool, unterminated: bool) -> Rows:
        return self.none
