"""The steps behind a table whose files may be overwritten: its rows are kept by the file they came from.

    superstep 0   Scan by file -> Arrange rows by (file, columns)      Arrange the files that are replaced
    superstep 1   Apply: the rows, and those of replaced files with the opposite weight, are summed up, stored, emitted

They run once an epoch, from the creation of the table on, whatever views there are. What is stored is a multiset whose
key holds the file and the row (decision 0012).
"""

from __future__ import annotations

import pyarrow as pa

from tidemill.state.keys.keys import KeyColumn
from tidemill.state.merge.merge import MergeOp
from tidemill.task.expressions import Ref
from tidemill.task.program import (
    ApplyFileVersions,
    Arrange,
    Calculate,
    FileVersions,
    ReadPlan,
    ScanStep,
    StateTable,
    TableSource,
    multiset_table,
)


def version_steps(source: TableSource) -> tuple[ScanStep, ApplyFileVersions]:
    """What reads a table's files, and what keeps their rows; in between are the two ``Arrange`` of the latter."""
    versions = _versions(source)
    names = versions.rows.names
    rows = Arrange((len(names), *range(len(names))), (), _kept_rows(source, versions))
    withdrawn = Arrange((0,), (), multiset_table(f"withdrawn:{source.uid}", (pa.binary(),), 0))
    return ScanStep(source, names, by_file=True), ApplyFileVersions(rows, withdrawn, versions)


def file_rows_plan(source: TableSource) -> ReadPlan:
    """How the rows of such a table are read."""
    versions = _versions(source)
    columns = tuple(Ref(1 + i, f.type, f.nullable) for i, f in enumerate(versions.rows))
    return ReadPlan(_kept_rows(source, versions), None, (), (Calculate(None, columns),), versions.rows)


def _versions(source: TableSource) -> FileVersions:
    assert source.versions is not None
    return source.versions


def _kept_rows(source: TableSource, versions: FileVersions) -> StateTable:
    """File, then every column, exactly as it was read: what is taken out must be what was put in."""
    key = tuple(KeyColumn(t, exact=True) for t in (pa.binary(), *versions.rows.types))
    return StateTable(f"table:{source.uid}", key, len(key), (pa.int64(),), (MergeOp.SUM,))
