"""``<table>__files``: the state of each file of a table, as a table.

It is read from the state tables of List and Fetch, so it shows what was sealed, at any epoch that can still be read,
in any process. States are

- ``seen``: listed, and not read: it is empty, or appeared too late for a static table;
- ``queued``: nothing of it has been read yet;
- ``reading``: a part of it has been read;
- ``done``: read to its end by ``epoch``;
- ``cleaned``: as ``done``, and ``cleanSource`` has deleted or moved it, or may do so at any time, since ``epoch``;
- ``failed``: it could not be read ``attempts`` times and was set aside.

A file that is queued or being read and has an ``error`` is tried again at ``retry_at``.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from tidemill.runtime.files.file_progress import FileProgress, cleaned_table, fetch_table, fetched_files, list_table
from tidemill.runtime.tables.table import Table
from tidemill.schema import Field, Schema
from tidemill.sources.split import GROWING
from tidemill.state.lookup.reader import TableReader
from tidemill.task.program import ReadPlan, StateTable

_TIME = pa.timestamp("us", "UTC")

FILES_SCHEMA = Schema(
    (
        Field("path", pa.string(), False),
        Field("state", pa.string(), False),
        Field("size", pa.int64(), False),
        Field("bytes", pa.int64(), False),
        Field("rows", pa.int64(), False),
        Field("modified", _TIME),
        Field("etag", pa.string()),
        Field("epoch", pa.int64()),
        Field("attempts", pa.int64(), False),
        Field("retry_at", _TIME),
        Field("error", pa.string()),
    )
)
"""``bytes`` and ``rows`` are those admitted so far, without late rows."""

_ARROW = pa.schema([pa.field(f.name, f.type) for f in FILES_SCHEMA])

Part = tuple[ReadPlan, Callable[[pa.Table], pa.Table]]
"""How one state table is read, and the function that turns its rows into rows of ``FILES_SCHEMA``."""

if TYPE_CHECKING:
    _Column = pa.Array[Any] | pa.ChunkedArray[Any]


def file_parts(table: Table) -> tuple[Part, ...]:
    """The parts of ``<table>__files``."""
    return (
        (_plan(list_table(table.uid), _LISTED), partial(_shaped, _listed)),
        (_plan(fetch_table(table.uid), _FETCHED), partial(_shaped, _fetched)),
        (_plan(cleaned_table(table.uid), _LISTED), partial(_shaped, _cleaned)),
    )


_LISTED = ("path", "size", "modified", "etag", "epoch", "rows", "marks")
_READ = ("path", "size", "modified", "etag", "position", "in_quotes", "rows", "marks", "replaces")
_FETCHED = (*_READ, "attempts", "retry_at", "error", "decoded")


def unreadable(table: Table, reader: Callable[[StateTable], TableReader]) -> list[FileProgress]:
    """Files of a table that could not be read when they were tried last."""
    state = fetch_table(table.uid)
    return [f for rows in reader(state).iterate() for f in fetched_files(state, rows) if f.attempts]


def _plan(table: StateTable, names: tuple[str, ...]) -> ReadPlan:
    types = (*(k.type for k in table.key), *table.value_types[1:])
    return ReadPlan(table, None, (), (), Schema(tuple(map(Field, names, types))))


def _shaped(columns: Callable[[pa.Table], dict[str, _Column]], rows: pa.Table) -> pa.Table:
    count = rows.num_rows
    nothing = {"epoch": None, "retry_at": None, "error": None, "attempts": 0}
    found: dict[str, _Column] = {n: pa.nulls(count) if v is None else pa.array([v] * count) for n, v in nothing.items()}
    found |= {n: rows[n] for n in ("path", "size", "rows")}
    growing = pc.equal(rows["modified"], pa.scalar(GROWING))
    found["etag"] = _unless(rows["etag"], pc.or_(growing, pc.equal(rows["etag"], pa.scalar(""))))
    found["modified"] = _unless(pc.divide(rows["modified"], 1000), growing)
    found |= columns(rows)
    return pa.table([found[f.name].cast(f.type) for f in _ARROW], schema=_ARROW)


def _listed(rows: pa.Table) -> dict[str, _Column]:
    state = pc.if_else(pc.equal(rows["size"], pa.scalar(0)), "seen", "done")
    return {"state": state, "bytes": rows["size"], "epoch": rows["epoch"]}


def _cleaned(rows: pa.Table) -> dict[str, _Column]:
    return {"state": pa.array(["cleaned"] * rows.num_rows), "bytes": rows["size"], "epoch": rows["epoch"]}


def _fetched(rows: pa.Table) -> dict[str, _Column]:
    failed, begun = pc.is_null(rows["retry_at"]), pc.greater(rows["position"], pa.scalar(0))
    state = pc.if_else(failed, "failed", pc.if_else(begun, "reading", "queued"))
    later = pc.multiply(_unless(rows["retry_at"], pc.equal(rows["attempts"], pa.scalar(0))), 1000)
    error = _unless(rows["error"], pc.equal(rows["error"], pa.scalar("")))
    return {"state": state, "bytes": rows["position"], "attempts": rows["attempts"], "retry_at": later, "error": error}


def _unless(values: _Column, unknown: _Column) -> _Column:
    made: _Column = pc.if_else(unknown, pa.scalar(None, values.type), values)
    return made
