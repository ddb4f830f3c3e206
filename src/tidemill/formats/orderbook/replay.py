"""Replays messages over the live orders of a book: the compiled form of :mod:`.rules`.

The plain form of the same rules is ``tests/formats/orderbook_reference.py``.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tidemill.kernels import types
from tidemill.kernels.kernel import njit

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]
Codes = npt.NDArray[np.int8]

OTHER, INSERT, EXECUTE, REMOVE = 0, 1, 2, 3
"""What a message does: nothing, books an order, takes volume off one, removes one."""

_I8 = types.array(types.int8, 1, "C", readonly=True)
_I64 = types.array(types.int64, 1, "C", readonly=True)
_F64 = types.array(types.float64, 1, "C", readonly=True)
_BOOL = types.array(types.boolean, 1, "C", readonly=True)
_I64_OUT = types.array(types.int64, 1, "C")
_F64_OUT = types.array(types.float64, 1, "C")
_BOOL_OUT = types.array(types.boolean, 1, "C")


@dataclass(frozen=True)
class Replayed:
    """The result of replaying messages over k orders.

    Attributes
    ----------
    order, source, volume, weight : ndarray, shape (m,)
        Changes of the table's rows: the row of order ``order`` with the t and price of message ``source``, or of
        the order as it was for -1, and this volume.
    live, changed, sources, volumes : ndarray, shape (k,)
        Whether each order is booked afterwards, whether it is not as it was, and of which message it is.
    """

    order: Ints
    source: Ints
    volume: Floats
    weight: Ints
    live: Bools
    changed: Bools
    sources: Ints
    volumes: Floats


@njit(
    types.int64(
        _I64, _I8, _F64, _BOOL, _F64, types.boolean,
        _I64_OUT, _I64_OUT, _F64_OUT, _I64_OUT, _BOOL_OUT, _BOOL_OUT, _I64_OUT, _F64_OUT,
    ),
    nogil=True,
)  # fmt: skip
def _replay(
    starts: Ints,
    codes: Codes,
    volumes: Floats,
    booked: Bools,
    booked_volume: Floats,
    insert_only: bool,
    order: Ints,
    source: Ints,
    volume: Floats,
    weight: Ints,
    live: Bools,
    changed: Bools,
    last_source: Ints,
    last_volume: Floats,
) -> int:
    count = 0
    for k in range(booked.size):
        alive = booked[k]
        at = -1
        left = booked_volume[k]
        # A tuple of this epoch that the table does not have yet; while False the tuple is the one from before.
        pending = False
        touched = False
        for i in range(starts[k], starts[k + 1]):
            code = codes[i]
            if code == INSERT:
                if pending:
                    order[count], source[count], volume[count], weight[count] = k, at, left, 1
                    count += 1
                at = i
                left = volumes[i]
                alive = pending = touched = True
            elif alive and code != OTHER:
                if pending == insert_only:
                    # Either a row of an earlier epoch is deleted, or a row is inserted that is never deleted.
                    order[count], source[count], volume[count] = k, at, left
                    weight[count] = 1 if pending else -1
                    count += 1
                touched = True
                left = left - volumes[i] if code == EXECUTE else 0.0
                alive = pending = not left <= 0.0
        if pending:
            order[count], source[count], volume[count], weight[count] = k, at, left, 1
            count += 1
        live[k] = alive
        changed[k] = touched
        last_source[k] = at
        last_volume[k] = left
    return count


def replay(
    starts: Ints, codes: Codes, volumes: Floats, booked: Bools, booked_volume: Floats, insert_only: bool
) -> Replayed:
    """Apply messages to orders.

    Parameters
    ----------
    starts : ndarray of int64, shape (k + 1,)
        Messages ``starts[i]`` to ``starts[i + 1] - 1`` are of order i, in their order.
    codes : ndarray of int8, shape (m,)
        ``OTHER``, ``INSERT``, ``EXECUTE`` or ``REMOVE``.
    volumes : ndarray of float64, shape (m,)
        Volumes of the messages.
    booked, booked_volume : ndarray, shape (k,)
        Whether each order is booked already, and with which volume.

    Returns
    -------
    Replayed
    """
    orders, most = len(booked), len(codes) + len(booked)
    order, source, weight = (np.empty(most, np.int64) for _ in range(3))
    volume = np.empty(most, np.float64)
    live, changed = np.empty(orders, np.bool_), np.empty(orders, np.bool_)
    sources, left = np.empty(orders, np.int64), np.empty(orders, np.float64)
    count = _replay(
        starts, codes, volumes, booked, booked_volume, insert_only, order, source, volume, weight, live, changed,
        sources, left,
    )  # fmt: skip
    return Replayed(order[:count], source[:count], volume[:count], weight[:count], live, changed, sources, left)
