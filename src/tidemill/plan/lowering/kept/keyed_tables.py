"""The steps behind a keyed table: its messages are scanned, exchanged by key, and applied to its rows.

    superstep 0   Scan messages -> Arrange by (key, place)
    superstep 1   Apply: look up the rows of the keys, write them, emit -1 and +1

They run once an epoch, from the creation of the table on, whatever views there are.
"""

from __future__ import annotations

import pyarrow as pa

from tidemill.formats.orderbook.format import row_order
from tidemill.formats.orderbook.rules import MESSAGES, BookRules
from tidemill.state.keys.keys import KeyColumn
from tidemill.state.merge.merge import MergeOp
from tidemill.task.expressions import Ref
from tidemill.task.program import (
    ApplyBook,
    ApplyChangelog,
    ArrangeMessages,
    Calculate,
    Changelog,
    ReadPlan,
    ScanStep,
    StateTable,
    TableSource,
    multiset_table,
)

_BOOK_KEY = (1, 0, 2, 3, 4, 5)
"""Columns of a book's rows in the order of the contents' key: id first, last that of tables of both sides."""


def message_steps(source: TableSource) -> tuple[ScanStep, ArrangeMessages, ApplyChangelog | ApplyBook]:
    """What keeps a keyed table, each step reading the one before."""
    changelog = source.changelog
    assert changelog is not None
    if changelog.book is not None:
        return _book_steps(source, changelog, changelog.book)
    rows = changelog.rows
    others = tuple(i for i in range(len(rows)) if i not in changelog.key)
    sign, place = len(rows), len(rows) + 1
    types = (pa.int64(), *(rows.types[i] for i in others))
    layout = _message_layout(source, tuple(rows.types[i] for i in changelog.key), types)
    arrange = ArrangeMessages((*changelog.key, place), (sign, *others), layout)
    apply = ApplyChangelog(arrange, changelog, _contents(source, changelog))
    return ScanStep(source, rows.names, sequenced=True), arrange, apply


def _book_steps(
    source: TableSource, changelog: Changelog, book: BookRules
) -> tuple[ScanStep, ArrangeMessages, ApplyBook]:
    values: list[pa.DataType] = [pa.float64(), pa.float64(), pa.float64()]
    if "side" in book.rows.names:
        values.append(pa.int64())
    layout = _message_layout(source, (pa.int64(),), (pa.float64(), pa.string(), pa.float64(), pa.float64()))
    place = len(MESSAGES) + 1
    arrange = ArrangeMessages((1, place), (0, 2, 3, 4), layout)
    orders = StateTable(
        f"orders:{source.uid}",
        (KeyColumn(pa.int64()),),
        1,
        (pa.int64(), *values),
        (MergeOp.SUM, *(MergeOp.LAST for _ in values)),
    )
    apply = ApplyBook(arrange, changelog, orders, _contents(source, changelog), row_order(changelog.rows, book.rows))
    return ScanStep(source, MESSAGES.names, sequenced=True), arrange, apply


def _message_layout(source: TableSource, key: tuple[pa.DataType, ...], values: tuple[pa.DataType, ...]) -> StateTable:
    """Key columns, then the place; the key alone chooses the partition."""
    columns = (*(KeyColumn(t) for t in key), KeyColumn(pa.int64()))
    return StateTable(f"messages:{source.uid}", columns, len(key), values, tuple(MergeOp.LAST for _ in values))


def _contents(source: TableSource, changelog: Changelog) -> StateTable:
    """The table's rows as stored."""
    name = f"table:{source.uid}"
    if changelog.book is not None:
        stored = changelog.book.rows.types
        return multiset_table(name, tuple(stored[i] for i in _BOOK_KEY[: len(stored)]), 1)
    types = changelog.rows.types
    others = tuple(t for i, t in enumerate(types) if i not in changelog.key)
    return StateTable(
        name,
        tuple(KeyColumn(types[i]) for i in changelog.key),
        len(changelog.key),
        (pa.int64(), *others),
        (MergeOp.SUM, *(MergeOp.LAST for _ in others)),
    )


def contents_plan(source: TableSource) -> ReadPlan:
    """How the rows of a keyed table are read."""
    changelog = source.changelog
    assert changelog is not None
    rows = changelog.rows
    if changelog.book is not None:
        stored = [_BOOK_KEY.index(i) for i in row_order(rows, changelog.book.rows)]
    else:
        order = [*changelog.key, *(i for i in range(len(rows)) if i not in changelog.key)]
        stored = [order.index(i) for i in range(len(rows))]
    columns = tuple(Ref(at, f.type, f.nullable) for at, f in zip(stored, rows, strict=True))
    return ReadPlan(_contents(source, changelog), None, (), (Calculate(None, columns),), rows)


def message_key(source: TableSource) -> tuple[int, ...]:
    """The columns of the table's rows that choose the partition."""
    changelog = source.changelog
    assert changelog is not None
    if changelog.book is None:
        return changelog.key
    return (row_order(changelog.rows, changelog.book.rows).index(_BOOK_KEY[0]),)


def append_only(source: TableSource) -> bool:
    """Whether a keyed table never loses a row."""
    changelog = source.changelog
    assert changelog is not None
    return changelog.book is not None and changelog.book.insert_only
