"""Asks Spark for what Tidemill means where Spark leaves the answer open: the order of lists, and what a query says."""

from __future__ import annotations

import re

_COLLECTED = re.compile(r"\b(?:collect_list|collect_set|array_agg)\(", re.IGNORECASE)
_OVER = re.compile(r"\s*OVER\b", re.IGNORECASE)
_FILTER = re.compile(r"\s*FILTER\s*\(", re.IGNORECASE)
_DECIDED = re.compile(r"/\*\[\*/.*?/\*=> (.*?) \]\*/", re.DOTALL)
_FIELD = re.compile(r"(\b(?:min|max)\(struct\([^()]*\)\))( FILTER \([^()]*\))?\.(\w+)")


def with_sorted_lists(query: str) -> str:
    """The query with each ``collect_list`` and ``collect_set`` inside ``sort_array``: Spark leaves their order open.

    A list over a window is left as it is. Of ``/*[*/ x /*=> y ]*/`` Spark is asked for y.
    """
    query = _DECIDED.sub(lambda found: _FIELD.sub(r"(\1\2).\3", found[1]), query)
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
