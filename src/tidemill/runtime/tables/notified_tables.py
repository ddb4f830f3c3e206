"""Tables with notifications of a queue: their options, and what these cannot be combined with."""

from __future__ import annotations

from collections.abc import Mapping

from tidemill.errors import TidemillError
from tidemill.objectstore.queue_client import check_queue
from tidemill.objectstore.queue_options import BACKFILL_INTERVAL, parse_queue
from tidemill.options.tables import STATIC

_LEAST_SECONDS = 1.0


def parse_backfill(options: Mapping[str, str]) -> float:
    """Seconds between full listings of a table with notifications; names of options in lower case.

    Raises
    ------
    TidemillError
        TM4003 for a value that is no interval, or less than a second.
    """
    seconds = BACKFILL_INTERVAL.of(options) / 1e6
    if seconds < _LEAST_SECONDS:
        hint = "'1 day', and not less than '1 second': all names are listed then"
        raise BACKFILL_INTERVAL.bad(options[BACKFILL_INTERVAL.key], hint)
    return seconds


def check_notifications(options: Mapping[str, str], path: str, keyed: bool) -> None:
    """Check the options of notifications of a table.

    Raises
    ------
    TidemillError
        TM4003 and TM5034 as :func:`parse_queue`, TM4003 as :func:`parse_backfill`, TM2039 for a table whose files must
        come in an order, or all at once.
    """
    parse_backfill(options)
    queue = parse_queue(options, path)
    for present, what, hint in (
        (keyed, "a PRIMARY KEY, or a format that needs one", "its files are read in their order, and events have none"),
        (STATIC.of(options), "static 'true'", "its files are listed once, and no others are read"),
    ):
        if queue is not None and present:
            raise TidemillError(
                "TM2039",
                "a table with notifications cannot be of this kind",
                got=what,
                hint=f"leave one of the two out: {hint}",
            )


def check_its_queue(options: Mapping[str, str], path: str) -> None:
    """TM5075 to TM5078 when messages of the table's queue cannot be received."""
    queue = parse_queue(options, path)
    if queue is not None:
        check_queue(queue)
