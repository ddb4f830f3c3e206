"""Compares ``evaluate`` with Spark: the same SQL over the same rows must give the same values and types."""

from __future__ import annotations

import datetime
import decimal
import math
import os
import random
import re
import sys
from typing import Any

import pyarrow as pa
import pyspark
from pyspark.sql import SparkSession
from pyspark.sql.functions import col

from tidemill.plan.catalyst.expressions.expressions import read_plan, translate, tree
from tidemill.plan.catalyst.planner import planner
from tidemill.schema import TIMESTAMP, TIMESTAMP_NTZ, nullable_type, type_to_ddl
from tidemill.task.expressions import Expression, Ref, substitute
from tidemill.task.functions.evaluate import evaluate

COLUMNS: dict[str, pa.DataType] = {
    "b": pa.bool_(), "b2": pa.bool_(), "i8": pa.int8(), "i16": pa.int16(), "i": pa.int32(), "i2": pa.int32(),
    "l": pa.int64(), "l2": pa.int64(), "f": pa.float32(), "d": pa.float64(), "d2": pa.float64(),
    "s": pa.string(), "s2": pa.string(), "sn": pa.string(), "sd": pa.string(), "bin": pa.binary(),
    "dt": pa.date32(), "dt2": pa.date32(), "ts": TIMESTAMP, "ts2": TIMESTAMP, "tn": TIMESTAMP_NTZ,
    "dec": pa.decimal128(12, 2), "dec2": pa.decimal128(38, 10), "dec3": pa.decimal128(20, 4),
    "js": pa.string(),
}  # fmt: skip

_D = decimal.Decimal


def _day(text: str) -> int:
    return (datetime.date.fromisoformat(text) - datetime.date(1970, 1, 1)).days


_DAYS = [_day(t) for t in (
    "1970-01-01", "1969-12-31", "2020-02-29", "2019-02-28", "2000-02-29", "1900-02-28", "1582-10-04", "1582-10-15",
    "1582-10-10", "0001-01-01", "9999-12-31", "2021-01-31", "2021-12-31", "2020-12-28", "2016-01-03", "1999-11-30",
)]  # fmt: skip
_MICROS = [0, -1, 999_999, 1_600_000_000_123_456, -2_208_988_800_000_000, 1_583_020_799_999_999, 1_582_934_400_000_000]
_TEXTS = [
    "", " ", "a", "abc", "ABC", "a%b", "a_b", "héllo", "日本語", "😀x", "  pad ", "a,b,c", ",", "aXbXc", "x\ny", "\\",
    "ab\\", "aab", "Straße", "ÉCOLE", "foo bar", "a.b.c", "xyx", "İstanbul", "ab12cd", "\t tab\t", "banana",
]  # fmt: skip
_NUMBERS = [
    "0", "1", "-1", " 42 ", "+7", "3.5", "-0.5", "1e3", "abc", "", "2147483648", "99999999999999999999", ".5", "5.",
    "NaN", "Infinity", "-inf", "1E-5", "0012", "1 2", "-", "1d", "1.25f", "127", "128", "-129", "0x10", "1e400", "+",
    "true", "F", " yes", "N", "1.005", "12345678901234567890123456789.5", "-9223372036854775808", "--1", "\n8\t",
]  # fmt: skip
_TIMES = [
    "2020", "2020-1", "2020-01-05", "2020-1-5", "2020-02-30", "2020-13-01", "abc", "", " 2021-03-04 ", "2020-01-01T",
    "2020-01-01 ", "2020-01-01 10:20:30", "2020-01-01T10:20:30.123456", "2020-01-01 1:2:3.5", "2020-01-01 10:20",
    "2020-01-01 10:20:30Z", "2020-01-01 10:20:30+02:00", "2020-01-01 10:20:30.1234567", "2020-01-01x", "12345-01-01",
    "0001-01-01", "-0044-03-15", "2020-01-01 24:00:00", "2020-01-01 10:60:00", "2020-01-01 10", "20-01-01",
    "2020-01-01 10:20:30 UTC", "2020-01-01 10:20:30-08", "2020/01/01", "1582-10-10 12:00:00", "2020-01-01 10:20:30.",
    "2020-01-01 10:20:30 ", "2020-001-01", "2020-01-01T10:20:30.000001-03:30", "+2020-01-01",
    "2020-01-01 10:20Z", "2020-01-01 10:20 UTC",
    "2020-01-01 10+02:00", "2020-01-01 10:20:30 +2",
]  # fmt: skip

