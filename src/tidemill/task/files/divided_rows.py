"""What a scan reads."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

import pyarrow as pa

from tidemill.schema import Schema
from tidemill.sources.split import Split


class DividedRows(Protocol):
    """Rows that are divided into splits: those of files, or of a view. Picklable; many threads may read splits.

    Attributes
    ----------
    format : str
    schema : Schema
        Of all columns.
    columns : tuple of str
        Those that are given, in that order.
    splits : tuple of Split
        In the order of the rows.
    """

    @property
    def format(self) -> str:
        """Of the files; ``view``."""

    @property
    def schema(self) -> Schema:
        """Of all columns."""

    @property
    def columns(self) -> tuple[str, ...]:
        """Those that are given, in that order."""

    @property
    def splits(self) -> tuple[Split, ...]:
        """In the order of the rows."""

    def read(self, split: Split) -> Iterator[pa.RecordBatch]:
        """The rows of a split, always in the same order."""

    def data_fingerprint(self) -> str:
        """Names the rows and how they are divided."""

    def plan_fingerprint(self) -> str:
        """Of everything else that says which rows there are."""
