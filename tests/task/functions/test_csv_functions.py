"""``from_csv`` and ``to_csv`` give what Spark gives, over texts of any quotes, escapes and blanks, and over values."""

from __future__ import annotations

import random

import pyarrow as pa
import pytest
import spark_oracle
from pyspark.sql import SparkSession

from tidemill.errors import TidemillError
from tidemill.task.functions.evaluate import evaluate

PIECES = ("a", "b", ",", ",", '"', '"', "\\", " ", "\n", "\r", "\f", "\t", "é", "日", "😀", ";", "#")
VALUES = (
    "1", "-1", "+7", "007", " 5", "5 ", "127", "128", "2147483648", "9223372036854775808", "1.5", "-0.0", "1e3",
    ".5", "5.", "1d", "1.5f", "NaN", "+NaN", "nan", "Inf", "-Inf", "+Inf", "inf", "Infinity", "-Infinity", " Infinity ",
    "true", "FALSE", "t", "yes", "2020-01-05", "2020-1-5", "2020-01-05 10:20:30", "2020-01-05T10:20:30.5Z", "2020",
    "2020-02-30", "x", "", " ", '"1,234.5"', '"1,5"', "12.345", "99999.995", "1 2", "2020-01-05T10:20:30+02:00", "-",
    "NULL", '"a ""b"', "0.004", '""',
)  # fmt: skip
SQLS = [
    "from_csv(s, 'a string, b string, c string, _corrupt_record string')",
    "from_csv(s, 'x string, a string', map('sep', ';', 'columnNameOfCorruptRecord', 'x'))",
    "from_csv(s, 'a string, b string').b",
    "from_csv(s, 'a string, b string, c string, d string', map('nullValue', 'a'))",
    "from_csv(s2, 'a int, b double, c boolean, _corrupt_record string')",
    "from_csv(s2, 'a tinyint, b float, c date')",
    "from_csv(s2, 'a smallint, b bigint, c timestamp, _corrupt_record string', map('mode', 'permissive'))",
    "from_csv(s2, 'a decimal(7,2), b decimal(38,10), c timestamp_ntz')",
    "from_csv(s2, 'a date, b timestamp, c string', map('dateFormat', 'yyyy-MM-dd', 'timestampFormat', 'yyyy-MM-dd'))",
    "from_csv(s2, 'a timestamp, b timestamp, c int', map('timeZone', 'Asia/Tokyo'))",
    "from_csv(s2, 'a int, b int, c int').c",
    "from_csv(s, 'a string, b string, c string', map('delimiter', '\\t'))",
    "from_csv(s2, 'a string, b string, c string', map('nullValue', '-'))",
    "to_csv(struct(s, s2))",
    "to_csv(struct(s, s2, 1), map('sep', '|'))",
    "to_csv(struct(s, s2, 1), map('sep', '\\t'))",
    "to_csv(struct(s2, s), map('sep', ';', 'nullValue', '-'))",
    "to_csv(from_csv(s, 'a string, b string'))",
    "from_csv(to_csv(struct(s as a, s2 as b)), 'a string, b string')",
    "schema_of_csv('1,abc,2020-01-01')",
    "from_csv(s2, schema_of_csv('1,abc,true'))",
]


def random_texts(chance: random.Random, count: int) -> pa.RecordBatch:
    """Any texts in ``s``, and records of values in ``s2``; some NULL."""
    cells: dict[str, list[str | None]] = {
        "s": ["".join(chance.choices(PIECES, k=chance.randrange(14))) for _ in range(count)],
        "s2": [",".join(chance.choices(VALUES, k=chance.choice((3, 3, 3, 2, 4)))) for _ in range(count)],
    }
    for texts in cells.values():
        texts[chance.randrange(count)] = None
    arrays = [pa.array(cells.get(name, [None] * count), type_) for name, type_ in spark_oracle.COLUMNS.items()]
    return pa.RecordBatch.from_arrays(arrays, names=list(spark_oracle.COLUMNS))


def test_csv_of_any_texts_equals_spark(oracle: SparkSession, seed: int) -> None:
    batch = random_texts(random.Random(seed), 3000)
    oracle.createDataFrame(pa.Table.from_batches([batch])).coalesce(1).createOrReplaceTempView("csv_texts")
    expected = spark_oracle.answers(oracle, "csv_texts", SQLS)
    found: list[str] = []
    for column, (sql, expression) in enumerate(zip(SQLS, spark_oracle.plan(oracle, SQLS), strict=True)):
        found += spark_oracle.differences(sql, expression, batch, expected.column(column))
    assert not found, "\n".join(found)


@pytest.mark.parametrize("text", ["", "x", "1,2", '"1'])
def test_malformed_texts_fail_in_mode_failfast(oracle: SparkSession, text: str) -> None:
    sql = "from_csv(s, 'a int', map('mode', 'FAILFAST'))"
    (expression,) = spark_oracle.plan(oracle, [sql])
    for value, fails in (("1", False), (None, False), (text, text != '"1')):
        cells = [[value if name == "s" else None] for name in spark_oracle.COLUMNS]
        arrays = [pa.array(c, t) for c, t in zip(cells, spark_oracle.COLUMNS.values(), strict=True)]
        batch = pa.RecordBatch.from_arrays(arrays, names=list(spark_oracle.COLUMNS))
        if fails:
            with pytest.raises(TidemillError, match="TM3004"):
                evaluate(expression, batch)
        else:
            assert evaluate(expression, batch).to_pylist() == [value and {"a": 1}]
