"""Errors of tables USING delta that need no library."""

from __future__ import annotations

from tidemill.errors import TidemillError


def no_table(path: str) -> TidemillError:
    """TM5100: nothing says that there is a Delta table."""
    return TidemillError(
        "TM5100",
        "there is no Delta table here",
        got=path,
        hint="the path is that of the directory that has _delta_log in it",
    )


def not_readable(path: str, feature: str, hint: str) -> TidemillError:
    """TM5101: rows of a table are not just those of its files."""
    return TidemillError(
        "TM5101", "a Delta table has a feature that is not supported", got=f"{path}: {feature}", hint=hint
    )


def failed(path: str, said: str) -> TidemillError:
    """TM5102: the log of a table cannot be read."""
    return TidemillError(
        "TM5102",
        "the log of a Delta table cannot be read",
        got=f"{path}: {said}",
        hint="nothing was lost: it is read again as long as it lasts; check the store, and the files in _delta_log",
    )


def no_column(path: str, name: str, hint: str) -> TidemillError:
    """TM5104: a column is not there, or not any more."""
    return TidemillError(
        "TM5104",
        "a Delta table does not have a column of the table",
        got=f"{path}: {name}",
        hint=f"{hint}; its rows stay as they were until it has, else DROP and CREATE the table",
    )


def not_installed(error: ImportError) -> TidemillError:
    """TM5103: the library is missing."""
    return TidemillError(
        "TM5103",
        "tables USING delta need a package that is not installed",
        got=str(error),
        hint="pip install 'tidemill[delta]'",
    )
