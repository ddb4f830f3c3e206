"""A format without a mill: bytes or a file to an Arrow table."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa

from tidemill.connectors.registry import options_of_all
from tidemill.ddl import parse_columns
from tidemill.errors import TidemillError, nearest
from tidemill.formats.base import FileRowReader, Format, RowError, RowReader, Rows, has_lines
from tidemill.formats.inference.options import INFERENCE_OPTIONS
from tidemill.formats.reading.codecs import CODEC_OPTIONS
from tidemill.formats.reading.open_split import FilePart, OpenSplit, lines_of
from tidemill.formats.reading.read_modes import (
    DEFAULT_BUFFER,
    MOST_BUFFER,
    READ_OPTIONS,
    check_read_mode,
    parse_read_mode,
)
from tidemill.formats.reading.whole_source import Source, WholeSource
from tidemill.formats.registry import lookup
from tidemill.formats.rescue.options import rescuing
from tidemill.formats.rows.malformed import MalformedRowError
from tidemill.formats.text.line_numbers import LineNumbers
from tidemill.objectstore.connection import CONNECTION_OPTIONS
from tidemill.objectstore.queue_options import NOTIFICATION_OPTIONS
from tidemill.options.option import bad_option, check_options, spelt
from tidemill.options.tables import TABLE_OPTIONS
from tidemill.schema import Field, Schema, nullable_type

BUFFER_BYTES = DEFAULT_BUFFER


class OpenFormat:
    """A format with its options and the columns of its rows; immutable, and safe to use from many threads.

    Attributes
    ----------
    schema : Schema
    options : dict of str to str
        Names in lower case.
    """

    def __init__(self, format_: Format, schema: Schema, options: dict[str, str]) -> None:
        self._format = format_
        self.schema = schema
        self.options = options
        format_.validate(schema, options)
        check_read_mode(format_.name, format_.reader(schema, options, schema.names), options)

    def read(
        self, source: Source, columns: Sequence[str] | None = None, errors: list[RowError] | None = None
    ) -> pa.Table:
        """All rows, in the order of the file.

        Parameters
        ----------
        source : bytes, or str or Path
            The bytes themselves, or where the file is: a path, or the URL of an object.
        columns : sequence of str, optional
            The columns wanted, in that order; all unless given. What is not wanted is not parsed.
        errors : list, optional
            What is malformed is appended to it, in the order of the file, with lines if the format has any.

        Returns
        -------
        pyarrow.Table
            One chunk a buffer of 2 MiB, with the types of the schema.

        Raises
        ------
        FormatError
            TM4010 to TM4021 as the format says, among them TM4020 for a malformed row in mode FAILFAST.
        TidemillError
            TM4006 for a column that the schema does not have; OSError when the file cannot be read.
        """
        wanted = self._wanted(columns)
        batches = []
        for rows in self.rows(source, columns):
            if rows.count:
                batches.append(rows.batch)
            if errors is not None:
                errors += rows.errors
        types = {f.name: f for f in self.schema.to_arrow()}
        if not wanted:  # only the number of rows
            count = sum(b.num_rows for b in batches)
            return pa.table({"rows": pa.nulls(count)}).select([])
        return pa.Table.from_batches(batches, pa.schema([types[name] for name in wanted]))

    def rows(
        self, source: Source, columns: Sequence[str] | None = None, buffer_bytes: int | None = None
    ) -> Iterator[Rows]:
        """The rows that each buffer completes, with their positions and what is malformed.

        Memory is that of one buffer (``buffer_bytes``, else the option ``bufferSize``), in ``readMode`` ``async`` of
        two for each read under way. Where neither is given and more than 512 columns are read, buffers are put together
        until they have 4 KiB for each column, at most 16 MiB, except in ``readMode`` ``async``.

        Other parameters and errors as :meth:`read`.
        """
        if buffer_bytes is not None and not (isinstance(buffer_bytes, int) and 1 <= buffer_bytes <= MOST_BUFFER):
            raise bad_option("buffer_bytes", str(buffer_bytes), f"from 1 to {MOST_BUFFER}")
        path = str(source) if isinstance(source, str | Path) else ""
        mode = parse_read_mode(self.options)
        mode = mode if buffer_bytes is None else replace(mode, buffer_bytes=buffer_bytes, chosen=True)
        raw = WholeSource(source, mode.buffer_bytes, self.options)
        with ExitStack() as stack:
            stack.callback(raw.end)
            part = FilePart(path, 0, raw.size, raw.size)
            split = stack.enter_context(OpenSplit(self.reader(columns), raw, part, self.options, mode=mode))
            yield from self._numbered(split, source, path)

    def _numbered(self, split: OpenSplit, source: Source, path: str) -> Iterator[Rows]:
        """The same with lines of what is malformed, for which the source is read a second time."""
        with ExitStack() as stack:

            @cache
            def lines() -> LineNumbers | None:
                if not has_lines(self._format):
                    return None
                again = WholeSource(source, BUFFER_BYTES, self.options)
                stack.callback(again.end)
                return lines_of(self._format, again, path, again.size, self.options)

            try:
                for rows in split:
                    found = lines() if rows.errors else None
                    yield rows if found is None else replace(rows, errors=found.numbered(rows.errors))
            except MalformedRowError as error:
                if (found := lines()) is None:
                    raise
                raise error.on_line(found.of([error.position])[0]) from error

    def reader(self, columns: Sequence[str] | None = None) -> RowReader | FileRowReader:
        """What reads splits buffer by buffer: ``reader().split(...).feed(buffer, last)``."""
        return self._format.reader(self.schema, self.options, self._wanted(columns))

    def _wanted(self, columns: Sequence[str] | None) -> tuple[str, ...]:
        if columns is None:
            return self.schema.names
        if isinstance(columns, str) or not all(isinstance(name, str) for name in columns):
            raise bad_option("columns", repr(columns), "a list of names of columns")
        known = frozenset(self.schema.names)
        for name in columns:
            if name not in known:
                raise TidemillError(
                    "TM4006", "there is no column of this name", got=name, hint=nearest(name, self.schema.names)
                )
        if len(set(columns)) < len(columns):
            raise bad_option("columns", ", ".join(columns), "each column once")
        return tuple(columns)


def open_format(name: str | Format, schema: Schema | pa.Schema | str, **options: Any) -> OpenFormat:
    """A format by its name, for use without a mill; also ``tidemill.formats.open``.

    Parameters
    ----------
    name : str or Format
        As written in ``USING``; or the format itself, to try one that no package offers yet.
    schema : Schema, pyarrow.Schema or str
        The columns; as a text in Spark's notation.
    **options
        Those of the format, in any case; ``True`` and ``False``, numbers and texts. Also ``compression`` and
        ``maxDecompressedRatio``: a file is decoded as its suffix says, bytes as ``compression`` says; ``readMode``,
        ``maxConcurrentReads`` and ``bufferSize`` as for tables: rows and errors are the same in both modes.

    Raises
    ------
    TidemillError
        TM4001 and TM4002 for the name, TM4005 for an unknown option or one that only a table of a mill has, TM4003
        for a bad value, TM4004 for a type that the format cannot hold, TM4065 for a way of reading that the format
        chooses itself, TM2020 for a text that is no list of columns.

    Examples
    --------
    >>> import tidemill.formats
    >>> tidemill.formats.open("csv", "a BIGINT, b STRING", sep="|").read(b"1|x\\n2|y\\n").to_pydict()
    {'a': [1, 2], 'b': ['x', 'y']}
    """
    format_ = lookup(name) if isinstance(name, str) else name
    given = given_options(options)
    for option in INFERENCE_OPTIONS.given(given):
        hint = "it is about columns that are inferred: leave out the schema, or it"
        raise bad_option(option, given[option.lower()], hint)
    check_own_options(format_.name, given, format_.option_names)
    return OpenFormat(format_, *rescuing(_schema(schema), given, inferred=False))


def _schema(schema: Schema | pa.Schema | str) -> Schema:
    if isinstance(schema, str):
        found = parse_columns(schema)
    elif isinstance(schema, pa.Schema):
        found = Schema(tuple(Field(f.name, nullable_type(f.type), f.nullable) for f in schema))
    else:
        found = schema
    if len({name.lower() for name in found.names}) < len(found):
        raise bad_option(
            "schema", ", ".join(found.names), "each column needs a name of its own, in any case of letters"
        )
    return found


def check_own_options(name: str, given: Mapping[str, str], of_format: frozenset[str]) -> None:
    """TM4005 for an option that the format, the files and their stores do not have; also for those of tables."""
    known = of_format | CODEC_OPTIONS.keys | READ_OPTIONS.keys | CONNECTION_OPTIONS.keys | options_of_all().keys()
    for option in given:
        if option in (TABLE_OPTIONS.keys | NOTIFICATION_OPTIONS.keys) - known:
            hint = f"{spelt(option)} is for the tables of a mill; leave it out"
            raise TidemillError("TM4005", f"unknown option for a table USING {name}", got=option, hint=hint)
    check_options(name, given, known)


def given_options(options: Mapping[str, Any]) -> dict[str, str]:
    """Options as a table has them: names in lower case, values as texts; None means not given."""
    return {
        name.lower(): str(value).lower() if isinstance(value, bool) else str(value)
        for name, value in options.items()
        if value is not None
    }
