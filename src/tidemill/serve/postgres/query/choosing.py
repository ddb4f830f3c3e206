"""Which engine answers a query: decided by the sizes of what it names, which are known without reading."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlglot import exp

from tidemill.runtime.read.snapshot import Snapshot
from tidemill.serve.postgres.catalogue.shown import size

DUCKDB, SPARK = "DuckDB", "Spark"
_MOST_SORTED = 10_000
_KEEPING = (exp.Join, exp.Group, exp.Distinct, exp.Having, exp.Window, exp.AggFunc, exp.With, exp.Lateral, exp.Unnest)


@dataclass(frozen=True)
class Choice:
    """An engine, and why.

    Attributes
    ----------
    rows, bytes : int
        Of the runs behind the views, each as often as the query names it.
    """

    engine: str
    why: str
    rows: int
    bytes: int


def choose(tree: exp.Query, views: Sequence[str], snapshot: Snapshot, most_bytes: int) -> Choice:
    """The engine for a query.

    DuckDB answers what names no view; what keeps no rows while it reads (a single view with conditions, expressions,
    LIMIT, and ORDER BY with a LIMIT of at most 10,000); and everything whose views have at most ``most_bytes`` in
    their runs. Spark answers the rest.
    """
    sizes = [size(snapshot, name) for name in views]
    rows, bytes_ = sum(s[0] for s in sizes), sum(s[1] for s in sizes)
    if bytes_ <= most_bytes:
        return Choice(DUCKDB, f"the views have {bytes_:,} bytes, at most {most_bytes:,}", rows, bytes_)
    if keeps_no_rows(tree):
        return Choice(DUCKDB, "it keeps no rows of the view while it reads", rows, bytes_)
    return Choice(SPARK, f"the views have {bytes_:,} bytes, more than {most_bytes:,}", rows, bytes_)


def keeps_no_rows(tree: exp.Query) -> bool:
    """Whether a query reads one relation and needs memory for a few rows only, however large that is."""
    if not isinstance(tree, exp.Select) or any(True for _ in tree.find_all(*_KEEPING)):
        return False
    if len(list(tree.find_all(exp.Table))) > 1 or len(list(tree.find_all(exp.Select))) > 1:
        return False
    return tree.args.get("order") is None or _limit(tree) <= _MOST_SORTED


def _limit(tree: exp.Select) -> int:
    total = 0
    for name in ("limit", "offset"):
        clause = tree.args.get(name)
        value = clause.expression if clause is not None else None
        if clause is None and name == "offset":
            continue
        if not isinstance(value, exp.Literal) or value.is_string or not str(value.this).isdigit():
            return _MOST_SORTED + 1
        total += int(value.this)
    return total
