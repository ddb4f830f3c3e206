"""A message in a spool: its size, what else is known of it, its topic, and its payload."""

from __future__ import annotations

import struct

import numpy as np

_HEAD = struct.Struct("<IBqH")
SIZE_BYTES = 4
HEAD = np.dtype([("flags", "u1"), ("received", "<i8"), ("topic", "<u2")])
"""What stands behind the size: QoS and flags, microseconds since 1970, bytes of the topic. Then topic and payload."""

QOS_BITS, RETAIN_BIT = 3, 4
MOST_BYTES = HEAD.itemsize + (1 << 16) + (256 << 20)
"""Largest size that a record can have: MQTT has no larger messages."""


def record_of(topic: str, payload: bytes, qos: int, retain: bool, received: int) -> bytes:
    """A message as it stands in a spool; ``received`` in microseconds since 1970."""
    name = topic.encode()
    size = HEAD.itemsize + len(name) + len(payload)
    head = _HEAD.pack(size, qos | (RETAIN_BIT if retain else 0), received, len(name))
    return b"".join((head, name, payload))
