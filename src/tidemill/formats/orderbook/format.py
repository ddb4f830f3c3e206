"""Traces of an exchange: lines ``t,id,action,volume,price`` without a header, as messages of one book."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tidemill.errors import TidemillError
from tidemill.formats.base import RowError, Rows
from tidemill.formats.csv.header import layout_by_position
from tidemill.formats.csv.options import parse_options
from tidemill.formats.csv.rows import RowBuilder
from tidemill.formats.orderbook.rules import INSERT_LETTERS, LETTERS, MESSAGES, BookRules
from tidemill.formats.rows.checked_columns import CheckedColumn, make_batch
from tidemill.formats.rows.malformed import MODE, fail_fast
from tidemill.formats.text.line_ends import Bytes
from tidemill.formats.text.line_split import LineSplitReader
from tidemill.formats.values.columns.columns import parser_for
from tidemill.options.kinds import choice, number
from tidemill.options.option import Kind, Option, OptionGroup
from tidemill.schema import Schema, type_to_ddl


def _yes(text: str) -> bool:
    answers = {"true": True, "yes": True, "false": False, "no": False}
    if text.lower() not in answers:
        raise ValueError
    return answers[text.lower()]


YES_NO = Kind("true or false", _yes)


BOOK = Option(
    "book",
    choice(*INSERT_LETTERS),
    None,
    "which side of the book the table holds, or both",
    shown="none: it must be given",
)
BROKERS = Option("brokers", number(1, 2**31 - 1), 10, "how many brokers there are")
DETERMINISTIC = Option("deterministic", YES_NO, True, "brokers follow from order ids")
INSERT_ONLY = Option("insertOnly", YES_NO, False, "orders are never taken out")
PARTIAL_CANCELS = Option("partialCancels", YES_NO, False, "a message C takes its volume off an order")
BOOK_OPTIONS = OptionGroup(
    "Order books",
    "Tables `USING orderbook`.",
    (BOOK, BROKERS, DETERMINISTIC, INSERT_ONLY, PARTIAL_CANCELS, MODE),
)


class OrderBookFormat:
    """Lines of five fields, ``t,id,action,volume,price``, read as CSV without quotes.

    **Rows.** Messages that can concern this book, in file order; the others (orders of the other side, ``X``, ``T``,
    and ``C`` unless ``partialCancels`` is set) are not counted. -0.0 is read as 0.0.

    **Malformed rows.** A field that is missing or bad, or an action that is not one of ``BSEFDXCT``
    (``bad_action``): the message is left out, also in mode PERMISSIVE, since no message can be half applied.
    """

    name = "orderbook"
    is_text = True
    option_names = BOOK_OPTIONS.keys

    def validate(self, schema: Schema, options: Mapping[str, str]) -> None:
        """See :meth:`tidemill.formats.base.Format.validate`. The columns are checked by :func:`row_order`."""
        parse_rules(options)
        _csv_options(options)

    def reader(self, schema: Schema, options: Mapping[str, str], needed: Sequence[str]) -> OrderBookReader:
        """See :meth:`tidemill.formats.base.Format.reader`; columns are those of ``MESSAGES``."""
        return OrderBookReader(options, needed)


def parse_rules(options: Mapping[str, str]) -> BookRules:
    """The rules that a table's options ask for. TM4003 for a bad value."""
    book = BOOK.of(options)
    if book is None:
        raise BOOK.bad("", BOOK.kind.wanted)
    return BookRules(
        INSERT_LETTERS[book],
        BROKERS.of(options),
        DETERMINISTIC.of(options),
        INSERT_ONLY.of(options),
        PARTIAL_CANCELS.of(options),
    )


