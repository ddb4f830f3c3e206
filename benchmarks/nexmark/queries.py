"""The queries of Nexmark in Spark SQL.

Deviations: q11 is written with window functions (``standard/q11.sql`` has ``session_window``);
q12 takes windows of event time, because a view has no processing time; q13 joins the side input as it is in the
epoch; q14 counts letters with ``replace``, because it cannot call functions of users; ``row_number`` and the frame
of q6 are ordered by more columns, so that the result is decided by the rows; q4, q6 and q17 give averages as doubles.
"""

from __future__ import annotations

import re
from pathlib import Path

_DIRECTORY = Path(__file__).with_name("queries")
_STANDARD = Path(__file__).with_name("standard")
NAMES = tuple(path.stem for path in sorted(_DIRECTORY.glob("q*.sql")))
REWRITTEN = tuple(path.stem for path in sorted(_STANDARD.glob("q*.sql")))
"""Queries that have another form here than usual."""

MODULUS = 123


def query(name: str, modulus: int = MODULUS) -> str:
    """The SQL of a query; ``modulus`` is what q2 selects auctions by."""
    return (_DIRECTORY / f"{name}.sql").read_text().format(modulus=modulus).strip()


def standard(name: str) -> str:
    """The usual form of one of :data:`REWRITTEN`."""
    return (_STANDARD / f"{name}.sql").read_text().strip()


def tables(sql: str) -> tuple[str, ...]:
    """The tables that a query reads."""
    found = set(re.findall(r"\b(?:FROM|JOIN) (\w+)", sql))
    return tuple(name for name in ("person", "auction", "bid", "side_input") if name in found)
