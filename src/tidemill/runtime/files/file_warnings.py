"""Warnings about files that cannot be read, that changed, or that were deleted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tidemill.errors import TidemillError
from tidemill.objectstore.connection import is_object_url
from tidemill.runtime.files.listed_files import ListedFiles
from tidemill.runtime.files.source_files import SourceFiles


def set_aside(live: SourceFiles, path: str, error: TidemillError) -> TidemillError:
    """TM5040: a file was tried ``fileAttempts`` times."""
    others = "those behind it wait, as their order counts" if live.ordered else "its rows are missing, others go on"
    return TidemillError(
        "TM5040",
        "a file cannot be read and is set aside",
        got=f"{path} of table {live.table}: {error.number}: {error.what} ({error.got})",
        hint=f"{others}; it is read when it has been repaired: {error.hint}",
    )


def gone(table: str, paths: Sequence[str]) -> TidemillError:
    """TM5042: files were deleted before anything of them was read."""
    return TidemillError(
        "TM5042",
        "a file was deleted before it was read",
        got=f"{_first(paths)} of table {table}",
        hint="if it comes back it is read; who deletes files should leave them until they are done",
    )


def _first(paths: Sequence[str]) -> str:
    return f"{paths[0]} and {len(paths) - 1} more" if len(paths) > 1 else paths[0]


def changed_later(live: ListedFiles) -> TidemillError:
    """TM5041: files have changed and are not read again."""
    if live.policy.appends:
        hint = "only what is added at the end is read: start a new file under another name"
    else:
        hint = "allowOverwrites 'true' reads such files again"
        if not is_object_url(live.changed_files[0]):
            hint += ", allowAppends 'true' reads what was added at their end"
    return TidemillError(
        "TM5041",
        "a file has changed since it was read",
        got=f"{_first(live.changed_files)} of table {live.table}",
        hint=f"what it was stays, what it is now is not read; {hint}",
    )


def not_cleaned(table: str, failed: Mapping[str, TidemillError]) -> TidemillError:
    """TM5082: files were read and could not be deleted or moved."""
    path, error = next(iter(failed.items()))
    why = f"{error.got}" if error.number == "TM5082" else f"{path}: {error.number}: {error.what} ({error.got})"
    count = len(failed)
    return TidemillError(
        "TM5082",
        "files that were read cannot be cleaned",
        got=f"{count:,} file{'' if count == 1 else 's'} of table {table}: {why}",
        hint=f"{error.hint}; it is tried again after pauses of up to a minute, and rows are not affected",
    )


def left(table: str, paths: Sequence[str]) -> TidemillError:
    """TM5083: files to be cleaned were rewritten after they were read."""
    return TidemillError(
        "TM5083",
        "a file was rewritten after it was read, and is not cleaned",
        got=f"{_first(paths)} of table {table}",
        hint="what it is now is not read and stays where it is; write files under names of their own, or read new "
        "versions with allowOverwrites 'true'",
    )


def wanted_elsewhere(table: str, path: str, other: str) -> TidemillError:
    """TM5084: another table may still have to read the files."""
    return TidemillError(
        "TM5084",
        "files that were read are not cleaned: another table names them",
        got=f"{path} of table {table}, which table {other} names, too",
        hint=f"give {other} the same cleanSource, or a path that leaves these files out",
    )


def begins_without(table: str, files: int) -> TidemillError:
    """TM5085: a view is created after files were cleaned."""
    return TidemillError(
        "TM5085",
        "a view begins without the rows of files that were cleaned",
        got=f"{table}: {files:,} file{'' if files == 1 else 's'}",
        hint="cleanSource.retentionDuration says how long files stay for views created later",
    )
