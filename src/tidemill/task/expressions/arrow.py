"""Expressions of Arrow over the rows of a batch."""

from __future__ import annotations

import hashlib
import pickle
from collections.abc import Sequence
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from tidemill.errors import EvaluationError, TidemillError

if TYPE_CHECKING:
    from pyarrow import acero


def computed(rows: pa.Table, names: Sequence[str], expressions: Sequence[pc.Expression]) -> pa.Table:
    """A column for each expression; errors as :func:`passing`."""
    from pyarrow import acero

    return _carried_out(rows, acero.Declaration("project", acero.ProjectNodeOptions(list(expressions), list(names))))


def digest(expressions: Sequence[pc.Expression]) -> str:
    """Names expressions, whose texts leave out parts of long lists."""
    return hashlib.blake2b(pickle.dumps(tuple(expressions), protocol=5), digest_size=16).hexdigest()


def passing(rows: pa.Table, condition: pc.Expression) -> pa.Table:
    """The rows for which a condition is true.

    Raises
    ------
    TidemillError
        TM9015 for an expression that does not fit the columns; EvaluationError TM3901 for rows that it fails for.
    """
    from pyarrow import acero

    return _carried_out(rows, acero.Declaration("filter", acero.FilterNodeOptions(condition)))


def _carried_out(rows: pa.Table, step: acero.Declaration) -> pa.Table:
    from pyarrow import acero  # it imports pandas, which takes half a second

    source = acero.Declaration("table_source", acero.TableSourceNodeOptions(rows))
    try:
        return acero.Declaration.from_sequence([source, step]).to_table(use_threads=False)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowKeyError, TypeError) as error:
        said = " ".join(str(error).split())[:300]
        if rows.num_rows:
            raise EvaluationError("TM3901", "an expression of Arrow failed for a row", got=said, hint="") from error
        raise TidemillError(
            "TM9015",
            "this expression of Arrow does not fit the columns",
            got=said,
            hint=f"columns: {', '.join(f'{f.name} {f.type}' for f in rows.schema)}",
        ) from error
