"""Several parts in one body: each behind its length."""

from __future__ import annotations

import struct
from collections.abc import Iterable

FRAMED = "application/vnd.tidemill.frames"
"""Parts behind their length in bytes (4 bytes, little-endian): JSON objects and Arrow IPC streams."""


def framed(parts: Iterable[bytes]) -> bytes:
    """Parts of fewer than 4 GiB as one body."""
    return b"".join(struct.pack("<I", len(part)) + part for part in parts)
