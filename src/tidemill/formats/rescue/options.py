"""Options of rescued data and of schema evolution, under the names of Databricks' Auto Loader."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

import pyarrow as pa

from tidemill.options.kinds import TEXT, member
from tidemill.options.option import Option, OptionGroup, lowered
from tidemill.schema import Field, Schema

DEFAULT_COLUMN = "_rescued_data"
RESCUED_FORMATS = frozenset({"csv", "json"})
"""Formats that can rescue data."""


class Evolution(Enum):
    """What happens when a file has columns that the table does not have."""

    RESCUE = "rescue"
    ADD = "addNewColumns"
    FAIL = "failOnNewColumns"
    NONE = "none"


RESCUED_DATA_COLUMN = Option(
    "rescuedDataColumn",
    TEXT,
    None,
    "a column of JSON that receives what of a row fits no column",
    shown="`_rescued_data` if columns are inferred, else none",
)
EVOLUTION = Option(
    "schemaEvolutionMode",
    member(Evolution),
    None,
    "what becomes of columns that come later",
    shown="they go to the rescued data",
)
RESCUE_OPTIONS = OptionGroup("Rescued data", "Tables `USING csv` and `USING json`.", (RESCUED_DATA_COLUMN, EVOLUTION))


def rescue_column(given: Mapping[str, str]) -> str | None:
    """The column of rescued data, if there is one; names of ``given`` are in lower case."""
    return RESCUED_DATA_COLUMN.of(given) or None


def rescuing(columns: Schema, options: Mapping[str, str], inferred: bool) -> tuple[Schema, dict[str, str]]:
    """The columns of a table with the rescued data among them, and its options with their values.

    An inferred table has ``_rescued_data``, unless an option names it otherwise or the mode is ``none``.

    Parameters
    ----------
    options : mapping
        Names in lower case.

    Raises
    ------
    TidemillError
        TM4003 for a bad value, or a column of that name and another type than STRING.
    """
    found = dict(options)
    mode = EVOLUTION.of(options)
    if inferred and mode is not Evolution.NONE and RESCUED_DATA_COLUMN.key not in found:
        found[RESCUED_DATA_COLUMN.key] = DEFAULT_COLUMN
    name = rescue_column(found)
    if name is None:
        found.pop(RESCUED_DATA_COLUMN.key, None)
        return columns, found
    present = next((f for f in columns if f.name.lower() == name.lower()), None)
    if present is None:
        return Schema((*columns, Field(name, pa.string()))), found
    if present.type != pa.string() or not present.nullable or inferred:
        raise RESCUED_DATA_COLUMN.bad(name, "there is another column of this name: give another one")
    found[RESCUED_DATA_COLUMN.key] = present.name
    return columns, found


@dataclass(frozen=True)
class RescueRules:
    """What a reader does with values and columns that do not fit.

    Attributes
    ----------
    column : str or None
        The column of rescued data.
    strict : bool
        New columns raise TM4074.
    """

    column: str | None
    strict: bool

    def without_column(self, schema: Schema) -> Schema:
        """The columns that files have."""
        return Schema(tuple(f for f in schema if f.name != self.column))


def parse_rules(schema: Schema, options: Mapping[str, str]) -> RescueRules | None:
    """The rules of a table; None when it neither rescues nor refuses anything. TM4003 for a bad value."""
    given = lowered(options)
    name = rescue_column(given)
    column = None if name is None else next((f.name for f in schema if f.name.lower() == name.lower()), None)
    strict = EVOLUTION.of(given) in (Evolution.ADD, Evolution.FAIL)
    return RescueRules(column, strict) if column is not None or strict else None
