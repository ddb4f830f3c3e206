"""The tables of a mill, as steps know them."""

from __future__ import annotations

from dataclasses import dataclass

from tidemill.formats.messages import Messages
from tidemill.formats.orderbook.rules import BookRules
from tidemill.schema import Schema
from tidemill.state.tables import StateTable


@dataclass(frozen=True)
class Changelog:
    """How the rows of a keyed table follow from its messages in their order.

    ``rows`` are the columns of the table, ``key`` those of its primary key by position; ``created_at_epoch`` is the
    epoch sealed last when the table was created. ``book`` are the rules of an order book; without them the last
    message of a key decides: an insertion is the row from then on, a deletion ends it.
    """

    rows: Schema
    key: tuple[int, ...]
    created_at_epoch: int
    book: BookRules | None = None


@dataclass(frozen=True)
class FileVersions:
    """What a table whose files may be overwritten keeps: every row by the file it came from.

    ``rows`` are the columns of the table; ``created_at_epoch`` is the epoch sealed last when the table was created.
    """

    rows: Schema
    created_at_epoch: int


@dataclass(frozen=True)
class TableSource:
    """How the rows of a table are read: everything ``formats/`` and a scan need.

    ``op_column`` names the column that says insert or delete, with its values in ``op_values``.
    """

    name: str
    uid: str
    format: str
    schema: Schema
    options: tuple[tuple[str, str], ...]
    op_column: str | None
    op_values: tuple[str, str]
    errors: StateTable
    changelog: Changelog | None = None
    watermark: str | None = None
    """The column of event times, for tables that leave out late rows."""
    metadata: str | None = None
    """The column that says which file a row comes from; files do not have it."""
    static: bool = False
    """Whether the table is complete before anything that is joined with it begins."""
    versions: FileVersions | None = None
    pushed: bool = False
    """Whether its files are segments of a spool."""
    messages: Messages | None = None
    """What rows say of keys, for a keyed table whose rows may be deletions."""

    @property
    def kept(self) -> Changelog | FileVersions | None:
        """How its rows are kept from its creation on, whatever views there are; None for what is only read."""
        return self.versions if self.changelog is None else self.changelog

    @property
    def file_schema(self) -> Schema:
        """The columns that files have."""
        return Schema(tuple(f for f in self.schema if f.name != self.metadata))