_JSON = [
    '{"a":1}', '{"a":1.00}', '{"a":1e3}', '{"a":"x\\ny"}', "{'a':'q'}", '{"a":{"b":[1,2,{"c":null}]}}',
    '{"a":[1,2,3]}', '[{"a":1},{"a":2}]', '[[1,2],[3]]', '{"a":null}', '{"a":true} trailing', '{"a":1',
    '{"a":"\\u00e9\\ud83d\\ude00"}', ' { "a" : [ 1 , "x" ] } ', '"str"', '12', '12.50', 'null', '', '  ',
    '{"a":1,"a":2}', '{"a":2,"a":null}', '{a:1}', '[1,2', '{"a":"tab\tin"}', '{"a.b":5}', '{"a":{"b":1},"c":{"b":2}}',
    '{"a":[{"b":1},{"b":[2,3]},{"c":4}]}', '{"a":12345678901234567890}', '{"a":-0}', '{"a":-0.0}', '{"a":1.0E400}',
    '{"a":NaN}', '{"a":"\\/"}', '{"a":[]}', '{"a":{}}', 'true', '{"a":01}', '{"a":"é😀/\\"\'"}', '[]', '{}',
    '{"a":0.1234567890123456789}', '{"a":[null,1]}', '{"a":"1"}', '[1] x', '{"a":[[1],[2,3]]}', '{"a":"\\u0001\x7f"}',
    '{"b":[1,2],"a":x}', 'nullx', '{"a" 1}', '{"a":1,}', '{"a":"2020-01-05","b":"2020-01-05T10:20:30.5Z"}',
    '{"a":"2020-1-5 1:2:3","b":7}', '{"a":false,"b":"x","c":"-INF"}', '[{"a":1,"b":"y"},{"a":"x"},null]',
    '[{"a":1},5]', '{"b":{"a":"x","b":3},"a":{"k":"v","b":"w"}}', '{"a":[{"b":"1"}]}',
    '{"a":2147483648,"b":1.5,"c":[1.5,"z"]}', '{"a":"\\ud83d"}', '{"a":["\\ud83d"]}', '{"a":["😀"],"\\u0061b":3}',
    '[null]',
]  # fmt: skip

_EDGE: dict[str, list[Any]] = {
    "b": [True, False], "i8": [0, 1, -1, 127, -128, 5], "i16": [0, 1, -1, 32767, -32768, 300],
    "i": [0, 1, -1, 2, 3, 7, 2147483647, -2147483648, 1000, 65, 32, 33],
    "l": [0, 1, -1, 2, 9223372036854775807, -9223372036854775808, 2147483648, 10**12, 63, 255],
    "f": [0.0, -0.0, 1.5, -2.5, math.nan, math.inf, -math.inf, 0.1, 3.4e38, 1e-40, 1e10, 16777216.0],
    "d": [0.0, -0.0, 1.0, -1.0, 0.5, 2.5, -2.5, 1.005, 123456789.125, math.nan, math.inf, -math.inf, 1e300, 1e-300,
          0.1, 1e7, 9999999.999, 0.001, 0.00099, 1e16, 1.7976931348623157e308, 12345.678, -0.45, 1e22, 3.0000001],
    "s": _TEXTS, "sn": _NUMBERS, "sd": _TIMES, "bin": [b"", b"\x00\xff", b"abc", "é".encode(), b"\x80"],
    "dt": _DAYS, "ts": [*_MICROS, *(d * 86_400_000_000 + 3_723_000_007 for d in _DAYS)],
    "dec": [_D("0.00"), _D("1.00"), _D("-1.00"), _D("9999999999.99"), _D("-9999999999.99"), _D("2.50"),
            _D("0.05"), _D("3.33")],
    "dec2": [_D(0), _D("1"), _D("9999999999999999999999999999.9999999999"), _D("-1.5000000001"), _D("0.0000000001"),
             _D("12345.6789012345"), _D("-7.25")],
    "dec3": [_D("0"), _D("0.0001"), _D("-0.0005"), _D("9999999999999999.9999"), _D("17.3333"), _D("-2.5000"), _D("4")],
}  # fmt: skip
_EDGE |= {"b2": _EDGE["b"], "i2": _EDGE["i"], "l2": _EDGE["l"], "d2": _EDGE["d"], "s2": _TEXTS, "dt2": _DAYS}
_EDGE |= {"js": _JSON}
_EDGE |= {"ts2": _EDGE["ts"], "tn": _EDGE["ts"]}

