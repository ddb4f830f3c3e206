"""The order of encoded bytes is the one that Spark's ORDER BY gives, for every type, direction and place of NULL."""

from __future__ import annotations

import pyarrow as pa
import pytest
from key_values import KEY_VALUES, MODES
from pyspark.sql import SparkSession

from tidemill.state.keys.keys import KeyColumn, encode

Ranks = dict[tuple[str, str], list[int]]


@pytest.fixture(scope="module")
def spark_ranks(spark: SparkSession) -> Ranks:
    """By type and mode the rank of each value, equal values alike, from one query."""
    longest = max(len(values) for _, values in KEY_VALUES.values())
    columns = {"row": pa.array(range(longest), pa.int64())}
    ranks = []
    for i, (type_, values) in enumerate(KEY_VALUES.values()):
        columns[f"c{i}"] = pa.array([*values, *[values[0]] * (longest - len(values))], type_)
        ranks += [f"dense_rank() OVER (ORDER BY c{i} {mode.upper()}) AS c{i}_{j}" for j, mode in enumerate(MODES)]
    spark.createDataFrame(pa.table(columns)).createOrReplaceTempView("key_values")
    found = spark.sql(f"SELECT row, {', '.join(ranks)} FROM key_values").toArrow().sort_by("row")
    return {
        (name, mode): found[f"c{i}_{j}"].to_pylist()[: len(KEY_VALUES[name][1])]
        for i, name in enumerate(KEY_VALUES)
        for j, mode in enumerate(MODES)
    }


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", KEY_VALUES)
def test_order_is_that_of_spark(spark_ranks: Ranks, name: str, mode: str) -> None:
    type_, values = KEY_VALUES[name]
    keys = encode([pa.array(values, type_)], [KeyColumn(type_, *MODES[mode])], 0)
    encoded = [keys[i] for i in range(len(keys))]
    ranked = {key: rank for rank, key in enumerate(sorted(set(encoded)), 1)}
    assert [ranked[key] for key in encoded] == spark_ranks[name, mode]


def test_pairs_of_columns(spark: SparkSession) -> None:
    """Columns of several modes in one key: the first decides, then the second."""
    texts, numbers = (KEY_VALUES[name] for name in ("string", "double"))
    pairs = [(t, n) for t in texts[1] for n in numbers[1]]
    columns = [pa.array([p[i] for p in pairs], kind[0]) for i, kind in enumerate((texts, numbers))]
    table = pa.table({"row": pa.array(range(len(pairs)), pa.int64()), "t": columns[0], "n": columns[1]})
    spark.createDataFrame(table).createOrReplaceTempView("key_pairs")
    for first, second in (("asc nulls first", "desc nulls first"), ("desc nulls last", "asc nulls last")):
        rank = f"dense_rank() OVER (ORDER BY t {first}, n {second})"
        expected = spark.sql(f"SELECT row, {rank} AS r FROM key_pairs").toArrow().sort_by("row")["r"].to_pylist()
        layout = [KeyColumn(texts[0], *MODES[first]), KeyColumn(numbers[0], *MODES[second])]
        keys = encode(columns, layout, 0)
        encoded = [keys[i] for i in range(len(keys))]
        ranked = {key: i for i, key in enumerate(sorted(set(encoded)), 1)}
        assert [ranked[key] for key in encoded] == expected
