"""Compiled search of one byte string in another, row by row."""

from __future__ import annotations

from typing import Any

from numba import types

from tidemill.state.words import kernel

_U8 = types.Array(types.uint8, 1, "C", readonly=True)
_I64 = types.Array(types.int64, 1, "A", readonly=True)
_OUT = types.Array(types.int64, 1, "C")


@kernel(types.void, _U8, _I64, _I64, _U8, _I64, _I64, _OUT)
def find_bytes(raw: Any, starts: Any, ends: Any, searched: Any, first: Any, last: Any, found: Any) -> None:
    """``found[i]``: where ``searched[first[i]:last[i]]`` begins in ``raw[starts[i]:ends[i]]``, or -1."""
    for i in range(len(found)):
        size = last[i] - first[i]
        found[i] = -1
        for at in range(starts[i], ends[i] - size + 1):
            same = True
            for k in range(size):
                if raw[at + k] != searched[first[i] + k]:
                    same = False
                    break
            if same:
                found[i] = at - starts[i]
                break
