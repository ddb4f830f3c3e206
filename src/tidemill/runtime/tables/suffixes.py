"""Suffixes of the names by which a table's errors, files and status are read."""

from __future__ import annotations

ERRORS_SUFFIX = "__errors"
"""``<table>__errors`` reads as a view with one row per malformed field or row."""

FILES_SUFFIX = "__files"
"""``<table>__files`` reads as a view with one row for each file: ``runtime/read/file_status.py``."""

STATUS_SUFFIX = "__status"
"""``<table>__status`` reads as a view with one row for each connection of a socket."""
