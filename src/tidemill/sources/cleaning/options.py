"""Cleaning up source files: Spark's ``cleanSource``, and how long files are kept before."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tidemill.errors import TidemillError
from tidemill.objectstore.connection import is_object_url, split_url
from tidemill.options.kinds import INTERVAL, TEXT, choice
from tidemill.options.option import Option, OptionGroup
from tidemill.options.tables import ALLOW_APPENDS, STATIC
from tidemill.sources.files import local_pattern
from tidemill.sources.locations.extent import Extent
from tidemill.sources.locations.location import Location

CLEAN_SOURCE = Option(
    "cleanSource", choice("off", "delete", "archive"), "off", "what becomes of files that were read", alterable=True
)
RETENTION = Option(
    "cleanSource.retentionDuration", INTERVAL, 0, "how long files stay before that", shown="0 seconds", alterable=True
)
ARCHIVE_DIR = Option("sourceArchiveDir", TEXT, None, "where `cleanSource 'archive'` moves files to", alterable=True)
CLEAN_OPTIONS = OptionGroup(
    "Cleaning up source files",
    "Tables over local files and objects of S3.",
    (CLEAN_SOURCE, RETENTION, ARCHIVE_DIR),
)


@dataclass(frozen=True)
class CleanSource:
    """Delete files that have been read, or move them to an archive.

    Parameters
    ----------
    archive : str
        The directory, a path or a URL, below which they are moved; empty when they are deleted.
    retention : int
        Milliseconds for which they are left where they are.
    """

    archive: str = ""
    retention: int = 0


def parse_clean(options: Mapping[str, str]) -> CleanSource | None:
    """Parse ``cleanSource``; names of options in lower case. None for ``off`` and without the option.

    Raises
    ------
    TidemillError
        TM4003 for bad values.
    """
    mode, archive = CLEAN_SOURCE.of(options), ARCHIVE_DIR.of(options)
    kept = RETENTION.of(options) // 1000
    if mode == "archive" and not archive:
        raise ARCHIVE_DIR.bad(archive or "", "cleanSource 'archive' needs the directory to move files to")
    if archive and mode == "delete":
        raise ARCHIVE_DIR.bad(archive, "it goes with cleanSource 'archive'")
    if mode == "off":
        return None
    if archive is None:
        return CleanSource("", kept)
    if not is_object_url(archive):
        if not archive.startswith(("/", "~", "file:")):
            raise ARCHIVE_DIR.bad(archive, "an absolute path, or a URL")
        return CleanSource(local_pattern(archive).rstrip("/") or "/", kept)
    store, key = split_url(archive)
    return CleanSource(f"{store}/{key}".rstrip("/"), kept)


def check_clean(options: Mapping[str, str], location: Location | None) -> None:
    """Check that files of a location can be cleaned as the options say; None for tables without such files.

    Raises
    ------
    TidemillError
        TM4003 as :func:`parse_clean`, TM5080 for files that cannot be cleaned, TM5081 for an archive that would be read
        again.
    """
    clean = parse_clean(options)
    if clean is None:
        return
    if location is None or not (location.local or location.objects):
        raise _cannot("a table without files of a disk or of S3", "leave cleanSource out")
    for option, hint in (
        (STATIC, "the files of a static table are all it will ever have; views created later read them"),
        (ALLOW_APPENDS, "a file that may grow is never known to be read to its end"),
    ):
        if option.of(options):
            raise _cannot(f"{option.name} 'true'", f"leave one of the two out: {hint}")
    if not clean.archive:
        return
    extent = Extent(location)
    store = split_url(clean.archive)[0] if is_object_url(clean.archive) else ""
    if store != extent.store:
        hint = f"a place in {extent.store}" if extent.store else "a local directory, as the files are"
        raise _cannot(f"sourceArchiveDir '{clean.archive}'", hint)
    if not store and (unfit := _unfit(Path(clean.archive))) is not None:
        raise _cannot(f"sourceArchiveDir '{clean.archive}'", unfit)
    if extent.reaches(clean.archive):
        raise TidemillError(
            "TM5081",
            "sourceArchiveDir lies within what the table reads",
            got=f"{clean.archive}, and the table reads {location.pattern}",
            hint="archived files would be read again: choose a directory beside it, or one whose name begins with _",
        )


def _unfit(directory: Path) -> str | None:
    """Why nothing can be written below a directory, which need not be there yet; None when it can."""
    there = next(p for p in (directory, *directory.parents) if os.access(p, os.F_OK))
    if not there.is_dir():
        return f"a directory; {there} is a file"
    if not os.access(there, os.W_OK | os.X_OK):
        return f"a directory that this process may write to; it may not write to {there}"
    return None


def _cannot(got: str, hint: str) -> TidemillError:
    return TidemillError("TM5080", "the files of this table cannot be cleaned in this way", got=got, hint=hint)
