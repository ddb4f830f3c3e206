"""Rows of single values: each is a record of the schema that it was written with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidemill.connectors.schema_registry.options import registry_of
from tidemill.connectors.schema_registry.schemas import Written, schema_by_id
from tidemill.errors import FormatError
from tidemill.formats.avro.columns import BadValueError, Decoder
from tidemill.formats.avro.decoding import REASONS
from tidemill.formats.avro.options import AVRO_SCHEMA
from tidemill.formats.avro.schema import Node, SchemaError, parse_schema
from tidemill.formats.base import RowError, Rows
from tidemill.formats.columnar.rows import ColumnChoice, FileColumns
from tidemill.formats.columnar.types import merged_schema
from tidemill.formats.rows.checked_columns import make_batch
from tidemill.formats.rows.malformed import Mode
from tidemill.kernels.columns import column
from tidemill.options.option import lowered
from tidemill.schema import Schema

Bytes = npt.NDArray[np.uint8]
Ints = npt.NDArray[np.int64]

_HEADER = 5
"""Bytes before a value with the number of its schema: a zero, and the number, the high byte first."""
_PLACES = np.array([1 << 24, 1 << 16, 1 << 8, 1])


@dataclass(frozen=True)
class AvroValues:
    """Makes rows of values; see :class:`tidemill.formats.records.sized_records.RecordBuilder`.

    Attributes
    ----------
    choice : ColumnChoice
    registry : tuple of (str, str)
        Where schemas are; empty where all values have one.
    text : str
        The schema of all values, without a registry.
    """

    choice: ColumnChoice
    registry: tuple[tuple[str, str], ...]
    text: str

    @property
    def mode(self) -> Mode:
        """What happens to malformed ones."""
        return self.choice.mode

    def build(self, data: Bytes, position: int, starts: Ints, sizes: Ints) -> Rows:
        """Rows of values; what is malformed is left out.

        Raises
        ------
        TidemillError
            TM5096 and TM5097 as asking the registry.
        """
        if not self.registry:
            written = Written("AVRO", self.text)
            return _moved(self._of_one(written, data, starts, sizes, 0), position)
        numbers, errors = _numbers(data, starts, sizes), []
        parts = []
        for number in np.unique(numbers).tolist():
            chosen = np.flatnonzero(numbers == number)
            if number < 0:
                errors += _all_wrong(data, starts[chosen], sizes[chosen], "no_schema_id")
                continue
            schema = schema_by_id(self.registry, number)
            if schema is None:
                errors += _all_wrong(data, starts[chosen], sizes[chosen], "unknown_schema")
                continue
            parts.append(self._of_one(schema, data, starts[chosen], sizes[chosen], _HEADER))
        return _moved(_in_order(parts or [self._nothing()], errors), position)

    def _nothing(self) -> Rows:
        fields = {field.name: field for field in self.choice.schema}
        chosen = [fields[name] for name in self.choice.needed]
        arrays = [pa.array([], f.type) for f in chosen]
        return Rows(make_batch(chosen, arrays, 0), 0, np.empty(0, np.int64), ())

    def _of_one(self, written: Written, data: Bytes, starts: Ints, sizes: Ints, skipped: int) -> Rows:
        """Rows of values of one schema, whose first bytes are not theirs."""
        found = _reader(written, self.choice)
        if isinstance(found, _Unfit):
            errors = _all_wrong(data, starts, sizes, found.reason, found.column)
            return replace(self._nothing(), errors=tuple(errors))
        return self._decoded(found, data, starts, sizes, skipped)

    def _decoded(self, reader: _Reader, data: Bytes, starts: Ints, sizes: Ints, skipped: int) -> Rows:
        try:
            batch, codes = reader.decoder.of_messages(data, starts + skipped, sizes - skipped)
            rows = reader.columns.rows(batch, 0)
        except (BadValueError, FormatError) as error:
            if isinstance(error, FormatError) and error.number != "TM4043":
                raise
            return self._without_bad(error, reader, data, starts, sizes, skipped)
        rows = replace(rows, batch=rows.batch.select(list(self.choice.needed)) if self.choice.needed else _empty(rows))
        whole = np.flatnonzero(codes == 0)
        errors = [
            replace(e, position=int(starts[whole[e.position]]), raw=_raw(data, starts, sizes, int(whole[e.position])))
            for e in rows.errors
        ]
        for i in np.flatnonzero(codes).tolist():
            errors += _all_wrong(data, starts[i : i + 1], sizes[i : i + 1], REASONS[codes[i]])
        kept = whole[rows.positions]
        return replace(
            rows,
            positions=starts[kept],
            errors=tuple(sorted(errors, key=lambda e: e.position)),
            raw=lambda row: _raw(data, starts, sizes, int(kept[row])),
        )

    def _without_bad(
        self, error: BadValueError | FormatError, reader: _Reader, data: Bytes, starts: Ints, sizes: Ints, skipped: int
    ) -> Rows:
        """The rows of values of which some are malformed: which these are is known, or found by halving."""
        reason = error.reason if isinstance(error, BadValueError) else "bad_value"
        if starts.size == 1:
            return replace(self._nothing(), errors=tuple(_all_wrong(data, starts, sizes, reason)))
        if isinstance(error, BadValueError) and error.values is not None:
            codes = reader.decoder.codes(data, starts + skipped, sizes - skipped)
            bad = np.zeros(starts.size, np.bool_)
            bad[np.flatnonzero(codes == 0)[error.values]] = True
            wrong = _all_wrong(data, starts[bad], sizes[bad], reason)
            if bad.all():
                return replace(self._nothing(), errors=tuple(wrong))
            return _in_order([self._decoded(reader, data, starts[~bad], sizes[~bad], skipped)], wrong)
        half = starts.size // 2
        parts = (slice(0, half), slice(half, None))
        return _in_order([self._decoded(reader, data, starts[p], sizes[p], skipped) for p in parts], [])


def columns_of_schema(text: str, references: Sequence[str]) -> Schema:
    """The columns of a schema.

    Raises
    ------
    FormatError
        TM4072 for a text that is no schema of a record, or a type that no column holds.
    """
    try:
        root = parse_schema(text, references)
    except SchemaError as error:
        raise FormatError(
            "TM4072",
            "no type holds what the files have in a column",
            got=f"the schema of values: {error}",
            hint="list the columns with their types",
        ) from error
    return merged_schema([("the schema of values", root.schema)])


def _empty(rows: Rows) -> pa.RecordBatch:
    return make_batch([], [], rows.count)


def avro_values(schema: Schema, options: Mapping[str, str], needed: Sequence[str]) -> AvroValues:
    """For the columns of a table that are in values. TM4003 for options that are missing or no values."""
    given = lowered(options)
    registry, text = registry_of(given), AVRO_SCHEMA.of(given)
    if bool(registry) == (text is not None):
        raise AVRO_SCHEMA.bad(text or "none", "schema.registry.url or avroSchema, one of them")
    # FAILFAST is left to the messages, which know offsets
    return AvroValues(ColumnChoice(schema, tuple(needed), Mode.DROPMALFORMED), registry, text or "")


@dataclass(frozen=True)
class _Reader:
    """What reads the values of one schema."""

    decoder: Decoder
    columns: FileColumns


@dataclass(frozen=True)
class _Unfit:
    """Why the values of a schema cannot be read."""

    reason: str
    column: str | None = None


def _reader(written: Written, choice: ColumnChoice) -> _Reader | _Unfit:
    key = (choice.schema, choice.needed)
    return _readers(written, *key)


@lru_cache(maxsize=256)
def _readers(written: Written, schema: Schema, needed: tuple[str, ...]) -> _Reader | _Unfit:
    try:
        root = parse_schema(written.text, written.references) if written.kind == "AVRO" else None
    except SchemaError:
        root = None
    if root is None:
        return _Unfit("bad_schema")
    choice = ColumnChoice(schema, needed, Mode.DROPMALFORMED)
    for field in schema:
        try:
            ColumnChoice(Schema((field,)), (field.name,), choice.mode).of(root.schema)
        except FormatError:
            return _Unfit("other_type", field.name)
    return _Reader(*decoder_of(root, choice))


def decoder_of(root: Node, choice: ColumnChoice) -> tuple[Decoder, FileColumns]:
    """What reads the values of a schema, and makes columns of them: those that are needed, and behind them others of
    which a value can be malformed, so that which rows there are does not depend on what a view needs.

    Errors as :meth:`ColumnChoice.of`.
    """
    written = {name.lower(): child for name, child in zip(root.names, root.children, strict=True)}
    checked = [
        field.name
        for field in choice.schema
        if field.name not in choice.needed
        and (child := written.get(field.name.lower())) is not None
        and _may_be_bad(child)
    ]
    columns = replace(choice, needed=(*choice.needed, *checked)).of(root.schema)
    return Decoder(root, frozenset(columns.names)), columns


def _may_be_bad(node: Node) -> bool:
    type_ = node.type
    leaf = type_ == pa.string() and not node.symbols
    return leaf or node.millis or pa.types.is_decimal(type_) or any(_may_be_bad(child) for child in node.children)


def _numbers(data: Bytes, starts: Ints, sizes: Ints) -> Ints:
    """The number of each value's schema; -1 where it does not say one."""
    numbers = np.full(starts.size, -1, np.int64)
    whole = np.flatnonzero(sizes >= _HEADER)
    heads = data[starts[whole][:, None] + np.arange(_HEADER)].astype(np.int64)
    numbers[whole] = np.where(heads[:, 0] == 0, heads[:, 1:] @ _PLACES, -1)
    return numbers


