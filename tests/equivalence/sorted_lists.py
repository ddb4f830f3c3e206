"""Puts the lists of a query in order, so that Spark's answer is the one that Tidemill gives."""

from __future__ import annotations

import re

_COLLECTED = re.compile(r"\b(?:collect_list|collect_set|array_agg)\(", re.IGNORECASE)
_OVER = re.compile(r"\s*OVER\b", re.IGNORECASE)
_FILTER = re.compile(r"\s*FILTER\s*\(", re.IGNORECASE)


def with_sorted_lists(query: str) -> str:
    """The query with each ``collect_list`` and ``collect_set`` inside ``sort_array``: Spark leaves their order open.

    A list over a window is left as it is.
    """
    parts, at = [], 0
    for found in _COLLECTED.finditer(query):
        end = _closed(query, found.end())
        clause = _FILTER.match(query, end)
        if clause is not None:
            end = _closed(query, clause.end())
        if _OVER.match(query, end):
            continue
        parts += [query[at : found.start()], f"sort_array({query[found.start() : end]})"]
        at = end
    return "".join((*parts, query[at:]))


def _closed(query: str, at: int) -> int:
    """The position behind the bracket that closes the one opened just before ``at``."""
    depth = 1
    while depth:
        depth += {"(": 1, ")": -1}.get(query[at], 0)
        at += 1
    return at
