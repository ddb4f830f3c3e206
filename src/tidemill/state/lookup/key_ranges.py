"""Which rows of a sorted run satisfy comparisons with their last key column, as ranges of rows.

Keys of the run are ``head | y``; a probe has a head and, per comparison, a bound. All comparisons are monotone in
y, so the rows of a head that satisfy one are a prefix or a suffix of those in which y is not NULL. Of several,
all (an intersection) or any (a union, two ranges at most) must hold. NULL satisfies nothing.

Two ways. By bytes: ``y op bound`` for keys of any type, since byte order is the order of values and NaN the greatest.
By numbers: also ``y - bound op limit`` and ``bound - y op limit`` for doubles, evaluated as written. These are
monotone for finite y, by the rounding of a subtraction; infinities and NaN may break it (inf - inf is NaN, the
greatest), so they are judged by themselves, apart from the finite ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tidemill.kernels import types
from tidemill.kernels.words import F64, F64_GRID, I64, Bools, Floats, Ints, inlined, kernel
from tidemill.state.keys.keys import Keys, group, sort
from tidemill.state.merge.merge import Rows
from tidemill.state.runs.searching import append_byte, locate_prefixes

I64_GRID_OUT = types.array(types.int64, 2, "C")
BOOL_GRID = types.array(types.boolean, 2, "C", readonly=True)

FORMS = ("value", "value_minus_bound", "bound_minus_value")
OPS = ("lt", "le", "gt", "ge")

_PIECES = 4
_VALUE_TAG = 1


@dataclass(frozen=True)
class Probes:
    """Heads of probes.

    Attributes
    ----------
    present : Keys
        Distinct heads, ascending, each with the tag of a value that is not NULL (ascending, NULLs first).
    ids : np.ndarray
        int64 per probe: its head.
    """

    present: Keys
    ids: Ints

    @staticmethod
    def of(heads: Keys) -> Probes:
        """Probes with these heads, ascending, in runs whose next column is ascending with NULLs first."""
        ids, first = group(heads)
        distinct = heads.take(first)
        return Probes(Keys(*append_byte(distinct.offsets, distinct.data, _VALUE_TAG)), ids)

    def ranges(self, run: Rows) -> tuple[Ints, Ints]:
        """Rows of each distinct head in which y is not NULL: first, and after the last."""
        return locate_prefixes(run.keys.offsets, run.keys.data, self.present.offsets, self.present.data)


@dataclass(frozen=True)
class ByteBound:
    """A bound per probe, for :func:`byte_ranges`.

    Attributes
    ----------
    keys : Keys
        Distinct ``head | bound``, ascending.
    ranks : np.ndarray
        int64 per probe: its key.
    missing : np.ndarray
        bool per probe: the bound is NULL.
    """

    keys: Keys
    ranks: Ints
    missing: Bools

    @staticmethod
    def of(keys: Keys, missing: Bools) -> ByteBound:
        """Bounds of ``head | bound`` in any order."""
        ids, first = group(keys)
        distinct = keys.take(first)
        order = sort(distinct)
        ranks = np.empty(len(order), np.int64)
        ranks[order] = np.arange(len(order))
        return ByteBound(distinct.take(order), ranks[ids], missing)


def byte_ranges(
    run: Rows, probes: Probes, bounds: Sequence[ByteBound], conditions: Sequence[tuple[int, str]], any_of: bool
) -> tuple[Ints, Ints]:
    """Rows that satisfy ``y op bound``.

    Parameters
    ----------
    conditions : sequence of (int, str)
        Which bound, and ``lt``, ``le``, ``gt`` or ``ge``.
    any_of : bool
        Whether one condition is enough.

    Returns
    -------
    lows, highs : np.ndarray
        int64[1 or 2, probes]: disjoint ranges, empty where high is not above low.
    """
    lows, highs = probes.ranges(run)
    starts, ends = lows[probes.ids], highs[probes.ids]
    found = [locate_prefixes(run.keys.offsets, run.keys.data, b.keys.offsets, b.keys.data) for b in bounds]
    low, high = (ends, starts) if any_of else (starts, ends)
    for which, op in conditions:
        bound = bounds[which]
        cut = found[which][op in ("le", "gt")][bound.ranks]
        if op in ("lt", "le"):
            cut = np.where(bound.missing, starts, cut)
            high = np.maximum(high, cut) if any_of else np.minimum(high, cut)
        else:
            cut = np.where(bound.missing, ends, cut)
            low = np.minimum(low, cut) if any_of else np.maximum(low, cut)
    if not any_of:
        return low[None, :], high[None, :]
    # Up to ``high`` and from ``low`` on; everything where they meet.
    return np.stack([starts, np.maximum(low, high)]), np.stack([high, ends])


@inlined
def holds(y: float, bound: float, form: int, op: int, limit: float) -> bool:
    """One comparison in Spark's order of doubles: NaN is the greatest and equals itself."""
    a = y
    b = limit
    if form == 0:
        b = bound
    elif form == 1:
        a = y - bound
    else:
        a = bound - y
    if op == 0:
        return a < b or (b != b and a == a)
    if op == 1:
        return a <= b or b != b
    if op == 2:
        return a > b or (a != a and b == b)
    return a >= b or a != a


@inlined
def _first_not_below(y: Floats, low: int, high: int, value: float) -> int:
    """First row of an ascending part that is at least ``value``, or NaN."""
    while low < high:
        middle = (low + high) >> 1
        if y[middle] < value:
            low = middle + 1
        else:
            high = middle
    return low


