"""From batches of a columnar file to rows: columns by name, cast to the declared types, NOT NULL checked."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidemill.errors import FormatError, TidemillError
from tidemill.formats.base import RowError, Rows
from tidemill.formats.columnar.lossless import Cast, lossless, matching
from tidemill.formats.columnar.types import held_type
from tidemill.formats.rows.checked_columns import make_batch
from tidemill.formats.rows.malformed import MODE, Mode, fail_fast
from tidemill.kernels.columns import nulls
from tidemill.options.option import OptionGroup, lowered
from tidemill.schema import Field, Schema, type_to_ddl

COLUMNAR_OPTIONS = OptionGroup("Parquet and Arrow", "Tables `USING parquet`, `arrow`, `delta` and `iceberg`.", (MODE,))

MOST_ROWS = 1 << 16
MOST_BYTES = 1 << 25
"""Most rows of a batch, and about the most bytes, unless one row has more."""


@dataclass(frozen=True)
class FileColumn:
    """A declared column that is read from a file.

    Attributes
    ----------
    name : str or None
        As the file writes it; None when the file has no such column.
    cast : callable
        From the file's type to the declared one.
    constant : pyarrow.Scalar, optional
        What all rows of the file have, where the file has no such column; NULL unless given.
    """

    field: Field
    name: str | None
    cast: Cast
    constant: pa.Scalar[Any] | None = None


@dataclass(frozen=True)
class FileColumns:
    """What is read from one file.

    Attributes
    ----------
    columns : tuple of FileColumn
        The needed columns in the order of the output, then others that decide which rows there are: those that are NOT
        NULL, and those of which the declared type may not hold a value of the file.
    needed : int
        How many of ``columns`` go into the batch.
    mode : Mode
    """

    columns: tuple[FileColumn, ...]
    needed: int
    mode: Mode

    @property
    def names(self) -> list[str]:
        """The columns of the file that are read, each once."""
        return list(dict.fromkeys(c.name for c in self.columns if c.name is not None))

    def rows(self, batch: pa.RecordBatch, first: int) -> Rows:
        """Rows of a batch that has the columns ``names`` at least.

        Parameters
        ----------
        first : int
            Number of the batch's first row in the file.

        Raises
        ------
        FormatError
            TM4043 for a value that the declared type cannot hold, TM4020 for a NULL in a NOT NULL column in mode
            FAILFAST.
        """
        count = batch.num_rows
        arrays = [self._array(column, batch) for column in self.columns]
        positions = np.arange(first, first + count, dtype=np.int64)
        errors: list[RowError] = []
        keep = np.ones(count, np.bool_)
        for column, array in zip(self.columns, arrays, strict=True):
            if column.field.nullable or not array.null_count:
                continue
            missing = array.is_null().to_numpy(zero_copy_only=False)
            for row in np.flatnonzero(missing):
                errors.append(RowError(first + int(row), column.field.name, "null_in_not_null", b"", True))
            keep &= ~missing
        order = {c.field.name: i for i, c in enumerate(self.columns)}
        errors.sort(key=lambda e: (e.position, order[e.column or ""]))
        fail_fast(self.mode, errors)
        arrays = arrays[: self.needed]
        if errors:
            positions = positions[keep]
            arrays = [array.filter(pa.array(keep)) for array in arrays]
        return Rows(
            make_batch([c.field for c in self.columns[: self.needed]], arrays, len(positions)),
            len(positions),
            positions,
            tuple(errors),
        )

    def _array(self, column: FileColumn, batch: pa.RecordBatch) -> pa.Array[Any]:
        if column.name is None and column.constant is not None:
            constant: Any = column.constant
            return cast("pa.Array[Any]", pa.repeat(constant, batch.num_rows))
        if column.name is None:
            return nulls(batch.num_rows, column.field.type)
        try:
            array = column.cast(batch.column(batch.schema.get_field_index(column.name)))
            array.validate(full=True)
        except pa.ArrowException as error:
            raise FormatError(
                "TM4043",
                f"a value of the column {column.field.name!r} cannot be held by the type that is declared",
                got=f"{type_to_ddl(column.field.type)}: {error}",
                hint="declare a type that holds all values of the file",
            ) from error
        return array


def in_bounds(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """The rows of a batch in order, in parts of at most ``MOST_ROWS`` rows and, if they have several, ``MOST_BYTES``.

    Columns encoded by a dictionary count with their decoded size.
    """
    if batch.num_rows > 1 and (batch.num_rows > MOST_ROWS or sum(map(_plain_bytes, batch.columns)) > MOST_BYTES):
        middle = batch.num_rows // 2
        yield from in_bounds(batch.slice(0, middle))
        yield from in_bounds(batch.slice(middle))
    else:
        yield batch


def _plain_bytes(array: pa.Array[Any]) -> int:
    if not isinstance(array, pa.DictionaryArray):
        return int(array.nbytes)
    held: pa.Array[Any] = array.dictionary
    if not (pa.types.is_string(held.type) or pa.types.is_binary(held.type) or pa.types.is_large_string(held.type)):
        return int(array.indices.nbytes) + int(held.nbytes)
    lengths: Any = pc.binary_length(cast("pa.StringArray", held))
    return 4 * len(array) + (pc.sum(lengths.cast(pa.int64()).take(array.indices)).as_py() or 0)


@dataclass(frozen=True)
class ColumnChoice:
    """The columns that a reader is made for; :meth:`of` finds them in a file.

    ``constants`` are what all rows have in columns that the file does not need to have, by their declared names.
    ``ids`` are identifiers of columns, by their declared names: a file whose columns have identifiers has a column
    under the name that belongs to its own, and a constant stands for one that the file lacks. ``names`` are what
    columns are called in files without identifiers, where these are other names.
    """

    schema: Schema
    needed: tuple[str, ...]
    mode: Mode
    constants: Mapping[str, pa.Scalar[Any]] = field(default_factory=dict)
    ids: Mapping[str, int] = field(default_factory=dict)
    names: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def of(self, file: pa.Schema) -> FileColumns:
        """Match all declared columns with those of a file, by name in any case.

        Raises
        ------
        FormatError
            TM4042 for a column whose type could not be kept, TM4044 for one that the file has more than once; both
            also for columns that are not needed, so that what is read never depends on that.
        """
        found = {field.name: self._column(field, file) for field in self.schema}
        chosen = [found[name] for name in self.needed]
        others = [found[field.name] for field in self.schema if field.name not in self.needed]
        chosen += [c for c in others if not c.field.nullable or not _always_held(c, file)]
        return FileColumns(tuple(chosen), len(self.needed), self.mode)

    def _column(self, field: Field, file: pa.Schema) -> FileColumn:
        constant = FileColumn(field, None, lambda array: array, self.constants.get(field.name))
        if field.name not in self.ids:
            return constant if field.name in self.constants else _file_column(field, file)
        if any(_id(held) is not None for held in file):
            name = next((held.name for held in file if _id(held) == self.ids[field.name]), None)
        elif field.name in self.names:
            name = next((held.name for held in file if held.name in self.names[field.name]), None)
        else:
            found = _file_column(field, file)
            return constant if found.name is None else found
        return constant if name is None else _named(field, file, name)


def _always_held(column: FileColumn, file: pa.Schema) -> bool:
    """Whether the declared type holds every value that the column of a file can have."""
    if column.name is None:
        return True
    held, declared, types = file.field(column.name).type, column.field.type, pa.types
    if types.is_integer(held) or types.is_floating(held) or (types.is_decimal(held) and types.is_decimal(declared)):
        return True  # else the cast would not be lossless
    return held_type(held) == declared and not _loses(held)


def _loses(type_: pa.DataType) -> bool:
    """Whether a type has values, also within others, that lie between those of a column's type."""
    finer = pa.types.is_date64(type_) or (pa.types.is_timestamp(type_) and type_.unit == "ns")
    return finer or any(_loses(type_.field(i).type) for i in range(type_.num_fields))