_MILD = _EDGE | {
    "i8": [1, 2, 3, -4, 5, 7], "i16": [1, -2, 3, 50, -77], "i": [0, 1, -1, 2, 3, 7, -5, 10, 100, -64],
    "i2": [1, -1, 2, 3, -7, 12], "l": [0, 1, -1, 2, 63, 255, -1000], "l2": [1, -1, 3, -20, 1000],
    "f": [0.0, -0.0, 1.5, -2.5, 0.1, 100.25], "d2": [1.0, -1.0, 0.5, 2.5, -3.75, 1e-3, 7.0],
    "d": [0.0, -0.0, 1.0, -1.0, 0.5, 2.5, -2.5, 1.005, 12345.678, 0.1, -0.45, 3.0000001, 99.995, 1e-7],
    "sn": ["0", "1", "-1", " 42 ", "+7", "0012", "127", "\n8\t"], "sd": ["2020", "2020-1", "2020-1-5", " 2021-03-04 "],
    "dec": [_D("1.00"), _D("-1.00"), _D("2.50"), _D("0.05"), _D("3.33"), _D("-7.77"), _D("120.01")],
    "dec2": [_D("1"), _D("-1.5000000001"), _D("0.0000000001"), _D("12345.6789012345"), _D("-7.25")],
    "dec3": [_D("0.0001"), _D("-0.0005"), _D("17.3333"), _D("-2.5000"), _D("4"), _D("99.9999")],
    "bin": [b"", b"abc", "é".encode()],
}  # fmt: skip


def rows(kind: str, count: int = 200, seed: int = 7) -> pa.RecordBatch:
    """Random rows of every column: ``edge`` with extreme values, ``mild`` without those that overflow."""
    source, chosen = (_EDGE if kind == "edge" else _MILD), random.Random(seed)
    arrays = []
    for name, type_ in COLUMNS.items():
        values = source[name]
        cells = [
            None if chosen.random() < 0.15 else values[n] if n < len(values) else chosen.choice(values)
            for n in range(count)
        ]
        arrays.append(pa.array(cells, type_))
    return pa.RecordBatch.from_arrays(arrays, names=list(COLUMNS))


_RULES = "org.apache.spark.sql.catalyst.optimizer."


def session() -> SparkSession:
    """A local Spark session with the settings of the product."""
    os.environ["SPARK_HOME"] = os.path.dirname(pyspark.__file__)  # noqa: PTH120
    os.environ["PYSPARK_PYTHON"] = sys.executable
    spark = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.python.unix.domain.socket.enabled", "true")
        .config("spark.sql.session.timeZone", "UTC")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("OFF")
    return spark


