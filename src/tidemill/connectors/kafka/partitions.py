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


def path_of(partition: Partition, new_id: str = "") -> str:
    """The path of a partition; ``new_id`` is that of a topic that was created anew since its table was."""
    return f"{KAFKA_SCHEME}://{partition[0]}/{partition[1]}{f'/{new_id}' if new_id else ''}"


def parse_path(path: str) -> Partition:
    """The partition of a path."""
    topic, number, *_ = path.partition("://")[2].split("/", 2)
    return topic, int(number)


def begin_of(etag: str) -> int:
    """The first byte to be read of a partition that was listed, in what its ETag is then: that, and an id."""
    return int(etag.partition(" ")[0] or 0)
