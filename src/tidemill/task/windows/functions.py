"""Window functions over rows that lie in the order of the window, whole columns at a time."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidemill.kernels.columns import column, numbers
from tidemill.state.folds.expansions import TERMS
from tidemill.state.folds.extremes import take_or_null
from tidemill.state.folds.sliding import slide_double_doubles, slide_extremes, slide_ints, slide_wide
from tidemill.state.folds.sliding_quads import slide_quads
from tidemill.state.merge.merge import MergeOp
from tidemill.task.aggregates.accumulators import Accumulator, AggregateLayout, Array
from tidemill.task.aggregates.functions import finish
from tidemill.task.program.window_calls import WindowCall
from tidemill.task.windows.frames import OrderedRows
from tidemill.task.windows.groups import of_frames

Ints = npt.NDArray[np.int64]


def ranking(call: WindowCall, rows: OrderedRows) -> Array:
    """``row_number``, ``rank``, ``dense_rank``, ``percent_rank``, ``cume_dist`` or ``ntile`` of each row."""
    places = np.arange(len(rows)) - rows.first
    size = rows.last - rows.first
    match call.function:
        case "row_number":
            result = places + 1
        case "rank":
            result = rows.peer_first - rows.first + 1
        case "dense_rank":
            result = rows.peers - rows.peers[rows.first] + 1
        case "ntile":
            least, larger = size // call.number, size % call.number
            in_larger = larger * (least + 1)
            behind = larger + (places - in_larger) // np.maximum(least, 1)
            result = np.where(places < in_larger, places // (least + 1), behind) + 1
        case "percent_rank":
            return column((rows.peer_first - rows.first) / np.maximum(size - 1, 1))
        case "cume_dist":
            return column((rows.peer_last - rows.first) / np.maximum(size, 1))
        case _:
            raise ValueError(call.function)
    return column(result.astype(np.int64)).cast(call.type)


def shifted(call: WindowCall, rows: OrderedRows, values: Array, default: Array) -> Array:
    """LAG and LEAD: the value ``call.number`` rows away in the partition, else the default of the current row."""
    places = np.arange(len(rows))
    if not call.ignore_nulls or call.number == 0:
        found = places + call.number
        inside = (found >= rows.first) & (found < rows.last)
    else:
        before, present = _present(values)
        if call.number > 0:
            wanted = before[places + 1] + call.number - 1
            inside = wanted < before[rows.last]
        else:
            wanted = before[places] + call.number
            inside = wanted >= before[rows.first]
        found = _at(present, wanted, inside)
    return _with_default(values, default, found, inside)


def _with_default(values: Array, default: Array, found: Ints, inside: npt.NDArray[np.bool_]) -> Array:
    if pa.types.is_null(default.type) or default.null_count == len(default):
        return take_or_null(values, np.where(inside, found, -1))
    both = pa.concat_arrays([values, default])
    return both.take(column(np.where(inside, found, len(values) + np.arange(len(found)))))


def valued(call: WindowCall, values: Array, starts: Ints, ends: Ints) -> Array:
    """``first``, ``last`` or ``nth`` value of each frame, NULL when the frame has no such row."""
    if call.ignore_nulls:
        before, present = _present(values)
        starts, ends = before[starts], before[ends]
    match call.function:
        case "first":
            wanted = starts
        case "last":
            wanted = ends - 1
        case "nth":
            wanted = starts + call.number - 1
        case _:
            raise ValueError(call.function)
    inside = (wanted >= starts) & (wanted < ends)
    if call.ignore_nulls:
        wanted = _at(present, wanted, inside)
    return take_or_null(values, np.where(inside, wanted, -1))


def _present(values: Array) -> tuple[Ints, Ints]:
    """How many values before each row are not NULL (int64[n + 1]), and the rows that have one."""
    valid = values.is_valid().to_numpy(zero_copy_only=False)
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(valid, dtype=np.int64)]), np.flatnonzero(valid)


def _at(rows: Ints, wanted: Ints, inside: npt.NDArray[np.bool_]) -> Ints:
    """``rows[wanted]`` where inside, -1 elsewhere."""
    found = np.full(len(wanted), -1, np.int64)
    found[inside] = rows[wanted[inside]]
    return found


def aggregated(
    layout: AggregateLayout,
    values: list[Array],
    accumulated: list[list[Array]],
    starts: Ints,
    ends: Ints,
) -> Array:
    """An aggregate function of each frame.

    Parameters
    ----------
    layout : AggregateLayout
        What the function is made of; its arguments are columns 0, 1, ...
    values : list of arrays
        The arguments, none for ``count(*)``.
    accumulated : list of lists of arrays
        For each accumulator its columns, for each row as a group of its own; none for one that is recomputed.

    Raises
    ------
    EvaluationError
        TM3002 when a sum does not fit its type.
    """
    columns: list[Array] = []
    for accumulator, parts in zip(layout.accumulators, accumulated, strict=True):
        if accumulator.recomputed:
            columns.append(_recomputed(accumulator, values, starts, ends))
        else:
            columns += _slide(accumulator, parts, starts, ends)
    (result,) = finish(layout, tuple(v.type for v in values), columns)
    return result


def totals(
    layout: AggregateLayout, values: list[Array], accumulated: list[list[Array]], count: int
) -> tuple[list[Array], list[list[Array]]]:
    """A row of arguments and one of each accumulator that stand for the first ``count`` rows, in any frame with them.

    Parameters are otherwise those of :func:`aggregated`; one accumulator at most is recomputed, a minimum or a maximum.
    """
    starts, ends = np.zeros(1, np.int64), np.full(1, count)
    first = [v.slice(0, 1) for v in values]
    parts: list[list[Array]] = []
    for accumulator, columns in zip(layout.accumulators, accumulated, strict=True):
        if accumulator.recomputed:
            assert accumulator.argument is not None
            first[accumulator.argument] = _recomputed(accumulator, values, starts, ends)
            parts.append([])
        else:
            parts.append(_slide(accumulator, columns, starts, ends))
    return first, parts


def _recomputed(accumulator: Accumulator, values: list[Array], starts: Ints, ends: Ints) -> Array:
    assert accumulator.argument is not None
    argument = values[accumulator.argument]
    if accumulator.of_group:
        return of_frames(accumulator, argument, starts, ends)
    # As in Spark the last of several rows with the least ordering gives the value of min_by.
    extremes = slide_extremes(argument, starts, ends, accumulator.declared.greatest, bool(accumulator.others))
    return take_or_null(values[accumulator.others[0]] if accumulator.others else argument, extremes)


def _slide(accumulator: Accumulator, parts: list[Array], starts: Ints, ends: Ints) -> list[Array]:
    found: list[Array] = []
    for op in accumulator.merge_ops():
        first = parts[len(found)]
        if op is MergeOp.SUM_I128:
            wide = slide_wide(numbers(first), numbers(parts[len(found) + 1]), starts, ends)
            found += [column(w) for w in wide]
        elif op is MergeOp.SUM_DD:
            high, low = numbers(first), numbers(parts[len(found) + 1])
            if high.any():
                found += [column(p) for p in slide_double_doubles(high, low, starts, ends)]
            else:
                found += [column(np.zeros(len(starts)))] * 2
        elif op is MergeOp.SUM_QD:
            quads = [numbers(p) for p in parts[len(found) : len(found) + TERMS]]
            found += [column(p) for p in slide_quads(quads, starts, ends)]
        elif op is MergeOp.SUM and pa.types.is_int64(first.type):
            found.append(column(slide_ints(numbers(first), starts, ends)))
        else:
            raise ValueError(f"{op} of {first.type} does not slide over frames")
    return found
