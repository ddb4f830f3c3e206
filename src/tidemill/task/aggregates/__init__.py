"""Aggregate functions, one family a file: what is kept of a group, how it is folded, merged and finished.

A family declares kinds of accumulators (:class:`~tidemill.task.aggregates.accumulators.Kind`) and functions
(:class:`~tidemill.task.aggregates.functions.AggregateFunction`). Partial groups, changes of groups, windows, readers of
views, costs in EXPLAIN and the reading of Catalyst's plan follow from these declarations.
"""

from tidemill.task.aggregates import (  # noqa: F401  (declare what is in them)
    comoments,
    counts,
    extremes,
    lists,
    moments,
    percentiles,
    reductions,
    sums,
)
