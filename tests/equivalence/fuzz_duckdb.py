"""What DuckDB says about a query of the fuzzer, where it can be asked."""

from __future__ import annotations

import re
from collections.abc import Mapping

import duckdb
import pyarrow as pa
from duckdb_calls import with_calls

from tidemill.schema import TIMESTAMP
from tidemill.testing import difference

LACKING = (
    "mode()", "struct(", "skewness", "kurtosis", "window(", "PIVOT", "inline(", "stack(", "map(", "sequence(",
    "posexplode", "LATERAL VIEW OUTER", "grouping_id", "percentile(", "min(array(", "MONTH PRECEDING", "make_date",
    "AS FLOAT", "/*[*/", "listagg(", "percentile_approx", "corr(", "regr_s", "regr_r2",
    "AS FLOAT", "soundex(", "mask(", "base64(", "hex(", "quote(", "url_encode(", "$2", "format_string(",
    "regexp_substr(", "overlay(", "conv(", "format_number(", "bin(", "to_char(", "substring_index(", "'+')", "btrim(",
    "rpad(", "translate(", "hash", "find_in_set(", "levenshtein(", "locate(", "regexp_count(",
    "variant_get(", "parse_json(", "map_", "array_d", "array_e", "array_i", "array_u", "array_m", "array_p", "array_c",
    "array_j", "arrays_", "(get(", " get(", "element_at(", "utc_timestamp(", "timestampdiff(", "timestampadd(",
    "INTERVAL '", "_interval(", "extract(", "next_day(", "session_window", "json_tuple(", "RLIKE", "string_agg(",
    "LIKE ANY", "ILIKE", "NATURAL", "unix_micros(", "HH:mm", "map(", "to_json(",
)  # fmt: skip
"""Constructs that DuckDB has not, or means otherwise: other ties, other NULLs, other rounding."""

_FIRST_ROWS = re.compile(r"\(SELECT .*? LIMIT \d")
"""DuckDB 2.0 has lost rows of correlated ones now and then, under load."""

_MEMBER = re.compile(r" IN \(SELECT ")
_PARTS = re.compile(r"[()]|\b(?:SELECT|WHERE|ON|HAVING|QUALIFY|BY)\b")

_SPAN = re.compile(r"CAST\(\([^()]* - [^()]*\) AS STRING\)")
"""The text of an interval, which DuckDB writes in its own way."""

_SETS = re.compile(r"GROUP BY (\w+, )?(ROLLUP|CUBE|GROUPING SETS) \(.*?\)(?=\)| HAVING| UNION|$)")
_TRANSLATED = (
    (re.compile(r"(-?[0-9.]+)D\b"), r"(\1::DOUBLE)"),
    (re.compile(r"double\('NaN'\)"), "'nan'::DOUBLE"),
    (re.compile(r"<=>"), "IS NOT DISTINCT FROM"),
    (re.compile(r" MAX RECURSION LEVEL [0-9]+"), ""),
    (re.compile(r"LEFT (SEMI|ANTI) JOIN"), r"\1 JOIN"),
    (re.compile(r" div "), " // "),
    (re.compile(r"\bMINUS\b"), "EXCEPT"),
    (re.compile(r"\bINTERVAL (-?[0-9]+) HOURS"), r"INTERVAL (\1) HOURS"),
    (re.compile(r"\) IGNORE NULLS OVER"), " IGNORE NULLS) OVER"),
    (re.compile(r" LATERAL VIEW explode\((.*?)\) (y[0-9]+) AS (w[0-9]+)\) (x[0-9]+)"),
     r", LATERAL (SELECT unnest(\1) AS \3) \2) \4"),
)  # fmt: skip


def translated(query: str) -> str | None:
    """The query as DuckDB reads it, or None when it has something that DuckDB lacks."""
    if any(name in query for name in LACKING) or _grouped_twice(query):
        return None
    if _FIRST_ROWS.search(query) or _SPAN.search(query) or _has_member_column(query):
        return None
    query = with_calls(query)
    for pattern, text in _TRANSLATED:
        query = pattern.sub(text, query)
    return query


def _has_member_column(query: str) -> bool:
    """Whether membership is a column: false in Spark where it is NULL in DuckDB, as Spark does not look for NULLs."""
    return any(_clause_of(query[: found.start()]) in ("SELECT", "BY") for found in _MEMBER.finditer(query))


def _clause_of(before: str) -> str:
    """The clause that goes on behind a text; what stands in brackets that are closed again does not count."""
    depth = 0
    for part in reversed(_PARTS.findall(before)):
        if part == ")":
            depth += 1
        elif part == "(":
            depth = max(depth - 1, 0)
        elif not depth:
            return str(part)
    return ""


def _grouped_twice(query: str) -> bool:
    """Whether one expression is two columns of a ROLLUP or its like: one for Spark, two for DuckDB."""
    for found in _SETS.finditer(query):
        names = {n: re.escape(n) for n in re.findall(r"\bo[0-9]+\b", found.group())}
        values = [_value(query[: m.start()]) for n in names.values() for m in re.finditer(f" AS {n}\\b", query)]
        if len(set(values)) < len(values):
            return True
    return False


def _value(text: str) -> str:
    """The expression that a text ends with, from the last comma or word SELECT outside brackets."""
    depth = 0
    for at in range(len(text) - 1, -1, -1):
        depth += {")": 1, "(": -1}.get(text[at], 0)
        if depth < 0 or (depth == 0 and (text[at] == "," or text[:at].endswith("SELECT"))):
            return text[at + 1 :].strip()
    return text


class DuckTables:
    """Tables and views in a database of their own."""

    def __init__(self, tables: Mapping[str, pa.Table]) -> None:
        self.database = duckdb.connect()
        self.database.execute("SET TimeZone='UTC'")
        self.database.execute("SET disabled_optimizers='expression_rewriter'")  # makes `d > -NaN` of `-d < NaN`
        self.database.execute("SET default_null_order='nulls_first_on_asc_last_on_desc'")
        for name, rows in tables.items():
            self.database.register(name, _without_zones(rows))

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
        return difference(_common(found), _common(expected.rename_columns(found.column_names)), 1e-6)


def _without_zones(table: pa.Table) -> pa.Table:
    """With timestamps of no zone, whose texts have no offset, as those of Spark."""
    columns = [c.cast(pa.timestamp("us")) if pa.types.is_timestamp(c.type) else c for c in table.columns]
    return pa.table(columns, names=table.column_names)


def _common(table: pa.Table) -> pa.Table:
    """With the types that both engines have: numbers are doubles, also in lists."""
    return pa.table([column.cast(_common_type(column.type)) for column in table.columns], names=table.column_names)


def _common_type(type_: pa.DataType) -> pa.DataType:
    if pa.types.is_integer(type_) or pa.types.is_decimal(type_) or pa.types.is_floating(type_):
        return pa.float64()
    if pa.types.is_large_string(type_) or pa.types.is_string_view(type_):
        return pa.string()
    if pa.types.is_timestamp(type_):
        return TIMESTAMP
    if pa.types.is_list(type_) or pa.types.is_large_list(type_):
        return pa.list_(_common_type(type_.value_type))
    return type_
