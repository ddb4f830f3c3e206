"""Which of the files that a path names are wanted: Spark's options of file sources."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from tidemill.connectors.connector import GROWING
from tidemill.errors import TidemillError
from tidemill.sources.globs import Glob, parse_glob

FILTER_OPTIONS = frozenset(
    {"pathglobfilter", "recursivefilelookup", "modifiedafter", "modifiedbefore", "failonmissing"}
)
"""Options of any table that reads files, in lower case."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class Filters:
    """What is asked of a file besides its path.

    Parameters
    ----------
    name : Glob, optional
        What its name without directories matches.
    recursive : bool
        Whether directories are looked through to any depth.
    after, before : int, optional
        Its modification time, in whole milliseconds, is later or earlier than this (microseconds since 1970).
    fail_on_missing : bool
        Whether it is an error that the directory of a glob does not exist; a path without wildcards must exist always.
    """

    name: Glob | None = None
    recursive: bool = False
    after: int | None = None
    before: int | None = None
    fail_on_missing: bool = False

    @property
    def timed(self) -> bool:
        """Whether modification times count."""
        return self.after is not None or self.before is not None

    def wants(self, path: str, modified: int) -> bool:
        """Whether a file is wanted; ``modified`` in nanoseconds. One that is GROWING has no time."""
        if not self.wants_name(path):
            return False
        if modified == GROWING:
            return True
        time = modified // 1_000_000 * 1000
        return (self.after is None or time > self.after) and (self.before is None or time < self.before)

    def wants_name(self, path: str) -> bool:
        """Whether a file of this path may be wanted."""
        return self.name is None or self.name.matches(path.rpartition("/")[2])


def parse_filters(options: Mapping[str, str]) -> Filters:
    """The options :data:`FILTER_OPTIONS`; names in lower case.

    Raises
    ------
    TidemillError
        TM4003 for a bad value, TM5035 for a glob that is not understood.
    """
    name = options.get("pathglobfilter")
    if name is not None and "/" in name:
        raise bad_filter("pathGlobFilter", name, "a glob of names, without directories")
    return Filters(
        None if name is None else parse_glob(name),
        _flag(options, "recursiveFileLookup"),
        _time(options, "modifiedAfter"),
        _time(options, "modifiedBefore"),
        _flag(options, "failOnMissing"),
    )


def _flag(options: Mapping[str, str], name: str) -> bool:
    text = options.get(name.lower(), "false")
    if text.lower() not in ("true", "false"):
        raise bad_filter(name, text, "true or false")
    return text.lower() == "true"


def _time(options: Mapping[str, str], name: str) -> int | None:
    text = options.get(name.lower())
    if text is None:
        return None
    try:
        time = datetime.fromisoformat(text.strip())
    except ValueError:
        raise bad_filter(name, text, "a time such as 2026-11-21T12:00:00, in UTC unless it says otherwise") from None
    time = time.replace(tzinfo=UTC) if time.tzinfo is None else time
    return (time - _EPOCH) // timedelta(microseconds=1)


def bad_filter(name: str, value: str, hint: str) -> TidemillError:
    """TM4003 for one of these options."""
    return TidemillError("TM4003", f"bad value of option {name}", got=repr(value), hint=hint)
