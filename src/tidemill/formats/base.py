"""What a file format is: options checked while planning, bytes of a split in, Arrow rows out."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import IO, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidemill.schema import Schema


@dataclass(frozen=True)
class RowError:
    """One thing that is wrong with one row.

    Attributes
    ----------
    position : int
        Absolute byte offset in the file of the row's first byte.
    column : str or None
        The column concerned; None when the row as a whole is malformed.
    reason : str
        A stable short code such as ``too_few_fields`` or ``bad_int64``.
    raw : bytes
        The row as it stands in the file, uncut, without its line end.
    dropped : bool
        Whether the row is left out of the batch.
    at : int or None
        Absolute byte offset of what is wrong, where the format can tell: the first byte of the field that is malformed,
        the first byte that is not UTF-8, the first field too many, the end of a row with too few.
    line : int or None
        Line of the row's first byte, from 1 on. Readers leave it None; ``line_numbers.py`` sets it.
    """

    position: int
    column: str | None
    reason: str
    raw: bytes
    dropped: bool
    at: int | None = None
    line: int | None = None

    @property
    def described(self) -> str:
        """The reason, for messages; with the number of bytes that are lost where these are more than one row."""
        taken = f" ({len(self.raw)} bytes up to the end of the file)" if self.reason == "unterminated_quote" else ""
        return self.reason + taken

    def moved(self, by: int) -> RowError:
        """The same in a file that has so many bytes before what was read."""
        return replace(self, position=self.position + by, at=None if self.at is None else self.at + by)


def _unknown(row: int) -> bytes:
    return b""


@dataclass(frozen=True)
class Rows:
    """Rows in file order.

    Attributes
    ----------
    batch : pyarrow.RecordBatch
        The needed columns in the order asked for, with the types of the schema; ``num_rows`` is right even
        when no column is needed.
    count : int
        Number of rows in ``batch``.
    positions : ndarray of int64, shape (count,)
        Absolute byte offset in the file of the first byte of each row, ascending.
    errors : tuple of RowError
        Ordered by position, then by column in schema order (errors of the whole row first).
    raw : callable
        The row of a number as it stands in the file; valid until the next buffer is fed.
    passed_over : int
        Rows that a filter leaves out, see :mod:`tidemill.formats.rows.row_filter`.
    new_within : int
        Rows with fields within structs that no column has, where the table's ``schemaEvolutionMode`` minds new columns.
    weights : ndarray of int64, shape (count,), optional
        1 for a row that comes, -1 for one that goes; all come unless given.
    """

    batch: pa.RecordBatch
    count: int
    positions: npt.NDArray[np.int64]
    errors: tuple[RowError, ...]
    raw: Callable[[int], bytes] = _unknown
    passed_over: int = 0
    new_within: int = 0
    weights: npt.NDArray[np.int64] | None = None


class SplitReader(Protocol):
    """Turns the bytes of one split into rows. Has state; made for one pass over one split.

    A split ``[start, end)`` owns exactly the rows whose first byte lies in it, so the splits of any partition
    of a file yield each row once.

    Hazard: what it returns before the caller has verified ``assumed_in_quotes`` is provisional when the
    reader was made with ``in_quotes=None``, and so is a TM4020 that it raises.

    Attributes
    ----------
    read_from : int
        Absolute offset of the first byte to feed.
    done : bool
        True once every row that the split owns has been returned; further bytes are not needed.
    quote_parity : int
        1 when one of ``start`` and ``end`` lies inside quotes and the other does not, given what was assumed; valid
        once ``done``.
    assumed_in_quotes : bool
        Whether ``start`` was taken to lie inside quotes; valid once ``done``.
    """

    @property
    def read_from(self) -> int: ...

    @property
    def done(self) -> bool: ...

    @property
    def quote_parity(self) -> int: ...

    @property
    def assumed_in_quotes(self) -> bool: ...

    def feed(self, buffer: bytes | memoryview, last: bool) -> Rows:
        """Take the next bytes of the file and return the rows they complete.

        Parameters
        ----------
        buffer : bytes or memoryview
            Consecutive bytes from ``read_from`` on, of any length; not kept after the call.
        last : bool
            These are the final bytes of the file.

        Raises
        ------
        FormatError
            TM4020 for a malformed row in mode FAILFAST, TM4021 for a row or buffer of 2 GiB and more.
        """
        ...


@runtime_checkable
class RowReader(Protocol):
    """Reads files of one format and schema. Immutable; one serves many splits."""

    def header_bytes_needed(self) -> bool:
        """Whether :meth:`split` must be given the head of the file, also for splits that start later."""
        ...

    def split(
        self, *, start: int, end: int, file_size: int, in_quotes: bool | None, header: bytes | None
    ) -> SplitReader:
        """A reader of the split ``[start, end)``.

        Parameters
        ----------
        start, end, file_size : int
            Bytes; an ``end`` beyond the file means its end.
        in_quotes : bool or None
            Whether byte ``start`` lies inside a quoted field; None for a guess from the bytes around it.
        header : bytes or None
            The first bytes of the file, up to and including the header line at least.

        Raises
        ------
        FormatError
            TM4010, TM4011 or TM4012 when the header does not fit the schema or is not given.
        """
        ...


@runtime_checkable
class HeaderReader(RowReader, Protocol):
    """A reader that can tell whether it was given enough of the head of a file."""

    def has_header(self, data: bytes) -> bool:
        """Whether the first bytes of a file are all that :meth:`split` needs."""
        ...


def head_of(reader: RowReader, first_bytes: Callable[[int], bytes]) -> bytes:
    """The first bytes of a file, as many as a reader needs, or all.

    Parameters
    ----------
    first_bytes : callable
        Gives so many first bytes of the file, or all if it has less.
    """
    count = _HEAD_BYTES
    while True:
        found = first_bytes(count)
        if len(found) < count or count >= _MOST_HEAD:
            return found
        if not isinstance(reader, HeaderReader) or reader.has_header(found):
            return found
        count *= 8


_HEAD_BYTES, _MOST_HEAD = 1 << 16, 1 << 25


@runtime_checkable
class FileRowReader(Protocol):
    """Reads files of a format that needs random access. Immutable; one serves many splits."""

    def rows(self, file: IO[bytes], *, start: int, end: int, file_size: int) -> Iterator[Rows]:
        """Rows of the split ``[start, end)``, one batch at a time.

        A split owns the units of the file (row groups) that begin in it, so the splits of any partition of a file
        yield each row once. Positions are row numbers, counted from the beginning of the file.

        Parameters
        ----------
        file : IO of bytes
            Can seek; stays open until the iterator is at its end.

        Raises
        ------
        FormatError
            TM4020 for a malformed row in mode FAILFAST, others for a file that cannot be read as the schema says.
        """
        ...


@runtime_checkable
class WholeFiles(Protocol):
    """A format some of whose files have one split: only from their beginning can rows be found."""

    def reads_whole_files(self, schema: Schema, options: Mapping[str, str]) -> bool:
        """Whether that is so for a table."""
        ...


@runtime_checkable
class WholeByBeginning(Protocol):
    """A format whose files may say in their first bytes that they have one split; their other splits have no rows."""

    def begins_whole(self, schema: Schema, options: Mapping[str, str], beginning: bytes) -> bool:
        """Whether that is so for a file that begins with these bytes."""
        ...


BEGINNING_BYTES = 1 << 16
"""How much of a file is looked at for :class:`WholeByBeginning`."""


@runtime_checkable
class TextFormat(Protocol):
    """A format of text, so that errors have line numbers.

    Attributes
    ----------
    is_text : bool
        Whether positions are bytes of text, with newlines between them.
    """

    @property
    def is_text(self) -> bool: ...


def has_lines(format_: Format) -> bool:
    """Whether the files of a format have lines."""
    return isinstance(format_, TextFormat) and format_.is_text


class Format(Protocol):
    """A file format, found by name with :func:`tidemill.formats.registry.lookup`.

    Attributes
    ----------
    name : str
        As written in ``USING``.
    option_names : frozenset of str
        Every option that the format knows, in lower case; one that ends in ``*`` is for all names that begin so.
    """

    @property
    def name(self) -> str: ...

    @property
    def option_names(self) -> frozenset[str]: ...

    def validate(self, schema: Schema, options: Mapping[str, str]) -> None:
        """Check schema and options at ``CREATE TABLE``.

        Raises
        ------
        TidemillError
            TM4003 for the value of an option, TM4004 for a column type that the format cannot hold. Unknown
            option names are the caller's to reject.
        """
        ...

    def reader(self, schema: Schema, options: Mapping[str, str], needed: Sequence[str]) -> RowReader | FileRowReader:
        """A reader of the columns ``needed``, in that order; none means that only the row count matters."""
        ...
