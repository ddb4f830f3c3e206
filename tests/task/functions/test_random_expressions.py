"""Random nested expressions give what Spark gives."""

from __future__ import annotations

import spark_oracle
from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

SQL = st.SearchStrategy[str]


def _format(template: str, *parts: SQL) -> SQL:
    return st.tuples(*parts).map(lambda values: template.format(*values))


def _body(inner: SQL) -> SQL:
    """The same expression of an element ``x`` in place of the column ``i2``; an inner body hides the outer element."""
    return inner.map(lambda sql: sql.replace("i2", "x"))


def _level(integer: SQL, text: SQL, boolean: SQL, number: SQL) -> tuple[SQL, SQL, SQL, SQL]:
    return (
        st.one_of(
            integer,
            _format("try_add({}, {})", integer, integer),
            _format("try_multiply({}, {})", integer, integer),
            _format("try_mod({}, {})", integer, integer),
            _format("if({}, {}, {})", boolean, integer, integer),
            _format("case when {} then {} when {} then {} end", boolean, integer, boolean, integer),
            _format("coalesce({}, {})", integer, integer),
            _format("length({})", text),
            _format("greatest({}, {})", integer, integer),
            _format("hash({}, {}, {})", integer, text, number),
            _format("levenshtein({}, {})", text, text),
            _format("instr({}, {})", text, text),
            _format("find_in_set({}, {})", text, text),
            _format("regexp_count({}, '[a-c]')", text),
            _format("try_cast(factorial(try_mod({}, 30)) as int)", integer),
            _format("try_cast({} as int)", text),
            _format("try_cast({} as int)", number),
            _format("case when {0} <> 0 then 7 % {0} end", integer),
            _format("size(filter(array({}, {}, i2), x -> {}))", integer, integer, _body(boolean)),
            _format(
                "aggregate(array({}, {}), {}, (a, x) -> try_add(a, {}))", integer, integer, integer, _body(integer)
            ),
            _format(
                "zip_with(array({}), array(1, {}), (y, x) -> coalesce(y, {}))[1]", integer, integer, _body(integer)
            ),
            _format("from_json(concat('{{\"v\":', {}, '}}'), 'v int').v", integer),
        ),
        st.one_of(
            text,
            _format("concat({}, {})", text, text),
            _format("upper({})", text),
            _format("replace({}, {}, {})", text, text, text),
            _format("hex(try_to_binary({}))", text),
            _format("conv({}, 16, 10)", _format("substring({}, 1, 9)", text)),
            _format("format_string('%5d|%s|%.3e', {}, {}, {})", integer, text, number),
            _format("overlay({}, {}, {})", text, text, integer),
            _format("rpad({}, try_mod({}, 9), {})", text, integer, text),
            _format("soundex({})", text),
            _format("mask({}, {})", text, st.just("'*'")),
            _format("regexp_replace({}, '(.)(.)', '$2-$1')", text),
            _format("substring_index({}, {}, {})", text, text, integer),
            _format("substring({}, {}, 2)", text, integer),
            _format("cast({} as string)", integer),
            _format("coalesce({}, {})", text, text),
            _format("if({}, {}, {})", boolean, text, text),
            _format("array_join(transform(array({}, {}), x -> concat(x, {})), '-')", text, text, text),
            _format("get_json_object(to_json(named_struct('v', {}, 'w', array({}))), '$.w[0]')", text, number),
            _format("get_json_object(js, concat('$.', {}))", text),
            _format("get(map_values(transform_values(map(1, {}), (k, v) -> concat(v, {}))), 0)", text, text),
        ),
        st.one_of(
            boolean,
            _format("({} and {})", boolean, boolean),
            _format("({} or {})", boolean, boolean),
            _format("(not {})", boolean),
            _format("({} < {})", integer, integer),
            _format("({} <=> {})", number, number),
            _format("({} >= {})", text, text),
            _format("({} in ({}, 1, null))", integer, integer),
            _format("({} is null)", text),
            _format("({} like '%a%')", text),
            _format("exists(array({}, i2), x -> {})", integer, _body(boolean)),
            _format("forall(array({}, i2), x -> {})", integer, _body(boolean)),
            _format("contains({}, {})", text, text),
            _format("startswith({}, {})", text, text),
            _format("endswith({}, {})", text, text),
            _format("({} rlike '(?i)[b-d]+$')", text),
        ),
        st.one_of(
            number,
            _format("({} + {})", number, number),
            _format("try_divide({}, {})", number, number),
            _format("least({}, {})", number, number),
            _format("cast({} as double)", integer),
            _format("if({}, {}, {})", boolean, number, number),
        ),
    )


def _expressions() -> SQL:
    level = (
        st.sampled_from(["i", "i2", "cast(i8 as int)", "3", "cast(null as int)"]),
        st.sampled_from(["s", "s2", "sn", "'a'"]),
        st.sampled_from(["b", "b2", "true", "cast(null as boolean)"]),
        st.sampled_from(["d", "d2", "1.5D"]),
    )
    for _ in range(3):
        level = _level(*level)
    return st.one_of(*level)


@settings(max_examples=3, deadline=None, print_blob=True, database=None, suppress_health_check=list(HealthCheck))
@given(sqls=st.lists(_expressions(), min_size=10, max_size=25))
def test_random_expressions_equal_spark(oracle: SparkSession, sqls: list[str]) -> None:
    note(f"SELECT {', '.join(sqls)}")
    batch = spark_oracle.rows("edge")
    expressions = spark_oracle.plan(oracle, sqls)
    expected = spark_oracle.answers(oracle, "edge", sqls)
    found: list[str] = []
    for column, (sql, expression) in enumerate(zip(sqls, expressions, strict=True)):
        found += spark_oracle.differences(sql, expression, batch, expected.column(column))
    assert not found, "\n".join(found)
