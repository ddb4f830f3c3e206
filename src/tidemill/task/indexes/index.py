"""What an index is."""

from __future__ import annotations

from typing import Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidemill.schema import Schema


class Index(Protocol):
    """Rows by key. It can be pickled; several threads may look up at a time.

    Attributes
    ----------
    schema : Schema
        Of the rows that it gives.
    key_types : tuple of pa.DataType
        Of the keys.
    """

    @property
    def schema(self) -> Schema:
        """Of the rows that it gives."""

    @property
    def key_types(self) -> tuple[pa.DataType, ...]:
        """Of the keys."""

    def look_up(self, keys: pa.RecordBatch) -> tuple[npt.NDArray[np.int64], pa.RecordBatch]:
        """The rows with some keys.

        Parameters
        ----------
        keys : pyarrow.RecordBatch
            A column for each key; a key with NULL has no rows.

        Returns
        -------
        probes : np.ndarray
            int64[m], ascending: the row of ``keys`` that each row found is for.
        rows : pyarrow.RecordBatch
            m rows; the same keys give the same rows in the same order.

        Raises
        ------
        TidemillError
            When that cannot be told.
        """

    def fingerprint(self) -> str:
        """Names the rows of an index that does not change; "" for one that may."""
