"""Runs a mill over a stream of changes of which it is known what every epoch leaves, and asks Spark and DuckDB."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest
from benchmarks.tpch.changes import OPERATION, Changes, ddl
from oracle import Oracle, as_table, by_chance, create_views

from tidemill.errors import TidemillError
from tidemill.mill import Mill
from tidemill.testing import assert_same_rows, difference, weighted_rows

_DUCKDB_RELATIVE = 1e-3  # its quotients and averages of decimals are doubles, Spark's have six digits after the point


class ChangeTrial:
    """A mill, its input directory, and views that are compared with Spark after every epoch.

    Attributes
    ----------
    epoch : int
        The newest epoch of the changes that was written and admitted.
    views : dict
        Name to query.
    ever, now : set of str
        The views that had a value in some epoch, and those that had one in the last.
    fallible : set of str
        The views for which Spark may raise. As long as it does, the view must be failing.
    raised : set of str
        Those for which it has.

    Parameters
    ----------
    sometimes : bool
        Spark is asked about a view that has had values in two epochs of five, and in the last.
    """

    def __init__(
        self,
        mill: Mill,
        changes: Changes,
        directory: Path,
        deletes: bool = True,
        fallible: Collection[str] = (),
        sometimes: bool = False,
    ) -> None:
        self.mill = mill
        self._sometimes = sometimes
        self.changes = changes
        self.epoch = 0
        self.views: dict[str, str] = {}
        self.ever: set[str] = set()
        self.now: set[str] = set()
        self.fallible = set(fallible)
        self.raised: set[str] = set()
        self._directory = directory
        self._deletes = deletes
        self._oracle = Oracle(mill.spark)
        self._write()
        for name, table in changes.tables.items():
            (directory / name).mkdir(exist_ok=True)
            options = f"path '{directory / name}', header true" + f", opColumn '{OPERATION}'" * deletes
            mill.sql(f"CREATE TABLE {name} ({ddl(table.schema)}) USING csv OPTIONS ({options})")

    def _write(self) -> None:
        self.epoch += 1
        self.changes.write(self._directory, self.epoch, self._deletes)

    def create(self, views: Mapping[str, str]) -> None:
        """Create views."""
        create_views(self.mill, views)
        self.views |= views

    def advance(self) -> bool:
        """Epochs that take all that was written, and history of new views; False when these changes were the last."""
        rows = 0
        for report in self.mill.drain():
            assert report.failed.keys() <= self.fallible, report
            rows += report.rows_in
        read = {word for query in self.views.values() for word in re.findall(r"\w+", query)}
        assert rows == self.changes.size(self.epoch, self.changes.tables.keys() & read)
        self._compare()
        if self.epoch == self.changes.epochs:
            return False
        self._write()
        return True

    def _tables(self) -> dict[str, pa.Table]:
        return {name: self.changes.surviving(name, self.epoch) for name in self.changes.tables}

    def _compare(self) -> None:
        surely = {name: query for name, query in self.views.items() if name not in self.fallible}
        last = not self._sometimes or self.epoch == self.changes.epochs
        asked = [n for n in surely if last or n not in self.ever or by_chance(n, self.epoch)]
        expected: dict[str, pa.Table | str] = dict(self._oracle.answers(self._tables(), surely, asked))
        expected |= {name: self._oracle.answer(self.views[name]) for name in self.fallible & self.views.keys()}
        initialising = self.mill.snapshot().initialising
        self.now = set()
        for name in expected.keys() - initialising:
            where = f"view {name} after the changes of epoch {self.epoch}: {self.views[name]}"
            rows = expected[name]
            if isinstance(rows, str):
                self._check_failing(name, f"{where}\nSpark: {rows}")
                continue
            assert_same_rows(self.mill.read(name), rows, where)
            if any(c.null_count < len(c) for c in rows.columns):
                self.now.add(name)
        self.ever |= self.now

    def _check_failing(self, name: str, where: str) -> None:
        """The view is in error, and says so wherever it is asked."""
        self.raised.add(name)
        assert {n: state for n, state, _, _ in self.mill.status()}[name] == "failing", where
        with pytest.raises(TidemillError, match="TM1039"):
            self.mill.read(name)

    def check_duckdb(self, named: bool = True) -> None:
        """DuckDB gives the same rows over what is left now; with ``named`` under the same names."""
        with duckdb.connect() as database:
            database.execute("SET default_null_order = 'nulls_first_on_asc_last_on_desc'")  # as Spark
            for name, rows in self._tables().items():
                database.register(name, rows)
            for name, query in self.views.items():
                expected = database.sql(query.replace("`", '"')).to_arrow_table()
                found = self.mill.read(name)
                if named:
                    assert found.column_names == expected.column_names, name
                expected = expected.rename_columns(found.column_names)
                differs = difference(_floats(found), _floats(expected), _DUCKDB_RELATIVE)
                assert differs is None, f"{name}, DuckDB: {differs}"

    def check_changes(self) -> None:
        """The changes of all epochs sum to each view."""
        for name in self.views:
            total: dict[tuple[object, ...], int] = {}
            for _, changes in self.mill.subscribe(name, timeout=0):
                for row, weight in weighted_rows(changes).items():
                    total[row] = total.get(row, 0) + weight
            rows = self.mill.read(name)
            assert_same_rows(as_table(total, rows.schema), rows, f"changes of {name}")

    def check_not_vacuous(self) -> None:
        """Fail when a view had no row, or nothing but NULLs, in every epoch."""
        empty = self.views.keys() - self.ever
        assert not empty, f"these views never had a value: {sorted(empty)}"


def _floats(table: pa.Table) -> pa.Table:
    """Numbers as doubles and texts of one type, so that engines with other types can be compared."""
    columns = []
    for column in table.columns:
        if re.match(r"u?int|decimal|float|double", str(column.type)):
            columns.append(column.cast(pa.float64()))
        elif pa.types.is_large_string(column.type) or pa.types.is_string_view(column.type):
            columns.append(column.cast(pa.string()))
        else:
            columns.append(column)
    return pa.table(columns, names=table.column_names)
