"""A file or object as it was listed."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class FileInfo:
    """A file as listed: size in bytes, modification time in nanoseconds since 1970; an object also has an ETag."""

    path: str
    size: int
    modified: int
    etag: str = ""
