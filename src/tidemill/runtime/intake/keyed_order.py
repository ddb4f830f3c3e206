"""Message order within an epoch, for keyed tables."""

from __future__ import annotations

from dataclasses import replace

from tidemill.formats.reading.codecs import MOST_DECODED
from tidemill.options.tables import MAX_FILES
from tidemill.runtime.tables.table import Table
from tidemill.sources.split import Split

_PLACES = 1 << 40
"""The least range of order numbers of a file: some formats number rows, not bytes."""
_MOST_ORDERED = 1 << 18
"""The most files of a keyed table in an epoch, so that order numbers stay below 2^63."""


def in_message_order(splits: list[Split], table: Table) -> list[Split]:
    """Splits in their order of admission, with the base that makes their positions numbers of that order."""
    bases: dict[str, int] = {}
    end = 0
    for split in splits:
        if split.path not in bases:
            bases[split.path] = end
            end += max(split.size, _PLACES) if table.codec(split.path) is None else MOST_DECODED
    return [replace(s, base=bases[s.path]) for s in splits]


def most_files(table: Table) -> int | None:
    """How many files of a table an epoch may have; None for any number."""
    most = MAX_FILES.of(table.options)
    if table.keyed:
        return _MOST_ORDERED if most is None else min(most, _MOST_ORDERED)
    return most
