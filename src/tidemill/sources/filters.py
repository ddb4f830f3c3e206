"""Filters of a path's files: Spark's options of file sources."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from tidemill.connectors.connector import GROWING
from tidemill.options.kinds import FLAG
from tidemill.options.option import Kind, Option, OptionGroup
from tidemill.sources.globs import Glob, parse_glob

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def _name_glob(text: str) -> Glob:
    if "/" in text:
        raise ValueError
    return parse_glob(text)


def _time(text: str) -> int:
    time = datetime.fromisoformat(text.strip())
    time = time.replace(tzinfo=UTC) if time.tzinfo is None else time
    return (time - _EPOCH) // timedelta(microseconds=1)


def _instant(text: str) -> int:
    try:
        return _time(text)
    except ValueError:
        raise ValueError from None


_TIME = Kind("a time such as 2026-11-21T12:00:00, in UTC unless it says otherwise", _instant)

NAME_GLOB = Option(
    "pathGlobFilter", Kind("a glob of names, without directories", _name_glob), None, "only files with such names"
)
RECURSIVE = Option("recursiveFileLookup", FLAG, False, "files of directories at any depth")
MODIFIED_AFTER = Option("modifiedAfter", _TIME, None, "only files that were modified later")
MODIFIED_BEFORE = Option("modifiedBefore", _TIME, None, "only files that were modified earlier")
FAIL_ON_MISSING = Option("failOnMissing", FLAG, False, "a glob in a directory that does not exist is an error")
FILTER_OPTIONS = OptionGroup(
    "Which files are read",
    "Tables over files of any kind.",
    (NAME_GLOB, RECURSIVE, MODIFIED_AFTER, MODIFIED_BEFORE, FAIL_ON_MISSING),
)


@dataclass(frozen=True)
class Filters:
    """Conditions on the files that a path matches.

    Parameters
    ----------
    name : Glob, optional
        A glob that the name without directories must match.
    recursive : bool
        Whether files at any depth below a directory are read.
    after, before : int, optional
        Bounds of the modification time in whole milliseconds, both excluded (microseconds since 1970).
    fail_on_missing : bool
        Whether a missing directory of a glob is an error; a missing path without wildcards always is.
    """

    name: Glob | None = None
    recursive: bool = False
    after: int | None = None
    before: int | None = None
    fail_on_missing: bool = False

    @property
    def timed(self) -> bool:
        """Whether there is a condition on modification times."""
        return self.after is not None or self.before is not None

    def wants(self, path: str, modified: int) -> bool:
        """Whether a file passes; ``modified`` in nanoseconds. A file that is GROWING has no time."""
        if not self.wants_name(path):
            return False
        if modified == GROWING:
            return True
        time = modified // 1_000_000 * 1000
        return (self.after is None or time > self.after) and (self.before is None or time < self.before)

    def wants_name(self, path: str) -> bool:
        """Whether a file of this path passes, but for its modification time."""
        return self.name is None or self.name.matches(path.rpartition("/")[2])


def parse_filters(options: Mapping[str, str]) -> Filters:
    """Parse the options :data:`FILTER_OPTIONS`; names in lower case.

    Raises
    ------
    TidemillError
        TM4003 for a bad value, TM5035 for a glob that is not understood.
    """
    return Filters(
        NAME_GLOB.of(options),
        RECURSIVE.of(options),
        MODIFIED_AFTER.of(options),
        MODIFIED_BEFORE.of(options),
        FAIL_ON_MISSING.of(options),
    )
