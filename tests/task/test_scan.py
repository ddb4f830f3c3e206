"""Splits read into rows."""

from __future__ import annotations

from pathlib import Path

import pytest
from operator_runs import INT, TEXT, changes

from tidemill.errors import TidemillError
from tidemill.runtime.tables.table import STORED_ERRORS
from tidemill.schema import Field, Schema
from tidemill.sources.split import Split
from tidemill.task.build import build
from tidemill.task.dataflow.operator import Output, SourceOperator
from tidemill.task.program import ScanStep, TableSource, multiset_table
from tidemill.testing import MemoryContext, keyed_rows

ERRORS = multiset_table("errors", STORED_ERRORS.types, 2)
FIELDS = (Field("k", INT), Field("s", TEXT), Field("op", TEXT))


def source(op_column: str | None = None, **options: str) -> TableSource:
    schema = Schema(FIELDS if op_column else FIELDS[:2])
    return TableSource("t", "t#1", "csv", schema, tuple(options.items()), op_column, ("I", "D"), ERRORS)


def splits(path: Path, size: int) -> list[Split]:
    """Splits that know whether they begin inside quotes."""
    status, content = path.stat(), path.read_bytes()
    cuts = range(0, len(content), size)
    ends = [min(c + size, len(content)) for c in cuts]
    quoted = [content.count(b'"', 0, c) % 2 == 1 for c in cuts]
    return [
        Split("t", str(path), start, end, len(content), status.st_mtime_ns, inside)
        for start, end, inside in zip(cuts, ends, quoted, strict=True)
    ]


def scan(step: ScanStep, context: MemoryContext, given: list[Split]) -> list[Output]:
    operator = build(0, step)
    assert isinstance(operator, SourceOperator)
    operator.begin(context)
    for split in given:
        operator.add_split(split)
    operator.request_barrier()
    found = []
    while (output := operator.get_output()) is not None:
        found.append(output)
    assert operator.reached_barrier()
    assert operator.start_drain() is False
    context.seal()
    return found


@pytest.mark.parametrize("size", [1, 3, 7, 1000])
def test_splits_of_any_size_give_each_row_once(tmp_path: Path, size: int) -> None:
    path = tmp_path / "a.csv"
    path.write_text('1,a\n2,"b\nc"\n3,\n1,a')
    context = MemoryContext()
    found = changes(scan(ScanStep(source(), ("k", "s")), context, splits(path, size)))
    assert found == {(1, "a"): 2, (2, "b\nc"): 1, (3, None): 1}
    assert sum(r.rows for r in context.splits) == 4
    assert [r.split for r in context.splits] == splits(path, size)


def test_columns_nobody_uses_are_not_parsed(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("not a number,a\n2,b\n")
    context = MemoryContext()
    assert changes(scan(ScanStep(source(), ("s",)), context, splits(path, 100))) == {("a",): 1, ("b",): 1}
    assert context.splits[0].malformed == 0
    assert changes(scan(ScanStep(source(), ()), context, splits(path, 100))) == {(): 2}


def test_the_operation_column_gives_weights(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("1,a,I\n1,a,I\n1,a,D\n2,b,D\n3,c,X\n")
    context = MemoryContext()
    found = changes(scan(ScanStep(source("op"), ("k", "s")), context, splits(path, 100)))
    assert found == {(1, "a"): 1, (2, "b"): -1}
    (error,) = keyed_rows(ERRORS, context.tables["errors"][0])
    assert error == (str(path), 24, 5, None, "op", "bad_operation", b"X", 1)
    (result,) = context.splits
    assert (result.malformed, result.dropped, result.rows) == (1, 1, 4)
    assert (result.rows_read, result.rows_malformed) == (5, 1)
    assert result.example == f"{path}, line 5, byte 24, column 'op': bad_operation: 'X'"


def test_history_says_whom_it_is_for(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("x,a\n")
    (split,) = splits(path, 100)
    history = Split(
        split.table, split.path, split.start, split.end, split.size, split.modified, False, backfill_target=3
    )
    context = MemoryContext()
    (output,) = scan(ScanStep(source(), ("k",)), context, [history])
    assert output.item.backfill_target == 3  # type: ignore[union-attr]
    assert context.tables == {}, "malformed rows of history have been noted before"


def test_a_file_that_changed_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("1,a\n")
    given = splits(path, 100)
    path.write_text("1,a\n2,b\n")
    with pytest.raises(TidemillError, match="TM5003"):
        scan(ScanStep(source(), ("k",)), MemoryContext(), given)
    path.unlink()
    with pytest.raises(TidemillError, match="TM5001"):
        scan(ScanStep(source(), ("k",)), MemoryContext(), given)
