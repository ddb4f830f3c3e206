"""Compiled functions that are a number or a truth about texts: distances, places in lists, check digits."""

from __future__ import annotations

from typing import Any

import numpy as np

from tidemill.kernels import types
from tidemill.kernels.words import equal, inlined, kernel
from tidemill.task.functions.kernels.search import INTS_OUT, NUMBERS, TEXT, find, width

_BOOLS_OUT = types.array(types.boolean, 1, "C")
_FLOATS_OUT = types.array(types.float64, 1, "C")
_0, _1 = np.uint64(0), np.uint64(1)


@inlined
def _decode(raw: Any, at: int, end: int, points: Any) -> int:
    """The characters of ``raw[at:end]`` as numbers that differ where they do, and how many there are."""
    count = 0
    while at < end:
        stop = min(at + width(raw[at]), end)
        point = 0
        while at < stop:
            point = point << 8 | raw[at]
            at += 1
        points[count] = point
        count += 1
    return count


@inlined
def _decode_halves(raw: Any, at: int, end: int, points: Any) -> int:
    """As :func:`_decode`, but a character of four bytes counts as the two that Java has for it."""
    count = 0
    while at < end:
        size = min(width(raw[at]), end - at)
        point = 0
        for k in range(size):
            point = point << 8 | raw[at + k]
        if size == 4:
            code = (point >> 24 & 7) << 18 | (point >> 16 & 63) << 12 | (point >> 8 & 63) << 6 | point & 63
            points[count] = 1 << 40 | code - 0x10000 >> 10
            points[count + 1] = 1 << 41 | code & 0x3FF
            count += 2
        else:
            points[count] = point
            count += 1
        at += size
    return count


@inlined
def _longest(first: Any, last: Any) -> int:
    most = 0
    for i in range(len(first)):
        most = max(most, last[i] - first[i])
    return most


@inlined
def _edits_of_words(a: Any, n: int, b: Any, m: int, masks: Any) -> int:
    """The edit distance of a text to one of at most 64 characters (Myers 1999, in Hyyro's form)."""
    masks[:] = _0
    for j in range(m):
        if b[j] < 128:
            masks[b[j]] |= _1 << np.uint64(j)
    top = _1 << np.uint64(m - 1)
    plus, minus, score = ~_0, _0, m
    for i in range(n):
        same = _0
        if a[i] < 128:
            same = masks[a[i]]
        else:
            for j in range(m):
                if b[j] == a[i]:
                    same |= _1 << np.uint64(j)
        vertical = same | minus
        horizontal = (((same & plus) + plus) ^ plus) | same
        up, down = minus | ~(horizontal | plus), plus & horizontal
        if up & top:
            score += 1
        if down & top:
            score -= 1
        up, down = up << _1 | _1, down << _1
        plus, minus = down | ~(vertical | up), up & vertical
    return score


@inlined
def _edits(a: Any, n: int, b: Any, m: int, row: Any, most: int) -> int:
    """The edit distance, or something above ``most`` where it is above."""
    for j in range(m + 1):
        row[j] = j
    for i in range(n):
        before, row[0] = row[0], i + 1
        least = row[0]
        for j in range(m):
            cost = before if a[i] == b[j] else 1 + min(before, row[j + 1], row[j])
            before, row[j + 1] = row[j + 1], cost
            least = min(least, cost)
        if least > most:
            return most + 1
    return int(row[m])


@kernel(types.void, *TEXT, *TEXT, NUMBERS, INTS_OUT)
def levenshtein(raw: Any, first: Any, last: Any, other: Any, ofirst: Any, olast: Any, most: Any, edits: Any) -> None:
    """The number of edits, or -1 where it is above ``most``."""
    a = np.empty(_longest(first, last), np.int64)
    b = np.empty(_longest(ofirst, olast), np.int64)
    row, masks = np.empty(min(len(a), len(b)) + 1, np.int64), np.empty(128, np.uint64)
    for i in range(len(edits)):
        n, m = _decode(raw, first[i], last[i], a), _decode(other, ofirst[i], olast[i], b)
        if abs(n - m) > most[i]:
            edits[i] = -1
            continue
        left, right = a, b
        if n < m:
            left, right, n, m = b, a, m, n
        found = n if m == 0 else 0
        if m > 64:
            found = _edits(left, n, right, m, row, most[i])
        elif m > 0:
            found = _edits_of_words(left, n, right, m, masks)
        edits[i] = found if found <= most[i] else -1


