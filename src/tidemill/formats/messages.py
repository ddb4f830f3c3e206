"""Rows of keyed tables as messages: each sets or deletes the row of a key, and of a deletion only the key counts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from tidemill.formats.base import FileRowReader, Format, RowReader
from tidemill.schema import Schema


@dataclass(frozen=True)
class Messages:
    """How the rows of a keyed table are read as messages.

    Attributes
    ----------
    key : tuple of str
        The columns of the primary key.
    operation : str
        The column that says whether the row of a key is set or deleted.
    delete : str
        Its value in deletions.
    """

    key: tuple[str, ...]
    operation: str
    delete: str

    def deletions(self, schema: Schema) -> Deletions:
        """The same for columns in some order."""
        operation = schema.names.index(self.operation)
        return Deletions(operation, self.delete, frozenset({operation, *(schema.names.index(k) for k in self.key)}))


@dataclass(frozen=True)
class Deletions:
    """Which rows are deletions, and which of their columns count.

    Attributes
    ----------
    operation : int
        Ordinal of the operation's column in the schema.
    value : str
        Its value in deletions.
    kept : frozenset of int
        Ordinals of the key and of the operation.
    """

    operation: int
    value: str
    kept: frozenset[int]


@runtime_checkable
class MessageFormat(Protocol):
    """A format that reads only key and operation of deletions, so that their other columns cannot be malformed."""

    def message_reader(
        self, schema: Schema, options: Mapping[str, str], needed: Sequence[str], messages: Messages
    ) -> RowReader:
        """As :meth:`tidemill.formats.base.Format.reader`, for a keyed table."""
        ...


def reader_of(
    format_: Format, schema: Schema, options: Mapping[str, str], needed: Sequence[str], messages: Messages | None
) -> RowReader | FileRowReader:
    """What reads the files of a table, which is keyed if its rows are ``messages``."""
    if messages is not None and isinstance(format_, MessageFormat):
        return format_.message_reader(schema, options, needed, messages)
    return format_.reader(schema, options, needed)
