"""Refuses statements whose nesting Spark's parser takes minutes to give up on."""

from __future__ import annotations

from tidemill.errors import TidemillError
from tidemill.plan.sql.statements import tokens

_MOST_LEVELS = 400
"""Levels of nesting. Spark's stack overflows at about as many, and the time of its parser grows faster than the depth:
12,000 nested parentheses take 17 seconds, as do 3,000 nested types."""
_TYPES = ("ARRAY", "MAP", "STRUCT")
_CLOSING = {")": "(", "]": "[", ">": "<", "END": "CASE"}


def check_nesting(text: str) -> None:
    """TM2901 for a text with more than 400 parentheses, brackets, CASE or types within one another."""
    upper = text.upper()
    if sum(upper.count(opening) for opening in _CLOSING.values()) <= _MOST_LEVELS:
        return
    opened, before = dict.fromkeys(_CLOSING.values(), 0), ""
    for token, _, _ in tokens(upper):
        if token in opened and (token != "<" or before in _TYPES):
            opened[token] += 1
            if sum(opened.values()) > _MOST_LEVELS:
                raise TidemillError(
                    "TM2901",
                    "a statement is too deeply nested",
                    got=f"more than {_MOST_LEVELS} levels",
                    hint="divide it into several views, or write a chain of operators as a list or a function",
                )
        elif token in _CLOSING:
            opened[_CLOSING[token]] = max(0, opened[_CLOSING[token]] - 1)
        before = token
