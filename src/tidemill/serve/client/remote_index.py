"""A view of a server as an index."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidemill.errors import TidemillError, nearest
from tidemill.schema import Field, Schema, nullable_type
from tidemill.serve.client.attempts import Attempts
from tidemill.serve.client.tables import RemoteTable

_MOST_BYTES, _MOST_KEYS = 1 << 19, 20_000
"""Of one request: servers limit what they take (`max_body_bytes`)."""

_PASSING = ("TM8009", "TM8031", "TM8105")
"""Errors after which a lookup is tried again: the server is away, or has too much to do."""


class Views(Protocol):
    """What a :class:`~tidemill.serve.client.client.Client` does for an index."""

    url: str

    def table(self, view: str, *, epoch: int | None = None, where: str | None = None) -> RemoteTable:
        """The rows of a view."""

    def look_up(
        self, view: str, on: str | Sequence[str], keys: pa.RecordBatch, *, epoch: int | None = None
    ) -> tuple[int, pa.Table]:
        """The rows of a view with some keys."""


@dataclass(frozen=True, eq=False)
class RemoteIndex:
    """The rows of a view by some of its columns, which its server finds; rows of one key come in the server's order.

    It can be pickled; each process has a connection of its own.

    Attributes
    ----------
    client : Views
    view : str
    columns : tuple of str
        Those whose values are looked up.
    epoch : int or None
        The epoch that is read; None for the newest one at each lookup.
    reconnect : float
        Seconds for which a lookup is tried again when the server does not answer.
    schema : Schema
        Of the rows.
    key_types : tuple of pyarrow.DataType
    """

    client: Views
    view: str
    columns: tuple[str, ...]
    epoch: int | None
    reconnect: float
    schema: Schema
    key_types: tuple[pa.DataType, ...]

    @staticmethod
    def of(client: Views, view: str, on: str | Sequence[str], epoch: int | None, reconnect: float) -> RemoteIndex:
        """Ask for the columns of a view. Errors as :meth:`tidemill.serve.client.client.Client.index`."""
        rows = client.table(view, epoch=epoch, where="false").to_arrow()
        types = dict(zip(rows.schema.names, rows.schema.types, strict=True))
        known = {name.lower(): name for name in types}
        columns = tuple(
            name if name in types else known.get(name.lower(), name) for name in ((on,) if isinstance(on, str) else on)
        )
        for name in columns:
            if name not in types:
                raise TidemillError("TM4006", "there is no column of this name", got=name, hint=nearest(name, types))
        schema = Schema(tuple(Field(name, nullable_type(type_)) for name, type_ in types.items()))
        return RemoteIndex(client, view, columns, epoch, reconnect, schema, tuple(types[name] for name in columns))

    def look_up(self, keys: pa.RecordBatch) -> tuple[npt.NDArray[np.int64], pa.RecordBatch]:
        """See :class:`~tidemill.task.indexes.index.Index`.

        Raises
        ------
        TidemillError
            TM8031 when the server does not answer, TM1031 when the epoch has expired, TM1035 when the view has other
            columns than it had.
        """
        step = max(1, min(_MOST_KEYS, int(keys.num_rows * _MOST_BYTES / max(1, keys.nbytes))))
        probes: list[npt.NDArray[np.int64]] = [np.zeros(0, np.int64)]
        tables = []
        for start in range(0, keys.num_rows, step):
            found = self._asked(keys.slice(start, step))
            probes.append(found.column(0).to_numpy() + start)
            tables.append(found.drop_columns(found.column_names[:1]))
        schema = self.schema.to_arrow()
        rows = pa.concat_tables([schema.empty_table(), *(self._shaped(t, schema) for t in tables)])
        batches = rows.combine_chunks().to_batches()
        empty = pa.RecordBatch.from_pylist([], schema=schema)
        return np.concatenate(probes), batches[0] if batches else empty

    def _asked(self, keys: pa.RecordBatch) -> pa.Table:
        attempts = Attempts(self.reconnect)
        while True:
            try:
                return self.client.look_up(self.view, self.columns, keys, epoch=self.epoch)[1]
            except TidemillError as error:
                if error.number not in _PASSING:
                    raise
                attempts.failed(error)

    def _shaped(self, table: pa.Table, schema: pa.Schema) -> pa.Table:
        if table.schema.names != schema.names or [nullable_type(t) for t in table.schema.types] != schema.types:
            raise TidemillError(
                "TM1035",
                "the columns of this view changed at this epoch",
                got=f"{self.view} of {self.client.url}",
                hint="make the index, and the plan, again",
            )
        return pa.Table.from_arrays(table.columns, schema=schema)

    def fingerprint(self) -> str:
        """See :class:`~tidemill.task.indexes.index.Index`."""
        if self.epoch is None:
            return ""
        return json.dumps([self.client.url, self.view, self.epoch, self.columns])

    def __str__(self) -> str:
        return f"an index of {self.view} of {self.client.url}"
