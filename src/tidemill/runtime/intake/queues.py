"""What waits in the queues of tables."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tidemill.runtime.files.progress import Progress
from tidemill.sources.split import GROWING


@dataclass(frozen=True)
class Depth:
    """What waits in the queue of a table: files, bytes, and when the oldest was written (ms since 1970).

    ``oldest`` is None where nothing waits, and where that is not known: of what sockets received.
    """

    files: int = 0
    bytes: int = 0
    oldest: int | None = None


@dataclass(frozen=True)
class Queues:
    """What waits to be admitted.

    Attributes
    ----------
    depths : mapping
        By table, of those that have anything.
    history : mapping
        Bytes to be read again, by table and group of views.
    admitted : mapping
        Bytes admitted so far, by table.
    """

    depths: Mapping[str, Depth] = field(default_factory=dict)
    history: Mapping[tuple[str, int], int] = field(default_factory=dict)
    admitted: Mapping[str, int] = field(default_factory=dict)


def depth_of(progress: Progress) -> Depth:
    """What waits of a table. May be called while another thread admits rows."""
    found = [f for path in list(progress.waiting) if (f := progress.known.get(path)) is not None]
    oldest = min((f.modified // 1_000_000 for f in found if f.modified not in (0, GROWING)), default=None)
    return Depth(len(found), sum(f.remaining for f in found), oldest)
