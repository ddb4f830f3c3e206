"""What a task runs, as plain data: see :mod:`tidemill.task.program.programs`.

All steps are imported when one is asked for: a reader of a view has no use for them.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tidemill.task.program.names import *  # noqa: F403


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module("tidemill.task.program.names"), name)
