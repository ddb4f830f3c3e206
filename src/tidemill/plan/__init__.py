"""From SQL to programs: of views, and of tasks (``tidemill.plan.scan(...)``)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tidemill.plan.loading.plan import concatenate, index, merge_sorted, scan, sql, values

__all__ = ["concatenate", "index", "merge_sorted", "scan", "sql", "values"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'tidemill.plan' has no attribute {name!r}")
    from tidemill.plan.loading import plan

    return getattr(plan, name)
