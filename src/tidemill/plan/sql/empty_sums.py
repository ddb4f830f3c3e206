"""``TBLPROPERTIES ('emptySum' = 'zero')``: SUM and AVG over no values give 0, as in DBToaster.

    SELECT k, SUM(x) FILTER (WHERE y) FROM t    ->    SELECT k, coalesce(SUM(x) FILTER (WHERE y), 0Y) FROM t

It is done in the text, before Spark reads it, because Spark's optimiser makes use of the NULL: a correlated
subquery over no rows, for instance, becomes the padding of an outer join.
"""

from __future__ import annotations

from tidemill.plan.sql.statements import tokens

_FUNCTIONS = frozenset({"SUM", "AVG", "MEAN"})
_NAMES_FOLLOW = frozenset({"AS", "WITH", "."})


def zero_for_empty(query: str) -> str:
    """The query with every call of SUM, AVG and MEAN made 0 where it would be NULL."""
    found = tokens(query)
    words = [text.strip("`").upper() for text, _, _ in found]
    inserts: list[tuple[int, str]] = []
    for i, word in enumerate(words):
        named = i > 0 and words[i - 1] in _NAMES_FOLLOW
        if word in _FUNCTIONS and not named and words[i + 1 : i + 2] == ["("]:
            end = _end_of_call(words, i + 1)
            inserts += [(found[i][1], "coalesce("), (found[end][2], ", 0Y)")]
    for position, text in sorted(inserts, key=lambda insert: -insert[0]):
        query = query[:position] + text + query[position:]
    return query


def _end_of_call(words: list[str], opening: int) -> int:
    """The last token of a call: its bracket, or that of FILTER (...) or OVER (...) behind it."""
    end = _closing(words, opening)
    if words[end + 1 : end + 3] == ["FILTER", "("]:
        end = _closing(words, end + 2)
    if words[end + 1 : end + 2] == ["OVER"]:
        end = _closing(words, end + 2) if words[end + 2 : end + 3] == ["("] else min(end + 2, len(words) - 1)
    return end


def _closing(words: list[str], opening: int) -> int:
    depth = 0
    for i in range(opening, len(words)):
        depth += {"(": 1, ")": -1}.get(words[i], 0)
        if not depth:
            return i
    return len(words) - 1
