"""Bytes to rows: indexers, value parsers and the registry of formats. Knows neither files nor Spark."""

from tidemill.formats.standalone.inferred import infer_schema
from tidemill.formats.standalone.opening import open_format as open  # noqa: A004 - called as tidemill.formats.open
from tidemill.formats.standalone.standalone import OpenFormat

__all__ = ["OpenFormat", "infer_schema", "open"]
