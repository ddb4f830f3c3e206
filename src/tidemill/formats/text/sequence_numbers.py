"""Sequence numbers of the buffers of a stream of bytes: they wrap."""

from __future__ import annotations

LARGEST = 2**64 - 1
"""The sequence number that 1 follows, unless another is given."""


def number_after(sequence: int, largest: int = LARGEST) -> int:
    """The sequence number that follows another."""
    return sequence % largest + 1
