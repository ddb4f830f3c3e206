"""CSV rows that are change messages: of a deletion only the key counts."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow.compute as pc

from tidemill.formats.csv.rows import Fields, RowBuilder
from tidemill.formats.rows.malformed import Flaws
from tidemill.formats.values.columns.columns import ParsedColumn
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


@dataclass(frozen=True)
class _ChangeBuilder(RowBuilder):
    deletes: DeleteRule

    def _flaws(self, fields: Fields, parsed: list[ParsedColumn], unterminated: bool) -> list[Flaws]:
        flaws = super()._flaws(fields, parsed, unterminated)
        if not flaws:
            return flaws
        slot = next(i for i, c in enumerate(self.columns) if c.ordinal == self.deletes.operation)
        deleted = pc.fill_null(pc.equal(parsed[slot].array, self.deletes.value), False)
        others = ~deleted.to_numpy(zero_copy_only=False)
        return [f.only(others) if self._does_not_count(f) else f for f in flaws]

    def _does_not_count(self, flaws: Flaws) -> bool:
        if flaws.ordinal >= 0:
            return flaws.ordinal not in self.deletes.kept
        return flaws.reason in ("too_few_fields", "too_many_fields")


def change_builder(builder: RowBuilder, deletes: DeleteRule) -> RowBuilder:
    """The same builder, lenient with what a deletion says beside its key."""
    given = (builder.options, builder.layout, builder.columns, builder.needed, None)
    return _ChangeBuilder(*given, deletes, rescue=builder.rescue)
