"""Tables that learn of their files from a queue: the options of notifications, and what they cannot stand beside."""

from __future__ import annotations

from collections.abc import Mapping

from tidemill.errors import TidemillError
from tidemill.formats.options import bad_option, flag
from tidemill.objectstore.queue_client import check_queue
from tidemill.objectstore.queue_options import parse_queue
from tidemill.runtime.tables.watermark import parse_delay

_LEAST_SECONDS = 1.0


def parse_backfill(options: Mapping[str, str]) -> float:
    """Seconds from one whole listing to the next, of a table with notifications; names of options in lower case.

    Raises
    ------
    TidemillError
        TM4003 for what is no interval, or less than a second.
    """
    text = options.get("backfillinterval", "1 day")
    seconds = parse_delay(text, "backfillInterval") / 1e6
    if seconds < _LEAST_SECONDS:
        raise bad_option("backfillInterval", text, "'1 day', and not less than '1 second': all names are listed then")
    return seconds


def check_notifications(options: Mapping[str, str], path: str, keyed: bool) -> None:
    """Whether a table can be so.

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
        (flag(options, "static"), "static 'true'", "its files are listed once, and no others are read"),
    ):
        if queue is not None and present:
            raise TidemillError(
                "TM2039",
                "a table with notifications cannot be of this kind",
                got=what,
                hint=f"leave one of the two out: {hint}",
            )


def check_its_queue(options: Mapping[str, str], path: str) -> None:
    """Whether messages of the queue can be received. TM5075 to TM5078 when they cannot."""
    queue = parse_queue(options, path)
    if queue is not None:
        check_queue(queue)
