"""Settings of a mill, and their defaults."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from tidemill.errors import TidemillError

AUTO, JOBS, RESIDENT = "auto", "jobs", "resident"
"""Values of the setting ``mode``."""

POSITIVE: Mapping[str, float] = {"least": 1}
"""Metadata of a setting that cannot be 0. ``least`` and ``most`` are the bounds of a number, 0 and none by default."""


@dataclass(frozen=True)
class Settings:
    """How a mill runs. Only ``time_zone`` changes results.

    Parameters
    ----------
    master : str
        URL of the Spark master. By default that in the environment variable ``TIDEMILL_MASTER``, else ``local[*]``.
    mode : str
        ``jobs``: an epoch is a Spark job. ``resident``: epochs run in tasks that stay, without the 10 to 20 ms that a
        job takes, and as much for each exchange. They keep slots of Spark: as many as there are partitions, on a local
        master in addition to those of the URL, on a cluster all but one of each executor at most, and one in a local
        session that was made elsewhere. ``auto``: ``resident`` with at most 8 tasks where the mill makes its Spark
        session, on a local master; ``jobs`` elsewhere.
        By default that in the environment variable ``TIDEMILL_MODE``, else ``auto``.
    epoch_bytes : int
        Most bytes of input admitted to one epoch, over all tables.
    split_bytes : int
        Most bytes of a file that one task reads in one epoch. For a compressed file it is the largest of 16 times as
        many decoded bytes, the bytes of the epoch, and a quarter of the decoded bytes before the split.
    partitions : int
        Number of Spark partitions of a superstep; 0 for Spark's default parallelism.
    small_epoch_bytes : int
        An epoch with at most so many bytes of input has no exchanges, because they would take longer than its work: one
        Spark task runs all its supersteps, or several do, each for some of the views. 0 for never.
    broadcast_bytes : int
        A table with at most so many bytes of files when a view over it is created, and at most a tenth of the bytes of
        the other side of a join, is a small table: in epochs in which it does not change, the other side is looked up
        in it without an exchange. 0 for only the tables with the option ``broadcast 'true'``.
    checkpoint_seconds : float
        Time between the beginnings of two checkpoints. Where that is longer, and this is not 0: eight times the
        processor time that the first of them takes in the mill's process, but no more than ten seconds. After a crash,
        the input of epochs since the last one is read again.
    checkpoint_epochs : int
        A checkpoint also begins when so many epochs have been sealed since the last one began. 0 for time alone.
    checkpoint_bytes : int
        Largest object that a checkpoint writes. It writes one for each host, and several when more was sealed there.
    buffer_directory : str
        Directory of each host for state that is sealed and not durable. By default ``buffer`` in a root that is a
        directory, else a directory below the system's temporary one. Memory (``/dev/shm``) or a fast disk are best.
        ``{host}`` in it is replaced by eight hexadecimal digits for the host.
    buffer_epochs : int
        How many of the newest epochs are still read from the buffer directory after they are durable.
    buffer_bytes : int
        Most bytes of sealed state that is not durable. A checkpoint begins at 80 % of it, and when it is full no epoch
        admits input until a checkpoint has ended. Young merges, of which manifests have the inputs, may take an eighth
        of it beside that.
    history_epochs : int
        How many epochs before the newest one are retained: their changes, and the views as of them, can be read.
    compact_after : int
        Number of runs of a state table at which they are merged.
    compact_bytes : int
        Total size of the young runs of a state table at which they are merged into a level, and about the size of a run
        of a level. At most a sixteenth of what a task may hold of ``memory_bytes``, or 1 MB where that is less.
    garbage_grace_seconds : float
        Age at which an unreferenced state file is deleted.
    listing_seconds : float
        Least time between two listings of a table's files while listed ones wait to be read.
    allowed_paths : str
        Directories and URLs that tables may read and sinks may write, separated by commas:
        ``/data/in,s3://bucket/in,tcp+listen://``. Files, ``sourceArchiveDir``, sockets, and the endpoints and queues of
        object stores must be at or below one of them (TM5045); a scheme alone allows all its URLs. Links that lead
        elsewhere are not followed. Empty to allow all.
    memory_bytes : int
        Memory for state of all tasks of a host together, shared evenly by those that run at the same time. Three
        quarters are for rows that an epoch writes and buffers: beyond that the largest part is written to a file, and
        the next epoch admits half as much, down to 64 KiB. A quarter is for caches. A batch of input, and slices that
        operators compute from it, are not counted. A view has the error TM3020 where one value, one list of a group or
        one partition of a window is too large. 0 for a quarter of the machine's memory.
    time_zone : str
        Session time zone of views, as ``spark.sql.session.timeZone`` is of Spark's queries: a region such as
        ``Europe/Berlin``, or an offset such as ``+05:30``. A root keeps the one that it was created with, which is
        ``UTC`` by default; another one is TM1040 once there are tables.
    spark_conf : dict
        More Spark settings, by key.
    """

    master: str = field(default_factory=lambda: os.environ.get("TIDEMILL_MASTER", "local[*]"))
    mode: str = field(
        default_factory=lambda: os.environ.get("TIDEMILL_MODE", AUTO), metadata={"choices": (AUTO, JOBS, RESIDENT)}
    )
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

    def __post_init__(self) -> None:
        if self.mode not in (allowed := choices(Settings, "mode")):
            raise TidemillError(
                "TM7006", "a setting cannot have this value", got=f"mode={self.mode}", hint=" or ".join(allowed)
            )


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


def choices(declared: type[Any], name: str) -> tuple[str, ...]:
    """The values that a setting can have; none named for one that takes any."""
    return next((f.metadata.get("choices", ()) for f in fields(declared) if f.name == name), ())


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
