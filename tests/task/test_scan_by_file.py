"""Scans of tables whose files may be overwritten: rows with their file, and what is withdrawn."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pyarrow as pa
from operator_runs import INT, TEXT, merged

from tidemill.runtime.tables.table import STORED_ERRORS
from tidemill.schema import Field, Schema
from tidemill.sources.split import Split, SplitResult, file_digest
from tidemill.task.build import build
from tidemill.task.dataflow.deltas import Delta
from tidemill.task.dataflow.operator import Output, SourceOperator
from tidemill.task.program import FileVersions, ScanStep, TableSource, multiset_table
from tidemill.testing import MemoryContext, weighted_rows

ERRORS = multiset_table("errors", STORED_ERRORS.types, 2)
ROWS = Schema((Field("k", INT), Field("s", TEXT)))
STEP = ScanStep(
    TableSource("t", "t#1", "csv", ROWS, (), None, ("I", "D"), ERRORS, versions=FileVersions(ROWS, 0)),
    ROWS.names,
    by_file=True,
)


def version(path: Path, text: str, replaces: bool = True, cut: int | None = None) -> list[Split]:
    """A file written anew, as one split or two."""
    path.write_text(text)
    size = len(text.encode())
    ends = [size] if cut is None else [cut, size]
    place = ("t", str(path))
    made = [Split(*place, 0, ends[0], size, path.stat().st_mtime_ns, False, replaces=replaces)]
    return made + [Split(*place, cut or 0, end, size, path.stat().st_mtime_ns, False) for end in ends[1:]]


def scan(context: MemoryContext, splits: list[Split]) -> list[Output]:
    operator = build(0, STEP)
    assert isinstance(operator, SourceOperator)
    operator.begin(context)
    for split in splits:
        operator.add_split(split)
    operator.request_barrier()
    found = []
    while (output := operator.get_output()) is not None:
        found.append(output)
    assert operator.reached_barrier()
    assert operator.start_drain() is False
    context.seal()
    return found


def rows(outputs: list[Output], port: int) -> list[Delta]:
    return [o.item for o in outputs if o.port == port and isinstance(o.item, Delta)]


def test_rows_come_with_their_file_and_the_first_split_withdraws(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    digest = file_digest(str(path))
    first = scan(MemoryContext(), version(path, "1,a\n", replaces=False))
    assert [weighted_rows(d) for d in rows(first, 0)] == [{(1, "a", digest): 1}]
    assert rows(first, 1) == []
    found = scan(MemoryContext(), version(path, "1,a\n2,b\n", cut=4))
    assert [weighted_rows(d) for d in rows(found, 0)] == [{(1, "a", digest): 1}, {(2, "b", digest): 1}]
    assert [weighted_rows(d) for d in rows(found, 1)] == [{(digest,): 1}]
    assert rows(found, 1)[0].batch.column(0).type == pa.binary()
    assert rows(found, 0)[0].batch.column(2).type == pa.binary()


def test_a_split_without_bytes_needs_no_file(tmp_path: Path) -> None:
    context = MemoryContext()
    gone = Split("t", str(tmp_path / "gone"), 0, 0, 0, 5, False, replaces=True)
    (output,) = scan(context, [gone])
    assert output.port == 1
    assert context.splits == [SplitResult(gone, False, 0, 0, 0, 0, 0)]


def test_names_of_one_length_for_paths_of_any() -> None:
    assert {len(file_digest(path)) for path in ("", "a", "é" * 1000)} == {16}
    assert file_digest("a") != file_digest("b")


def test_errors_go_with_the_version_they_are_of(tmp_path: Path) -> None:
    a, b = tmp_path / "a.csv", tmp_path / "ab.csv"
    context = MemoryContext()
    scan(context, version(a, "x,1\ny,2\n") + version(b, "z,3\n"))

    def noted() -> list[tuple[str, str]]:
        return sorted((Path(row[0]).name, row[6].decode()) for row in merged(ERRORS, context) for _ in range(row[-1]))

    assert noted() == [("a.csv", "x,1"), ("a.csv", "y,2"), ("ab.csv", "z,3")]
    scan(context, version(a, "1,0\ny,2\nx,1\n"))
    assert noted() == [("a.csv", "x,1"), ("a.csv", "y,2"), ("ab.csv", "z,3")]
    scan(context, [replace(version(a, "")[0], size=0)])
    assert noted() == [("ab.csv", "z,3")]
    scan(context, version(b, "7,7\n", replaces=False))
    assert noted() == [("ab.csv", "z,3")]
    scan(context, version(b, "7,7\n"))
    assert noted() == []