@kernel(types.void, *TEXT, *TEXT, _FLOATS_OUT)
def jaro_winkler(raw: Any, first: Any, last: Any, other: Any, ofirst: Any, olast: Any, alike: Any) -> None:
    """Jaro's similarity with Winkler's bonus for up to four equal characters at the beginning."""
    a = np.empty(_longest(first, last), np.int64)
    b = np.empty(_longest(ofirst, olast), np.int64)
    matches, taken = np.empty(len(a), np.int64), np.empty(len(b), np.bool_)
    for i in range(len(alike)):
        if equal(raw, first[i], last[i], other, ofirst[i], olast[i]):
            alike[i] = 1.0
            continue
        n, m = _decode_halves(raw, first[i], last[i], a), _decode_halves(other, ofirst[i], olast[i], b)
        alike[i], count, reach = 0.0, 0, max(max(n, m) // 2 - 1, 0)
        taken[:m] = False
        for x in range(n):
            for y in range(max(0, x - reach), min(m, x + reach + 1)):
                if not taken[y] and b[y] == a[x]:
                    taken[y] = True
                    matches[count] = a[x]
                    count += 1
                    break
        if count == 0:
            continue
        moved, at = 0, 0
        for y in range(m):
            if taken[y]:
                moved += matches[at] != b[y]
                at += 1
        jaro = (count / n + count / m + (count - moved // 2) / count) / 3.0
        prefix = 0
        while prefix < min(4, n, m) and a[prefix] == b[prefix]:
            prefix += 1
        alike[i] = jaro + prefix * 0.1 * (1.0 - jaro)


@kernel(types.void, *TEXT, *TEXT, INTS_OUT)
def find_in_set(raw: Any, first: Any, last: Any, listed: Any, lfirst: Any, llast: Any, place: Any) -> None:
    """The number, from 1, of the part between commas that is the text; 0 for none and for a text with a comma."""
    for i in range(len(place)):
        place[i] = 0
        comma = False
        for at in range(first[i], last[i]):
            comma |= raw[at] == 44
        if comma:
            continue
        begin, number = lfirst[i], 1
        for at in range(lfirst[i], llast[i] + 1):
            if at == llast[i] or listed[at] == 44:
                if equal(raw, first[i], last[i], listed, begin, at):
                    place[i] = number
                    break
                begin = at + 1
                number += 1


@kernel(types.void, *TEXT, _BOOLS_OUT)
def luhn(raw: Any, first: Any, last: Any, right: Any) -> None:
    """Whether texts are digits with a right check digit at the end."""
    for i in range(len(right)):
        total, good = 0, first[i] < last[i]
        for at in range(first[i], last[i]):
            digit = raw[at] - 48
            good &= 0 <= digit <= 9
            if (last[i] - at) % 2 == 0:
                digit = 2 * digit - 9 if digit > 4 else 2 * digit
            total += digit
        right[i] = good and total % 10 == 0


@kernel(types.void, *TEXT, *TEXT, NUMBERS, NUMBERS, INTS_OUT)
def find_occurrence(
    raw: Any, first: Any, last: Any, part: Any, pfirst: Any, plast: Any, start: Any, occurrence: Any, place: Any
) -> None:
    """The place of the n-th occurrence from a character on, counted from 1; from a negative one searching backwards."""
    points = np.empty(_longest(first, last) + 1, np.int64)
    for i in range(len(place)):
        place[i] = 0
        if pfirst[i] == plast[i]:
            place[i] = 1
            continue
        if start[i] == 0:
            continue
        count, at = 0, first[i]
        while at < last[i]:
            points[count] = at
            count += 1
            at += width(raw[at])
        step = 1 if start[i] > 0 else -1
        k = start[i] - 1 if start[i] > 0 else count + start[i]
        left = occurrence[i]
        while 0 <= k < count:
            stop = min(points[k] + plast[i] - pfirst[i], last[i])
            if find(raw, points[k], stop, part, pfirst[i], plast[i]) >= 0:
                left -= 1
                if left == 0:
                    place[i] = k + 1
                    break
            k += step
