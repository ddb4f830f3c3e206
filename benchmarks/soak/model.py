"""What DuckDB says: it parses the lines that were sent, and evaluates the queries of all views."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

import duckdb
import pyarrow as pa

from benchmarks.soak.error import SoakError
from benchmarks.soak.queries import View

Rows = Counter[tuple[Any, ...]]

_CSV = """SELECT i, TRY_CAST(f[1] AS INT) AS c, TRY_CAST(f[2] AS BIGINT) AS n, TRY_CAST(f[3] AS INT) AS k,
TRY_CAST(f[4] AS BIGINT) AS v, nullif(f[5], '') AS s FROM (SELECT i, string_split(line, ',') AS f FROM lines)"""
_JSON = """SELECT i, TRY_CAST(line->>'$.c' AS INT) AS c, TRY_CAST(line->>'$.n' AS BIGINT) AS n,
TRY_CAST(line->>'$.k' AS INT) AS k, TRY_CAST(line->>'$.v' AS BIGINT) AS v, line->>'$.s' AS s
FROM (SELECT i, CASE WHEN json_valid(line) THEN line ELSE '{}' END AS line FROM lines)"""


def rows_of(table: pa.Table) -> Rows:
    """The rows of an Arrow table, with how often each is there."""
    columns = [column.to_pylist() for column in table.columns]
    return Counter(zip(*columns, strict=True))


class Model:
    """Tables as the lines that were sent, and views."""

    def __init__(self) -> None:
        self._duckdb = duckdb.connect()
        self._lines: dict[str, int] = {}
        self.views: dict[str, View] = {}

    def create_table(self, name: str) -> None:
        """A table without rows."""
        self._duckdb.execute(f"CREATE TABLE {name}__rows (i BIGINT, c INT, n BIGINT, k INT, v BIGINT, s VARCHAR)")
        self._duckdb.execute(f"CREATE VIEW {name} AS SELECT c, n, k, v, s FROM {name}__rows")
        self._lines[name] = 0

    def drop_table(self, name: str) -> None:
        """Forget a table."""
        self._duckdb.execute(f"DROP VIEW {name}; DROP TABLE {name}__rows")
        del self._lines[name]

    def add(self, name: str, kind: str, lines: list[str]) -> None:
        """Lines of a table that have been admitted, or will be; behind those that it has."""
        first = self._lines[name]
        self._duckdb.register("lines", pa.table({"i": pa.array(range(first, first + len(lines)), pa.int64()),
                                                 "line": pa.array(lines, pa.string())}))  # fmt: skip
        self._duckdb.execute(f"INSERT INTO {name}__rows {_CSV if kind == 'csv' else _JSON}")
        self._duckdb.unregister("lines")
        self._lines[name] += len(lines)

    def lines(self, name: str) -> int:
        """How many lines a table has."""
        return self._lines[name]

    def tables_below(self, name: str) -> set[str]:
        """The tables that a view reads, itself or through others."""
        found: set[str] = set()
        for read in self.views[name].reads:
            found |= {read} if read in self._lines else self.tables_below(read)
        return found

    def readers(self, name: str) -> list[str]:
        """Views that read a table or view directly."""
        return [v.name for v in self.views.values() if name in v.reads]

    def expected(self, name: str, tables: dict[str, pa.Table] | None = None) -> Rows:
        """The rows of a view.

        Parameters
        ----------
        tables : dict of str to pyarrow.Table, optional
            Rows of tables to evaluate the query over, in place of those that were sent.
        """
        given = tables or {}
        for table, rows in given.items():
            self._duckdb.register(f"{table}__given", rows)
        try:
            return Counter(self._duckdb.execute(self._query(name, frozenset(given))).fetchall())
        finally:
            for table in given:
                self._duckdb.unregister(f"{table}__given")

    def _query(self, name: str, given: frozenset[str]) -> str:
        view = self.views[name]
        return view.sql(tuple(self._relation(view, read, given) for read in view.reads))

    def _relation(self, view: View, read: str, given: frozenset[str]) -> str:
        if read not in self._lines:
            return f"({self._query(read, given)})"
        if view.begins is not None:
            return f"(SELECT c, n, k, v, s FROM {read}__rows WHERE i >= {view.begins})"
        return f"{read}__given" if read in given else read


def check_rows(what: str, got: Rows, expected: Rows) -> None:
    """SoakError when rows differ, with some of those that do."""
    if got != expected:
        missing, more = expected - got, got - expected
        raise SoakError(
            f"{what}: {got.total():,} rows, DuckDB has {expected.total():,}; "
            f"{missing.total():,} are missing: {_some(missing)}; {more.total():,} are too many: {_some(more)}"
        )


def _some(rows: Rows) -> str:
    return ", ".join(f"{row} x {count}" for row, count in rows.most_common(4)) or "none"


def added(sums: Rows, rows: Iterable[tuple[Any, ...]], weights: Iterable[int]) -> None:
    """Add changes to a sum of rows; rows without weight are left out."""
    for row, weight in zip(rows, weights, strict=True):
        total = sums[row] + weight
        if total:
            sums[row] = total
        else:
            del sums[row]
