"""Tidemill: Spark SQL views, always right and always fresh, over raw files and streams."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tidemill.config import Settings
from tidemill.errors import EvaluationError, FormatError, TidemillError

if TYPE_CHECKING:
    from tidemill.mill import Mill
    from tidemill.runtime.snapshot import Snapshot

__all__ = ["EvaluationError", "FormatError", "Mill", "Settings", "Snapshot", "TidemillError"]


def __getattr__(name: str) -> Any:
    """``Mill`` and ``Snapshot`` are imported when asked for: the one needs PySpark, the other does not."""
    if name == "Mill":
        from tidemill.mill import Mill

        return Mill
    if name == "Snapshot":
        from tidemill.runtime.snapshot import Snapshot

        return Snapshot
    raise AttributeError(f"module 'tidemill' has no attribute {name!r}")
