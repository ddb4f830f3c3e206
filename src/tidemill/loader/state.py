"""The state of a loader: where it goes on, and what it must find there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tidemill.errors import TidemillError

VERSION = 1

FINGERPRINT = ("data", "plan", "shuffle", "shuffle_buffer")
_SAID = {
    "data": "the files: their names, sizes, versions or splits",
    "plan": "the plan, the format, its options, the schema or the columns",
    "shuffle": "the seed",
    "shuffle_buffer": "the rows that are shuffled together",
}


@dataclass(frozen=True)
class Position:
    """Rows that all ranks together have taken in a pass, and a place from which the next ones can be read.

    Attributes
    ----------
    pass_ : int
        Number of the pass, from 0 on.
    rows : int
        Rows of the pass that were taken.
    place, row, at : int
        A window of rows begins with row ``row`` of the split that the pass reads as number ``place``, behind ``at``
        rows of the pass; ``at <= rows``.
    """

    pass_: int = 0
    rows: int = 0
    place: int = 0
    row: int = 0
    at: int = 0


def to_state(position: Position, fingerprint: Mapping[str, Any]) -> dict[str, Any]:
    """A state as plain data, for JSON."""
    read_from = {"split": position.place, "row": position.row, "rows_before": position.at}
    return {
        "version": VERSION,
        "pass": position.pass_,
        "rows": position.rows,
        "read_from": read_from,
        "fingerprint": dict(fingerprint),
    }


def from_state(state: Any, fingerprint: Mapping[str, Any], strict: bool) -> Position:
    """The position in a state.

    Raises
    ------
    TidemillError
        TM9004 when it is none; TM9005 when it is of other data, unless not ``strict``.
    """
    try:
        version, found = state["version"], state["fingerprint"]
        read_from = state["read_from"]
        numbers = (state["pass"], state["rows"], read_from["split"], read_from["row"], read_from["rows_before"])
        known = all(isinstance(n, int) and not isinstance(n, bool) and n >= 0 for n in numbers)
        known = known and version == VERSION and numbers[4] <= numbers[1] and isinstance(found, Mapping)
    except (KeyError, TypeError):
        known = False
    if not known:
        raise TidemillError(
            "TM9004",
            "this is no state of a loader",
            got=repr(state)[:100],
            hint="give what state_dict() gave, unchanged; JSON keeps it",
        )
    changed = [_SAID[part] for part in FINGERPRINT if found.get(part) != fingerprint[part]]
    if changed and strict:
        raise TidemillError(
            "TM9005",
            "this state is of other data: batches would not continue those that were taken",
            got=f"changed: {'; '.join(changed)}",
            hint="load what the state was made with, or load_state_dict(state, strict=False) to go on all the same",
        )
    return Position(*numbers)
