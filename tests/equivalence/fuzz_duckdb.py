"""What DuckDB says about a query of the fuzzer, where it can be asked."""

from __future__ import annotations

import re
from collections.abc import Mapping

import duckdb
import pyarrow as pa
from change_trial import _floats

from tidemill.testing import difference

LACKING = (
    "LATERAL VIEW", "collect_", "mode()", "percentile", "kurtosis", "struct(", "date_format", "nanvl", "try_",
    "date_trunc", "trunc(", "INTERVAL", "concat(", "dayofweek", "weekofyear", "regexp_", "last_day", "pmod",
    "RANGE BETWEEN", "IGNORE NULLS", "count_if", "ROLLUP", "CUBE", "GROUPING SETS", "add_months", "date_add", "reverse",
    " div ",
)  # fmt: skip
"""Constructs that DuckDB has not, or means otherwise: other types, other NULLs, other rounding, other texts."""

_TRANSLATED = (
    (re.compile(r"(-?[0-9.]+)D\b"), r"(\1::DOUBLE)"),
    (re.compile(r"double\('NaN'\)"), "'nan'::DOUBLE"),
    (re.compile(r"<=>"), "IS NOT DISTINCT FROM"),
    (re.compile(r"LEFT (SEMI|ANTI) JOIN"), r"\1 JOIN"),
    (re.compile(r"\bdatediff\(([^(),]+), ([^(),]+)\)"), r"date_diff('day', \2, \1)"),
    (re.compile(r"count\(DISTINCT ([^()]+), ([^()]+)\)"), r"count(DISTINCT CASE WHEN \1 IS NOT NULL AND \2 IS NOT NULL "
                                                         r"THEN (\1, \2) END)"),
)  # fmt: skip


def translated(query: str) -> str | None:
    """The query as DuckDB reads it, or None when it has something that DuckDB lacks."""
    if any(name in query for name in LACKING):
        return None
    for pattern, text in _TRANSLATED:
        query = pattern.sub(text, query)
    return query


class DuckTables:
    """Tables and views in a database of their own. Counts what was asked."""

    def __init__(self, tables: Mapping[str, pa.Table]) -> None:
        self.database = duckdb.connect()
        self.database.execute("SET TimeZone='UTC'")
        self.database.execute("SET default_null_order='nulls_first_on_asc_last_on_desc'")
        for name, rows in tables.items():
            self.database.register(name, rows)

    def differs(self, query: str, found: pa.Table) -> str | None:
        """How a view's rows differ from DuckDB's, None when they do not.

        Raises
        ------
        duckdb.Error
            When DuckDB does not take the query, or fails in it.
        """
        text = translated(query)
        assert text is not None
        expected = self.database.sql(text).to_arrow_table()
        return difference(_floats(found), _floats(expected.rename_columns(found.column_names)), 1e-6)
