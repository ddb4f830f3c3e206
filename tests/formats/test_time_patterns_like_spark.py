"""Spark's datetime patterns: values against Spark's own CSV reader, and which patterns it refuses."""

from __future__ import annotations

import datetime as dt
import random

import pyarrow as pa
from column_parsing import MALFORMED, parse
from pattern_texts import pattern_of, text_of
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession, functions

from tidemill.formats.values.times.time_pattern import compile_pattern
from tidemill.schema import TIMESTAMP, TIMESTAMP_NTZ

_EPOCH = dt.datetime(1970, 1, 1)
_FIRST, _LAST = -719_162 * 86_400_000_000, 2_932_897 * 86_400_000_000 - 1
_NAMES = {"TIMESTAMP": TIMESTAMP, "TIMESTAMP_NTZ": TIMESTAMP_NTZ, "DATE": pa.date32()}
_ONLY_SPARKS = ("is not supported", "are not supported", "full names")


def _micros(value: object) -> int | None:
    if value == MALFORMED:
        return None
    if isinstance(value, dt.datetime):
        return (value.replace(tzinfo=None) - _EPOCH) // dt.timedelta(microseconds=1)
    assert isinstance(value, dt.date)
    return (dt.datetime.combine(value, dt.time()) - _EPOCH) // dt.timedelta(microseconds=1)


def _compiles(pattern: str) -> bool | None:
    """Whether a pattern is understood; None for one that only Spark understands."""
    try:
        compile_pattern(pattern)
    except ValueError as error:
        return None if any(reason in str(error) for reason in _ONLY_SPARKS) else False
    return True


def test_values_like_spark(spark: SparkSession, seed: int):
    chosen = random.Random(seed)
    patterns: list[str] = []
    while len(patterns) < 12:
        pattern = pattern_of(chosen)
        if pattern not in patterns and _compiles(pattern):
            patterns.append(pattern)
    texts = [_texts(chosen, pattern) for pattern in patterns]
    frame = spark.createDataFrame(
        list(zip(*texts, strict=True)), ", ".join(f"c{i} STRING" for i in range(len(patterns)))
    ).coalesce(1)
    columns = []
    for number, pattern in enumerate(patterns):
        names = ("timestampFormat", "timestampNTZFormat", "dateFormat")
        options = {**dict.fromkeys(names, pattern), "sep": "\x01", "quote": ""}
        for name in _NAMES:
            value = functions.from_csv(f"c{number}", f"v {name}", options)["v"]
            columns.append(functions.unix_micros(value.cast("TIMESTAMP")).alias(f"{name}{number}"))
    found = frame.select(columns).collect()
    fitting = 0
    for number, pattern in enumerate(patterns):
        for name, type_ in _NAMES.items():
            read = [row[f"{name}{number}"] for row in found]
            expected = [value if value is not None and _FIRST <= value <= _LAST else None for value in read]
            values = parse(type_, [text.encode() for text in texts[number]], pattern)
            assert [_micros(value) for value in values] == expected, (name, pattern, texts[number])
            fitting += sum(value is not None for value in expected)
    assert fitting > 100


def _texts(chosen: random.Random, pattern: str) -> list[str]:
    """Texts for a pattern, without short names of zones but those known here, which a changed text may be."""
    texts: list[str] = []
    while len(texts) < 40:
        text = text_of(chosen, pattern)
        if "z" not in pattern or "GMT" not in text:
            texts.append(text)
    return texts


def test_patterns_that_spark_refuses(spark: SparkSession):
    letters = "adDEFgGhHkKLmMnNOpqQsSuvVwWxXyYzZ"
    patterns = [letter * count for letter in letters for count in (1, 2, 3, 4, 5, 6)]
    patterns += ["yyyyyyy", "S" * 10, "yyyy]", "[yyyy", "{", "#", "'open", "yyyy''", "T", "y'T'", "S'x", "[[M]d]"]
    formatter = spark._jvm.org.apache.spark.sql.catalyst.util.TimestampFormatter
    zone = spark._jvm.java.time.ZoneOffset.UTC
    for pattern in patterns:
        try:
            formatter.apply(pattern, zone, True).validatePatternString(False)
            fits = True
        except (PySparkException, Py4JJavaError):
            fits = False
        assert _compiles(pattern) in (None, fits), pattern
