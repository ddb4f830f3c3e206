"""Runs the common paths of an epoch once, over a few rows, so that workers are forked with them in memory.

Formats and kernels are loaded when they are first called, which takes some hundred milliseconds. Done before the fork,
that time is paid once, not by every new worker.
"""

from __future__ import annotations

import ctypes
import io
import os
import pickle
import signal
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from tidemill.formats.csv.format import CsvFormat
from tidemill.formats.standalone.standalone import OpenFormat
from tidemill.formats.values.columns.blocks import parse_marked
from tidemill.plan.algebra.nodes import Aggregate, AggregateCall, Node, Scan
from tidemill.plan.lowering.analysis.definition import ViewDefinition
from tidemill.plan.lowering.assemble import Assembler, state_tables
from tidemill.runtime.job.superstep import EpochPlan, TaskReport, Work, first_superstep, later_superstep
from tidemill.runtime.tables.table import STORED_ERRORS
from tidemill.schema import TIMESTAMP, Field, Schema
from tidemill.sources.split import Split
from tidemill.state.merge.merge import merge
from tidemill.state.store.store import RunStore
from tidemill.state.versions.objects import Objects
from tidemill.state.versions.version import Run
from tidemill.task.functions.columns.registry import every_function
from tidemill.task.program import Program, TableSource, multiset_table

_SCHEMA = Schema(
    (
        Field("i", pa.int32()),
        Field("l", pa.int64()),
        Field("d", pa.float64()),
        Field("s", pa.string()),
        Field("n", pa.decimal128(12, 2)),
        Field("day", pa.date32()),
        Field("at", TIMESTAMP),
    )
)
_DATA = b"""\
i,l,d,s,n,day,at
1,2,3.5,plain,1.25,2024-01-31,2024-01-31 10:11:12
1,3,-0.25,"quoted ""text, with a comma",-7.00,2024-02-29,2024-02-29 10:11:12.5
2,,,,,,
"""
_PR_SET_PDEATHSIG = 1
_OPTIONS = (("header", "true"),)
_ROWS: list[dict[str, Any]] = [
    {"i": 1, "l": 2, "d": 3.5, "s": "plain"},
    {"i": 1, "l": 3, "d": -0.25, "s": "text"},
    {"i": 2},
]


@dataclass(frozen=True)
class _Local:
    """Stands for a broadcast program where there is no Spark."""

    value: Program


def warm_up(directory: Path | None = None) -> None:
    """Run two epochs of a few views over three rows, and a merge.

    Parameters
    ----------
    directory
        Where temporary files are written, and deleted; where Python has them unless given.

    Raises
    ------
    OSError, TidemillError
        When temporary files cannot be written. Only speed depends on it.
    """
    every_function()
    _run(directory, _program("csv", _OPTIONS), _DATA)


def compile_in_two(directory: Path | None) -> None:
    """Compile what :func:`warm_up` needs in two processes, where that has not been done on this machine.

    A fork compiles the kernels of a reader, while this process compiles the others by reading rows that need none.
    Parameters and errors are those of :func:`warm_up`.
    """
    if not parse_marked.is_new():
        return
    every_function()
    reader = OpenFormat(CsvFormat(), _SCHEMA, dict(_OPTIONS))
    fork = os.fork()
    if fork == 0:
        try:
            _end_with_parent()
            reader.read(_DATA)
        finally:
            os._exit(0)  # what has failed is compiled by the other process afterwards
    try:
        file = io.BytesIO()
        batch = pa.RecordBatch.from_pylist(_ROWS, _SCHEMA.to_arrow())
        with pa.ipc.new_file(file, batch.schema) as writer:
            writer.write_batch(batch)
        _run(directory, _program("arrow"), file.getvalue())
    finally:
        os.waitpid(fork, 0)


def _end_with_parent() -> None:
    """Let Linux kill this process when its parent ends."""
    libc = ctypes.CDLL(None)
    if hasattr(libc, "prctl"):
        libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def _run(directory: Path | None, program: Program, data: bytes) -> None:
    """Two epochs over one file, and a merge of each table."""
    with tempfile.TemporaryDirectory(prefix="tidemill-", dir=directory) as place:
        path = Path(place) / "rows"
        path.write_bytes(data)
        status = path.stat()
        split = Split("t", str(path), 0, status.st_size, status.st_size, status.st_mtime_ns)
        store = RunStore(Objects(place), Path(place))
        sealed: dict[str, tuple[Run, ...]] = {}
        for epoch in (1, 2):
            plan = EpochPlan(epoch, 1, store, _Local(program), sealed)
            for run in _epoch(plan, program.supersteps, split):
                sealed = {**sealed, run.table: (*sealed.get(run.table, ()), run)}
        for id_, table in state_tables(program).items():
            if id_ in sealed:
                merge([store.open(run) for run in sealed[id_]], table.ops, drop_zero=True)


def _epoch(plan: EpochPlan, supersteps: int, split: Split) -> list[Run]:
    records = list(first_superstep(plan, 0, Work(((0, split),))))
    for depth in range(1, supersteps):
        records = list(later_superstep(plan, depth, 0, records))
    runs: list[Run] = []
    for _, data in records:
        report = pickle.loads(data)
        assert isinstance(report, TaskReport)
        if report.error is not None:
            raise report.error
        runs += report.runs
    return runs


def _program(format_: str, options: tuple[tuple[str, str], ...] = ()) -> Program:
    """A stored aggregate, one that is read by another, and plain rows."""
    errors = multiset_table("errors", STORED_ERRORS.types, 1)
    source = TableSource("t", "t", format_, _SCHEMA, options, None, ("", ""), errors)
    scan = Scan("t", _SCHEMA.fields)
    calls = (
        AggregateCall("count", None, pa.int64(), False),
        *(AggregateCall("sum", c, pa.float64() if c == 2 else pa.int64(), True) for c in (0, 1, 2)),
        AggregateCall("max", 2, pa.float64(), True),
        AggregateCall("min", 3, pa.string(), True),
    )
    names = ("k", *(f"c{i}" for i in range(len(calls))))
    upstream = Aggregate(scan, (0,), calls, names)
    over = Scan("read", upstream.schema.fields)
    roots: dict[str, Node] = {
        "stored": Aggregate(scan, (3,), calls, names),
        "read": upstream,
        "over": Aggregate(over, (1,), (AggregateCall("sum", 4, pa.float64(), True),), ("n", "s")),
        "plain": scan,
    }
    views = [ViewDefinition(name, name, root, 0) for name, root in roots.items()]
    return Assembler(views, {"t": source}).program()
