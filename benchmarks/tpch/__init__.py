"""TPC-H over a stream of inserts and deletes, against evaluating each query again in DuckDB and in Spark.

Queries are those of the specification with its validation parameters (``queries/``); the data is from
``tpchgen-cli``, cut into epochs of changes (:mod:`benchmarks.tpch.changes`).
"""
