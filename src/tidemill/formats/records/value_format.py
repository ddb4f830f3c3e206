"""Formats whose values in messages are not read as files of it are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol, runtime_checkable

from tidemill.formats.records.sized_records import RecordBuilder
from tidemill.schema import Schema


@runtime_checkable
class ValueFormat(Protocol):
    """A format whose values in messages are not read as files of it are."""

    def values(self, schema: Schema, options: Mapping[str, str], needed: Sequence[str]) -> RecordBuilder:
        """What makes rows of values; those that are malformed are left out. Errors as for a bad option."""
        ...
