"""Why some of Spark's functions are not supported, and calls of those that Spark has no example of.

What *is* supported is not written here: :mod:`tidemill.plan.documentation.function_examples` finds it. A reason of a
function that has become supported is not used; remove it then.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

Reason: TypeAlias = tuple[Literal["planned", "never"], str]

_TIME: Reason = ("planned", "needs the type TIME, which Spark 4.3 itself switches off")
_INTERVAL: Reason = ("planned", "needs calendar intervals as values; those of constants are understood")
_CHANGES: Reason = ("never", "the rows do not decide its value")
_RUNNING: Reason = ("never", "its value depends on how Spark runs the query")
_SKETCH: Reason = ("planned", "needs the binary sketches of Apache DataSketches")
_VARIANT: Reason = ("planned", "needs the type VARIANT")
_REFLECTION: Reason = ("never", "it calls any method of Java")
_SPATIAL: Reason = ("planned", "needs the types GEOMETRY and GEOGRAPHY")
_CIPHER: Reason = ("planned", "needs a library of ciphers; without an initialisation vector it is random")

BY_GROUP: dict[str, Reason] = {
    "sketch_funcs": _SKETCH, "variant_funcs": _VARIANT, "st_funcs": _SPATIAL,
    "vector_funcs": ("planned", "needs float arithmetic in Spark's order of additions"),
    "avro_funcs": ("planned", "needs the Avro module of Spark"),
    "protobuf_funcs": ("planned", "needs the Protobuf module of Spark"),
    "xml_funcs": ("planned", "needs Java's XPath"),
}  # fmt: skip

REASONS: dict[str, Reason] = {
    **dict.fromkeys(
        ("rand", "randn", "random", "randstr", "uniform", "uuid", "shuffle", "current_date", "curdate",
         "current_timestamp", "now", "localtimestamp", "current_time", "localtime"),
        _CHANGES,
    ),
    **dict.fromkeys(
        ("monotonically_increasing_id", "spark_partition_id", "input_file_block_length", "input_file_block_start",
         "input_file_name", "current_catalog", "current_database", "current_schema", "current_user",
         "session_user", "user", "version", "python_worker_logs", "collations", "sql_keywords"),
        _RUNNING,
    ),
    **dict.fromkeys(("java_method", "reflect", "try_reflect"), _REFLECTION),
    **dict.fromkeys(
        ("make_time", "time_diff", "time_from_micros", "time_from_millis", "time_from_seconds", "time_to_micros",
         "time_to_millis", "time_to_seconds", "time_trunc", "to_time", "try_to_time", "time"),
        _TIME,
    ),
    **dict.fromkeys(
        ("make_interval", "try_make_interval"), _INTERVAL,
    ),
    **dict.fromkeys(("aes_encrypt", "aes_decrypt", "try_aes_decrypt"), _CIPHER),
    **dict.fromkeys(("timestamp_nanos", "unix_nanos"), ("planned", "needs timestamps with nanoseconds")),
    **dict.fromkeys(
        ("approx_top_k", "approx_top_k_accumulate", "approx_top_k_combine", "count_min_sketch", "hll_sketch_agg",
         "hll_union_agg", "kll_merge_agg_bigint", "kll_merge_agg_double", "kll_merge_agg_float",
         "kll_sketch_agg_bigint", "kll_sketch_agg_double", "kll_sketch_agg_float", "theta_intersection_agg",
         "theta_sketch_agg", "theta_union_agg", "tuple_intersection_agg_double", "tuple_intersection_agg_integer",
         "tuple_sketch_agg_double", "tuple_sketch_agg_integer", "tuple_union_agg_double",
         "tuple_union_agg_integer"),
        _SKETCH,
    ),
    **dict.fromkeys(("bitmap_and_agg", "bitmap_construct_agg", "bitmap_or_agg"), ("planned", "aggregates of bitmaps")),
    "collect_union": ("planned", "aggregates of the values of a group"),
    "measure": ("never", "it is for metric views of Spark"),
    "schema_of_variant_agg": _VARIANT,
    "sentences": ("never", "Java's text segmentation, which differs from version to version"),
    "counter_diff": ("planned", "a window function over the row before"),
    "time_bucket": ("planned", "buckets of an interval"),
    "variant_explode": _VARIANT, "variant_explode_outer": _VARIANT,
}  # fmt: skip

CALLS: dict[str, tuple[str, ...]] = {
    "!=": ("SELECT 1 != 2",), "<>": ("SELECT 1 <> 2",), "||": ("SELECT 'a' || 'b'",),
    "case": ("SELECT CASE WHEN true THEN 1 ELSE 2 END",), "when": ("SELECT CASE WHEN false THEN 1 END",),
    "between": ("SELECT 2 BETWEEN 1 AND 3",),
    **{
        name: (f"SELECT {name}('1')",)
        for name in ("bigint", "decimal", "double", "float", "int", "smallint", "tinyint")
    },
    "binary": ("SELECT binary('1')",), "boolean": ("SELECT boolean('true')",), "string": ("SELECT string(1)",),
    "date": ("SELECT date('2020-02-29')",), "timestamp": ("SELECT timestamp('2020-02-29 10:11:12')",),
    "time": ("SELECT time('10:11:12')",),
    **{
        name: (
            f"""SELECT to_json({name}('{{"a":1}}'))""",
            f"""SELECT variant_get({name}('{{"a":1}}'), '$.a', 'int')""",
        )
        for name in ("parse_json", "try_parse_json")
    },
    "range": ("SELECT * FROM range(3)",),
    "uuid": ("SELECT uuid()",), "row_number": ("SELECT row_number() OVER (ORDER BY a) FROM VALUES (1), (2) t(a)",),
    "named_struct": ("SELECT named_struct('a', 1)",),
}  # fmt: skip
"""Calls of functions whose entry in Spark's documentation has no example that can be planned."""
