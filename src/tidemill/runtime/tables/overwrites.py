"""Tables whose files may be overwritten: the option ``allowOverwrites``, and what it cannot stand beside."""

from __future__ import annotations

from collections.abc import Mapping

from tidemill.errors import TidemillError
from tidemill.formats.options import flag
from tidemill.formats.rescue.options import Evolution, parse_evolution


def parse_overwrites(options: Mapping[str, str]) -> bool:
    """Whether files of a table may be overwritten; ``options`` have lower-case names. TM4003 for a bad value."""
    return flag(options, "allowOverwrites")


def check_overwrites(options: Mapping[str, str], keyed: bool, pushed: bool) -> None:
    """Whether such a table can be.

    Raises
    ------
    TidemillError
        TM4003 as :func:`parse_overwrites`, TM2037 beside what says otherwise when rows come or go.
    """
    if not parse_overwrites(options):
        return
    for present, what, hint in (
        (keyed, "a PRIMARY KEY, or a format that needs one", "a file of messages is read once, in its order"),
        (pushed, "a pushed stream", "what has come over a socket does not change any more"),
        (flag(options, "static"), "static 'true'", "a static table is complete before anything that is joined with it"),
        (
            "watermark" in options,
            f"watermark '{options.get('watermark')}'",
            "rows of a new version could be late, and so be missing where those of the version before were taken out",
        ),
        (
            parse_evolution(options) is Evolution.ADD,
            "schemaEvolutionMode 'addNewColumns'",
            "rows are kept with the columns they were read with; schemaEvolutionMode 'rescue' keeps new ones as text",
        ),
    ):
        if present:
            raise TidemillError(
                "TM2037",
                "a table with allowOverwrites cannot be of this kind",
                got=what,
                hint=f"leave one of the two out: {hint}",
            )
