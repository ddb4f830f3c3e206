"""Reads the spool of a table whose rows are not lines: what formats write one behind the other, behind a head.

A segment of a spool is the head and then what a file of the format would be. It grows by whole rows or records, so
what begins at the end of an earlier split begins with one. Rows of one width need not be told where: a split may begin
and end anywhere.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol, runtime_checkable

from tidemill.formats.base import FileRowReader, Format, RowReader, Rows, SplitReader
from tidemill.formats.messages import Messages, reader_of
from tidemill.formats.records.sized_records import SizeRules
from tidemill.formats.rows.malformed import MODE, Mode, fail_fast
from tidemill.schema import Schema


@dataclass(frozen=True)
class RowWidth:
    """All rows have so many bytes."""

    width: int


Records = RowWidth | SizeRules
"""How the rows of a file follow each other: each has the same width, or its size in front."""


@runtime_checkable
class RecordFormat(Protocol):
    """A format of bytes whose files can be put one behind the other, and taken apart again."""

    def records(self, schema: Schema, options: Mapping[str, str]) -> Records | None:
        """How rows follow each other in the files of a table; None for lines. TM4003 and TM4004 as its ``validate``."""
        ...


def records_of(format_: Format, schema: Schema, options: Mapping[str, str]) -> Records | None:
    """How rows follow each other, None for a format of another kind. Errors as :meth:`RecordFormat.records`."""
    return format_.records(schema, options) if isinstance(format_, RecordFormat) else None


def spool_reader(
    format_: Format,
    schema: Schema,
    options: Mapping[str, str],
    needed: Sequence[str],
    head: int,
    messages: Messages | None = None,
) -> RowReader | FileRowReader:
    """What reads the segments of a spool, which begin with ``head`` bytes that are no row.

    Names of options are in lower case; ``messages`` as :func:`tidemill.formats.messages.reader_of`. Errors as
    :meth:`tidemill.formats.base.Format.reader`.
    """
    records = records_of(format_, schema, options)
    if records is None:
        return reader_of(format_, schema, options, needed, messages)
    mode = MODE.of(options)
    if mode is Mode.FAILFAST:  # who raises has to know positions in the segment
        options = {**options, "mode": Mode.DROPMALFORMED.value}
    inner = reader_of(format_, schema, options, needed, messages)
    assert isinstance(inner, RowReader)
    return SpoolReader(inner, isinstance(records, SizeRules), head, mode)


@dataclass(frozen=True)
class SpoolReader:
    """See :class:`tidemill.formats.base.RowReader`.

    Attributes
    ----------
    inner : RowReader
        Of files; not in mode FAILFAST.
    sized : bool
        A split begins with a record, and ends where one does.
    head : int
        Bytes before the first row.
    """

    inner: RowReader
    sized: bool
    head: int
    mode: Mode

    def header_bytes_needed(self) -> bool:
        """See :meth:`tidemill.formats.base.RowReader.header_bytes_needed`."""
        return False

    def split(
        self, *, start: int, end: int, file_size: int, in_quotes: bool | None, header: bytes | None
    ) -> SpoolSplitReader:
        """See :meth:`tidemill.formats.base.RowReader.split`; ``start`` lies behind the head."""
        stop = min(end, file_size)
        before = start if self.sized else self.head
        size = (stop if self.sized else file_size) - before
        inner = self.inner.split(
            start=start - before, end=stop - before, file_size=size, in_quotes=in_quotes, header=header
        )
        return SpoolSplitReader(inner, before, before + size, self.mode)


class SpoolSplitReader:
    """See :class:`tidemill.formats.base.SplitReader`; the inner one reads ``[before, end)`` as a file of its own."""

    def __init__(self, inner: SplitReader, before: int, end: int, mode: Mode) -> None:
        self._inner = inner
        self._before = before
        self._end = end
        self._mode = mode
        self.read_from = inner.read_from + before
        self._position = self.read_from

    @property
    def done(self) -> bool:
        """See :class:`tidemill.formats.base.SplitReader`."""
        return self._inner.done

    @property
    def quote_parity(self) -> int:
        """See :class:`tidemill.formats.base.SplitReader`."""
        return 0

    @property
    def assumed_in_quotes(self) -> bool:
        """See :class:`tidemill.formats.base.SplitReader`."""
        return False

    def feed(self, buffer: bytes | memoryview, last: bool) -> Rows:
        """See :meth:`tidemill.formats.base.SplitReader.feed`."""
        buffer = memoryview(buffer)[: self._end - self._position]
        self._position += len(buffer)
        rows = self._inner.feed(buffer, last or self._position >= self._end)
        errors = tuple(e.moved(self._before) for e in rows.errors)
        fail_fast(self._mode, errors)
        return replace(rows, positions=rows.positions + self._before, errors=errors)
