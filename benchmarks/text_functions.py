"""Functions of text: nanoseconds a row over whole columns, beside Spark's own on one core.

Rows are distinct and about 20 characters long, one in ten of them with characters beyond ASCII. Spark runs compiled
stages (``local[1]``) over a cached table into a sink that keeps nothing; what that takes with the bare columns is taken
off. Tidemill's side is the evaluation of Spark's optimised expression over the same rows as Arrow. Medians of rounds in
turn. There is no ratio where the answers differ, or where Spark takes no time that can be told from reading.
"""

from __future__ import annotations

import argparse
import base64
import random
import re
import statistics
import time
from typing import TYPE_CHECKING, Any
from urllib.parse import quote_plus

import pyarrow as pa

from benchmarks.measuring import heading, run_side, table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from tidemill.task.expressions import Expression

FUNCTIONS = (
    "replace(s, p, w)", "replace(s, 'a', 'xy')", "split(s, ' ')", "split(s, p)", "split(s, '[ae]')",
    "split_part(s, ' ', 2)", "split_part(s, p, n)", "substring_index(s, ' ', 2)", "substring_index(s, p, -1)",
    "trim(s)", "trim(BOTH p FROM s)", "ltrim('abc', s)", "btrim(s, 'abcde')", "lpad(s, 30, '*')", "rpad(s, 20 + n, p)",
    "repeat(s, n)", "overlay(s, p, n)", "translate(s, 'abc', 'xy')", "translate(s, p, w)", "initcap(s)", "upper(s)",
    "reverse(s)", "instr(s, p)", "locate('e', s, n)", "contains(s, p)", "levenshtein(s, w)", "levenshtein(s, w, 5)",
    "soundex(s)", "find_in_set(p, s)", "concat_ws('-', s, split(w, ' '))", "mask(s)", "luhn_check(digits)",
    "base64(s)", "unbase64(b64)", "hex(s)", "unhex(hx)", "hex(i)", "bin(i)", "conv(hx8, 16, 10)", "url_encode(s)",
    "url_decode(url)", "parse_url(address, 'HOST')", "crc32(s)", "hash(s)", "xxhash64(s)", "md5(s)", "sha2(s, 256)",
    "encode(s, 'UTF-8')", "format_number(d, 2)", "format_number(i, 0)", "format_string('%s-%d', s, n)",
    "format_string('%.2f', d)", "to_number(digits2, '99999')", "to_char(dec, '99999.99')",
    "s RLIKE '[a-c]+[0-9]'", "s RLIKE 'a(?=b)'", "regexp_replace(s, '[aeiou]', '')",
    "regexp_replace(s, '([a-z])([0-9])', '$2$1')", "regexp_extract(s, '([a-z]+) ([a-z]+)', 2)",
    "regexp_extract_all(s, '[a-z]+', 0)", "regexp_count(s, '[a-c]')", "regexp_instr(s, '[x-z]')",
)  # fmt: skip
COLUMNS = (
    "s STRING, w STRING, p STRING, n INT, i BIGINT, d DOUBLE, dec DECIMAL(7,2), b64 STRING, hx STRING, hx8 STRING, "
    "url STRING, address STRING, digits STRING, digits2 STRING"
)
_RULES = "org.apache.spark.sql.catalyst.optimizer."
_COPIES = 8


def rows_of(count: int) -> pa.Table:
    """Random rows, the same each time."""
    chance = random.Random(20261122)
    lower, other = "abcdefghijklmnopqrstuvwxyz0123456789    ", "äöüßéñ日本語😀"
    columns: dict[str, list[Any]] = {name.split()[0]: [] for name in COLUMNS.split(", ")}
    for number in range(count):
        letters = lower + other if chance.random() < 0.1 else lower
        s = "".join(chance.choices(letters, k=chance.randrange(8, 24))) + f"{number:06d}"
        w = list(s)
        for _ in range(4):
            w[chance.randrange(len(w))] = chance.choice(letters)
        at = chance.randrange(len(s) - 2)
        row = {
            "s": s, "w": "".join(w), "p": s[at : at + 2], "n": chance.randrange(1, 6),
            "i": chance.randrange(-(2**62), 2**62), "d": chance.gauss(0, 1e6), "dec": f"{chance.gauss(0, 9999):.2f}",
            "b64": base64.b64encode(s.encode()).decode(), "hx": s.encode().hex(),
            "hx8": f"{chance.randrange(2**31):x}", "url": quote_plus(s),
            "address": f"http://www.h{number}.org/p/{number}?q={quote_plus(s)}",
            "digits": str(chance.randrange(10**15, 10**16)), "digits2": str(chance.randrange(10**5)),
        }  # fmt: skip
        for name, value in row.items():
            columns[name].append(value)
    types = {"n": pa.int32(), "i": pa.int64(), "d": pa.float64()}
    arrays = {name: pa.array(values, types.get(name)) for name, values in columns.items()}
    arrays["dec"] = arrays["dec"].cast(pa.decimal128(7, 2))
    return pa.table(arrays)


