"""Names of what is read of a table beside its rows."""

from __future__ import annotations

ERRORS_SUFFIX = "__errors"
"""``<table>__errors`` reads as a view with one row per malformed field or row."""

FILES_SUFFIX = "__files"
"""``<table>__files`` reads as a view with one row for each file: ``runtime/read/file_status.py``."""

STATUS_SUFFIX = "__status"
"""``<table>__status`` reads as a view with one row for each connection of a socket."""
