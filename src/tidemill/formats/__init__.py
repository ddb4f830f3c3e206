"""Bytes to rows: indexers, value parsers and the registry of formats. Knows neither files nor Spark."""

from tidemill.formats.standalone import OpenFormat
from tidemill.formats.standalone import open_format as open  # noqa: A004 - called as tidemill.formats.open

__all__ = ["OpenFormat", "open"]
