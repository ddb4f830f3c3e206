"""Files that Spark leaves out of a read: ``ignoreMissingFiles`` and ``ignoreCorruptFiles``, as of its own sources.

A file is missing if it is gone when it is read (TM5001), or is no longer the one that was listed (TM5003, TM4063): the
listed file is gone then, and another one has its name. A stream identifies files by their paths, so it does not read
the other one either. A path that does not exist when files are listed is still an error.

A file is corrupt if it cannot be decoded, or parsed as its format: an archive that is cut or damaged (TM4045), a file
that is no Parquet, Arrow, ... (TM4041), a row without an end (TM4021). A file whose columns are not those that were
asked for (TM4010, TM4011, TM4042 to TM4044) is not corrupt, as malformed rows are not in mode FAILFAST. Nor is one that
cannot be reached: no permission (TM5004), or a store that does not answer (TM5030 to TM5033), says nothing about its
bytes.

As in Spark, rows before the error are kept, only the rest of the part that is read is left out, and a file that is gone
is never taken for a corrupt one. So how much of a damaged file is there may depend on ``maxPartitionBytes``, and for a
missing one on when it went: a batch of a stream that runs again may have fewer rows than it had.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass

from tidemill.errors import FormatError, TidemillError
from tidemill.spark_source.source_options import IGNORE_CORRUPT, IGNORE_MISSING

_MISSING = frozenset({"TM4063", "TM5001", "TM5003"})
_CORRUPT = frozenset({"TM4021", "TM4041", "TM4045"})
_MOST_NAMED = 10_000

_log = logging.getLogger(__name__)
_named: set[str] = set()


@dataclass(frozen=True)
class Ignored:
    """Which files may be left out."""

    missing: bool = False
    corrupt: bool = False

    def covers(self, error: TidemillError) -> bool:
        """Whether the rest of a file with such an error is left out."""
        return (self.missing and error.number in _MISSING) or (self.corrupt and error.number in _CORRUPT)


def parse_ignored(given: Mapping[str, str]) -> Ignored:
    """The files that options, with names in lower case, leave out. TM4003 for a bad value."""
    return Ignored(IGNORE_MISSING.of(given), IGNORE_CORRUPT.of(given))


def damaged(how: str, behind: int) -> FormatError:
    """TM4045 of an archive whose rows before the damage have been read."""
    return FormatError(
        "TM4045",
        "a compressed file is damaged",
        got=f"{how} behind {behind} decoded bytes",
        hint="write it again; rows before the damage were read",
    )


def log_left_out(path: str, error: TidemillError) -> None:
    """Log that a file is left out, once for each worker process."""
    if path in _named:
        return
    if len(_named) >= _MOST_NAMED:
        _named.clear()
    _named.add(path)
    _log.warning("the rest of %s is left out: %s: %s: %s", path, error.number, error.what, error.got)
