"""Compiled layout of decimal numbers: rounding of doubles to places, groups of digits."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tidemill.kernels import types
from tidemill.kernels.words import BOOL, BOOL_OUT, F64, U64, U64_OUT, fused_multiply_add, kernel
from tidemill.task.functions.kernels.search import LONGS_OUT, NUMBERS, ROOM

MOST_PLACES = 22
"""Powers of ten up to this one are doubles."""
_FLOAT_POWERS = np.array([10.0**n for n in range(MOST_PLACES + 1)])
_POWERS = np.array([10**n for n in range(20)], np.uint64)
_0, _10 = np.uint64(0), np.uint64(10)


@kernel(types.void, F64, NUMBERS, types.boolean, U64_OUT, BOOL_OUT)
def round_floats(values: Any, places: Any, half_up: bool, found: Any, good: Any) -> None:
    """``abs(value) * 10**places`` as an integer, where that is small enough.

    What the double is exactly is rounded half to even; with ``half_up`` what its shortest digits say is rounded half
    up. The two differ only where these digits end with a 5 behind the last place: they are so few that the double
    nearest to them is the value.
    """
    for i in range(len(values)):
        value = abs(values[i])
        good[i] = False
        found[i] = _0
        if not math.isfinite(value) or places[i] < 0 or places[i] > MOST_PLACES:
            continue
        power = _FLOAT_POWERS[places[i]]
        product = value * power
        if product >= 9007199254740992.0:
            continue
        error = fused_multiply_add(value, power, -product)
        rounded = np.rint(product)
        half = product - rounded
        if half == 0.5 and error > 0.0:
            rounded += 1.0
        elif half == -0.5 and error < 0.0:
            rounded -= 1.0
        if half_up:
            if places[i] == MOST_PLACES or product >= 1e14:
                continue
            tenth = np.rint(value * _FLOAT_POWERS[places[i] + 1])
            if tenth % 10.0 == 5.0 and tenth / _FLOAT_POWERS[places[i] + 1] == value:
                rounded = np.floor(tenth / 10.0) + 1.0
        found[i] = np.uint64(rounded)
        good[i] = True


@kernel(types.void, U64, BOOL, NUMBERS, types.int64, types.int64, NUMBERS, LONGS_OUT, ROOM)
def grouped_digits(
    numbers: Any, negative: Any, scale: Any, group: int, least: int, fewest: Any, ends: Any, room: Any
) -> None:  # fmt: skip
    """``number / 10**scale`` with groups of whole digits, at least so many of them, and so many behind the point."""
    for i in range(len(numbers)):
        if len(room) > 0 and ends[i] == ends[i + 1]:
            continue
        whole, fraction = numbers[i] // _POWERS[scale[i]], numbers[i] % _POWERS[scale[i]]
        behind, before = scale[i], 0
        while behind > fewest[i] and fraction % _10 == _0:
            fraction //= _10
            behind -= 1
        zeros = max(fewest[i] - behind, 0)
        while before < 20 and whole >= _POWERS[before]:
            before += 1
        before = max(before, least)
        if before == 0 and behind + zeros == 0:
            before = 1
        if len(room) == 0:
            size = before + np.int64(negative[i])
            if group > 0 and before > 0:
                size += (before - 1) // group
            ends[i + 1] = size + 1 + behind + zeros if behind + zeros > 0 else size
            continue
        at = ends[i + 1]
        for _ in range(zeros):
            at -= 1
            room[at] = 48
        for _ in range(behind):
            at -= 1
            room[at] = np.uint8(fraction % _10) + 48
            fraction //= _10
        if behind + zeros > 0:
            at -= 1
            room[at] = 46
        for k in range(before):
            if group > 0 and k > 0 and k % group == 0:
                at -= 1
                room[at] = 44
            at -= 1
            room[at] = np.uint8(whole % _10) + 48
            whole //= _10
        if negative[i]:
            room[at - 1] = 45
