"""Errors of tables that have versions, which need no library."""

from __future__ import annotations

from tidemill.errors import TidemillError


def no_table(place: str, hint: str) -> TidemillError:
    """TM5100: nothing says that there is a table."""
    return TidemillError("TM5100", "there is no such table", got=place, hint=hint)


def not_readable(place: str, feature: str, hint: str) -> TidemillError:
    """TM5101: rows of a table are not just those of its files."""
    return TidemillError("TM5101", "a table has a feature that is not supported", got=f"{place}: {feature}", hint=hint)


def failed(place: str, said: str) -> TidemillError:
    """TM5102: the log of a table cannot be read, or the catalogue that names it."""
    return TidemillError(
        "TM5102",
        "the versions of a table cannot be read",
        got=f"{place}: {said}",
        hint="nothing was lost: they are read again as long as it lasts; check the store, and the catalogue or log",
    )


def not_installed(error: ImportError, extra: str) -> TidemillError:
    """TM5103: a library is missing."""
    return TidemillError(
        "TM5103",
        "tables of this format need a package that is not installed",
        got=str(error),
        hint=f"pip install 'tidemill[{extra}]'",
    )


def no_column(place: str, name: str, hint: str) -> TidemillError:
    """TM5104: a column is not there, or not any more."""
    return TidemillError(
        "TM5104",
        "the newest version of a table does not have a column",
        got=f"{place}: {name}",
        hint=f"{hint}; rows stay as they were until it has, else DROP and CREATE the table",
    )