@inlined
def _first_nan(y: Floats, low: int, high: int) -> int:
    while low < high:
        middle = (low + high) >> 1
        if y[middle] == y[middle]:
            low = middle + 1
        else:
            high = middle
    return low


@inlined
def _first_that(
    y: Floats, low: int, high: int, near: int, wanted: bool, bound: float, form: int, op: int, limit: float
) -> int:
    """First row where the comparison is as wanted, given that it changes once, to that; searched from ``near``."""
    step = 1
    at = min(max(near, low), high)
    if at < high and holds(y[at], bound, form, op, limit) != wanted:
        low = at + 1
        while low + step <= high and holds(y[low + step - 1], bound, form, op, limit) != wanted:
            low += step
            step *= 2
        high = min(low + step - 1, high)
    else:
        high = at
        while high - step >= low and holds(y[high - step], bound, form, op, limit) == wanted:
            high -= step
            step *= 2
        low = max(high - step + 1, low)
    while low < high:
        middle = (low + high) >> 1
        if holds(y[middle], bound, form, op, limit) != wanted:
            low = middle + 1
        else:
            high = middle
    return low


@inlined
def _point(
    y: float, p: int, bounds: Floats, missing: Bools, forms: Ints, ops: Ints, limits: Floats, any_of: bool
) -> bool:
    """Whether a single value satisfies the comparisons of probe ``p``."""
    for c in range(forms.size):
        if (not missing[c, p] and holds(y, bounds[c, p], forms[c], ops[c], limits[c])) == any_of:
            return any_of
    return not any_of


@inlined
def _piece(lows: Ints, highs: Ints, p: int, used: int, low: int, high: int) -> int:
    """Add a range; one that begins where the last one ended extends it."""
    if high <= low:
        return used
    if used > 0 and highs[used - 1, p] == low:
        highs[used - 1, p] = high
        return used
    lows[used, p] = low
    highs[used, p] = high
    return used + 1


@kernel(
    types.tuple_of((I64_GRID_OUT, I64_GRID_OUT)), F64, I64, I64, I64, F64_GRID, BOOL_GRID, I64, I64, F64, types.boolean
)
def _number_ranges(
    y: Floats,
    starts: Ints,
    ends: Ints,
    ids: Ints,
    bounds: Floats,
    missing: Bools,
    forms: Ints,
    ops: Ints,
    limits: Floats,
    any_of: bool,
) -> tuple[Ints, Ints]:
    lows = np.zeros((_PIECES, ids.size), np.int64)
    highs = np.zeros((_PIECES, ids.size), np.int64)
    finite = np.empty(starts.size, np.int64)
    positive = np.empty(starts.size, np.int64)
    nans = np.empty(starts.size, np.int64)
    for h in range(starts.size):
        nans[h] = _first_nan(y, starts[h], ends[h])
        finite[h] = _first_not_below(y, starts[h], nans[h], -np.finfo(np.float64).max)
        positive[h] = _first_not_below(y, finite[h], nans[h], np.inf)
    cuts = np.zeros(forms.size, np.int64)  # probes come in order of their bounds, as a rule
    for p in range(ids.size):
        h = ids[p]
        start = finite[h]
        end = positive[h]
        low = end if any_of else start
        high = start if any_of else end
        for c in range(forms.size):
            form = forms[c]
            op = ops[c]
            suffix = (op >= 2) != (form == 2)
            if missing[c, p]:
                cut = end if suffix else start
            else:
                cut = _first_that(y, start, end, cuts[c], suffix, bounds[c, p], form, op, limits[c])
                cuts[c] = cut
            if suffix:
                low = min(low, cut) if any_of else max(low, cut)
            else:
                high = max(high, cut) if any_of else min(high, cut)
        used = 0
        if starts[h] < start and _point(-np.inf, p, bounds, missing, forms, ops, limits, any_of):
            used = _piece(lows, highs, p, used, starts[h], start)
        if any_of:
            used = _piece(lows, highs, p, used, start, high)
            used = _piece(lows, highs, p, used, max(low, high), end)
        else:
            used = _piece(lows, highs, p, used, low, high)
        if end < nans[h] and _point(np.inf, p, bounds, missing, forms, ops, limits, any_of):
            used = _piece(lows, highs, p, used, end, nans[h])
        if nans[h] < ends[h] and _point(np.nan, p, bounds, missing, forms, ops, limits, any_of):
            used = _piece(lows, highs, p, used, nans[h], ends[h])
    return lows, highs


def number_ranges(
    run: Rows,
    y: Floats,
    probes: Probes,
    bounds: Floats,
    missing: Bools,
    conditions: Sequence[tuple[str, str, float | None]],
    any_of: bool,
) -> tuple[Ints, Ints]:
    """Rows whose double y satisfies comparisons.

    Parameters
    ----------
    y : np.ndarray
        float64 per row of the run; undefined where NULL.
    bounds, missing : np.ndarray
        float64 and bool [conditions, probes]: bounds, and whether these are NULL.
    conditions : sequence of (form, op, limit)
        See ``FORMS`` and ``OPS``; ``limit`` is not used by the form ``value``.
    any_of : bool
        Whether one condition is enough.

    Returns
    -------
    lows, highs : np.ndarray
        int64[4, probes]: disjoint ranges, empty where high is not above low.
    """
    forms = np.array([FORMS.index(form) for form, _, _ in conditions], np.int64)
    ops = np.array([OPS.index(op) for _, op, _ in conditions], np.int64)
    limits = np.array([0.0 if limit is None else limit for _, _, limit in conditions])
    starts, ends = probes.ranges(run)
    return _number_ranges(y, starts, ends, probes.ids, bounds, missing, forms, ops, limits, any_of)
