"""The 99 queries of TPC-DS with the substitution parameters of the specification's qualification run.

The texts are those that DuckDB's extension ``tpcds`` ships (MIT licence, copyright Stichting DuckDB Foundation; the
queries themselves are part of the TPC's public specification). They are as there but for column names in backticks,
and for ORDER BY with LIMIT, which is completed by columns where the rows would not decide the result.
"""

from __future__ import annotations

import re
from pathlib import Path

import pyarrow as pa

_DIRECTORY = Path(__file__).with_name("queries")
NAMES = tuple(path.stem for path in sorted(_DIRECTORY.glob("q*.sql")))
_TYPES = {"BIGINT": pa.int64(), "INT": pa.int32(), "STRING": pa.string(), "DATE": pa.date32()}


def query(name: str) -> str:
    """The text of a query, as Spark reads it."""
    return (_DIRECTORY / f"{name}.sql").read_text().strip()


def schemas() -> dict[str, pa.Schema]:
    """The columns of each table."""
    text = Path(__file__).with_name("schema.sql").read_text()
    found = {}
    for name, columns in re.findall(r"CREATE TABLE (\w+) \((.*?)\n\);", text, re.DOTALL):
        pairs = re.findall(r"(\w+)\s+(BIGINT|INT|STRING|DATE|DECIMAL\((\d+),(\d+)\))", columns)
        found[name] = pa.schema(
            [(c, pa.decimal128(int(p), int(s)) if p else _TYPES[type_]) for c, type_, p, s in pairs]
        )
    return found
