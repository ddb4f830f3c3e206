"""Values of messages in a format of the registry: each is read as a file of that format."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tidemill.connectors.shared_options import VALUE_FORMAT
from tidemill.formats import registry
from tidemill.formats.base import Format, RowReader, Rows
from tidemill.formats.frames.format import frame_builder, payload_names
from tidemill.formats.json.options import MULTI_LINE
from tidemill.formats.messages import Messages, reader_of
from tidemill.formats.records.sized_records import Bytes, Places, RecordBuilder
from tidemill.formats.records.value_format import ValueFormat
from tidemill.formats.rows.checked_columns import make_batch
from tidemill.formats.rows.malformed import MODE, Mode
from tidemill.formats.text.line_ends import NEWLINE
from tidemill.formats.values.columns.time_options import TIME_ZONE
from tidemill.kernels.columns import column
from tidemill.options.option import check_options
from tidemill.schema import Schema


@dataclass(frozen=True)
class ValueRows:
    """Rows of values.

    Attributes
    ----------
    rows : Rows
    messages : ndarray of int64
        The number of the message of each row.
    of_errors : ndarray of int64
        The number of the message of each error.
    """

    rows: Rows
    messages: Places
    of_errors: Places


@dataclass(frozen=True)
class Values:
    """Makes rows of values.

    Attributes
    ----------
    builder : RecordBuilder
    documents : RecordBuilder or None
        Makes rows of values with line ends within, where that is another one.
    """

    builder: RecordBuilder
    documents: RecordBuilder | None

    def rows(self, data: Bytes, position: int, starts: Places, sizes: Places) -> ValueRows:
        """Rows of the values ``data[starts[i] : starts[i] + sizes[i]]``; an empty one has none.

        Byte 0 of ``data`` is at ``position``, from which positions of rows and errors are counted.
        """
        filled = np.flatnonzero(sizes)
        starts, sizes = np.ascontiguousarray(starts[filled]), np.ascontiguousarray(sizes[filled])
        builder = self.builder
        if self.documents is not None:
            ends = np.flatnonzero(data == NEWLINE)
            if np.any(np.searchsorted(ends, starts) < np.searchsorted(ends, starts + sizes)):
                builder = self.documents
        rows = builder.build(data, position, starts, sizes)

        def messages(at: npt.NDArray[np.int64]) -> Places:
            found: Places = filled[np.searchsorted(starts, at - position, "right") - 1]
            return found

        return ValueRows(
            rows, messages(rows.positions), messages(np.array([e.position for e in rows.errors], np.int64))
        )


def values_of(
    payload: Format, schema: Schema, options: Mapping[str, str], needed: Sequence[str], messages: Messages | None
) -> Values:
    """What makes rows of values.

    Parameters
    ----------
    payload : Format
    schema : Schema
        The columns in the value.
    options : mapping
        Those of the table, with names in lower case.
    needed : sequence of str
        The columns that are wanted.
    messages : Messages, optional
        As for :func:`tidemill.formats.messages.reader_of`.
    """
    if isinstance(payload, ValueFormat):
        return Values(payload.values(schema, _inner_options(payload, options), needed), None)
    inner = reader_of(payload, schema, _inner_options(payload, options), needed, messages)
    assert isinstance(inner, RowReader), "validated before"
    builder, documents = frame_builder(payload, inner, Mode.PERMISSIVE), None
    if payload.name == "json" and MULTI_LINE.key not in options:
        several = {**_inner_options(payload, options), MULTI_LINE.key: "true"}
        inner = reader_of(payload, schema, several, needed, messages)
        assert isinstance(inner, RowReader), "validated before"
        documents = frame_builder(payload, inner, Mode.PERMISSIVE)
    return Values(builder, documents)


def plain_formats() -> list[str]:
    """Formats that values can have whose rows are no changes."""
    return sorted({*payload_names(), "avro"})


def value_format(options: Mapping[str, str], names: Sequence[str]) -> Format | None:
    """The format of values, one of some names; None without one. Names of options in lower case. TM4003 for another."""
    name = VALUE_FORMAT.of(options).lower()
    if not name:
        return None
    if name not in names:
        raise VALUE_FORMAT.bad(name, f"one of {', '.join(names)}")
    return registry.lookup(name)


def check_values(
    format_name: str, own: frozenset[str], payload: Format | None, schema: Schema, options: Mapping[str, str]
) -> None:
    """Check the options of a table of messages, which has some of its ``own``, and those of its values.

    Raises
    ------
    TidemillError
        TM4003 for a format that values cannot have, TM4005 for an option that neither has; as the values' format.
    """
    known = own | {MODE.key, TIME_ZONE.key}
    if payload is None:
        check_options(format_name, options, known)
        return
    check_options(format_name, options, known | payload.option_names)
    if isinstance(payload, ValueFormat):
        payload.values(schema, _inner_options(payload, options), ())
        return
    inner = payload.reader(schema, _inner_options(payload, options), ())
    if not isinstance(inner, RowReader) or inner.header_bytes_needed():
        raise VALUE_FORMAT.bad(payload.name, "a format without a header, read as a stream of bytes")


def _inner_options(payload: Format, options: Mapping[str, str]) -> dict[str, str]:
    """Options of the values' format. FAILFAST is left to the messages, which know positions."""
    given = {n: v for n, v in options.items() if n in payload.option_names}
    if MODE.of(given) is Mode.FAILFAST:
        given[MODE.key] = Mode.DROPMALFORMED.value
    if payload.name == "json":
        given.setdefault(MULTI_LINE.key, "false")
    return given


def texts_of(found: pa.BinaryArray) -> tuple[pa.Array[Any], Places]:
    """Bytes as texts, NULL where they are none, and the numbers of those."""
    try:
        return found.cast(pa.string()), np.empty(0, np.int64)
    except pa.ArrowInvalid:
        texts = [None if value is None else _decoded(value) for value in found.to_pylist()]
    array = pa.array(texts, pa.string())
    return array, np.flatnonzero(pc.and_(array.is_null(), found.is_valid()).to_numpy(False))


def _decoded(value: bytes) -> str | None:
    try:
        return value.decode()
    except UnicodeDecodeError:
        return None


def without(rows: Rows, dropped: npt.NDArray[np.bool_]) -> Rows:
    """The rows that stay."""
    kept = np.flatnonzero(~dropped)
    raw = rows.raw
    batch = make_batch(rows.batch.schema, [c.take(column(kept)) for c in rows.batch.columns], kept.size)
    return replace(
        rows, batch=batch, count=kept.size, positions=rows.positions[kept], raw=lambda row: raw(int(kept[row]))
    )
