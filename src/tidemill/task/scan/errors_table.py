"""Malformed and late rows on their way to the errors table of a source."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from tidemill.formats.base import RowError
from tidemill.kernels.columns import column
from tidemill.sources.split import Split
from tidemill.state.keys.keys import VNODES, encode, in_vnodes, prefix, sort
from tidemill.state.merge.merge import negated
from tidemill.task.dataflow.operator import Context
from tidemill.task.program import StateTable

_HELD = 4096
"""Rows that are collected as objects before they are written."""


class ErrorsTable:
    """The rows that a scan adds to the errors table in one epoch, and those that it withdraws.

    Parameters
    ----------
    table : StateTable
    """

    def __init__(self, table: StateTable) -> None:
        self._table = table
        self._found: list[tuple[Split, RowError]] = []
        self._replaced: set[str] = set()

    def add(self, split: Split, errors: Iterable[RowError], context: Context) -> None:
        """Add errors of a split."""
        self._found += [(split, error) for error in errors]
        if len(self._found) > _HELD:
            self._write(context)

    def replace(self, path: str) -> None:
        """Withdraw the errors of the earlier version of a file. Exactly one split of a file asks for it."""
        self._replaced.add(path)

    def flush(self, context: Context) -> None:
        """Withdraw and write everything that was collected."""
        if self._replaced:
            self._withdraw(context)
        self._write(context)

    def _write(self, context: Context) -> None:
        if self._found:
            keys = encode(errors_columns(self._found), self._table.key, self._table.distribution)
            self._found = []
            context.state(self._table).write_unsorted(keys, [column(np.ones(len(keys), np.int64))])

    def _withdraw(self, context: Context) -> None:
        names = prefix([pa.array(sorted(self._replaced), pa.string())], self._table.key, 0)
        self._replaced = set()
        _, rows = context.state(self._table, everywhere=True).before.scan(in_vnodes(names.take(sort(names)), 0, VNODES))
        context.state(self._table).write(negated(rows))


def errors_columns(errors: Sequence[tuple[Split, RowError]]) -> list[pa.Array[Any]]:
    """Columns of an errors table: file, position, line, at, column, reason, raw."""
    return [
        pa.array([s.path for s, _ in errors], pa.string()),
        pa.array([e.position for _, e in errors], pa.int64()),
        pa.array([e.line for _, e in errors], pa.int64()),
        pa.array([e.at for _, e in errors], pa.int64()),
        pa.array([e.column for _, e in errors], pa.string()),
        pa.array([e.reason for _, e in errors], pa.string()),
        pa.array([e.raw for _, e in errors], pa.binary()),
    ]
