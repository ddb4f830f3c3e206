"""Options of rescued data and of schema evolution, under the names of Databricks' Auto Loader."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

import pyarrow as pa

from tidemill.errors import nearest
from tidemill.formats.options import bad_option
from tidemill.schema import Field, Schema

RESCUE_OPTIONS = frozenset({"rescueddatacolumn", "schemaevolutionmode"})

DEFAULT_COLUMN = "_rescued_data"
RESCUED_FORMATS = frozenset({"csv", "json"})
"""Formats that can tell what of a row does not fit."""


class Evolution(Enum):
    """What happens when a file has columns that the table has not."""

    RESCUE = "rescue"
    ADD = "addNewColumns"
    FAIL = "failOnNewColumns"
    NONE = "none"


def parse_evolution(given: Mapping[str, str]) -> Evolution | None:
    """The option ``schemaEvolutionMode``, None when it is not given. TM4003 for another value."""
    text = given.get("schemaevolutionmode")
    if text is None:
        return None
    modes = {mode.value.lower(): mode for mode in Evolution}
    if text.lower() not in modes:
        raise bad_option("schemaEvolutionMode", text, nearest(text, [mode.value for mode in Evolution]))
    return modes[text.lower()]


def rescue_column(given: Mapping[str, str]) -> str | None:
    """The column that holds what does not fit, if there is one."""
    return given.get("rescueddatacolumn") or None


def rescuing(columns: Schema, options: Mapping[str, str], inferred: bool) -> tuple[Schema, dict[str, str]]:
    """The columns of a table with the rescued data among them, and its options with what they stand for.

    An inferred table has ``_rescued_data`` unless told otherwise or in mode ``none``.

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
    mode = parse_evolution(options)
    if inferred and mode is not Evolution.NONE and "rescueddatacolumn" not in found:
        found["rescueddatacolumn"] = DEFAULT_COLUMN
    name = rescue_column(found)
    if name is None:
        found.pop("rescueddatacolumn", None)
        return columns, found
    present = next((f for f in columns if f.name.lower() == name.lower()), None)
    if present is None:
        return Schema((*columns, Field(name, pa.string()))), found
    if present.type != pa.string() or not present.nullable or inferred:
        raise bad_option("rescuedDataColumn", name, "there is another column of this name: give another one")
    found["rescueddatacolumn"] = present.name
    return columns, found


@dataclass(frozen=True)
class RescueRules:
    """What a reader does with what does not fit.

    Attributes
    ----------
    column : str or None
        The column that it goes to.
    strict : bool
        New columns must not be: TM4074.
    """

    column: str | None
    strict: bool

    def without_column(self, schema: Schema) -> Schema:
        """The columns that files have."""
        return Schema(tuple(f for f in schema if f.name != self.column))


def parse_rules(schema: Schema, options: Mapping[str, str]) -> RescueRules | None:
    """The rules of a table; None when it neither rescues nor refuses anything. TM4003 for a bad value."""
    given = {k.lower(): v for k, v in options.items()}
    name = rescue_column(given)
    column = None if name is None else next((f.name for f in schema if f.name.lower() == name.lower()), None)
    strict = parse_evolution(given) in (Evolution.ADD, Evolution.FAIL)
    return RescueRules(column, strict) if column is not None or strict else None
