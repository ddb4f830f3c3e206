"""Bytes to rows: indexers, value parsers and the registry of formats. Knows neither files nor Spark.

The public names are imported when they are asked for: what a step is declared with takes only small modules of this
package.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tidemill.formats.standalone.inferred import infer_schema
    from tidemill.formats.standalone.opening import open_format as open  # noqa: A004 - called as tidemill.formats.open
    from tidemill.formats.standalone.standalone import OpenFormat

__all__ = ["OpenFormat", "infer_schema", "open"]

_PLACES = {
    "OpenFormat": ("standalone.standalone", "OpenFormat"),
    "infer_schema": ("standalone.inferred", "infer_schema"),
    "open": ("standalone.opening", "open_format"),
}


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module, found = _PLACES[name]
    return getattr(import_module(f"{__name__}.{module}"), found)
