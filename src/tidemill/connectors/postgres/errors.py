"""Errors of tables USING postgres that need no client."""

from __future__ import annotations

from tidemill.errors import TidemillError


def no_answer(where: str, said: str) -> TidemillError:
    """TM5110: the server is not there, or broke off."""
    return TidemillError(
        "TM5110",
        "PostgreSQL does not answer as it should",
        got=f"{where}: {said}",
        hint="nothing was lost: it is asked again, as long as it lasts",
    )


def refused(where: str, said: str) -> TidemillError:
    """TM5111: a role may not do what is needed."""
    return TidemillError(
        "TM5111",
        "PostgreSQL refuses access",
        got=f"{where}: {said}",
        hint="user and password; a role with REPLICATION that may read the table, and that owns it unless there is a "
        "publication; after a restart options with secrets are given again, by the script or by ALTER TABLE",
    )


def unfit(where: str, what: str, hint: str) -> TidemillError:
    """TM5112: a server or table is not made for logical replication."""
    return TidemillError("TM5112", "a table of PostgreSQL cannot be followed", got=f"{where}: {what}", hint=hint)


def changed_shape(where: str, what: str) -> TidemillError:
    """TM5112: a table is not the one any more that was begun with."""
    return unfit(where, what, "DROP TABLE, and create it again: it begins with the rows and columns that there are")


def left_over(where: str, slot: str, said: str) -> TidemillError:
    """TM5117: a slot nobody reads, which keeps the server's log."""
    return TidemillError(
        "TM5117",
        "the slot of a table that was dropped is still at the server",
        got=f"{where}: {said}",
        hint=f"SELECT pg_drop_replication_slot('{slot}'); and DROP PUBLICATION {slot}, unless it was given",
    )


def changes_gone(where: str, what: str) -> TidemillError:
    """TM5113: changes between the last one that was read and the next one are not there."""
    return TidemillError(
        "TM5113",
        "changes of a table of PostgreSQL are gone before they were read",
        got=f"{where}: {what}",
        hint="DROP TABLE, and create it again: it begins with the rows that there are",
    )


def truncated(where: str) -> TidemillError:
    """TM5114: all rows were removed without saying which."""
    return TidemillError(
        "TM5114",
        "a table of PostgreSQL was truncated",
        got=where,
        hint="DROP TABLE, and create it again; DELETE says which rows go",
    )


def not_installed(error: ImportError) -> TidemillError:
    """TM5115: the client is missing."""
    return TidemillError(
        "TM5115",
        "tables USING postgres need a package that is not installed",
        got=str(error),
        hint="pip install 'tidemill[postgres]'",
    )
