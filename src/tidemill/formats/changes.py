"""Which rows of a keyed table are deletions: of these only the key counts."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

from tidemill.schema import Schema

DELETES_OPTION = "__deletes"
"""Internal option of a keyed table: JSON with ``column`` and ``value`` of the operation, and the ``key`` columns."""


@dataclass(frozen=True)
class DeleteRule:
    """Which rows are deletions, and which of their columns count.

    Attributes
    ----------
    operation : int
        Ordinal of the column that says so, in the schema.
    value : str
        What it says.
    kept : frozenset of int
        Ordinals of the key and of the operation.
    """

    operation: int
    value: str
    kept: frozenset[int]


def parse_delete_rule(schema: Schema, options: Mapping[str, str]) -> DeleteRule | None:
    """The rule in a table's options, if it has one."""
    if DELETES_OPTION not in options:
        return None
    rule = json.loads(options[DELETES_OPTION])
    operation = schema.names.index(rule["column"])
    return DeleteRule(operation, rule["value"], frozenset({operation, *(schema.names.index(k) for k in rule["key"])}))
