"""Partitions as paths of files that grow: one message is one unit of a file's length.

The file of a partition is ``kafka://topic/partition``. Each offset counts as ``UNIT`` bytes, so that limits in bytes
mean about what they do elsewhere, and a file has the length of the offsets from the one on which its table began.
"""

from __future__ import annotations

from tidemill.connectors.registry import KAFKA_SCHEME

UNIT = 256
"""How many bytes a message counts as."""

Partition = tuple[str, int]
"""Topic and number."""


def path_of(partition: Partition) -> str:
    """The path of a partition."""
    return f"{KAFKA_SCHEME}://{partition[0]}/{partition[1]}"


def parse_path(path: str) -> Partition:
    """The partition of a path."""
    topic, number = path.partition("://")[2].rsplit("/", 1)
    return topic, int(number)
