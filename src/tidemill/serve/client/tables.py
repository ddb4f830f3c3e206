"""Rows that a server gave, in the forms that Python programs want."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from tidemill.errors import TidemillError

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
        """As a pandas DataFrame. TM8032 for dates beyond the years 1 to 9999."""
        table = self.to_arrow()
        with _python_values():
            return table.to_pandas()

    def to_polars(self) -> pl.DataFrame:
        """As a Polars DataFrame; needs the package ``polars``."""
        import polars

        return polars.DataFrame(self.to_arrow())

    def to_pylist(self) -> list[dict[str, Any]]:
        """As a list of dicts. TM8032 for dates and times beyond the years 1 to 9999."""
        table = self.to_arrow()
        with _python_values():
            rows: list[dict[str, Any]] = table.to_pylist()
        return rows

    def __len__(self) -> int:
        return int(self.to_arrow().num_rows)

    def __repr__(self) -> str:
        if self._loaded is None:
            return "RemoteTable(not read yet)"
        return f"RemoteTable(epoch {self.epoch}, {len(self):,} rows, {', '.join(self.to_arrow().column_names)})"


@contextmanager
def _python_values() -> Iterator[None]:
    """TM8032 for values that Python's types do not hold: their errors have no number and no remedy."""
    try:
        yield
    except (OverflowError, ValueError) as error:
        raise TidemillError(
            "TM8032",
            "a value of these rows does not fit into Python's types",
            got=str(error),
            hint="dates and times of Python have the years 1 to 9999; to_arrow() gives others, too",
        ) from error