def column_choice(schema: Schema, options: Mapping[str, str], needed: Sequence[str]) -> ColumnChoice:
    """For a table. TM4003 for a bad option."""
    return ColumnChoice(schema, tuple(needed), MODE.of(lowered(options)))


def validate_columnar(schema: Schema, options: Mapping[str, str]) -> None:
    """Any type can be declared. TM4003 for a bad option."""
    MODE.of(lowered(options))


def _file_column(field: Field, file: pa.Schema) -> FileColumn:
    places = matching(file.names, field.name)
    if len(places) > 1:
        raise FormatError(
            "TM4044",
            f"the file has the column {field.name!r} more than once",
            got=", ".join(file.names),
            hint="column names are case-insensitive; rename the columns in the file",
        )
    return _named(field, file, file.names[places[0]]) if places else FileColumn(field, None, lambda array: array)


def _id(held: pa.Field[Any]) -> int | None:
    """The identifier that a file gives a column."""
    text = (held.metadata or {}).get(b"PARQUET:field_id")
    return None if text is None else int(text)


def _named(field: Field, file: pa.Schema, name: str) -> FileColumn:
    """A declared column that a file has under a name. TM4042."""
    held = file.field(name)
    cast = lossless(held.type, field.type)
    if cast is None:
        raise FormatError(
            "TM4042",
            f"the column {field.name!r} of the file has another type",
            got=f"{held.type}, declared {_ddl(field.type)}",
            hint=_to_declare(field.name, held.type),
        )
    return FileColumn(field, held.name, cast)


def _to_declare(name: str, type_: pa.DataType) -> str:
    """The type with which every value of a column can be read."""
    wide = held_type(type_)
    if wide is None or wide == pa.null():
        return "no type of a table holds all of its values: leave the column out"
    return f"declare {name} {_ddl(wide).upper()} or a wider type, and cast in the view"


def _ddl(type_: pa.DataType) -> str:
    try:
        return type_to_ddl(type_)
    except TidemillError:
        return str(type_)


@contextmanager
def unreadable(format_: str, hint: str) -> Iterator[None]:
    """Raise TM4041 for a file that is not of the format, is truncated or damaged."""
    try:
        yield
    except (pa.ArrowException, OSError, ValueError, KeyError, IndexError, OverflowError, MemoryError) as error:
        first = (str(error).splitlines() or [""])[0]
        raise FormatError(
            "TM4041",
            f"the file cannot be read as {format_}",
            got=f"{type(error).__name__}: {first}",
            hint=hint,
        ) from error
