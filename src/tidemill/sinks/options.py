"""Options that all sinks take."""

from __future__ import annotations

from tidemill.options.kinds import FLAG, INTERVAL, choice
from tidemill.options.option import Option, OptionGroup

CHANGES, SNAPSHOT, MERGE = "changes", "snapshot", "merge"

MODE = Option(
    "mode",
    choice(CHANGES, SNAPSHOT, MERGE),
    CHANGES,
    "`changes`: rows with their weights, epoch by epoch; `snapshot`: all rows of the view, in place of those before; "
    "`merge`, INTO delta or postgres: the table is kept equal to the view, by `keyColumns`",
)
INITIAL_SNAPSHOT = Option(
    "initialSnapshot",
    FLAG,
    True,
    "whether a sink of changes begins with the rows that the view has, and not with what changes from then on",
)
ON_GAP = Option(
    "onGap",
    choice("error", SNAPSHOT),
    "error",
    "what to do when changes have gone that were not delivered: stop with TM8215, or continue from all rows",
    alterable=True,
)
MIN_INTERVAL = Option(
    "minInterval",
    INTERVAL,
    0,
    "least time between two deliveries: one takes all epochs since the one before",
    shown="0 seconds",
    alterable=True,
)
MAX_BACKOFF = Option(
    "maxBackoff",
    INTERVAL,
    30_000_000,
    "longest pause between two attempts while a target fails",
    shown="30 seconds",
    alterable=True,
)

SINK_OPTIONS = OptionGroup(
    "Sinks", "Every sink takes these.", (MODE, INITIAL_SNAPSHOT, ON_GAP, MIN_INTERVAL, MAX_BACKOFF)
)
