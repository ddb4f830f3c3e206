"""The order of splits in a pass, and of rows in a window: functions of a seed that no version of a library changes."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

_Int64s = npt.NDArray[np.int64]

_SPLITS, _ROWS = 1, 2


def order_of_splits(seed: int | None, pass_: int, splits: int) -> _Int64s:
    """The numbers of the splits in the order in which a pass reads them; that of the listing without a seed."""
    return np.arange(splits) if seed is None else permutation((seed, pass_, _SPLITS), splits)


def order_of_rows(seed: int, pass_: int, window_begin: int, rows: int) -> _Int64s:
    """The order in which the rows of a window are given, which begins behind so many rows of the pass."""
    return permutation((seed, pass_, _ROWS, window_begin), rows)


def permutation(key: tuple[int, ...], size: int) -> _Int64s:
    """A permutation of ``0 .. size - 1``, which depends on the key and on nothing else.

    Positions are sorted by SplitMix64 of their number (Steele, Lea and Flood: Fast Splittable Pseudorandom Number
    Generators, 2014), seeded with the key; equal values stay in order.
    """
    state = np.zeros(1, np.uint64)
    for part in key:
        state = _mixed(state ^ _mixed(np.array([part & 0xFFFF_FFFF_FFFF_FFFF], np.uint64)))
    with np.errstate(over="ignore"):
        values = _mixed(state + np.arange(1, size + 1, dtype=np.uint64) * _GAMMA)
    return np.argsort(values, kind="stable")


_GAMMA = np.uint64(0x9E37_79B9_7F4A_7C15)


def _mixed(values: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    with np.errstate(over="ignore"):
        values = values + _GAMMA
        values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58_476D_1CE4_E5B9)
        values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D0_49BB_1331_11EB)
    return values ^ (values >> np.uint64(31))
