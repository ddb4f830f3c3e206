"""Tables whose files may be overwritten: the option ``allowOverwrites``, and what it cannot stand beside."""

from __future__ import annotations

from collections.abc import Mapping

from tidemill.errors import TidemillError
from tidemill.formats.rescue.options import EVOLUTION, Evolution
from tidemill.options.tables import ALLOW_OVERWRITES, STATIC, WATERMARK


def check_overwrites(options: Mapping[str, str], keyed: bool, pushed: bool) -> None:
    """Whether such a table can be.

    Raises
    ------
    TidemillError
        TM4003 for a value that is neither true nor false, TM2037 beside what says otherwise when rows come or go.
    """
    if not ALLOW_OVERWRITES.of(options):
        return
    for present, what, hint in (
        (keyed, "a PRIMARY KEY, or a format that needs one", "a file of messages is read once, in its order"),
        (pushed, "a socket", "what has come over a socket does not change any more"),
        (STATIC.of(options), "static 'true'", "a static table is complete before anything that is joined with it"),
        (
            WATERMARK.key in options,
            f"watermark '{WATERMARK.of(options)}'",
            "rows of a new version could be late, and so be missing where those of the version before were taken out",
        ),
        (
            EVOLUTION.of(options) is Evolution.ADD,
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
