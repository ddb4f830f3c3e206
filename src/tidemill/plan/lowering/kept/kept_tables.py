"""Tables whose rows are kept, by primary key or by file: a view that comes later begins with these, not with files."""

from __future__ import annotations

from tidemill.plan.lowering.kept import keyed_tables
from tidemill.plan.lowering.kept.file_versions import file_rows_plan
from tidemill.task.program import ReadPlan, TableSource


def kept_rows_plan(source: TableSource) -> ReadPlan:
    """How the rows of such a table are read."""
    return keyed_tables.contents_plan(source) if source.versions is None else file_rows_plan(source)


def append_only(source: TableSource) -> bool:
    """Whether such a table never loses a row."""
    return source.versions is None and keyed_tables.append_only(source)
