"""A file or object as it was listed."""

from tidemill.connectors.connector import FileInfo

__all__ = ["FileInfo"]
