"""Rows that a server gave, in the forms that Python programs want."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pyarrow as pa

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl


class RemoteTable:
    """The rows of a view or statement, asked for when they are needed, once.

    Parameters
    ----------
    load : callable
        Gives the epoch and rows.
    """

    def __init__(self, load: Callable[[], tuple[int, pa.Table]]) -> None:
        self._load = load
        self._loaded: tuple[int, pa.Table] | None = None

    def _rows(self) -> tuple[int, pa.Table]:
        if self._loaded is None:
            self._loaded = self._load()
        return self._loaded

    @property
    def epoch(self) -> int:
        """The epoch at which these are the rows."""
        return self._rows()[0]

    def to_arrow(self) -> pa.Table:
        """As an Arrow table."""
        return self._rows()[1]

    def to_pandas(self) -> pd.DataFrame:
        """As a pandas DataFrame."""
        return self.to_arrow().to_pandas()

    def to_polars(self) -> pl.DataFrame:
        """As a Polars DataFrame; needs the package ``polars``."""
        import polars

        return polars.DataFrame(self.to_arrow())

    def to_pylist(self) -> list[dict[str, Any]]:
        """As a list of dicts."""
        rows: list[dict[str, Any]] = self.to_arrow().to_pylist()
        return rows

    def __len__(self) -> int:
        return int(self.to_arrow().num_rows)

    def __repr__(self) -> str:
        if self._loaded is None:
            return "RemoteTable(not read yet)"
        return f"RemoteTable(epoch {self.epoch}, {len(self):,} rows, {', '.join(self.to_arrow().column_names)})"