def prepare(spark: SparkSession) -> None:
    """Views ``no_rows`` (for plans), ``edge`` and ``mild``."""
    spark.conf.set("spark.sql.session.timeZone", "UTC")
    spark.conf.set(
        "spark.sql.optimizer.excludedRules", f"{_RULES}ConvertToLocalRelation,{_RULES}PropagateEmptyRelation"
    )
    ddl = ", ".join(f"{name} {type_to_ddl(type_)}" for name, type_ in COLUMNS.items())
    spark.createDataFrame(spark.sparkContext.emptyRDD(), ddl).createOrReplaceTempView("no_rows")
    for kind in ("edge", "mild"):
        table = pa.Table.from_batches([rows(kind)])
        # createDataFrame reads every Arrow timestamp as TIMESTAMP, also one without a zone.
        frame = spark.createDataFrame(table).withColumn("tn", col("tn").cast("timestamp_ntz"))
        frame.coalesce(1).createOrReplaceTempView(kind)


def plan(spark: SparkSession, sqls: list[str]) -> list[Expression]:
    """The expressions of a projection, as Spark's optimiser leaves them."""
    listed = ", ".join(f"{sql} AS r{n}" for n, sql in enumerate(sqls))
    plan = spark.sql(f"SELECT {listed} FROM no_rows")._jdf.queryExecution().optimizedPlan()
    nodes = read_plan(plan, planner(spark).json(plan))
    *projects, leaf = nodes
    if not all(node["class"].endswith(".Project") for node in projects) or leaf["num-children"]:
        raise AssertionError(f"not only projections: {[n['class'] for n in nodes]}")
    inputs = {attribute[0]["exprId"]["id"]: list(COLUMNS).index(attribute[0]["name"]) for attribute in leaf["output"]}
    below: tuple[Expression, ...] = tuple(Ref(n, type_) for n, type_ in enumerate(COLUMNS.values()))
    for project in reversed(projects):  # what several expressions share is computed below
        listed = [tree(expression) for expression in project["projectList"]]
        below = tuple(substitute(translate(expression, inputs), below) for expression in listed)
        inputs = {expression.fields["exprId"]["id"]: n for n, expression in enumerate(listed)}
    return list(below)


def answers(spark: SparkSession, kind: str, sqls: list[str]) -> pa.Table:
    """What Spark says."""
    return spark.sql("SELECT " + ", ".join(f"{sql} AS r{n}" for n, sql in enumerate(sqls)) + f" FROM {kind}").toArrow()


_OF_A_DOUBLE = re.compile(r"-?[0-9]\.[0-9]+E-?[0-9]+")


def same(left: Any, right: Any) -> bool:
    """Equal values: floats to 1e-12, NaN equal to NaN; also inside arrays, structs and maps.

    Texts of one double may have other digits: those of JDKs before 19 are not always the shortest.
    """
    if isinstance(left, list | tuple) and isinstance(right, list | tuple):
        return len(left) == len(right) and all(same(a, b) for a, b in zip(left, right, strict=True))
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(same(left[k], right[k]) for k in left)
    if isinstance(left, float) and isinstance(right, float):
        return (left != left and right != right) or left == right or math.isclose(left, right, rel_tol=1e-12)
    if (
        isinstance(left, str)
        and isinstance(right, str)
        and _OF_A_DOUBLE.fullmatch(left)
        and _OF_A_DOUBLE.fullmatch(right)
    ):
        return float(left) == float(right)
    return bool(left == right)


def comparable(array: Any) -> list[Any]:
    """Values for :func:`same`; dates and timestamps as numbers, because Python's types end at year 9999."""
    if pa.types.is_date(array.type):
        array = array.cast(pa.int32())
    elif pa.types.is_timestamp(array.type):
        array = array.cast(pa.int64())
    return array.to_pylist()


def differences(sql: str, expression: Expression, batch: pa.RecordBatch, expected: pa.ChunkedArray) -> list[str]:
    """How our column differs from Spark's; empty when it does not."""
    actual = evaluate(expression, batch)
    if nullable_type(actual.type) != nullable_type(expected.type):
        return [f"{sql}: type {actual.type}, Spark {expected.type}"]
    found = []
    for row, (mine, theirs) in enumerate(zip(comparable(actual), comparable(expected), strict=True)):
        if not same(mine, theirs):
            used = {name: batch.column(name)[row] for name in COLUMNS if name in sql}
            found.append(f"{sql}: {mine!r}, Spark {theirs!r} with {used}")
    return found[:4]
