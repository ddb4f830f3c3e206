"""The same three jobs in Tidemill, Structured Streaming, Pathway, Bytewax, Flink and DuckDB, answers compared.

Jobs are in :mod:`benchmarks.peers.jobs`, what a side must do in :mod:`benchmarks.peers.side`.
"""
