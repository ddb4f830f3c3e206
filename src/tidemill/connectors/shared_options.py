"""Options that several connectors have."""

from __future__ import annotations

from tidemill.options.kinds import TEXT
from tidemill.options.option import Option


def column_option(name: str, about: str) -> Option[str | None]:
    """The option that names the column for a part of a message."""
    return Option(f"{name}Column", TEXT, None, f"with `value.format`: the column that has the {about}")


VALUE_FORMAT = Option(
    "value.format",
    TEXT,
    "",
    "the format of the values, whose options stand beside these; without it a table has the columns of messages",
    shown="none",
)
TOPIC_COLUMN = column_option("topic", "topic of a message, STRING")
TIMESTAMP_COLUMN = column_option("timestamp", "time of a message, TIMESTAMP")
PASSWORD = Option("password", TEXT, "", "the password of the user", "none", alterable=True, secret=True)
