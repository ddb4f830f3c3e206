"""A server under readers and queries that come and go, lost connections, and killed processes; results against DuckDB.

:mod:`benchmarks.soak.soak` has the sequence of actions, :mod:`benchmarks.soak.model` what DuckDB says of the rows that
were sent. The short form is ``tests/serve/test_soak.py``.
"""
