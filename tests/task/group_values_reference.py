"""Aggregates that are made of all values of a group, in plain Python: the oracle of their tests."""

from __future__ import annotations

import math
from typing import Any

from tidemill.task.aggregates.accumulators import Accumulator


def scalar(accumulator: Accumulator, values: list[Any]) -> Any:
    """The result for one group; ``values`` are in ascending order, each as often as it occurs."""
    options: dict[str, Any] = dict(accumulator.options)
    if accumulator.distinct or accumulator.kind == "collect_set":
        values = [v for i, v in enumerate(values) if not i or v != values[i - 1]]
    if accumulator.kind.startswith("collect"):
        return values
    if accumulator.kind == "ordered_list":
        for at in reversed(range(len(options["descending"]))):
            down, last = options["descending"][at], options["nulls_last"][at]
            absent = [v for v in values if list(v.values())[at] is None]
            present = [v for v in values if list(v.values())[at] is not None]
            present = sorted(present, key=lambda v: list(v.values())[at], reverse=down)  # stable in both directions
            values = present + absent if last else absent + present
        return [list(v.values())[-1] for v in values][: options["limit"] or None] or None
    if not values:
        return None
    if accumulator.kind == "product":
        return math.prod(values)
    if accumulator.kind == "mode":
        ordered = values[::-1] if options["descending"] else values
        return max(ordered, key=ordered.count)
    if accumulator.kind.startswith("bit"):
        result = values[0]
        for v in values[1:]:
            result = {"bit_and": result & v, "bit_or": result | v, "bit_xor": result ^ v}[accumulator.kind]
        return result
    ordered = values[::-1] if options["descending"] else values
    found = []
    for p in options["percentages"]:
        if accumulator.kind != "percentile":
            found.append(float(ordered[max(math.ceil(len(ordered) * p) - 1, 0)]))
            continue
        position = (len(ordered) - 1) * p
        low, high = float(ordered[math.floor(position)]), float(ordered[math.ceil(position)])
        between = low + (high - low) * (position - math.floor(position))
        found.append(low if low == high or position == math.floor(position) else between)
    return (found or None) if options["many"] else found[0]