def row_order(declared: Schema, rows: Schema) -> tuple[int, ...]:
    """For each declared column, which column of ``rows`` it is: by name if all names are theirs, else by place.

    Raises
    ------
    TidemillError
        TM4030 when the columns are not those of an order book.
    """
    names = [n.lower() for n in declared.names]
    if sorted(names) == sorted(rows.names):
        order = tuple(rows.names.index(n) for n in names)
    else:
        order = tuple(range(len(rows)))
    if len(declared) != len(rows) or any(f.type != rows.types[i] for f, i in zip(declared, order, strict=True)):
        raise TidemillError(
            "TM4030",
            "an order book has other columns",
            got=", ".join(f"{f.name} {type_to_ddl(f.type)}" for f in declared),
            hint=", ".join(f"{f.name} {type_to_ddl(f.type)}" for f in rows),
        )
    return order


def _csv_options(options: Mapping[str, str]) -> dict[str, str]:
    given = {"quote": "", **{k: v for k, v in options.items() if k == MODE.key}}
    parse_options(given)
    return given


class OrderBookReader:
    """See :class:`tidemill.formats.base.RowReader`."""

    def __init__(self, options: Mapping[str, str], needed: Sequence[str]) -> None:
        self._rules = parse_rules(options)
        self._options = parse_options(_csv_options(options))
        self._needed = tuple(MESSAGES.names.index(n) for n in needed)

    def header_bytes_needed(self) -> bool:
        """See :meth:`tidemill.formats.base.RowReader.header_bytes_needed`."""
        return False

    def split(
        self, *, start: int, end: int, file_size: int, in_quotes: bool | None, header: bytes | None
    ) -> LineSplitReader:
        """See :meth:`tidemill.formats.base.RowReader.split`."""
        columns = []
        for i, field in enumerate(MESSAGES):
            parser = parser_for(field.type, self._options.patterns)
            assert parser is not None
            columns.append(CheckedColumn(i, field, parser))
        builder = _MessageBuilder(
            self._options,
            layout_by_position(MESSAGES),
            tuple(columns),
            len(columns),
            None,
            self._rules.letters,
            self._needed,
        )
        return LineSplitReader(builder, start=start, end=end, file_size=file_size, in_quotes=in_quotes)


@dataclass(frozen=True)
class _MessageBuilder(RowBuilder):
    """Rows of messages, without those that cannot concern the book."""

    letters: str
    wanted: tuple[int, ...]

    def build(self, data: Bytes, position: int, row_ends: int, quotes: bool, unterminated: bool) -> Rows:
        """See :meth:`RowBuilder.build`; TM4020 also for an unknown action in mode FAILFAST."""
        rows = super().build(data, position, row_ends, quotes, unterminated)
        actions = rows.batch.column(MESSAGES.names.index("action"))
        known = pc.is_in(actions, value_set=pa.array(list(LETTERS)))
        errors = rows.errors
        if known.true_count < len(known):
            unknown = np.flatnonzero(~known.to_numpy(zero_copy_only=False))
            errors = self._with_unknown(errors, data, position, rows.positions[unknown])
        concern = pc.is_in(actions, value_set=pa.array(list(self.letters)))
        columns = [_positive_zero(rows.batch.column(i).filter(concern)) for i in self.wanted]
        names = [MESSAGES.names[i] for i in self.wanted]
        kept = rows.positions[concern.to_numpy(zero_copy_only=False)]
        if not columns:
            return Rows(make_batch([], [], kept.size), kept.size, kept, errors)
        return Rows(pa.RecordBatch.from_arrays(columns, names=names), kept.size, kept, errors)

    def _with_unknown(
        self, errors: tuple[RowError, ...], data: Bytes, base: int, positions: npt.NDArray[np.int64]
    ) -> tuple[RowError, ...]:
        before = MESSAGES.names.index("action")
        found = []
        for position in positions.tolist():
            raw = self.raw(data, base, position - base)
            at = position + sum(len(field) + 1 for field in raw.split(b",")[:before])
            found.append(RowError(position, "action", "bad_action", raw, True, at))
        fail_fast(self.options.mode, found, f"the actions are {', '.join(LETTERS)}; mend the file")
        return tuple(sorted((*errors, *found), key=lambda e: e.position))


def _positive_zero(values: pa.Array[Any]) -> pa.Array[Any]:
    return pc.add(values, 0.0) if pa.types.is_floating(values.type) else values
