"""The newest row of each key in the changes of some epochs, for targets that keep one row for a key."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from tidemill.errors import TidemillError, nearest
from tidemill.options.kinds import TEXT
from tidemill.options.option import Option
from tidemill.schema import WEIGHT, Schema
from tidemill.sinks.target import Changes
from tidemill.task.functions.columns.compute import pc

DELETED = "__deleted"
"""Name of the boolean column that says of a key that it has no row any more."""

KEY_COLUMNS = Option(
    "keyColumns", TEXT, None, "columns of the view, separated by commas: the key of a row, or of a message"
)


def names_of(given: str | None) -> list[str]:
    """The names that a text has, separated by commas."""
    return [name.strip() for name in (given or "").split(",") if name.strip()]


def key_columns(given: str | None, schema: Schema) -> list[str]:
    """The columns that the option names. TM4003 for one that the view does not have."""
    names = names_of(given)
    for name in names:
        if name not in schema.names:
            raise KEY_COLUMNS.bad(str(given), f"columns of the view: {nearest(name, schema.names)}")
    return names


def newest_rows(changes: Sequence[Changes], keys: Sequence[str]) -> pa.Table:
    """One row for each key that changed: the columns of the view and ``__deleted``, whose row is one that has gone.

    Raises
    ------
    TidemillError
        TM8221 when an epoch has two rows of a key.
    """
    rows = pa.concat_tables([c.table for c in changes]).combine_chunks()
    epochs = np.repeat(np.array([c.epoch for c in changes]), [c.table.num_rows for c in changes])
    weights = rows.column(WEIGHT).to_numpy()
    order = np.lexsort((weights, epochs))  # what goes in an epoch is before what comes
    epochs, weights, rows = epochs[order], weights[order], rows.take(order)
    numbered = rows.select(list(keys)).append_column("__n", pa.array(np.arange(order.size)))
    come = numbered.append_column("__epoch", pa.array(epochs)).filter(pa.array(weights > 0))
    counts = come.group_by([*keys, "__epoch"]).aggregate([("__n", "count"), ("__n", "min")])
    twice: list[Any] = counts.filter(pc.greater(counts.column("__n_count"), 1)).column("__n_min").to_pylist()
    twice += np.flatnonzero(weights > 1).tolist()
    if twice:
        row = rows.slice(min(twice), 1).select(list(keys)).to_pylist()[0]
        raise two_rows(", ".join(f"{name} {value!r}" for name, value in row.items()))
    last = numbered.group_by(list(keys)).aggregate([("__n", "max")]).column("__n_max").to_numpy()
    last = np.sort(last)
    gone = pa.array(weights[last] < 0)
    return rows.take(last).drop_columns([WEIGHT]).append_column(DELETED, gone)


def two_rows(key: str) -> TidemillError:
    """TM8221: a view has several rows where its sink keeps one."""
    return TidemillError(
        "TM8221",
        "a view has two rows with one key of its sink",
        got=key,
        hint="keyColumns are columns in which no two rows of the view are equal, such as those of its GROUP BY",
    )
