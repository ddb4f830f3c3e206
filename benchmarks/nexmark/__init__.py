"""Nexmark q0 to q22 over a stream of auctions and bids, beside Structured Streaming and evaluating again in Spark.

The events are from a generator of our own with the benchmark's proportions (:mod:`benchmarks.nexmark.generator`).
"""
