"""Settings of a mill, and their defaults."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

POSITIVE: Mapping[str, float] = {"least": 1}
"""Metadata of a setting that cannot be 0. ``least`` and ``most`` are the bounds of a number, 0 and none by default."""


@dataclass(frozen=True)
class Settings:
    """How a mill runs. Only ``time_zone`` changes results.

    Parameters
    ----------
    master : str
        Spark master, ``local[*]`` by default.
    epoch_bytes : int
        Most bytes of input admitted to one epoch, over all tables.
    split_bytes : int
        Most bytes of one file read by one task in one go. Of a compressed file it is 16 times as many decoded ones, the
        bytes of the epoch, or a quarter of the decoded bytes before them, whatever is most.
    partitions : int
        Number of Spark partitions of a superstep; 0 takes Spark's default parallelism.
    small_epoch_bytes : int
        An epoch with at most so many bytes of input runs all its supersteps in one Spark task: its exchanges would
        take longer than its work. 0 for never.
    broadcast_bytes : int
        A table with at most so many bytes when a view over it is created, and a tenth of those of what it is joined
        with, is looked up where the rows of that are, without an exchange, in epochs in which it does not change.
        0 for no table but those with the option ``broadcast 'true'``.
    checkpoint_seconds : float
        Time between the beginnings of two checkpoints; epochs sealed in between are replayed after a crash.
    checkpoint_epochs : int
        A checkpoint also begins when so many epochs have been sealed since the last one began; 0 for time alone.
    checkpoint_bytes : int
        A checkpoint makes one object of what a host has sealed, and more when that is larger than this.
    buffer_directory : str
        Where each host keeps what is sealed and not durable yet; by default ``buffer`` in a local root, else a
        directory below the system's temporary one. Memory (``/dev/shm``) or a fast disk serve best. ``{host}`` in it
        stands for the name of the host.
    buffer_epochs : int
        How many of the newest epochs are still read from the buffer when they are durable.
    buffer_bytes : int
        Most bytes of sealed state that is not durable. A checkpoint begins at 80 % of it, and when it is full no epoch
        admits anything until one has ended.
    history_epochs : int
        How many epochs back a view's changes, and the view as it was, can still be read.
    compact_after : int
        How many epochs' runs a state table may have before they are merged.
    compact_bytes : int
        How large young runs of a state table become, together, before they go down into levels, and about how large a
        run is there. A merge takes several times as much, not more, whatever the size of the table. At most a sixteenth
        of what a task may hold of ``memory_bytes``, or 1 MB where that is less.
    garbage_grace_seconds : float
        How old an unreferenced state file must be before it is deleted.
    listing_seconds : float
        Least time between two listings of a table's files while known ones wait to be read.
    allowed_paths : str
        Directories and URLs below which tables may have their files, and archives of these, separated by commas:
        ``/data/in,s3://bucket/in,tcp+listen://``. Links that lead out are not followed. Nothing allows everything.
    memory_bytes : int
        What the tasks of a host may hold in memory of state, shared evenly by those that run at the same time: three
        quarters for what an epoch writes and waits for, of which the largest part goes into a file when it is more, and
        a quarter for caches. After an epoch that had to do so, the next one admits half as much, down to 64 KiB. A
        batch of input and the slices that operators compute from it come on top. A view has the error TM3020 where one
        value, one list of a group or one partition of a window is too large. 0 for a quarter of the machine's memory.
    time_zone : str
        Session time zone of views, as ``spark.sql.session.timeZone`` is of Spark's queries: a region such as
        ``Europe/Berlin``, or an offset such as ``+05:30``. A root keeps the one that it was created with, which is
        ``UTC`` unless this says otherwise; another one is TM1040 as soon as there are tables.
    spark_conf : dict
        More Spark settings.
    """

    master: str = field(default_factory=lambda: os.environ.get("TIDEMILL_MASTER", "local[*]"))
    epoch_bytes: int = field(default=16 << 20, metadata=POSITIVE)
    split_bytes: int = field(default=4 << 20, metadata=POSITIVE)
    partitions: int = 0
    small_epoch_bytes: int = 1 << 20
    broadcast_bytes: int = 10 << 20
    checkpoint_seconds: float = 1.0
    checkpoint_epochs: int = 0
    checkpoint_bytes: int = field(default=256 << 20, metadata=POSITIVE)
    buffer_directory: str = ""
    buffer_epochs: int = 0
    buffer_bytes: int = 1 << 30
    history_epochs: int = 128
    compact_after: int = field(default=12, metadata=POSITIVE)
    compact_bytes: int = field(default=32 << 20, metadata=POSITIVE)
    garbage_grace_seconds: float = 120.0
    listing_seconds: float = 1.0
    allowed_paths: str = ""
    memory_bytes: int = 0
    time_zone: str = ""
    spark_conf: dict[str, str] = field(default_factory=dict)


def described_settings(declared: type[Any] = Settings) -> list[tuple[str, str, str]]:
    """Name, default as text, and first sentence of the docstring of each setting, in their order.

    ``declared`` is a dataclass of settings whose docstring has a paragraph for each.
    """
    usual, found = declared(), []
    for name, text in re.findall(r"^    (\w+) : [\w ]+\n((?:        .*\n)+)", declared.__doc__ or "", re.MULTILINE):
        plain = " ".join(text.split()).replace("``", "")
        found.append((name, _shown(name, getattr(usual, name)), re.split(r"[.:] |\.$", plain)[0]))
    return found


def bounds(declared: type[Any], name: str) -> tuple[float, float | None]:
    """The least and the largest value of a setting that is a number; no largest one for None."""
    metadata = next(f.metadata for f in fields(declared) if f.name == name)
    return metadata.get("least", 0), metadata.get("most")


def _shown(name: str, value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return f"{value:g}"
    if isinstance(value, tuple):
        return ",".join(value)
    if not isinstance(value, int):
        return str(value or "")
    units = (("g", 1 << 30), ("m", 1 << 20), ("k", 1 << 10)) if name.endswith("_bytes") and value else ()
    return next((f"{value // size}{unit}" for unit, size in units if value % size == 0), str(value))
