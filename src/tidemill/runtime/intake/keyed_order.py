"""Places of messages in the order of an epoch, for tables whose rows follow from messages in their order."""

from __future__ import annotations

from dataclasses import replace

from tidemill.formats.reading.codecs import MOST_DECODED
from tidemill.options.tables import MAX_FILES
from tidemill.runtime.tables.table import Table
from tidemill.sources.split import Split

_PLACES = 1 << 40
"""At least so many places in the order of an epoch has a file: rows of some formats are numbered, not their bytes."""
_MOST_ORDERED = 1 << 18
"""Files of a keyed table in an epoch, so that places stay below 2^63."""


def placed(splits: list[Split], table: Table) -> list[Split]:
    """The same splits, which are in the order of admission, with what makes positions places in that order."""
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
