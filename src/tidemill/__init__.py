"""Tidemill: Spark SQL views, always right and always fresh, over raw files and streams."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from tidemill.config import Settings
from tidemill.errors import EvaluationError, FormatError, TidemillError

if TYPE_CHECKING:
    from tidemill import plan
    from tidemill.mill import Mill
    from tidemill.pipelines import create_table, materialized_view, read, sql, table, udf
    from tidemill.runtime.read.snapshot import Snapshot
    from tidemill.serve.client.client import Client, connect
    from tidemill.spark_source.data_source import register
    from tidemill.task.task import Task

__version__ = "0.1.0"

__all__ = [
    "Client",
    "EvaluationError",
    "FormatError",
    "Mill",
    "Settings",
    "Snapshot",
    "Task",
    "TidemillError",
    "connect",
    "create_table",
    "materialized_view",
    "plan",
    "read",
    "register",
    "sql",
    "table",
    "udf",
]

_MODULES = {
    "Mill": "mill",
    "Task": "task.task",
    "Snapshot": "runtime.read.snapshot",
    "register": "spark_source.data_source",
}
_MODULES |= dict.fromkeys(("Client", "connect"), "serve.client.client")
_MODULES |= dict.fromkeys(("create_table", "materialized_view", "read", "sql", "table", "udf"), "pipelines")
"""Where the names are that are imported when they are asked for: ``Mill``, for instance, needs PySpark."""


def __getattr__(name: str) -> Any:
    if name == "plan":
        return import_module("tidemill.plan")
    if name not in _MODULES:
        raise AttributeError(f"module 'tidemill' has no attribute {name!r}")
    return getattr(import_module(f"tidemill.{_MODULES[name]}"), name)


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__", "__doc__", "__file__", "__name__", "__path__"])
