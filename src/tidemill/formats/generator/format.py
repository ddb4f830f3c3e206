"""Generated rows: each value is a function of a seed, the number of its row and its column."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import IO

import numpy as np
import pyarrow as pa

from tidemill.connectors.generated import NUMBER_OF_ROWS, ROWS_PER_SECOND, parse_pace
from tidemill.formats.base import Rows
from tidemill.formats.generator.columns import column_of
from tidemill.formats.generator.settings import PREFIX, Shape, shapes_of
from tidemill.formats.rows.checked_columns import make_batch
from tidemill.options.kinds import TEXT
from tidemill.options.option import Kind, Option, OptionGroup, lowered
from tidemill.schema import Schema


def _seed(text: str) -> int:
    if not re.fullmatch(r"[+-]?\d{1,18}", text.strip()):
        raise ValueError
    return int(text)


SEED = Option("seed", Kind("a whole number", _seed), 0, "decides, with its number and column, what a value is")
SETTING = Option(PREFIX + "*", TEXT, None, "settings of columns: `fields.id.kind` `sequence`")
GENERATOR_OPTIONS = OptionGroup(
    "Generated rows", "Tables `USING generator`.", (ROWS_PER_SECOND, NUMBER_OF_ROWS, SEED, SETTING)
)

_BATCH_BYTES, _BATCH_ROWS = 4 << 20, 1 << 16


class GeneratorFormat:
    """Rows of a declared rate and seed, for tables without files.

    ``rowsPerSecond``, since the table was created; without it all ``numberOfRows`` are there at once, and without
    either there are 10,000 a second, for ever. ``seed`` is 0 unless given.

    **Values.** Settings of a column are ``fields.<column>.<setting>``; those of a part of it have the way to it instead
    of the column: the name of a field of a struct, ``element`` of an array, ``value`` of a map.

    ==========  ==========================================================================================
    kind        ``random`` (all types) or ``sequence`` (not boolean, binary or nested)
    min, max    of random numbers, dates and times, both included; of float and double ``max`` is not.
                Unless given all numbers of a type, from 0 to 1 of float and double, 1970 to 2037
    start       of a sequence, 0 or 1970-01-01 unless given; the next row has one more, or the next day, or the time at
                which it comes (one second later if all come at once). Behind the last value of its type it wraps around
    end         of a sequence of whole numbers: the last row of the table has it
    length      of strings (10 letters of ``a-z2-7``), binary (10 bytes), arrays and maps (3)
    nullRate    from 0 to 1
    ==========  ==========================================================================================

    Keys of a map are the numbers from 0 on. Row i of a column is decided by ``seed``, i, the name of the column and its
    settings: no other column or option counts. So a table can be read again, in any parts, and is the same.

    **Positions.** A row counts as many bytes as its values have, of texts and lists as many as they are long, NULL or
    not. So limits in bytes mean what they do elsewhere. The position of a row is its number.
    """

    name = "generator"
    option_names = GENERATOR_OPTIONS.keys

    def validate(self, schema: Schema, options: Mapping[str, str]) -> None:
        """See :meth:`tidemill.formats.base.Format.validate`. TM4005 for a setting that a column does not have."""
        self.reader(schema, options, ())

    def reader(self, schema: Schema, options: Mapping[str, str], needed: Sequence[str]) -> GeneratorReader:
        """See :meth:`tidemill.formats.base.Format.reader`."""
        given = lowered(options)
        seed = SEED.of(given)
        shapes = dict(zip(schema.names, shapes_of(schema, given), strict=True))
        fields = {f.name: f for f in schema}
        asked = pa.schema([pa.field(n, fields[n].type, fields[n].nullable) for n in needed])
        return GeneratorReader(
            [shapes[n] for n in needed], seed, asked, row_bytes(schema, given), parse_pace(given).rows
        )


def row_bytes(schema: Schema, options: Mapping[str, str]) -> int:
    """How many bytes a row counts as; names of options in lower case."""
    return sum(shape.nominal_bytes for shape in shapes_of(schema, options)) or 1


class GeneratorReader:
    """See :class:`tidemill.formats.base.FileRowReader`. The file is not read; without bytes it has all rows."""

    def __init__(self, shapes: Sequence[Shape], seed: int, asked: pa.Schema, width: int, all_rows: int | None) -> None:
        self._shapes = shapes
        self._seed = seed
        self._asked = asked
        self._width = width
        self._all_rows = all_rows

    def rows(self, file: IO[bytes], *, start: int, end: int, file_size: int) -> Iterator[Rows]:
        """See :meth:`tidemill.formats.base.FileRowReader.rows`; a split owns the rows whose first byte lies in it.

        Raises
        ------
        TidemillError
            TM4003 where there is neither a file nor a number of rows.
        """
        if file_size == 0:
            if self._all_rows is None:
                raise NUMBER_OF_ROWS.bad("none", "how many rows are to be made")
            end = self._all_rows * self._width
        at, last = -(-start // self._width), -(-end // self._width)
        most = max(1, min(_BATCH_ROWS, _BATCH_BYTES // self._width))
        while at < last:
            count = min(most, last - at)
            numbers = np.arange(at, at + count, dtype=np.uint64)
            arrays = [column_of(shape, self._seed, numbers) for shape in self._shapes]
            yield Rows(make_batch(self._asked, arrays, count), count, numbers.view(np.int64), ())
            at += count