def _raw(data: Bytes, starts: Ints, sizes: Ints, row: int) -> bytes:
    return bytes(data[starts[row] : starts[row] + sizes[row]])


def _all_wrong(data: Bytes, starts: Ints, sizes: Ints, reason: str, name: str | None = None) -> list[RowError]:
    return [RowError(int(start), name, reason, _raw(data, starts, sizes, i), True) for i, start in enumerate(starts)]


def _in_order(parts: Sequence[Rows], errors: Sequence[RowError]) -> Rows:
    """Rows of parts by position."""
    everything = sorted([*errors, *(e for part in parts for e in part.errors)], key=lambda e: e.position)
    if len(parts) == 1:
        return replace(parts[0], errors=tuple(everything))
    positions = np.concatenate([part.positions for part in parts])
    order = np.argsort(positions, kind="stable")
    fields = parts[0].batch.schema
    arrays = [
        pa.concat_arrays([part.batch.column(i) for part in parts]).take(column(order)) for i in range(len(fields))
    ]
    ends = np.cumsum([part.count for part in parts])

    def raw(row: int) -> bytes:
        at = int(order[row])
        part = int(np.searchsorted(ends, at, "right"))
        return parts[part].raw(at - int(ends[part]) + parts[part].count)

    return Rows(make_batch(fields, arrays, order.size), order.size, positions[order], tuple(everything), raw)


def _moved(rows: Rows, position: int) -> Rows:
    if not position:
        return rows
    return replace(rows, positions=rows.positions + position, errors=tuple(e.moved(position) for e in rows.errors))
