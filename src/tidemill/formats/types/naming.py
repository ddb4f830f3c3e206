"""Names of inferred columns: names that differ in case only are one column."""

from __future__ import annotations

from collections.abc import Mapping, Sequence


def spelling(counts: Mapping[str, int]) -> str:
    """The most frequent of the spellings of a name, the first in their order among several."""
    return min(counts, key=lambda name: (-counts[name], name))


def header_columns(names: Sequence[str]) -> list[str]:
    """The columns of a header as Spark names them.

    A name that occurs several times, in any case, has the number of the field (from 0) behind it; a field without a
    name is ``_c`` and its number.
    """
    lowered = [name.lower() for name in names]
    return [
        f"_c{i}" if not name else f"{name}{i}" if lowered.count(lowered[i]) > 1 else name
        for i, name in enumerate(names)
    ]
