"""Properties of views: ``TBLPROPERTIES`` of CREATE MATERIALIZED VIEW and of ALTER VIEW."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

from tidemill.errors import TidemillError, nearest
from tidemill.options.kinds import INTERVAL, SIZE, choice, number
from tidemill.options.option import Option, OptionGroup

T = TypeVar("T")

HEAD, TAIL, BACKFILL = "head", "tail", "backfill"

EMPTY_SUM = Option(
    "emptySum", choice("null", "zero"), "null", "what SUM and AVG over no values give; `zero` only for queries in SQL"
)
POSITION = Option(
    "position",
    choice(HEAD, TAIL, BACKFILL),
    HEAD,
    "which rows of its tables the view has: those that are still there (`head`); those that are admitted after its "
    "creation (`tail`); or all, and TM2061 where some are gone (`backfill`)",
)
PRIORITY = Option(
    "priority",
    number(1, 100),
    1,
    "the view's share of an epoch while it is initialising: twice the number, twice the bytes of history",
    alterable=True,
)
MAX_TASK_TIME = Option(
    "maxTaskTime",
    INTERVAL,
    None,
    "the time that the view may take in a task of an epoch; beyond it the view is paused with TM3910, and tried again",
    shown="no limit",
    alterable=True,
)
MAX_TASK_MEMORY = Option(
    "maxTaskMemory",
    SIZE,
    None,
    "the bytes that an operator of the view may hold, or give at once, in a task; beyond it the view is paused with "
    "TM3911, and tried again",
    shown="no limit",
    alterable=True,
)

VIEW_PROPERTIES = OptionGroup(
    "Views",
    "`CREATE MATERIALIZED VIEW name TBLPROPERTIES ('property' = 'value', ...) AS ...`; names are case-sensitive. The "
    "last column says whether `ALTER VIEW name SET TBLPROPERTIES` may change it.",
    (EMPTY_SUM, POSITION, PRIORITY, MAX_TASK_TIME, MAX_TASK_MEMORY),
)

_BY_NAME = {option.name: option for option in VIEW_PROPERTIES.options}


def value_of(option: Option[T], properties: Mapping[str, str]) -> T:
    """The value of a property of a view. TM2014 for a text that is no value."""
    text = properties.get(option.name)
    if text is None:
        return option.default
    try:
        return option.kind.read(text)
    except ValueError as error:
        raise TidemillError(
            "TM2014", f"bad value of property {option.name}", got=text, hint=str(error) or option.kind.wanted
        ) from error


def check_properties(properties: Mapping[str, str]) -> None:
    """TM2014 for a property of a view, or a value of one, that does not exist."""
    for name in properties:
        value_of(_known(name), properties)


def _known(name: str) -> Option[object]:
    if name not in _BY_NAME:
        raise TidemillError("TM2014", "unknown property of a view", got=name, hint=nearest(name, _BY_NAME))
    return _BY_NAME[name]


def fixed(properties: Mapping[str, str]) -> dict[str, str]:
    """The properties that ALTER VIEW cannot change."""
    return {name: text for name, text in properties.items() if not _BY_NAME[name].alterable}


def with_changes(properties: Mapping[str, str], changes: Mapping[str, str | None]) -> dict[str, str]:
    """Properties with other values for some; None takes one back.

    Raises
    ------
    TidemillError
        TM2014 for an unknown property or a bad value, TM2023 for one that cannot be changed.
    """
    check_properties({name: value for name, value in changes.items() if value is not None})
    for name in changes:
        if not _known(name).alterable:
            raise TidemillError(
                "TM2023",
                "this property of a view cannot be changed",
                got=name,
                hint="CREATE OR REPLACE MATERIALIZED VIEW with the other value",
            )
    kept = {name: value for name, value in properties.items() if name not in changes}
    return {**kept, **{name: value for name, value in changes.items() if value is not None}}
