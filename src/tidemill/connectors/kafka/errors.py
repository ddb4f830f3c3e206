"""Errors of tables USING kafka that need no client."""

from __future__ import annotations

from collections.abc import Sequence

from tidemill.errors import TidemillError


def missing(what: str) -> TidemillError:
    """TM5090: a topic or partition is not there."""
    return TidemillError(
        "TM5090",
        "a Kafka topic or partition does not exist",
        got=what,
        hint="create it, or check the options subscribe and assign",
    )


def gone(path: str, first: int, last: int, there: str) -> TidemillError:
    """TM5093: messages were deleted before they were read, or the topic was created anew."""
    return TidemillError(
        "TM5093",
        "messages of a topic are gone before they were read",
        got=f"{path}: offsets {first} to {last}; {there}",
        hint="ALTER TABLE name SET OPTIONS (failOnDataLoss 'false') goes on without them; or keep messages for longer",
    )


def created_anew(topics: Sequence[str]) -> TidemillError:
    """TM5093 for topics that have been deleted, and created with the same names."""
    return TidemillError(
        "TM5093",
        "messages of a topic are gone before they were read",
        got=f"{', '.join(topics)}: deleted, and created anew since the table was created",
        hint="ALTER TABLE name SET OPTIONS (failOnDataLoss 'false') reads the new one, too; or create another table",
    )


def begins_without(table: str, messages: int) -> TidemillError:
    """TM5095: a view is created after messages were deleted."""
    return TidemillError(
        "TM5095",
        "a view begins without messages that a topic does not retain any more",
        got=f"{table}: {messages:,} messages",
        hint="create views before the topic's retention is over, or retain messages for longer",
    )


def not_installed(error: ImportError) -> TidemillError:
    """TM5094: the client is missing."""
    return TidemillError(
        "TM5094",
        "tables USING kafka need a package that is not installed",
        got=str(error),
        hint="pip install 'tidemill[kafka]', also where tasks run",
    )
