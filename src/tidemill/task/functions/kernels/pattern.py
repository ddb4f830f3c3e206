"""Compiled matching of patterns that are columns: LIKE, and splitting at plain text."""

from __future__ import annotations

from typing import Any

from tidemill.kernels import types
from tidemill.kernels.words import inlined, kernel
from tidemill.task.functions.kernels.search import INTS_OUT, LONGS_OUT, NUMBERS, TEXT, find, width

_ANSWERS = types.array(types.int8, 1, "C")


@inlined
def _good(pattern: Any, at: int, end: int, escape: int) -> bool:
    """Whether the escape character stands only before ``_``, ``%`` and itself."""
    while at < end:
        if pattern[at] == escape:
            at += 1
            if at == end or (pattern[at] != 95 and pattern[at] != 37 and pattern[at] != escape):
                return False
        at += 1
    return True


@inlined
def _like(raw: Any, at: int, end: int, pattern: Any, k: int, stop: int, escape: int) -> bool:
    """Match from the left; behind a mismatch the last ``%`` takes one character more."""
    resume, after = -1, -1
    while at < end or k < stop:
        if k < stop and pattern[k] == 37 and escape != 37:
            k += 1
            resume, after = at, k
            continue
        if k < stop and at < end:
            if pattern[k] == 95 and escape != 95:
                at = min(at + width(raw[at]), end)
                k += 1
                continue
            step = 1 if pattern[k] == escape else 0
            if raw[at] == pattern[k + step]:
                at += 1
                k += step + 1
                continue
        if resume < 0 or resume >= end:
            return False
        resume = min(resume + width(raw[resume]), end)
        at, k = resume, after
    return True


@kernel(types.void, *TEXT, *TEXT, types.int64, _ANSWERS)
def like(
    raw: Any, first: Any, last: Any, pattern: Any, pfirst: Any, plast: Any, escape: int, answers: Any
) -> None:  # fmt: skip
    """1 where a text is like a pattern, 0 where it is not, 2 where the pattern is none; ``escape`` is ASCII."""
    for i in range(len(answers)):
        if _good(pattern, pfirst[i], plast[i], escape):
            answers[i] = _like(raw, first[i], last[i], pattern, pfirst[i], plast[i], escape)
        else:
            answers[i] = 2


@kernel(types.void, *TEXT, *TEXT, NUMBERS, LONGS_OUT, INTS_OUT, INTS_OUT)
def split(
    raw: Any, first: Any, last: Any, part: Any, pfirst: Any, plast: Any, most: Any, ends: Any, begin: Any, end: Any
) -> None:
    """The pieces between occurrences of a text, at most ``most`` of them if positive; first how many each row has."""
    for i in range(len(first)):
        k, count, at = ends[i] if len(begin) > 0 else 0, 1, first[i]
        while count != most[i]:
            found = find(raw, at, last[i], part, pfirst[i], plast[i])
            if found < 0:
                break
            if len(begin) > 0:
                begin[k], end[k] = at, found
                k += 1
            at = found + plast[i] - pfirst[i]
            count += 1
        if len(begin) > 0:
            begin[k], end[k] = at, last[i]
        else:
            ends[i + 1] = count
