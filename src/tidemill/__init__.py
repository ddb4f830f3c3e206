"""Tidemill: Spark SQL views, always right and always fresh, over raw files and streams."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tidemill.config import Settings
from tidemill.errors import EvaluationError, FormatError, TidemillError

if TYPE_CHECKING:
    from tidemill.mill import Mill
    from tidemill.pipelines import create_table, materialized_view, read, sql, table, udf
    from tidemill.runtime.data_source import register
    from tidemill.runtime.snapshot import Snapshot

__all__ = [
    "EvaluationError",
    "FormatError",
    "Mill",
    "Settings",
    "Snapshot",
    "TidemillError",
    "create_table",
    "materialized_view",
    "read",
    "register",
    "sql",
    "table",
    "udf",
]

_PIPELINES = ("create_table", "materialized_view", "read", "sql", "table", "udf")


def __getattr__(name: str) -> Any:
    """``Mill``, ``Snapshot`` and what declares pipelines are imported when asked for: ``Mill`` needs PySpark."""
    if name in _PIPELINES:
        from tidemill import pipelines

        return getattr(pipelines, name)
    if name == "Mill":
        from tidemill.mill import Mill

        return Mill
    if name == "register":
        from tidemill.runtime.data_source import register

        return register
    if name == "Snapshot":
        from tidemill.runtime.snapshot import Snapshot

        return Snapshot
    raise AttributeError(f"module 'tidemill' has no attribute {name!r}")
