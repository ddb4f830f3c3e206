"""Aggregate functions, one family a file: what is kept of a group, how it is folded, merged and finished.

A family declares kinds of accumulators (:class:`~tidemill.task.aggregates.accumulators.Kind`) and functions
(:class:`~tidemill.task.aggregates.functions.AggregateFunction`). Partial groups, changes of groups, windows, readers of
views, costs in EXPLAIN, the documentation and the reading of Catalyst's plan follow from these declarations. Every file
of this folder is imported with it.
"""

from importlib import import_module
from pkgutil import iter_modules

for _module in iter_modules(__path__):
    import_module(f"{__name__}.{_module.name}")