def _expression(spark: SparkSession, sql: str, names: list[str], types: list[pa.DataType]) -> Expression:
    """Spark's optimised expression, as Tidemill evaluates it."""
    from tidemill.plan.catalyst.expressions.expressions import read_plan, translate, tree
    from tidemill.plan.catalyst.planner import planner
    from tidemill.task.expressions import Ref, substitute

    plan = spark.sql(f"SELECT {sql} AS r FROM empty")._jdf.queryExecution().optimizedPlan()
    *projects, leaf = read_plan(plan, planner(spark).json(plan))
    inputs = {attribute[0]["exprId"]["id"]: names.index(attribute[0]["name"]) for attribute in leaf["output"]}
    below: tuple[Expression, ...] = tuple(Ref(n, type_) for n, type_ in enumerate(types))
    for project in reversed(projects):
        listed = [tree(expression) for expression in project["projectList"]]
        below = tuple(substitute(translate(expression, inputs), below) for expression in listed)
        inputs = {expression.fields["exprId"]["id"]: n for n, expression in enumerate(listed)}
    return below[0]


def _seconds(frame: DataFrame) -> float:
    start = time.perf_counter()
    frame.write.format("noop").mode("overwrite").save()
    return time.perf_counter() - start


def measured(count: int, rounds: int, only: str) -> list[tuple[str, float, float, bool]]:
    """Function, nanoseconds a row here and in Spark, and whether the answers are the same."""
    from pyspark.sql import SparkSession

    from tidemill.task.functions.evaluate import evaluate

    builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
    spark = builder.config("spark.sql.session.timeZone", "UTC").getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    rules = f"{_RULES}ConvertToLocalRelation,{_RULES}PropagateEmptyRelation"
    spark.conf.set("spark.sql.optimizer.excludedRules", rules)
    data = rows_of(count).combine_chunks()
    batch = data.to_batches()[0]
    spark.createDataFrame(spark.sparkContext.emptyRDD(), COLUMNS).createOrReplaceTempView("empty")
    spark.createDataFrame(data).coalesce(1).createOrReplaceTempView("few")
    spark.sql("CACHE TABLE few")
    copies = spark.range(_COPIES).crossJoin(spark.table("few")).drop("id")
    copies.coalesce(1).cache().createOrReplaceTempView("many")
    found = []
    for sql in FUNCTIONS:
        if only not in sql:
            continue
        expression = _expression(spark, sql, data.column_names, [field.type for field in data.schema])
        answer = evaluate(expression, batch)
        theirs = spark.sql(f"SELECT {sql} AS r FROM few").toArrow().column(0).combine_chunks()
        same = answer.to_pylist() == theirs.to_pylist()
        used = ", ".join(name for name in data.column_names if re.search(rf"\b{name}\b", sql))
        with_, without = (spark.sql(f"SELECT {listed} FROM many") for listed in (f"{sql} AS r", used))
        _seconds(with_), _seconds(without)
        ours, whole, bare = [], [], []
        for _ in range(rounds):
            start = time.perf_counter()
            evaluate(expression, batch)
            ours.append(time.perf_counter() - start)
            whole.append(_seconds(with_))
            bare.append(_seconds(without))
        spent = (statistics.median(whole) - statistics.median(bare)) / (count * _COPIES)
        found.append((sql, statistics.median(ours) / count * 1e9, spent * 1e9, same))
    spark.stop()
    return found


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.text_functions", description=__doc__)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", default="", help="functions whose SQL has this in it")
    parser.add_argument("--small", action="store_true", help="a few rows, one round")
    given = parser.parse_args()
    rows, rounds = (2_000, 1) if given.small else (given.rows, given.rounds)
    heading(f"Functions of text over {rows:,} rows, ns a row")
    found = run_side("benchmarks.text_functions", "measured", count=rows, rounds=rounds, only=given.only)
    listed = []
    for sql, ours, theirs, same in found:
        ratio = f"{theirs / ours:.2f}" if same and theirs > 1 else "" if same else "answers differ"
        listed.append((sql, round(ours), round(theirs), ratio))
    table(("function", "Tidemill", "Spark", "times as fast"), listed)


if __name__ == "__main__":
    main()
