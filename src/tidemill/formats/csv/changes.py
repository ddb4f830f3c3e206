"""CSV rows that are change messages: of a deletion only the key counts."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from tidemill.formats.csv.rows import Fields, RowBuilder
from tidemill.formats.messages import Deletions
from tidemill.formats.rows.malformed import Flaws
from tidemill.formats.values.columns.columns import ParsedColumn


@dataclass(frozen=True)
class _ChangeBuilder(RowBuilder):
    deletes: Deletions

    def _flaws(self, fields: Fields, parsed: list[ParsedColumn], unterminated: bool) -> list[Flaws]:
        flaws = super()._flaws(fields, parsed, unterminated)
        if not flaws:
            return flaws
        slot = next(i for i, c in enumerate(self.columns) if c.ordinal == self.deletes.operation)
        deleted = pc.equal(parsed[slot].array, pa.scalar(self.deletes.value)).fill_null(False)
        others = ~deleted.to_numpy(zero_copy_only=False)
        return [f.only(others) if self._is_ignored(f) else f for f in flaws]

    def _is_ignored(self, flaws: Flaws) -> bool:
        """Whether flaws do not matter in a deletion."""
        if flaws.ordinal >= 0:
            return flaws.ordinal not in self.deletes.kept
        return flaws.reason in ("too_few_fields", "too_many_fields")


def change_builder(builder: RowBuilder, deletes: Deletions) -> RowBuilder:
    """The same builder, which ignores flaws of deletions outside of their key."""
    given = (builder.options, builder.layout, builder.columns, builder.needed, None)
    return _ChangeBuilder(*given, deletes, rescue=builder.rescue)
